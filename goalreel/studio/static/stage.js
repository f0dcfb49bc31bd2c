// The selected step, large: the picture before it and its goal image, what the Critic says, all attempts, its words.

import { h } from "/common/dom.js";
import { OUTCOME, badge, button, editedBadges, scores, zoom } from "/common/parts.js";
import { drawForm, wordsForm } from "./forms.js";
import { STATUS, caution, modelNames, worth } from "./words.js";

// Where it starts from.
export function scene(view) {
  const { state } = view;
  return [
    h("div", { class: "pictures one", "data-key": "pictures" },
      picture(state.image, "The scene now", "Now"),
      state.images.length > 0 && h("div", { class: "attempt-row", "data-key": "named" }, state.images.map((src, at) => h("div", { class: "take" }, zoom(src, `Picture ${at + 1} of the sentence`, `Picture ${at + 1} of the sentence`)))),
    ),
    h("div", { class: "panel", "data-key": "panel" }, state.steps.length || state.failure ? given(view) : planning(view)),
  ];
}

function given({ state, studio }) {
  const { done, seed, max_attempts, models, failure } = state;
  const hint = failure && caution(models, studio.presets);
  return [
    h("h2", { "data-key": "title" }, failure ? "There is no plan" : "Where it starts"),
    failure && h("p", { class: "note", "data-key": "failure" }, failure.message),
    hint && h("p", { "data-key": "hint" }, hint),
    done.length > 0 && [
      h("p", { "data-key": "done" }, "Done already:"),
      h("ol", { "data-key": "done list" }, done.map(({ instruction }) => h("li", { dir: "auto" }, instruction))),
    ],
    h("p", { class: "muted", "data-key": "settings" }, `By ${modelNames(models)}; at most ${max_attempts} attempts at each step, seed ${seed}`),
  ];
}

function planning({ state }) {
  const running = state.status === "running";
  return [
    h("h2", { "data-key": "title" }, running ? "Waiting for the plan" : "There is no plan yet"),
    running && h("span", { class: "caret", "aria-hidden": "true", "data-key": "caret" }),
  ];
}

export function stage(view) {
  const { state, step, form } = view;
  const at = state.steps.indexOf(step);
  const from = source(state, at);
  return [
    h("div", { class: "pictures", "data-key": "pictures" },
      picture(from.src, from.alt, "Before"),
      goal(view, at),
      (step.attempts.length > 1 || view.drawing) && attempts(view, at),
    ),
    h("div", { class: "panel", "data-key": "panel" },
      heading(view, at),
      form === "words" ? wordsForm(view) : words(step),
      form === "draw" && drawForm(view),
      view.shown && verdict(view),
      actions(view, at),
    ),
  ];
}

const picture = (src, alt, caption) =>
  h("figure", { "data-key": caption },
    h("div", { class: "shot" }, src ? zoom(src, alt, alt) : h("div", { class: "blank" }, "No picture")),
    h("figcaption", {}, caption),
  );

// The picture that a step is drawn from, and what it shows.
function source(state, at) {
  for (let place = at - 1; place >= 0; place--) {
    const { attempts: drawn, chosen } = state.steps[place];
    const found = drawn.find(({ number }) => number === chosen);
    if (found?.picture) return { src: found.picture, alt: `Step ${place + 1}: goal image` };
  }
  return { src: state.image, alt: "The scene at the start" };
}

function goal({ step, shown, drawing }, at) {
  const number = shown && shown.number + 1;
  const alt = shown ? `Step ${at + 1}, attempt ${number}: ${OUTCOME[shown.outcome]}` : "";
  const seen = !drawing && shown?.picture;
  return h("figure", { "data-key": "goal", class: "goal" },
    h("div", { class: "shot", "data-key": seen || "none" },
      seen ? zoom(seen, alt, `${alt}. ${shown.prompt}`) : blank(step, shown, drawing),
    ),
    h("figcaption", {}, !drawing && shown && shown.number !== step.chosen ? `Attempt ${number}` : "Goal image"),
  );
}

function blank(step, shown, drawing) {
  if (drawing) return h("div", { class: "blank busy" }, "Being drawn …");
  if (shown) return h("div", { class: "blank" }, "No picture came about");
  return h("div", { class: "blank" }, step.prompt === null ? "A step in words alone" : "Not drawn yet");
}

