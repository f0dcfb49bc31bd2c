// What the server is asked, and what it tells of a storyboard.

import { ask, post } from "/common/server.js";

const at = (id, rest = "") => `/v1/storyboards/${encodeURIComponent(id)}${rest}`;

export const studio = () => ask("/v1/studio");
export const examples = () => ask("/v1/examples");
export const datasets = () => ask("/v1/datasets");
export const firstFrame = (dataset, episode) => ask(`/v1/frames?${new URLSearchParams({ dataset, episode })}`);
export const cameraFrame = (topic) => ask(`/v1/frames/ros?${new URLSearchParams({ topic })}`);

export const storyboards = (query, signal) => ask(`/v1/storyboards?${query}`, { signal });
export const submit = (task) => post("/v1/storyboards", task);
export const state = (id, by) => ask(at(id, `?${new URLSearchParams({ record: "false", by })}`));
export const edit = (id, after, by, change) => post(at(id, "/edits"), { after, by, edit: change });
export const resume = (id) => post(at(id, "/resume"), {});
export const cancel = (id) => post(at(id, "/cancel"), {});
export const remove = (id) => ask(at(id), { method: "DELETE" });
export const execute = (id) => post(at(id, "/execute"), {});
export const exported = (id, name) => at(id, `/export/${name}`);
export const events = (id, after) => at(id, `/events?${new URLSearchParams({ after, follow: "true" })}`);

// The events of one storyboard, for as long as somebody looks at it. Where the server refuses, or is gone, this asks
// again until it answers, for what came after the last event.

const NAMES = [
  "submitted", "begun", "planned", "waiting", "drawing", "edited", "judging", "judged", "failure", "step", "end", "changed",
  "finished", "forgotten",
];
const AGAIN_MS = 1000;

export class Follower {
  #source = null;
  #timer = null;
  #last = 0;

  // `heard(name, data)` gets each event, `live(true or false)` whether the server is there.
  constructor(address, { heard, live }) {
    Object.assign(this, { address, heard, live });
    this.open();
  }

  // After `close`, goes on where it was.
  open() {
    if (this.#source) return;
    const source = new EventSource(this.address(this.#last));
    this.#source = source;
    source.onopen = () => this.live(true);
    source.onerror = () => {
      this.close();
      this.live(false);
      this.#timer = setTimeout(() => this.open(), AGAIN_MS);
    };
    for (const name of NAMES) {
      source.addEventListener(name, (event) => {
        if (event.lastEventId) this.#last = Number(event.lastEventId);
        this.heard(name, JSON.parse(event.data));
      });
    }
  }

  close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }
}
