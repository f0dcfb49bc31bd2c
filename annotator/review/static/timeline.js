// The time line: a strip of exact frames, the steps with their boundaries, and what the arm does below them.

import { boundaries, clamp, number, timed } from "./boundaries.js";
import { find, h, patch } from "/common/dom.js";
import { button } from "/common/parts.js";
import { frameUrl, seconds, span } from "./words.js";

const THUMB = 72;
const HUES = 6;

export const hue = (at) => `hue${at % HUES}`;
const percent = (frame, episode) => `${(100 * frame) / episode.length}%`;

export function timeline({ episode, frame, selected, camera, width }) {
  return [
    h("div", { class: "scrub", "data-key": "strip", "data-scrub": true }, strip(episode, camera, width)),
    track(episode, selected),
    curves(episode),
    axis(episode),
    playhead(episode, frame),
  ];
}

function strip(episode, camera, width) {
  const cells = Math.max(4, Math.min(episode.length, Math.floor(width / THUMB)));
  return Array.from({ length: cells }, (_, at) => {
    const frame = Math.floor(((at + 0.5) * episode.length) / cells);
    const src = frameUrl(episode.episode, camera, frame, 160);
    return h("img", { src, alt: "", draggable: "false", style: { width: `${100 / cells}%` } });
  });
}

function track(episode, selected) {
  const steps = timed(episode).map((step) => {
    const at = number(episode, step);
    const words = `Step ${at}, ${step.name}, ${span(step, episode.fps)}`;
    const look = {
      class: `cut ${hue(at - 1)}`, "data-key": step.id, "data-step": step.id, "aria-label": words, title: words,
      "aria-pressed": step.id === selected,
      style: { left: percent(step.start, episode), width: percent(step.end - step.start, episode) },
    };
    return button("select", [h("b", {}, String(at)), h("span", {}, step.name)], null, look);
  });
  const edges = boundaries(episode).map((boundary) => edge(boundary, episode));
  const label = "Steps and the boundaries between them";
  return h("div", { class: "track", "data-key": "track", role: "group", "aria-label": label }, steps, edges);
}

function edge(boundary, episode) {
  const { left, right, frame } = boundary;
  const between = [left && `end of ${left.name}`, right && `start of ${right.name}`].filter(Boolean).join(", ");
  return h("div", {
    class: "edge", role: "slider", tabindex: "0", "data-key": `${boundary.step} ${boundary.edge}`,
    "data-step": boundary.step, "data-edge": boundary.edge, "aria-label": between,
    "aria-orientation": "horizontal", "aria-valuemin": boundary.least, "aria-valuemax": boundary.most,
    "aria-valuenow": frame, "aria-valuetext": `frame ${frame}, ${seconds(frame, episode.fps)}`,
    style: { left: percent(frame, episode) },
  });
}

function curves(episode) {
  const lines = Object.entries(episode.curves);
  if (!lines.length) return null;
  const told = lines.map(([name]) => name).join(" and ");
  const thin = { "vector-effect": "non-scaling-stroke" };
  const drawn = lines.map(([name, points]) =>
    h("polyline", { class: name, points: points.map(([at, value]) => `${at + 0.5},${(1 - value).toFixed(3)}`).join(" "), ...thin }),
  );
  const names = lines.map(([name]) => h("span", { class: name }, name === "gripper" ? "gripper closed" : name));
  return h("div", { class: "curves", "data-key": "curves", "data-scrub": true },
    h("svg", { viewBox: `0 -0.06 ${episode.length} 1.12`, preserveAspectRatio: "none", role: "img", "aria-label": `Curves of ${told}` },
      episode.events.map((at) => h("line", { class: "tick", x1: at, x2: at, y1: -0.06, y2: 1.06, ...thin })),
      drawn,
    ),
    h("p", { class: "legend" }, names, episode.events.length > 0 && h("span", { class: "tick" }, "event in the motion")),
  );
}

function axis(episode) {
  const length = episode.length / episode.fps;
  const rough = length / 8;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= rough);
  const marks = Array.from({ length: Math.floor(length / step + 1e-9) + 1 }, (_, n) => n * step);
  return h("div", { class: "axis", "data-key": "axis", "aria-hidden": "true" },
    marks.map((at) => {
      const left = (100 * at) / length;
      return h("span", { class: left > 96 ? "edge-mark" : null, style: { left: `${left}%` } }, `${Number(at.toFixed(3))} s`);
    }),
  );
}

function playhead(episode, frame) {
  return h("div", {
    class: "playhead", role: "slider", tabindex: "0", "data-key": "playhead", "aria-label": "Frame on show",
    "aria-valuemin": 0, "aria-valuemax": episode.length - 1, "aria-valuenow": frame,
    "aria-valuetext": `frame ${frame}, ${seconds(frame, episode.fps)}`,
    style: { left: percent(frame + 0.5, episode) },
  });
}

// Moves the playhead alone: that is done for every frame while the video plays.
export function setPlayhead(holder, episode, frame) {
  const node = find(".playhead", holder);
  if (node) patch(node, playhead(episode, frame));
}

const frameAt = (holder, episode, x) => {
  const { left, width } = holder.getBoundingClientRect();
  return ((x - left) / width) * episode.length;
};

// Drags boundaries, snapped to frames, and the playhead. `on` is {episode(), scrub(frame), drag(boundary, frame),
// drop(boundary, frame)}. Until `signal` aborts: the next episode is shown in the same holder.
export function draggable(holder, on, signal) {
  const pressed = (event) => {
    if (event.button !== 0) return;
    const edge = event.target.closest(".edge");
    if (edge) dragEdge(holder, edge, event, on);
    else if (event.target.closest("[data-scrub], .playhead")) scrub(holder, event, on);
  };
  holder.addEventListener("pointerdown", pressed, { signal });
}

function follow(target, event, moved, dropped) {
  event.preventDefault();
  target.setPointerCapture(event.pointerId);
  const following = new AbortController();
  const { signal } = following;
  const end = (last) => {
    following.abort();
    dropped(last.type === "pointerup");
  };
  target.addEventListener("pointermove", moved, { signal });
  for (const name of ["pointerup", "pointercancel"]) target.addEventListener(name, end, { signal });
}

function dragEdge(holder, edge, event, on) {
  const { step, edge: which } = edge.dataset;
  const boundary = boundaries(on.episode()).find((other) => other.step === step && other.edge === which);
  let frame = boundary.frame;
  edge.focus();
  const moved = (to) => {
    const wanted = clamp(boundary, Math.round(frameAt(holder, on.episode(), to.clientX)));
    if (wanted === frame) return;
    frame = wanted;
    on.drag(boundary, frame);
  };
  follow(edge, event, moved, (kept) => on.drop(boundary, kept ? frame : boundary.frame));
}

function scrub(holder, event, on) {
  const moved = (to) => on.scrub(Math.floor(frameAt(holder, on.episode(), to.clientX)));
  moved(event);
  follow(holder, event, moved, () => {});
}
