// How things are told: the same words for eyes and for screen readers.

import { count } from "/common/parts.js";

// What a newcomer should know of models, or "".
export const caution = ({ planner }, presets) =>
  planner?.includes("nano")
    ? `These small models know one simulated table and nothing else: they cannot draw your own pictures. Start the studio with others: --preset ${presets.filter((name) => name !== "nano").join(", ")} (goalreel doctor --models NAME says whether it runs here).`
    : "";

export const modelNames = ({ planner, editor, critic }) => [...new Set([planner, editor, critic])].filter(Boolean).join(" · ");

// What is selected where no step is: the scene that the storyboard starts from.
export const START = "start";

export const STATUS = {
  observed: "observed", accepted: "accepted", verified: "verified", "in doubt": "in doubt", unjudged: "not judged", rejected: "rejected", failed: "failed", skipped: "not drawn yet",
  text: "words alone", stale: "stale",
};
export const BOARD = {
  running: "at work", done: "done", failed: "failed", cancelled: "stopped", interrupted: "interrupted",
};

// What a step is worth on the page. A stale or unfinished one never looks like what its picture once was.
export function worth(step) {
  if (step.status === "text" || step.status === "failed" || step.status === "skipped") return step.status;
  return step.stale.length ? "stale" : step.word;
}

const ROLE = { planner: "Planner", editor: "Editor", critic: "Critic" };
const WORK = { planner: "writes the plan", editor: "draws", critic: "looks at" };

// What a storyboard waits for, in one line.
export function waitingFor({ waiting, steps }) {
  if (!waiting) return "Getting ready";
  const { role, step, queue, loading } = waiting;
  if (loading) return `The ${ROLE[role]} is being loaded`;
  const place = steps.findIndex(({ id }) => id === step);
  // Attempts are counted over all that was ever drawn for the step.
  const drawn = place < 0 ? 0 : steps[place].attempts.length;
  const where = place < 0 ? "" : ` step ${place + 1}, attempt ${role === "editor" ? drawn + 1 : drawn}`;
  if (queue > 0) return `Waits for the ${ROLE[role]}, behind ${count(queue, "other request")}`;
  return `The ${ROLE[role]} ${WORK[role]}${where}`;
}

// How a storyboard that nobody works on stands: a badge and a line.
export function standing(state) {
  const { status, steps, failure, degraded } = state;
  if (failure) return ["failed", `There is no plan: ${failure.message.split("\n")[0]}`];
  if (status === "interrupted") return ["stale", "The server ended while this was being made. What was there is kept."];
  if (status === "cancelled") return ["skipped", "Stopped. What was there is kept."];
  if (degraded) return ["failed", `Degraded: ${degraded}`];
  const tally = (worths) => steps.filter((step) => worths.includes(worth(step))).length;
  const [stale, open] = [tally(["stale"]), tally(["skipped"])];
  if (stale + open) return [stale ? "stale" : "skipped", `${count(stale + open, "step")} of ${steps.length} ${stale + open === 1 ? "is" : "are"} to be drawn${stale ? " again" : ""}`];
  const bad = tally(["unjudged", "rejected", "failed"]);
  if (bad) return ["rejected", `${count(bad, "step")} of ${steps.length} ${bad === 1 ? "is" : "are"} not accepted`];
  if (state.end_doubt) return ["in doubt", `${state.end_doubt[0].toUpperCase()}${state.end_doubt.slice(1)}`];
  const told = tally(["text"]);
  if (told === steps.length) return ["text", `${count(told, "step")} in words alone, without a picture`];
  const pictured = steps.length - told;
  const doubted = tally(["in doubt"]);
  if (doubted) return ["in doubt", `${count(doubted, "step")} of ${steps.length} in doubt`];
  const best = tally(["verified"]) === pictured ? "verified" : "accepted";
  const all = pictured === 1 ? `The picture of the one step is ${best}` : `${pictured} of ${pictured} pictures are ${best}`;
  const judge = best !== "accepted" ? "" : Object.keys(state.examination?.kinds ?? {}).length ? ", by a Critic that has not passed its examination" : ", by a Critic that nobody has examined";
  const end = state.end_checked === "nobody" ? "; the whole instruction was not judged" : "";
  return [state.end_checked === "nobody" ? "accepted" : best, (told ? `${all}${judge}; ${count(told, "step")} in words alone` : all + judge) + end];
}

// Tells a screen reader what happens while models work, and what somebody else changes.
export function announced(name, data, view) {
  const text = SAID[name]?.(data, view);
  if (text) document.getElementById("heard").textContent = text;
}

const SAID = {
  planned: ({ steps }) => `The plan has ${count(steps.length, "step")}: ${steps.join("; ")}.`,
  edited: ({ step, attempt }) => `Step ${step + 1}, attempt ${attempt + 1} is drawn.`,
  judged: ({ step, success, reasoning }) => `The Critic ${success ? "accepts" : "rejects"} step ${step + 1}. ${reasoning ?? ""}`,
  end: ({ success, reasoning }) => (success === undefined ? "" : `The Critic ${success ? "confirms" : "refuses"} the end. ${reasoning ?? ""}`),
  failure: ({ message }) => `A model failed: ${message.split("\n")[0]}`,
  changed: ({ by, words }, view) => (by === view.by() ? "" : `${by}: ${words}.`),
  finished: ({ status }) => `The storyboard is ${BOARD[status] ?? status}.`,
};
