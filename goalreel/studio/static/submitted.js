// What the forms of a storyboard ask for.

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
