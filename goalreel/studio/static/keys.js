// Which key does what, and the sheet that tells it.

import { find } from "/common/dom.js";
import { sheet as showSheet } from "/common/parts.js";

const SHEET = [
  ["Look", [
    ["J  L", "previous, next step; ← → too"],
    ["?", "this sheet"],
  ]],
  ["Words", [
    ["Enter", "edit the words of the step"],
    ["I", "add a step behind it"],
    ["Delete", "delete the step"],
    ["Shift + ← →", "move the step earlier, later"],
  ]],
  ["Pictures", [
    ["1 – 9", "take that attempt as the goal image"],
    ["A  R", "accept, refuse the picture on show"],
    ["G", "draw again, with another prompt or several pictures"],
    ["N", "go on from a later picture"],
  ]],
  ["Storyboard", [
    ["S", "stop; what is there is kept"],
    ["C", "go on: draw what is open"],
    ["Z  Shift + Z", "undo, redo"],
    ["Esc", "leave a form"],
  ]],
];

const ACTS = {
  j: "previous", l: "next", ArrowLeft: "previous", ArrowRight: "next", Enter: "words", i: "add", Delete: "delete", a: "accept", r: "refuse",
  g: "draw", n: "continue", s: "stop", c: "resume", "?": "sheet",
};

const WRITES = "input, textarea, select, [contenteditable]";
const PRESSED = "button, a, summary";

// The command that a key press stands for, as {act, ...}; null where it is none of ours.
export function command(event) {
  const { key, shiftKey, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || find("dialog[open]")) return null;
  if (key === "Escape") return { act: "cancel" };
  if (target.closest(WRITES)) return null;
  if (key === "Enter" && target.closest(PRESSED)) return null;
  if (shiftKey && key === "ArrowLeft") return { act: "earlier" };
  if (shiftKey && key === "ArrowRight") return { act: "later" };
  if (key.toLowerCase() === "z") return { act: shiftKey ? "redo" : "undo" };
  if (/^[1-9]$/.test(key)) return { act: "choose", attempt: Number(key) - 1 };
  const act = ACTS[key] ?? ACTS[key.toLowerCase()];
  return act ? { act } : null;
}

export const sheet = () => showSheet(SHEET);
