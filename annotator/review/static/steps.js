// The steps of an episode as a list, the one selected opened: its words, its goal image beside the real end frame,
// and every attempt with what the Critic said.

import { number } from "./boundaries.js";
import { h } from "/common/dom.js";
import { OUTCOME, area, badge, button, editForm, editedBadges, field, scores, wordFields, zoom } from "/common/parts.js";
import { hue } from "./timeline.js";
import { DETAIL, ISSUE, STEP_ISSUES, detailsOf, frameUrl, span } from "./words.js";

const PICTURE = 360;

// The attempt whose picture is the goal image.
export const goalOf = (step) => step.attempts.find((attempt) => attempt.number === step.chosen);

export function steps(view) {
  const { episode } = view;
  if (!episode.steps.length) {
    return h("p", { class: "empty" }, `${episode.failure ? `${episode.failure}. ` : ""}No steps: play (Space), and cut (S) where one ends and the next begins; or copy those of another episode (V).`);
  }
  return h("ol", { class: "step-list" }, episode.steps.map((step) => item(view, step)));
}

function item(view, step) {
  const { episode, selected } = view;
  const at = number(episode, step);
  const open = step.id === selected;
  const head = [
    h("span", { class: `number ${hue(at - 1)}` }, String(at)),
    h("span", { class: "step-name", dir: "auto" }, step.name),
    h("span", { class: "muted" }, step.start === null ? "not found" : span(step, episode.fps)),
    state(step),
  ];
  return h("li", { class: open ? "step-item open" : "step-item", "data-key": step.id, "data-step": step.id },
    button("select", head, null, { class: "step-head", "data-step": step.id, "aria-expanded": open }),
    open && h("div", { class: "step-body", "data-key": "body" }, body(view, step, at)),
  );
}

function state(step) {
  if (goalOf(step)) return badge(step.word);
  return step.prompt === null ? badge("text", "words alone") : badge("skipped", "no picture");
}

function body(view, step, at) {
  return [
    step.unaligned && h("p", { class: "note" }, `Not found in the recording: ${step.unaligned}`),
    step.doubts.map((doubt) => h("p", { class: "note" }, `In doubt: ${doubt}.`)),
    view.form === "rename" ? form(step) : words(step),
    h("div", { class: "pair", "data-key": "pair" }, goal(step, at), ending(view, step, at)),
    actions(step, at),
    attempts(step, at),
    issues(step),
  ];
}

function words(step) {
  return h("div", { class: "words", "data-key": "words" },
    h("p", { dir: "auto" }, step.instruction),
    step.prompt && h("p", { class: "muted", dir: "auto" }, `Prompt: ${step.prompt}`),
    h("p", { class: "muted marks" },
      step.outcome === "failed" && badge("failed", "failed attempt"),
      editedBadges(step),
    ),
    h("p", { class: "muted claims" }, step.claim_lines.join(" · ")),
    details(step).map((line) => h("p", { class: "muted", dir: "auto" }, line)),
  );
}

function details(step) {
  const told = Object.entries(step.details ?? {}).filter(([, detail]) => detail);
  return told.map(([name, { text, by, checked, restorable }]) => {
    const mend = restorable == null ? "" : restorable ? ", restorable" : ", not restorable";
    return `${name}: ${text}${mend} (by ${by}, checked by ${checked})`;
  });
}

function form(step) {
  const described = [
    detailsOf(step).map((name) => field(DETAIL[name], area(name, 1, step.details?.[name]?.text ?? ""))),
    step.outcome === "failed" && field("Can the robot still mend it?", restorable(step)),
  ];
  return editForm("rename", step.id, "Words of this step", h("button", { class: "primary" }, "Save the words"),
    wordFields(step, { list: "names" }),
    details(step).length ? described : h("details", { "data-keep": "open" }, h("summary", {}, "Details"), described),
  );
}

function restorable(step) {
  const now = String(step.details?.failure?.restorable ?? "");
  const option = ([value, text]) => h("option", { value, selected: value === now }, text);
  return h("select", { name: "restorable" }, [["", "not said"], ["true", "yes"], ["false", "no"]].map(option));
}

function goal(step, at) {
  const chosen = goalOf(step);
  const alt = chosen ? `Step ${at}: goal image, ${OUTCOME[chosen.outcome]}` : "";
  return h("figure", { "data-key": `goal ${chosen?.picture}` },
    chosen?.picture
      ? zoom(chosen.picture, alt, `${alt}. ${chosen.prompt}`)
      : h("div", { class: "blank" }, step.prompt === null ? "A step in words only" : "No goal image"),
    h("figcaption", {}, "Goal image ", step.late && h("span", { class: "muted" }, step.late)),
  );
}

function ending({ episode, camera }, step, at) {
  if (step.end === null) return null;
  const src = frameUrl(episode.episode, camera, step.end - 1, PICTURE);
  const alt = `Step ${at}: real end frame ${step.end - 1}`;
  return h("figure", { "data-key": `end ${src}` },
    zoom(src, alt, alt),
    h("figcaption", {}, "Real end frame ", h("span", { class: "muted" }, `frame ${step.end - 1}`)),
  );
}

function actions(step, at) {
  return h("p", { class: "buttons", "data-key": "actions" },
    button("vouch", `Accept step ${at}`, "⇧A", { class: "verdict accept", "aria-pressed": step.accepted, "aria-keyshortcuts": "Shift+A" }),
    button("edit", "Edit words", "Enter"),
    button("frame", "Take this frame", "F"),
    button("blank", "No goal image", null, { disabled: step.chosen === null }),
    button("outcome", "Failed attempt", null, { "aria-pressed": step.outcome === "failed" }),
  );
}

function attempts(step, at) {
  if (!step.attempts.length) return null;
  return h("ol", { class: "attempt-list", "data-key": "attempts", "aria-label": "Attempts" },
    step.attempts.map((attempt) => one(step, attempt, at)),
  );
}

function one(step, attempt, at) {
  const index = attempt.number;
  const chosen = index === step.chosen;
  const alt = `Step ${at}: attempt ${index + 1}, ${OUTCOME[attempt.outcome]}`;
  // A lone chosen one is the goal image already shown.
  const shown = !(chosen && step.attempts.length === 1);
  return h("li", { class: chosen ? "attempt chosen" : "attempt", "data-key": `${index} ${attempt.picture}` },
    shown &&
      (attempt.picture
        ? zoom(attempt.picture, alt, `${alt}. ${attempt.prompt}`)
        : h("div", { class: "blank" }, "no picture")),
    h("div", {},
      h("p", { class: "facts" }, badge(attempt.outcome, OUTCOME[attempt.outcome]), h("span", { class: "muted" }, scores(attempt).join(" · "))),
      attempt.text && h("p", { dir: "auto" }, attempt.text),
      attempt.prompt !== step.prompt && h("p", { class: "muted", dir: "auto" }, `Prompt: ${attempt.prompt}`),
      chosen
        ? h("p", { class: "muted" }, "This is the goal image.")
        : attempt.picture &&
            button("choose", "Use this one", index < 9 ? String(index + 1) : null, { "data-attempt": index }),
    ),
  );
}

function issues(step) {
  return h("p", { class: "buttons issues", role: "group", "aria-label": "What is wrong with this step", "data-key": "issues" },
    h("span", { class: "muted" }, "Wrong here:"),
    STEP_ISSUES.map((issue) =>
      button("issue", ISSUE[issue], null, {
        "data-issue": issue, "data-step": step.id, "aria-pressed": step.issues.includes(issue),
      }),
    ),
  );
}
