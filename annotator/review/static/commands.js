// What each command does to the episode on show. `view` is the EpisodeView.

import * as api from "./api.js";
import { boundaries, clamp, gap, nearest, stepAt, timed } from "./boundaries.js";
import { sheet } from "./keys.js";
import { say } from "/common/parts.js";

// The texts of a step that was inserted and not named yet.
export const NEW = "new step";

export async function run(view, { act, ...given }) {
  const work = COMMANDS[act];
  if (!work) return false;
  const step = view.episode.steps.find((other) => other.id === (given.step ?? view.selected)) ?? null;
  await work(view, { ...given, step });
  return true;
}

const COMMANDS = {
  select: (view, { step }) => view.select(step.id),
  play(view, { step }) {
    const { player, episode } = view;
    if (player.playing) return player.pause();
    const span = step?.start !== null && step ? step : { start: 0, end: episode.length };
    const inside = span.start <= player.frame && player.frame < span.end - 1;
    player.play(inside ? player.frame : span.start, span.end);
  },
  previous: (view) => view.selectBy(-1),
  next: (view) => view.selectBy(1),
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
  split(view, { step }) {
    const { frame } = view.player;
    const inside = step && step.start !== null && step.start < frame && frame < step.end;
    if (!inside) return say("Go to a frame inside the step, after its first one, and split there.");
    view.change({ kind: "split", step: step.id, frame });
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
    view.edit();
  },
  // One key a change: while it plays, each press ends what is going on and begins something new.
  label(view) {
    const { player, episode } = view;
    if (!player.playing) {
      say("Labelling: Change now (C) at each change, Pause (Space) to stop.");
      return player.play(player.frame, episode.length);
    }
    const { frame } = player;
    view.change((now) => change(now, frame));
  },

  edit: (view, { step }) => step && view.edit(),
  cancel(view) {
    if (view.editing) view.drafts.drop({ form: "rename", step: view.editing });
    if (view.rendering && !view.busy) view.drafts.drop({ form: "render", step: view.rendering.step });
    view.cancel();
  },
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
  rerender(view, { step }) {
    if (!view.dataset.can_render) return say("The models of this dataset cannot be loaded here.");
    if (step) view.rerender(step);
  },

  issue(view, { issue, step: own, whole }) {
    const step = whole ? null : own;
    const held = (step ?? view.episode).issues;
    view.change({ kind: "issue", step: step?.id ?? null, issue, on: !held.includes(issue) });
  },
  accept: (view) => view.verdict("accept"),
  reject: (view) => view.verdict("reject"),
  unsure: (view) => view.verdict("unsure"),
  undo: (view) => view.change({ kind: "undo" }),
  redo: (view) => view.change({ kind: "redo" }),
  again: (view) => view.session.again(),
  discard(view) {
    view.drafts.clear();
    view.session.discard();
  },
  earlier: (view) => leaf(view, 1),
  newer: (view) => leaf(view, -1),
  sheet: () => sheet(),
};

// Another page of the history.
async function leaf(view, way) {
  const { episode, revision, history } = view.session.saved;
  const offset = Math.max(0, (view.past?.offset ?? 0) + way * history.length);
  try {
    view.past = offset ? { revision, offset, ...(await api.history(episode, offset)) } : null;
  } catch (error) {
    if (!(error instanceof api.Refusal)) throw error;
    return say(`Not loaded: ${error.message}.`);
  }
  view.draw();
}

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
