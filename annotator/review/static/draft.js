// An episode with a change on it that the server has not answered yet. Only changes of a field are shown before
// they are saved; those that make or remove steps wait for the server, which knows the rules.

const STEP = {
  rename: (step, { name, instruction, prompt }) => ({
    ...step,
    name,
    instruction: instruction ?? step.instruction,
    prompt: prompt ?? step.prompt,
  }),
  outcome: (step, { outcome }) => ({ ...step, outcome }),
  choose: (step, { attempt }) => ({ ...step, chosen: attempt }),
  blank: (step) => ({ ...step, chosen: null }),
};

const toggled = (issues, { issue, on }) => [...issues.filter((other) => other !== issue), ...(on ? [issue] : [])];

export function drafted(episode, event) {
  const steps = (change) => ({ ...episode, steps: episode.steps.map(change) });
  const only = (change) => steps((step) => (step.id === event.step ? change(step) : step));
  if (event.kind === "move") return steps(moved(episode, event));
  if (event.kind === "verdict") return { ...episode, verdict: event.verdict };
  if (event.kind === "issue") {
    if (event.step === null) return { ...episode, issues: toggled(episode.issues, event) };
    return only((step) => ({ ...step, issues: toggled(step.issues, event) }));
  }
  return STEP[event.kind] ? only((step) => STEP[event.kind](step, event)) : episode;
}

// An adjoining neighbour's edge moves along.
function moved(episode, { step: id, edge, frame }) {
  const own = episode.steps.find((step) => step.id === id);
  const other = edge === "start" ? "end" : "start";
  return (step) => {
    if (step.id === id) return { ...step, [edge]: frame };
    return own && step[other] !== null && step[other] === own[edge] ? { ...step, [other]: frame } : step;
  };
}
