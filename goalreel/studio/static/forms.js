// The forms of a storyboard (words of a step, a new step, another drawing, a later picture), and what they ask for.

import { h } from "/common/dom.js";
import { area, editForm, field, otherWords, wordFields } from "/common/parts.js";

const primary = (words, more = {}) => h("button", { class: "primary", ...more }, words);
const placeOf = ({ state, selected }) => state.steps.findIndex(({ id }) => id === selected);

export const wordsForm = ({ step }) =>
  editForm("words", step.id, "Words of this step",
    [primary("Save and draw", { value: "draw" }), h("button", { value: "save" }, "Save the words")],
    wordFields(step),
  );

export const drawForm = ({ step, shown }) =>
  editForm("draw", step.id, "Draw again", primary("Draw"),
    field("Prompt", area("prompt", 4, shown?.prompt ?? step.prompt ?? "", { required: true })),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "rest", checked: true }), " and draw the steps that follow again"),
  );

export function addForm(view) {
  const at = placeOf(view);
  return editForm("add", view.selected, "New step", primary("Add it"),
    h("h2", {}, at < 0 ? "New first step" : `New step after step ${at + 1}`),
    field("What should be done", h("input", { name: "name", maxlength: 200, required: true, dir: "auto", placeholder: "put the blue block in the bowl" })),
    field("What is true afterwards, if other words say it better", area("instruction", 1, "")),
    field("Prompt for the image editor, likewise", area("prompt", 1, "")),
  );
}

export const taskForm = ({ state }) =>
  editForm("task", "task", "The task", primary("Save the task"),
    field("What should the robot do?", area("instruction", 2, state.instruction, { maxlength: 20_000, required: true })),
    h("p", { class: "muted" }, state.steps.length ? "The steps stay as they are; the end is judged again." : "The plan is made anew."),
  );

export function continueForm(view) {
  const at = placeOf(view) + 1;
  const done = ({ name }, place) => h("option", { value: place + 1, selected: place + 1 === at }, `up to step ${place + 1}: ${name}`);
  return editForm("continue", "continue", "Go on from a later picture", primary("Plan the rest", { class: "primary go", disabled: !view.later }),
    h("h2", {}, "Go on from a later picture"),
    h("p", { class: "muted" }, "Show the scene as it is now. The rest is planned anew from there."),
    h("div", { id: "later", class: "picker", "data-key": "later", "data-own": true }),
    field("Done so far", h("select", { name: "done" }, h("option", { value: 0, selected: at === 0 }, "nothing"), view.state.steps.map(done))),
  );
}

// The changes that a form asks for, in order; null where it asks for none. `pressed` is the value of its button.
export const changesOf = (form, view, given, pressed) => CHANGES[form](view, given, pressed);

const CHANGES = {
  task: ({ state }, { instruction }) => (instruction.trim() === state.instruction ? [] : [{ kind: "instruct", instruction: instruction.trim() }]),
  words({ step }, given, pressed) {
    const words = otherWords(step, given);
    return [
      ...(Object.keys(words).length ? [{ kind: "change", step: step.id, ...words }] : []),
      ...(pressed === "draw" ? [{ kind: "draw", step: step.id, rest: true }] : []),
    ];
  },
  draw({ step }, { prompt, rest }) {
    const words = prompt.trim() === step.prompt ? {} : { prompt: prompt.trim() };
    return [{ kind: "draw", step: step.id, ...words, rest: rest === "on" }];
  },
  add(view, given) {
    const before = view.state.steps[placeOf(view) + 1]?.id ?? null;
    return [{ kind: "add", before, ...otherWords({}, given) }];
  },
  continue: ({ later }, { done }) => (later ? [{ kind: "continue", image: later.data, done: Number(done) }] : null),
};
