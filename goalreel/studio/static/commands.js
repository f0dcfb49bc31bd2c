// What each command does to the storyboard on show, and the keys for it. `view` is the BoardView.

import * as api from "./api.js";
import { START } from "./words.js";
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

export const command = (event) => commandOf(event, SHEET, ({ key, target }) => (key === "Enter" && pressed(target) ? null : undefined));

const needsStep = (work) => (view, given) => (given.step ? work(view, given) : say("Select a step first."));
const form = (name) => needsStep((view) => view.open(name));
const pictured = (work) =>
  needsStep((view, given) => {
    const number = given.attempt === undefined ? view.shown?.number : Number(given.attempt);
    const drawn = given.step.attempts.find((other) => other.number === number);
    if (!drawn?.picture) return say("There is no such picture.");
    return work(view, given.step, drawn);
  });

// As the server asks for it: an accept is of a picture that was on the screen.
const LOOK_S = 1;

const judged = (accept) =>
  pictured((view, step, drawn) => {
    const seconds = view.looked(drawn);
    if (accept && seconds < LOOK_S) return say("Not accepted: look at it, then accept it.");
    view.changes.make({ kind: "judge", step: step.id, attempt: drawn.number, accept, seconds });
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
  async remove(view) {
    if (!confirm("Delete this storyboard? Its plan, its pictures and its history go from the disk. This cannot be undone.")) return;
    const deleted = await attempt(() => api.remove(view.id).then(() => true), ({ message }) => say(`Not deleted: ${message}.`));
    if (deleted) view.go("#/");
  },
  sheet: () => sheet(SHEET),
};

function move(view, step, way) {
  const place = view.steps.indexOf(step) + way;
  if (place < 0 || place >= view.steps.length) return;
  const others = view.steps.filter((other) => other !== step);
  view.changes.make({ kind: "move", step: step.id, before: others[place]?.id ?? null });
}

async function asked(view, question) {
  await attempt(() => question(view.id), ({ message }) => say(`Not done: ${message}.`));
  await view.refresh();
}
