// The forms of a storyboard (words of a step, a new step, another drawing, a later picture), and what they ask for.

import { h } from "/common/dom.js";
import { cancelButton, field } from "/common/parts.js";

export function wordsForm({ step }) {
  return h(
    "form",
    { class: "edit-form", "data-key": `words ${step.id}`, "data-form": "words", "data-step": step.id, "aria-label": "Words of this step" },
    field("Name", h("input", { name: "name", value: step.name, maxlength: 200, required: true, dir: "auto" })),
    field("What is true afterwards", h("textarea", { name: "instruction", rows: 2, maxlength: 2000, required: true, dir: "auto" }, step.instruction)),
    field("Prompt for the Editor", h("textarea", { name: "prompt", rows: 3, maxlength: 2000, dir: "auto" }, step.prompt ?? "")),
    h("p", { class: "buttons" },
      h("button", { class: "primary", value: "draw" }, "Save and draw"),
      h("button", { value: "save" }, "Save the words"),
      cancelButton(),
    ),
  );
}

export function drawForm({ step, shown, state, studio }) {
  const numbers = Array.from({ length: studio.max_variants - 1 }, (_, at) => at + 2);
  return h(
    "form",
    { class: "edit-form", "data-key": `draw ${step.id}`, "data-form": "draw", "data-step": step.id, "aria-label": "Draw again" },
    field("Prompt", h("textarea", { name: "prompt", rows: 4, maxlength: 2000, required: true, dir: "auto" }, shown?.prompt ?? step.prompt ?? "")),
    field(
      "How many pictures",
      h("select", { name: "how" },
        h("option", { value: 0 }, `until the Critic accepts one, ${state.max_attempts} at most`),
        numbers.map((number) => h("option", { value: number }, `${number}, and I choose`)),
      ),
    ),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "rest", checked: true }), " and draw the steps that follow again"),
    h("p", { class: "buttons" }, h("button", { class: "primary" }, "Draw"), cancelButton()),
  );
}

export function addForm({ state, selected }) {
  const at = state.steps.findIndex(({ id }) => id === selected);
  return h(
    "form",
    { class: "edit-form sheet-form", "data-key": "add", "data-form": "add", "data-step": selected, "aria-label": "New step" },
    h("h2", {}, at < 0 ? "New first step" : `New step after step ${at + 1}`),
    field("What should be done", h("input", { name: "name", maxlength: 200, required: true, dir: "auto", placeholder: "put the blue block in the bowl" })),
    field("What is true afterwards, if other words say it better", h("textarea", { name: "instruction", rows: 1, maxlength: 2000, dir: "auto" })),
    field("Prompt for the Editor, likewise", h("textarea", { name: "prompt", rows: 1, maxlength: 2000, dir: "auto" })),
    h("p", { class: "buttons" }, h("button", { class: "primary" }, "Add it"), cancelButton()),
  );
}

export function continueForm({ state, selected, later }) {
  const at = state.steps.findIndex(({ id }) => id === selected) + 1;
  return h(
    "form",
    { class: "edit-form sheet-form", "data-key": "continue", "data-form": "continue", "data-step": "continue", "aria-label": "Go on from a later picture" },
    h("h2", {}, "Go on from a later picture"),
    h("p", { class: "muted" }, "Show the scene as it is now. The rest is planned anew from there."),
    h("div", { id: "later", "data-key": "later", "data-own": true }),
    field(
      "Done so far",
      h("select", { name: "done" },
        h("option", { value: 0, selected: at === 0 }, "nothing"),
        state.steps.map(({ name }, place) => h("option", { value: place + 1, selected: place + 1 === at }, `up to step ${place + 1}: ${name}`)),
      ),
    ),
    h("p", { class: "buttons" }, h("button", { class: "primary go", disabled: !later }, "Plan the rest"), cancelButton()),
  );
}

// The changes that a form asks for, in order; null where it asks for none. `pressed` is the value of its button.
export const changesOf = (form, view, given, pressed) => CHANGES[form](view, given, pressed);

const CHANGES = {
  words({ step }, { name, instruction, prompt }, pressed) {
    const words = {};
    if (name.trim() !== step.name) words.name = name.trim();
    if (instruction.trim() !== step.instruction) words.instruction = instruction.trim();
    if (prompt.trim() && prompt.trim() !== step.prompt) words.prompt = prompt.trim();
    const changed = Object.keys(words).length > 0;
    return [
      ...(changed ? [{ kind: "change", step: step.id, ...words }] : []),
      ...(pressed === "draw" ? [{ kind: "draw", step: step.id, rest: true }] : []),
    ];
  },
  draw({ step }, { prompt, how, rest }) {
    const variants = Number(how);
    const words = prompt.trim() === step.prompt ? {} : { prompt: prompt.trim() };
    return [{ kind: "draw", step: step.id, ...words, variants, rest: variants === 0 && rest === "on" }];
  },
  add({ state, selected }, { name, instruction, prompt }) {
    const at = state.steps.findIndex(({ id }) => id === selected);
    const before = state.steps[at + 1]?.id ?? null;
    const optional = (text) => text.trim() || undefined;
    return [{ kind: "add", name: name.trim(), instruction: optional(instruction), prompt: optional(prompt), before }];
  },
  continue({ later }, { done }) {
    return later ? [{ kind: "continue", image: later.data, done: Number(done) }] : null;
  },
};
