// Which key does what, and the sheet that tells it.

import { commandOf, pressed } from "/common/keys.js";
import { sheet as showSheet } from "/common/parts.js";

const SHEET = [
  ["Look", [
    ["Space", "play this step and stop at its end; again to pause"],
    ["J  L", "previous, next step"],
    [",  .", "one frame back, on"],
  ]],
  ["Times", [
    ["[  ]", "let the step start, end at this frame"],
    ["Shift + ← →", "nudge the nearest boundary by a frame; with the boundary in focus, ← → alone"],
    ["S", "split the step at this frame"],
    ["M", "merge with the next step"],
    ["I", "insert a step into the gap at this frame, or place one there that was not found"],
    ["C", "play on and label: each press marks a change"],
    ["Delete", "delete the step"],
  ]],
  ["Words and goal image", [
    ["Enter", "edit the words"],
    ["1 – 9", "take that attempt as the goal image"],
    ["F", "take this frame as the goal image"],
    ["G", "render again with an edited prompt"],
  ]],
  ["Episode", [
    ["A  R  U", "accept, reject, unsure; then the next one that nobody has reviewed"],
    ["Z  Shift + Z", "undo, redo, as far back as the episode goes"],
    ["Esc", "leave a form"],
    ["?", "this sheet"],
  ]],
];

const ACTS = {
  " ": "play", j: "previous", l: "next", ",": "back", ".": "on", "[": "start", "]": "end", s: "split", m: "merge",
  i: "insert", Delete: "delete", Enter: "edit", a: "accept", r: "reject", u: "unsure", f: "frame", g: "rerender",
  c: "label", "?": "sheet",
};

export const command = (event) => commandOf(event, ACTS, special);

function special({ key, shiftKey, target }) {
  // On a button the keys that press it press it; one that only selects has nothing left to do.
  const pressing = key === " " || key === "Enter";
  if (pressing && pressed(target) && pressed(target).dataset.act !== "select") return null;
  const arrow = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[key];
  const slider = target.closest("[role=slider]");
  if (slider && (arrow || key === "Home" || key === "End")) return slide(slider, arrow, key);
  if (shiftKey && (key === "ArrowLeft" || key === "ArrowRight")) return { act: "nudge", by: arrow };
}

function slide(slider, arrow, key) {
  const { step, edge } = slider.dataset;
  const [now, least, most] = ["now", "min", "max"].map((name) => Number(slider.getAttribute(`aria-value${name}`)));
  const wanted = arrow ? now + arrow : key === "Home" ? least : most;
  const frame = Math.max(least, Math.min(wanted, most));
  return step ? { act: "move", step, edge, frame } : { act: "seek", frame };
}

export const sheet = () => showSheet(SHEET);
