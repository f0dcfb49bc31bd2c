// Shows the recording at one frame, and plays it to an end. Videos play; what stands still is an exact picture
// from the server, for browsers seek to about the right place only. Where a browser cannot play the file, or
// there is none (recordings kept as pictures), the pictures themselves are shown one after the other.

import { all } from "/common/dom.js";
import { frameUrl } from "./words.js";

const WIDTH = 640;
const DRIFT_S = 0.08;
const RATES = [1, 2, 4];
let rate = 1; // of all episodes that are looked at

export class Player {
  #stop = 0;
  #began = { at: 0, frame: 0 };
  #tick = 0;

  constructor(holder, { episode, moved, ended }) {
    Object.assign(this, { holder, episode, moved, ended, frame: 0, playing: false, broken: new Set() });
    holder.addEventListener("error", (event) => this.#lost(event.target), true);
  }

  get rate() {
    return rate;
  }

  // The next speed; after the fastest comes the usual one.
  faster() {
    rate = RATES[(RATES.indexOf(rate) + 1) % RATES.length];
    this.#began = { at: performance.now(), frame: this.frame };
    this.hurry();
  }

  // Gives the videos the speed; the page draws them.
  hurry() {
    for (const video of this.#videos) video.playbackRate = rate;
  }

  get #videos() {
    return all("video[src]", this.holder).filter((video) => !this.broken.has(video.dataset.camera));
  }

  #lost(node) {
    if (node.tagName !== "VIDEO" || !node.hasAttribute("src")) return;
    this.broken.add(node.dataset.camera);
    node.closest("figure").classList.add("stills");
    if (this.playing) this.play(this.frame, this.#stop);
  }

  #camera(video) {
    return this.episode.cameras.find((camera) => camera.key === video.dataset.camera);
  }

  // The exact frame of every camera. While one picture is on its way, only the last one asked for follows it.
  show(frame) {
    this.frame = Math.max(0, Math.min(frame, this.episode.length - 1));
    for (const still of all("img.still", this.holder)) this.#still(still);
    this.moved(this.frame);
  }

  #still(still) {
    const wanted = frameUrl(this.episode.episode, still.dataset.camera, this.frame, WIDTH);
    if (still.dataset.wanted === wanted) return;
    still.dataset.wanted = wanted;
    if (!still.dataset.loading) this.#load(still);
  }

  #load(still) {
    const url = still.dataset.wanted;
    still.dataset.loading = url;
    still.onload = still.onerror = () => {
      delete still.dataset.loading;
      if (still.dataset.wanted !== url && still.isConnected) this.#load(still);
    };
    still.src = url;
  }

  // From `frame` up to, and not including, frame `stop`.
  play(frame, stop) {
    cancelAnimationFrame(this.#tick);
    this.#stop = stop;
    this.playing = true;
    this.#began = { at: performance.now(), frame };
    this.frame = frame;
    const videos = this.#videos;
    for (const video of videos) {
      const { from_s: from } = this.#camera(video);
      video.muted = true;
      video.currentTime = from + (frame + 0.5) / this.episode.fps;
      video.play().catch((error) => {
        if (error.name === "NotSupportedError") this.#lost(video);
      });
    }
    this.holder.classList.toggle("playing", videos.length > 0);
    this.#follow();
  }

  #now() {
    const master = this.#videos[0];
    if (!master) {
      const passed = ((performance.now() - this.#began.at) / 1000) * rate * this.episode.fps;
      return this.#began.frame + Math.floor(passed);
    }
    if (master.seeking || master.readyState < 2) return this.frame;
    const { from_s: from } = this.#camera(master);
    return Math.max(this.#began.frame, Math.floor((master.currentTime - from) * this.episode.fps + 1e-3));
  }

  #follow() {
    const frame = this.#now();
    if (frame >= this.#stop || this.#videos[0]?.ended) {
      this.pause(this.#stop - 1);
      return this.ended();
    }
    if (frame !== this.frame) {
      this.frame = frame;
      this.#together();
      this.moved(frame);
    }
    this.#tick = requestAnimationFrame(() => this.#follow());
  }

  // The other cameras keep the first one's time; those without a video show their pictures.
  #together() {
    const [master, ...others] = this.#videos;
    for (const still of all("img.still", this.holder)) {
      if (still.closest("figure").classList.contains("stills")) this.#still(still);
    }
    if (!master) return;
    const time = master.currentTime - this.#camera(master).from_s;
    for (const video of others) {
      const wanted = this.#camera(video).from_s + time;
      if (!video.seeking && Math.abs(video.currentTime - wanted) > DRIFT_S) video.currentTime = wanted;
    }
  }

  pause(frame = this.frame) {
    cancelAnimationFrame(this.#tick);
    for (const video of all("video[src]", this.holder)) video.pause();
    this.holder.classList.remove("playing");
    this.playing = false;
    this.show(frame);
  }
}
