// Which key does what, and the sheet that tells it.

import { commandOf, pressed } from "/common/keys.js";
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

export const command = (event) => commandOf(event, ACTS, special);

function special({ key, shiftKey, target }) {
  if (key === "Enter" && pressed(target)) return null;
  if (shiftKey && key === "ArrowLeft") return { act: "earlier" };
  if (shiftKey && key === "ArrowRight") return { act: "later" };
}

export const sheet = () => showSheet(SHEET);
