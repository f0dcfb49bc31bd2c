// What each command does to the storyboard on show. `view` is the BoardView.

import * as api from "./api.js";
import { fill, h } from "/common/dom.js";
import { count, say } from "/common/parts.js";
import { sheet } from "./keys.js";
import { START } from "./words.js";

// Whether there is such a command.
export function run(view, { act, ...given }) {
  const work = COMMANDS[act];
  if (!work) return false;
  const step = view.state.steps.find(({ id }) => id === (given.step ?? view.selected)) ?? null;
  work(view, { ...given, step });
  return true;
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

const COMMANDS = {
  select: (view, { step, id }) => view.select(step?.id ?? id ?? START),
  start: (view) => view.select(START),
  previous: (view) => view.selectBy(-1),
  next: (view) => view.selectBy(1),
  look: (view, { attempt }) => view.look(Number(attempt)),

  words: form("words"),
  draw: form("draw"),
  variants: form("draw"),
  add: (view) => view.open("add"),
  continue: (view) => view.open("continue"),
  cancel: (view) => view.cancel(),
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
  accept: pictured((view, step, { number }) => view.changes.make({ kind: "judge", step: step.id, attempt: number, accept: true })),
  refuse: pictured((view, step, { number }) => view.changes.make({ kind: "judge", step: step.id, attempt: number, accept: false })),
  undo: (view) => (view.state.can_undo ? view.changes.make({ kind: "undo" }) : say("There is nothing to undo.")),
  redo: (view) => (view.state.can_redo ? view.changes.make({ kind: "redo" }) : say("There is nothing to redo.")),

  stop: (view) => asked(view, api.cancel),
  resume: (view) => asked(view, api.resume).then(() => (view.follows = true)),
  again: (view) => view.changes.again(),
  discard(view) {
    view.drafts.clear();
    view.changes.discard();
  },
  corpus: (view) => sent(api.addToCorpus(view.id), ({ folder, storyboards }) => `It is in the corpus: ${count(storyboards, "storyboard")} in ${folder}.`),
  execute: (view) => sent(api.execute(view.id), ({ message }) => message),
  remove: (view) => confirmed(view),
  sheet: () => sheet(),
};

function move(view, step, way) {
  const { steps } = view.state;
  const at = steps.indexOf(step);
  const to = at + way;
  if (to < 0 || to >= steps.length) return say(`This is the ${way < 0 ? "first" : "last"} step.`);
  view.changes.make({ kind: "move", step: step.id, before: (way < 0 ? steps[to] : steps[to + 1])?.id ?? null });
}

async function asked(view, question) {
  try {
    await question(view.id);
  } catch (error) {
    if (!(error instanceof api.Refusal)) throw error;
    say(`Not done: ${error.message}.`);
  }
  await view.refresh();
}

async function sent(answer, words) {
  try {
    say(words(await answer));
  } catch (error) {
    if (!(error instanceof api.Refusal)) throw error;
    say(`Not done: ${error.message}.`);
  }
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
    try {
      await api.remove(view.id);
      view.go("#/");
    } catch (error) {
      if (!(error instanceof api.Refusal)) throw error;
      say(`Not deleted: ${error.message}.`);
    }
  });
  dialog.showModal();
}
