// What the page of one storyboard looks like; nothing here acts.

import * as api from "./api.js";
import { fill, find, h } from "/common/dom.js";
import { alert, badge, button, folded, history, undoButtons, unsaved } from "/common/parts.js";
import { addForm, continueForm, taskForm } from "./forms.js";
import { scene, stage } from "./stage.js";
import { START, STATUS, seconds, standing, waitingFor, worth } from "./words.js";

// The frame of the page; what is inside is filled by draw().
export function page() {
  return h("div", { class: "board-page", "data-key": "board-page" },
    h("section", { class: "top", id: "head", "aria-label": "Task" }),
    h("div", { id: "banner" }),
    h("main", {},
      h("div", { id: "work", class: "work" }),
      h("nav", { id: "reel", class: "reel", "aria-label": "Steps" }),
      h("div", { id: "forms" }),
      h("section", { id: "stage", class: "stage-area", "aria-label": "Selected step" }),
      h("details", { id: "history", class: "changes" }),
    ),
    h("p", { id: "heard", class: "heard", role: "status", "aria-live": "polite" }),
  );
}

function head(view) {
  const { state } = view;
  return [
    folded(state.instruction, (text) => h("h1", { "data-key": "said" }, text)),
    h("div", { class: "bar-of-buttons", "data-key": "bar" },
      button("task", "Edit the task", "T", { "data-key": "task" }),
      // Nothing to take back, no buttons for it.
      state.history.length > 0 && undoButtons(state),
      button("continue", "Go on from a later picture", "N", { disabled: !state.steps.length, "data-key": "continue" }),
      menu(view),
      button("sheet", "Keys", "?", { "data-key": "sheet" }),
    ),
  ];
}

function menu({ id, state, studio }) {
  const none = !state.steps.length;
  const save = (name, words) => h("a", { href: api.exported(id, name), download: true }, words);
  const able = (act, words, ability) =>
    h("li", {}, button(act, words, null, { disabled: !ability.available }), ability.reason && h("span", { class: "muted" }, ability.reason));
  return h(
    "details",
    { class: state.status === "done" && ["accepted", "verified"].includes(standing(state)[0]) ? "menu ready" : "menu", "data-key": "menu", "data-keep": "open" },
    h("summary", {}, "Share"),
    h("ul", {},
      none
        ? h("li", { class: "muted" }, "There is nothing to share before there is a plan.")
        : [
            h("li", {}, save("storyboard.html", "Page to share, in one file")),
            h("li", {}, save("storyboard.zip", "Folder, as goalreel plan writes it")),
            h("li", {}, save("sheet.png", "Contact sheet")),
            h("li", {}, save("storyboard.gif", "GIF")),
            h("li", {}, save("storyboard.mp4", "Film (MP4)")),
            h("li", {}, save("storyboard.json", "JSON")),
            able("execute", "Send to the robot", studio.execute),
          ],
      h("li", {}, button("remove", "Delete this storyboard", null, { class: "danger" })),
    ),
  );
}

function banner({ changes, by, live, gone }) {
  if (gone) return alert("gone", h("p", {}, "This storyboard was deleted. ", h("a", { href: "#/" }, "All storyboards")));
  if (changes.problem) return unsaved(changes, by());
  return live ? null : alert("lost", h("p", {}, "The server does not answer. What you see is kept on its disk, and this page goes on as soon as it is back."));
}

// What is going on, or how it stands, and the one thing to do now.
function work(view) {
  const { state, live } = view;
  if (state.status === "running") {
    return [
      h("span", { class: live ? "pulse" : "pulse still", "aria-hidden": "true", "data-key": "pulse" }),
      h("span", { class: "what", "data-key": "what" }, live ? waitingFor(state) : "Not known"),
      h("span", { class: "muted clock", "aria-hidden": "true", "data-key": "clock" }, seconds(view.seconds)),
      state.waiting?.alive === false && h("span", { class: "doubt", "data-key": "alive" }, "It gives no sign of life."),
      h("span", { class: "grow", "data-key": "grow" }),
      button("stop", "Stop", "S", { "data-key": "stop", class: "quiet" }),
    ];
  }
  const [status, words] = standing(state);
  const open = state.failure || ["cancelled", "interrupted"].includes(state.status) || ["stale", "skipped"].includes(status) || state.degraded;
  const label = state.status === "failed" || state.degraded ? "Try again" : "Go on";
  return [
    badge(status, STATUS[status]),
    h("span", { class: "what", "data-key": "what" }, words),
    h("span", { class: "muted clock", "data-key": "clock" }, seconds(state.seconds)),
    h("span", { class: "grow", "data-key": "grow" }),
    open && button("resume", label, "C", { "data-key": "resume", class: "primary" }),
  ];
}

// Brings the elapsed time up to date, and nothing else.
export function clock({ holder, state, seconds: now }) {
  if (state.status === "running") find("#work .clock", holder).textContent = seconds(now);
}

function reel(view) {
  const { state, selected, active } = view;
  return [
    h("ol", { "data-key": "reel" },
      h("li", { "data-key": START },
        h(
          "button",
          { type: "button", class: "frame", "data-act": "start", "data-step": START, "aria-current": selected === START ? "step" : null },
          thumb(state.image),
          h("span", { class: "caption" }, "Start"),
        ),
      ),
      state.steps.map((step, at) => frame(step, at, { selected, active })),
      h("li", { "data-key": "add", class: "add" }, button("add", "Add a step", "I")),
    ),
  ];
}

const thumb = (src) => (src ? h("img", { src, alt: "", decoding: "async" }) : h("span", { class: "nothing" }));

function frame(step, at, { selected, active }) {
  const status = worth(step);
  const goal = step.attempts.find(({ number }) => number === step.chosen) ?? (step.activity ? step.attempts.at(-1) : null);
  const busy = step.id === active;
  return h("li", { "data-key": step.id },
    h(
      "button",
      {
        type: "button", class: `frame ${status.replace(" ", "-")}${busy ? " busy" : ""}`, "data-act": "select", "data-step": step.id,
        "aria-current": step.id === selected ? "step" : null, "aria-label": `Step ${at + 1}: ${step.name}, ${busy ? "at work" : STATUS[status]}`,
      },
      thumb(goal?.picture),
      busy ? badge("drawn", step.activity ?? "next") : badge(status, STATUS[status]),
      h("span", { class: "caption" }, h("b", {}, String(at + 1)), " ", h("span", { dir: "auto" }, step.name)),
    ),
  );
}

// Brings every part of the page up to date.
export function draw(view) {
  const into = (id, ...parts) => fill(find(`#${id}`, view.holder), ...parts);
  into("head", ...head(view));
  into("banner", banner(view));
  into("work", ...work(view));
  into("reel", ...reel(view));
  into("forms", view.form === "add" && addForm(view), view.form === "task" && taskForm(view), view.form === "continue" && continueForm(view));
  into("stage", ...(view.step ? stage(view) : scene(view)));
  const past = find("#history", view.holder);
  past.hidden = !view.state.history.length;
  fill(past, ...history(view.state.history.length, view.state.history));
}