function attempts({ step, shown }, at) {
  return h("ol", { class: "attempt-row", "data-key": "attempts", "aria-label": `Attempts at step ${at + 1}` },
    step.attempts.map((attempt) => {
      const { number, outcome, picture: src, stale } = attempt;
      const chosen = number === step.chosen;
      return h("li", { "data-key": number },
        h(
          "button",
          {
            type: "button", class: chosen ? "take chosen" : "take", "data-act": "look", "data-attempt": number,
            "aria-pressed": number === shown?.number, "aria-label": `Look at attempt ${number + 1}: ${OUTCOME[outcome]}${stale.length ? ", stale" : ""}${chosen ? ", the goal image" : ""}`,
          },
          src ? h("img", { src, alt: "", decoding: "async" }) : h("span", { class: "nothing" }),
          h("span", { class: `mark ${stale.length ? "stale" : outcome}`, "aria-hidden": "true" }, String(number + 1)),
        ),
      );
    }),
    step.activity === "drawing" && h("li", { "data-key": "next", "aria-hidden": "true" }, h("span", { class: "take nothing busy" })),
  );
}

function heading({ step, active }, at) {
  const status = worth(step);
  return h("header", { class: "step-title", "data-key": "title" },
    h("h2", {}, h("span", { class: `number hue${at % 6}` }, String(at + 1)), " ", h("span", { dir: "auto" }, step.name)),
    h("p", { class: "facts" },
      step.id === active ? badge("drawn", step.activity ?? "next") : badge(status, STATUS[status]),
      editedBadges(step),
    ),
  );
}

function words(step) {
  const lines = [...new Set([...step.stale, ...step.reasons])];
  return h("div", { class: "words", "data-key": "words" },
    h("p", { dir: "auto" }, step.instruction),
    step.prompt === null && step.auxiliary_text !== step.instruction && h("p", { class: "muted", dir: "auto" }, step.auxiliary_text),
    lines.map((line) => h("p", { class: "doubt", dir: "auto" }, line)),
    h("p", { class: "muted claims" }, step.claim_lines.join(" · ")),
    step.prompt && h("details", { class: "more", "data-key": "prompt", "data-keep": "open" }, h("summary", {}, "Prompt"), h("p", { class: "muted", dir: "auto" }, step.prompt)),
  );
}

function actions({ state }, at) {
  const last = state.steps.length - 1;
  return h("p", { class: "buttons actions", "data-key": "actions" },
    button("words", "Edit words", "Enter"),
    button("draw", "Draw again", "G"),
    button("earlier", "← Earlier", null, { disabled: at === 0, "aria-label": "Move this step earlier" }),
    button("later", "Later →", null, { disabled: at === last, "aria-label": "Move this step later" }),
    button("delete", "Delete", "Del", { class: "danger", "aria-keyshortcuts": "Delete" }),
  );
}

// What was said about the attempt on show.
function verdict({ step, shown }) {
  const { number, outcome, verdict: said, failure, by, critic, prompt, seed, background } = shown;
  const chosen = number === step.chosen;
  return h(
    "section",
    { class: `verdict-card ${outcome}`, "data-key": `verdict ${number}`, "aria-label": `Attempt ${number + 1}` },
    h("p", { class: "facts" }, h("b", {}, `Attempt ${number + 1}`), badge(outcome, OUTCOME[outcome]), shown.stale.length > 0 && badge("stale", "stale")),
    said && scores(said).length > 0 && h("p", { class: "facts" }, scores(said).map((words) => h("span", { class: "muted" }, words))),
    said?.reasoning && h("blockquote", { dir: "auto" }, said.reasoning),
    said && h("p", { class: "muted" }, judge(said, critic)),
    failure && h("p", { class: "doubt", dir: "auto" }, `${failure.stage}: ${failure.message.split("\n")[0]}`),
    shown.stale.map((line) => h("p", { class: "doubt" }, line)),
    shown.picture &&
      h("p", { class: "buttons" },
        chosen ? h("span", { class: "muted" }, "This is the goal image.") : button("choose", "Take this picture", number < 9 ? String(number + 1) : null, { "data-attempt": number }),
        outcome !== "person_accepted" && button("accept", "Accept", "A", { "data-attempt": number }),
        outcome !== "person_refused" && button("refuse", "Refuse", "R", { "data-attempt": number }),
      ),
    h("details", { class: "more", "data-key": "how", "data-keep": "open" },
      h("summary", {}, "How it was drawn"),
      h("p", { class: "muted", dir: "auto" }, `By ${by ?? "the Editor"}, seed ${seed}: ${prompt}`),
      said?.refined_prompt && said.refined_prompt !== prompt && h("p", { class: "muted", dir: "auto" }, `The Critic’s next prompt: ${said.refined_prompt}`),
      background && h("p", { class: "muted" }, background),
    ),
  );
}

function judge({ success, pictures_only }, critic) {
  const verb = success ? "accepted" : "rejected";
  if (pictures_only) return `Picture checks ${verb} it; nobody compared it with the words.`;
  return `${critic ?? "The Critic"} ${verb} it.`;
}
