// Where the steps of an episode begin and end, as what can be moved: a boundary that two steps share is one.

export const timed = (episode) =>
  episode.steps.filter((step) => step.start !== null).sort((a, b) => a.start - b.start);

export const stepAt = (episode, frame) =>
  timed(episode).find((step) => step.start <= frame && frame < step.end) ?? null;

export const number = (episode, step) => episode.steps.findIndex((other) => other.id === step.id) + 1;

// In order: {left, right, frame, least, most, step, edge}; `left` or `right` is null beside a gap.
export function boundaries(episode) {
  const steps = timed(episode);
  const found = [];
  steps.forEach((step, at) => {
    const before = steps[at - 1];
    const after = steps[at + 1];
    if (!before || before.end !== step.start) {
      found.push({
        left: null, right: step, step: step.id, edge: "start", frame: step.start,
        least: before ? before.end : 0, most: step.end - 1,
      });
    }
    const shared = after && after.start === step.end;
    found.push({
      left: step, right: shared ? after : null, step: step.id, edge: "end", frame: step.end,
      least: step.start + 1, most: shared ? after.end - 1 : after ? after.start : episode.length,
    });
  });
  return found;
}

export const clamp = (boundary, frame) => Math.max(boundary.least, Math.min(frame, boundary.most));

// The one that `frame` is nearest to, of those of a step; in a step of one frame the one that was moved `last`.
export function nearest(episode, step, frame, last) {
  const own = boundaries(episode).filter(({ left, right }) => left?.id === step.id || right?.id === step.id);
  const away = (boundary) => {
    const ends = boundary.left?.id === step.id;
    const again = last?.step === boundary.step && last.edge === boundary.edge;
    return Math.abs(frame - (ends ? boundary.frame - 1 : boundary.frame)) - (again ? 0.5 : 0);
  };
  return own.reduce((best, boundary) => (best && away(best) <= away(boundary) ? best : boundary), null);
}

// The frame to look at while a boundary moves: the last of the step that ends there, the first of one that begins.
export const seen = (boundary, step) =>
  boundary.left && boundary.left.id === step?.id ? boundary.frame - 1 : Math.min(boundary.frame, boundary.most);

// The frames that no step has around `frame`: [start, end), or null inside a step.
export function gap(episode, frame) {
  if (stepAt(episode, frame)) return null;
  const steps = timed(episode);
  const before = steps.filter((step) => step.end <= frame).at(-1);
  const after = steps.find((step) => step.start > frame);
  return { start: before ? before.end : 0, end: after ? after.start : episode.length };
}

// An episode with a change on it that the server has not answered yet. Only changes of a field are shown before
// they are saved; those that make or remove steps wait for the server, which knows the rules.

const STEP = {
  rename: (step, { name, instruction = step.instruction, prompt = step.prompt }) => ({ ...step, name, instruction, prompt }),
  outcome: (step, { outcome }) => ({ ...step, outcome }),
  choose: (step, { attempt }) => ({ ...step, chosen: attempt }),
  blank: (step) => ({ ...step, chosen: null }),
  accept: (step) => ({ ...step, accepted: true }),
};

const toggled = (issues, { issue, on }) => [...issues.filter((other) => other !== issue), ...(on ? [issue] : [])];

export function drafted(episode, event) {
  const steps = (change) => ({ ...episode, steps: episode.steps.map(change) });
  const only = (change) => steps((step) => (step.id === event.step ? change(step) : step));
  if (event.kind === "move") return steps(moved(episode, event));
  if (event.kind === "verdict") return { ...episode, verdict: event.verdict, by: null, unseen: false };
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
