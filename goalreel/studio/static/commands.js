// What each command does to the storyboard on show, and the keys for it. `view` is the BoardView.

import * as api from "./api.js";
import { dataUrl } from "./picker.js";
import { START } from "./words.js";
import { fill, h } from "/common/dom.js";
import { commandOf, pressed } from "/common/page.js";
import { say, sheet } from "/common/parts.js";
import { attempt } from "/common/server.js";

const SHEET = [
  ["Look", [
    ["J  L", "previous, next step; ← → too", { j: "previous", l: "next", ArrowLeft: "previous", ArrowRight: "next" }],
    ["?", "this sheet", { "?": "sheet" }],
  ]],
  ["Words", [
    ["Enter", "edit the words of the step", { Enter: "words" }],
    ["I", "add a step behind it", { i: "add" }],
    ["Delete", "delete the step", { Delete: "delete" }],
    ["Shift + ← →", "move the step earlier, later"],
  ]],
  ["Pictures", [
    ["1 – 9", "take that attempt as the goal image"],
    ["A  R", "accept, refuse the picture on show", { a: "accept", r: "refuse" }],
    ["G", "draw again, with another prompt", { g: "draw" }],
    ["N", "go on from a later picture", { n: "continue" }],
  ]],
  ["Storyboard", [
    ["T", "edit the task", { t: "task" }],
    ["S", "stop; what is there is kept", { s: "stop" }],
    ["C", "go on: draw what is open", { c: "resume" }],
    ["Z  Shift + Z", "undo, redo"],
    ["Esc", "leave a form"],
  ]],
];

export const command = (event) => commandOf(event, SHEET, special);

function special({ key, shiftKey, target }) {
  if (key === "Enter" && pressed(target)) return null;
  if (shiftKey && key === "ArrowLeft") return { act: "earlier" };
  if (shiftKey && key === "ArrowRight") return { act: "later" };
}

const needsStep = (work) => (view, given) => (given.step ? work(view, given) : say("Select a step first."));
const form = (name) => needsStep((view) => view.open(name));
const pictured = (work) =>
  needsStep((view, given) => {
    const number = given.attempt === undefined ? view.shown?.number : Number(given.attempt);
    const attempt = given.step.attempts.find((other) => other.number === number);
    if (!attempt?.picture) return say("There is no such picture.");
    return work(view, given.step, attempt);
  });

// As the server asks for it: an accept is of a picture that was on the screen.
const LOOK_S = 1;

const judged = (accept) =>
  pictured((view, step, { number }) => {
    const seconds = view.looked(step, number);
    if (accept && seconds < LOOK_S) return say("Not accepted: look at it, then accept it.");
    view.changes.make({ kind: "judge", step: step.id, attempt: number, accept, seconds });
  });

export const COMMANDS = {
  select: (view, { step, id }) => view.select(step?.id ?? id ?? START),
  start: (view) => view.select(START),
  look(view, { attempt: number }) {
    view.attempt = Number(number);
    view.draw();
  },

  words: form("words"),
  draw: form("draw"),
  add: (view) => view.open("add"),
  task: (view) => view.open("task"),
  // The same picture and task once more, by models that can draw it.
  async remake({ state, go }, { preset }) {
    const { instruction, seed, max_attempts } = state;
    const sent = (src) => fetch(src).then((answer) => answer.blob()).then(dataUrl);
    const image = state.image && (await sent(state.image));
    const images = await Promise.all(state.images.map(sent));
    const made = await attempt(() => api.submit({ instruction, image, images, seed, max_attempts, preset }), refused);
    if (made) go(`#/storyboard/${made.id}`);
  },
  continue: (view) => view.open("continue"),
  delete: needsStep(async (view, { step }) => {
    const { steps } = view.state;
    const at = steps.indexOf(step);
    if (!(await view.changes.make({ kind: "delete", step: step.id }))) return;
    if (view.selected === step.id) view.select((steps[at + 1] ?? steps[at - 1])?.id ?? START);
    say("The step is taken out. Undo brings it back.");
  }),
  earlier: needsStep((view, { step }) => move(view, step, -1)),
  later: needsStep((view, { step }) => move(view, step, 1)),
  choose: pictured((view, step, { number }) => {
    view.attempt = null;
    if (step.chosen !== number) view.changes.make({ kind: "choose", step: step.id, attempt: number });
  }),
  accept: judged(true),
  refuse: judged(false),

  stop: (view) => asked(view, api.cancel),
  resume: (view) => asked(view, api.resume).then(() => (view.follows = true)),
  execute: (view) => sent(() => api.execute(view.id), ({ message }) => message),
  remove: (view) => confirmed(view),
  sheet: () => sheet(SHEET),
};

function move(view, step, way) {
  const { steps } = view.state;
  const at = steps.indexOf(step);
  const to = at + way;
  if (to < 0 || to >= steps.length) return say(`This is the ${way < 0 ? "first" : "last"} step.`);
  view.changes.make({ kind: "move", step: step.id, before: (way < 0 ? steps[to] : steps[to + 1])?.id ?? null });
}

const refused = ({ message }) => say(`Not done: ${message}.`);

async function asked(view, question) {
  await attempt(() => question(view.id), refused);
  await view.refresh();
}

async function sent(question, words) {
  const answer = await attempt(question, refused);
  if (answer) say(words(answer));
}

function confirmed(view) {
  const dialog = document.getElementById("ask");
  fill(
    dialog,
    h("h2", { id: "ask-title" }, "Delete this storyboard?"),
    h("p", {}, "Its plan, its pictures and its history go from the disk. This cannot be undone."),
    h("p", { class: "buttons" }, h("button", { type: "button", class: "danger", value: "delete" }, "Delete it"), h("button", { type: "button", "data-close": true }, "Keep it")),
  );
  dialog.querySelector(".danger").addEventListener("click", async () => {
    dialog.close();
    const deleted = await attempt(() => api.remove(view.id).then(() => true), ({ message }) => say(`Not deleted: ${message}.`));
    if (deleted) view.go("#/");
  });
  dialog.showModal();
}
