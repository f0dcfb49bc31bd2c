// What the screen has shown of an episode, and for how long: a verdict goes to the server with it.

import { goalOf } from "./steps.js";
import { find } from "/common/dom.js";

const TICK_MS = 100;
const MOST_SPANS = 200;
// Of every episode that was open in this tab: the list, and back, loses nothing.
export const kept = new Map();

const onScreen = (node) => {
  const { top, bottom, height } = node.getBoundingClientRect();
  return height > 0 && Math.min(bottom, window.innerHeight) - Math.max(top, 0) > height / 2;
};
const drawn = (img) => img.complete && img.naturalWidth > 0 && onScreen(img);
const key = (step) => `${step.id} ${goalOf(step)?.picture ?? ""}`;

export class Looked {
  #at = performance.now();
  #frame = null;

  // `view` is the EpisodeView; counts until `signal` aborts.
  constructor(view, signal) {
    this.view = view;
    const name = `${view.dataset.name} ${view.saved.episode}`;
    if (!kept.has(name)) kept.set(name, { seconds: 0, frames: new Set(), pictures: new Map() });
    this.seen = kept.get(name);
    const ticking = setInterval(() => this.#tick(), TICK_MS);
    signal.addEventListener("abort", () => clearInterval(ticking));
  }

  #tick() {
    const now = performance.now();
    const passed = Math.min((now - this.#at) / 1000, (3 * TICK_MS) / 1000);
    this.#at = now;
    const { view, seen } = this;
    const { player, holder, step } = view;
    const still = find("img.still", holder);
    const shown = still && (player.playing ? onScreen(find("#cameras", holder)) : drawn(still));
    const goal = find(".step-item.open .pair figure", holder);
    const picture = goal && find("img", goal);
    const aimed = step && goal && (picture ? drawn(picture) : onScreen(goal));
    if (document.hidden || !(shown || aimed)) return (this.#frame = null);
    seen.seconds += passed;
    if (aimed) seen.pictures.set(key(step), (seen.pictures.get(key(step)) ?? 0) + passed);
    // On a narrow page the steps lie below the recording.
    if (!shown) return (this.#frame = null);
    // A picture that is on its way still shows the frame before it.
    if (!player.playing && still.dataset.loading) return;
    const from = player.playing && this.#frame !== null ? Math.min(this.#frame, player.frame) : player.frame;
    for (let frame = from; frame <= player.frame; frame++) seen.frames.add(frame);
    this.#frame = player.frame;
  }

  // As the server takes it.
  get told() {
    this.#tick();
    const { seconds, frames, pictures } = this.seen;
    const spans = [];
    for (const frame of [...frames].sort((a, b) => a - b)) {
      if (spans.at(-1)?.[1] === frame - 1) spans.at(-1)[1] = frame;
      else spans.push([frame, frame]);
    }
    const steps = this.view.steps.filter((step) => pictures.has(key(step)));
    return {
      seconds: round(seconds), frames: spans.slice(-MOST_SPANS),
      pictures: Object.fromEntries(steps.slice(0, 500).map((step) => [step.id, round(pictures.get(key(step)))])),
    };
  }
}

const round = (s) => Math.round(s * 100) / 100;
