// The Planner's reply while it is written: what it thinks, and the steps as far as they are there.

const FIELD = /"(step_name|name|instruction|prompt)"\s*:\s*"((?:[^"\\]|\\.)*)/g;
const NAME = { step_name: "name" };

// {thought, steps: [{name, instruction, prompt}]}; what is written last may be incomplete.
export function parsed(text) {
  const begin = text.indexOf("<think>");
  const end = text.indexOf("</think>");
  const thought = begin < 0 ? "" : text.slice(begin + "<think>".length, end < 0 ? undefined : end).trim();
  const steps = [];
  for (const [, key, value] of text.slice(Math.max(end, 0)).matchAll(FIELD)) {
    const name = NAME[key] ?? key;
    if (!steps.length || name in steps.at(-1)) steps.push({});
    steps.at(-1)[name] = unescaped(value);
  }
  return { thought: thought === "." ? "" : thought, steps };
}

function unescaped(value) {
  try {
    return JSON.parse(`"${value.replace(/\\u?[0-9a-fA-F]{0,3}$/, "")}"`);
  } catch {
    return value;
  }
}
