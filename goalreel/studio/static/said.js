// What is told aloud while models work: the milestones, not every word that is written.

import { count } from "/common/parts.js";
import { BOARD } from "./words.js";

export function announced(name, data, view) {
  const text = SAID[name]?.(data, view);
  if (text) document.getElementById("heard").textContent = text;
}

const SAID = {
  planned: ({ steps }) => `The plan has ${count(steps.length, "step")}: ${steps.join("; ")}.`,
  edited: ({ step, attempt }) => `Step ${step + 1}, attempt ${attempt + 1} is drawn.`,
  judged: ({ step, success, reasoning }) => `The Critic ${success ? "accepts" : "rejects"} step ${step + 1}. ${reasoning ?? ""}`,
  failure: ({ message }) => `A model failed: ${message.split("\n")[0]}`,
  changed: ({ by, words }, view) => (by === view.by() ? "" : `${by}: ${words}.`),
  finished: ({ status }) => `The storyboard is ${BOARD[status] ?? status}.`,
};
