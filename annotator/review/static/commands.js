// What each command does to the episode on show, and the keys for it. `view` is the EpisodeView.

import { boundaries, clamp, gap, nearest, stepAt, timed } from "./boundaries.js";
import { find } from "/common/dom.js";
import { commandOf, pressed } from "/common/page.js";
import { say, sheet } from "/common/parts.js";

const SHEET = [
  ["Look", [
    ["Space", "play this step and stop at its end; again to pause", { " ": "play" }],
    ["X", "play at 1, 2 or 4 times the speed", { x: "faster" }],
    ["J  L", "previous, next step", { j: "previous", l: "next" }],
    [",  .", "one frame back, on", { ",": "back", ".": "on" }],
  ]],
  ["Times", [
    ["[  ]", "start the step here, end it here", { "[": "start", "]": "end" }],
    ["Shift + ← →", "nudge the nearest boundary by a frame; with the boundary in focus, ← → alone"],
    ["S", "cut at this frame, also while it plays", { s: "cut" }],
    ["M", "merge with the next step", { m: "merge" }],
    ["I", "insert a step into the gap at this frame, or place one there that was not found", { i: "insert" }],
    ["C", "play on to the end, and cut with each press", { c: "label" }],
    ["V", "copy the steps of the episode whose number is typed, or of the one labelled last", { v: "copy" }],
    ["Delete", "delete the step", { Delete: "delete" }],
  ]],
  ["Words and goal image", [
    ["Enter", "edit the words", { Enter: "edit" }],
    ["1 – 9", "take that attempt as the goal image"],
    ["F", "take this frame as the goal image", { f: "frame" }],
  ]],
  ["Episode", [
    ["Shift + A", "accept this step", { A: "vouch" }],
    ["A  R  U", "accept, reject, unsure", { a: "accept", r: "reject", u: "unsure" }],
    ["N", "the next one that nobody has reviewed", { n: "onwards" }],
    ["Z  Shift + Z", "undo, redo your own last change, in whatever episode"],
    ["Esc", "leave a form"],
    ["?", "this sheet", { "?": "sheet" }],
  ]],
];

export const command = (event) => commandOf(event, SHEET, special);

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

// The name of a step that was inserted and not named yet, as the server knows it.
export const NEW = "new step";

export const COMMANDS = {
  select: (view, { step }) => view.select(step.id),
  play(view, { step }) {
    const { player, episode } = view;
    if (player.playing) return player.pause();
    const span = step?.start !== null && step ? step : { start: 0, end: episode.length };
    const inside = span.start <= player.frame && player.frame < span.end - 1;
    player.play(inside ? player.frame : span.start, span.end);
  },
  back: (view) => view.seek(view.player.frame - 1),
  on: (view) => view.seek(view.player.frame + 1),
  seek: (view, { frame }) => view.seek(frame),

  start: (view, { step }) => placed(view, step) && move(view, step.id, "start", view.player.frame),
  end: (view, { step }) => placed(view, step) && move(view, step.id, "end", view.player.frame + 1),
  move: (view, { step, edge, frame }) => step && move(view, step.id, edge, frame),
  nudge(view, { step, by }) {
    if (!placed(view, step)) return;
    const boundary = nearest(view.episode, step, view.player.frame, view.nudged);
    const frame = clamp(boundary, boundary.frame + by);
    view.nudged = boundary;
    if (frame === boundary.frame) return say("The boundary cannot go further: a step keeps at least one frame.");
    move(view, boundary.step, boundary.edge, frame);
    view.seek(boundary.left?.id === step.id ? frame - 1 : frame);
  },
  faster(view) {
    view.player.faster();
    view.draw();
  },
  // Where nothing is labelled yet, the first cut makes two steps.
  cut(view) {
    const { frame } = view.player;
    const { length } = view.episode;
    if (frame === 0 || stepAt(view.episode, frame)?.start === frame) return say("A step begins at this frame: go to another one, and cut there.");
    if (!view.episode.steps.length) view.change({ kind: "insert", start: 0, end: length, name: NEW });
    view.change((now) => change(now, frame));
  },
  copy(view) {
    const field = find("[name=copied]", view.holder);
    if (!field.reportValidity()) return;
    view.change({ kind: "copy", episode: Number(field.value) });
    say(`The steps of episode ${field.value} are here, as long as this episode is: move the boundaries.`);
  },
  merge: (view, { step }) => step && view.change({ kind: "merge", step: step.id }),
  delete(view, { step }) {
    if (!step) return;
    view.selectBy(1);
    view.change({ kind: "delete", step: step.id });
  },
  async insert(view, { step }) {
    const { frame } = view.player;
    const free = gap(view.episode, frame);
    if (!free) return say("This frame is inside a step: split it (S), or go to a frame that no step has.");
    if (step && step.start === null) {
      return view.change({ kind: "place", step: step.id, start: frame, end: free.end });
    }
    const saved = await view.change({ kind: "insert", start: frame, end: free.end, name: NEW });
    if (!saved) return;
    view.select(stepAt(view.episode, frame).id, { stay: true });
    view.open("rename");
  },
  // One key a change: while it plays, each press ends what is going on and begins something new.
  label(view) {
    const { player, episode } = view;
    if (!player.playing) {
      say("Labelling: cut (C) at each change, Pause (Space) to stop.");
      return player.play(player.frame, episode.length);
    }
    COMMANDS.cut(view);
  },

  edit: (view, { step }) => step && view.open("rename"),
  outcome: (view, { step }) =>
    view.change({ kind: "outcome", step: step.id, outcome: step.outcome === "failed" ? "done" : "failed" }),
  choose(view, { step, attempt }) {
    const index = Number(attempt);
    if (!step?.attempts.find(({ number }) => number === index)?.picture) return say(`There is no picture of an attempt ${index + 1}.`);
    if (step.chosen !== index) view.change({ kind: "choose", step: step.id, attempt: index });
  },
  frame: (view, { step }) =>
    step && view.change({ kind: "frame", step: step.id, camera: view.camera, frame: view.player.frame }),
  blank: (view, { step }) => step?.chosen !== null && view.change({ kind: "blank", step: step.id }),

  issue(view, { issue, step: own, whole }) {
    const step = whole ? null : own;
    const held = (step ?? view.episode).issues;
    view.change({ kind: "issue", step: step?.id ?? null, issue, on: !held.includes(issue) });
  },
  accept: (view) => view.verdict("accept"),
  reject: (view) => view.verdict("reject"),
  unsure: (view) => view.verdict("unsure"),
  vouch: (view, { step }) => step && view.vouch(step),
  onwards: (view) => view.onwards(),
  sheet: () => sheet(SHEET),
  camera(view, { camera }) {
    view.camera = camera;
    view.draw();
  },
};

function placed(view, step) {
  if (step && step.start !== null) return true;
  say("This step has no place in the recording: go to a frame that no step has, and place it there with Insert (I).");
  return false;
}

function move(view, step, edge, frame) {
  const boundary = boundaries(view.episode).find((other) => owns(other, step, edge));
  if (boundary?.frame === frame) return;
  view.change({ kind: "move", step, edge, frame });
}

const owns = ({ left, right }, step, edge) => (edge === "end" ? left : right)?.id === step;

function change(episode, frame) {
  const step = stepAt(episode, frame);
  if (step) return step.start < frame ? { kind: "split", step: step.id, frame } : null;
  const after = timed(episode).find((other) => other.start > frame);
  return { kind: "insert", start: frame, end: after ? after.start : episode.length, name: NEW };
}
