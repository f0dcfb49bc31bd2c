// What the page of one storyboard looks like; nothing here acts.

import * as api from "./api.js";
import { fill, find, h } from "/common/dom.js";
import { alert, badge, button, folded, history, undoButtons, unsaved } from "/common/parts.js";
import { addForm, continueForm, taskForm } from "./forms.js";
import { scene, stage } from "./stage.js";
import { START, STATUS, standing, waitingFor, worth } from "./words.js";

// The frame of the page; what is inside is filled by draw().
export function page() {
  return h("div", { class: "board-page", "data-key": "board-page" },
    h("section", { class: "top", id: "head", "aria-label": "Task" }),
    h("p", { id: "heard", class: "heard", role: "status", "aria-live": "polite" }),
    h("div", { id: "banner" }),
    h("main", {},
      h("div", { id: "work", class: "work" }),
      h("div", { id: "told", class: "muted" }),
      h("nav", { id: "reel", class: "reel", "aria-label": "Steps" }),
      h("div", { id: "forms" }),
      h("section", { id: "stage", class: "stage-area", "aria-label": "Selected step" }),
      h("details", { id: "history", class: "changes" }),
      h("p", { class: "buttons" }, button("remove", "Delete this storyboard", null, { class: "danger" })),
    ),
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
      state.steps.length > 0 && h("a", { class: "turn", href: api.saved(view.id), download: true, "data-key": "save" }, "Save"),
      button("sheet", "Keys", "?", { "data-key": "sheet" }),
    ),
  ];
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
      h("span", { class: "what", role: "status", "data-key": "what" }, live ? waitingFor(state) : "Not known"),
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
    h("span", { class: "what", role: "status", "data-key": "what" }, words),
    h("span", { class: "grow", "data-key": "grow" }),
    open && button("resume", label, "C", { "data-key": "resume", class: "primary" }),
  ];
}

// What the parts of the instruction became in the plan, and how the Critic did on control questions.
const told = ({ asked, examination }) => [
  asked.length > 1 && asked.map(({ words, steps }, at) => h("p", { dir: "auto", "data-key": `asked-${at}` }, `“${words}”: ${steps.length ? `step${steps.length > 1 ? "s" : ""} ${steps.join(", ")}` : "no step"}`)),
  Object.keys(examination?.kinds ?? {}).length > 0 && h("p", { "data-key": "examination" }, examination.line),
];

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
  into("told", ...told(view.state));
  into("reel", ...reel(view));
  into("forms", view.form === "add" && addForm(view), view.form === "task" && taskForm(view), view.form === "continue" && continueForm(view));
  into("stage", ...(view.step ? stage(view) : scene(view)));
  const past = find("#history", view.holder);
  past.hidden = !view.state.history.length;
  fill(past, ...history(view.state.history.length, view.state.history));
}
