// What the server is asked, and what it tells of a storyboard.

import { ask, post } from "/common/server.js";

const at = (id, rest = "") => `/v1/storyboards/${encodeURIComponent(id)}${rest}`;

export const studio = () => ask("/v1/studio");
export const examples = () => ask("/v1/examples");
export const storyboards = (before, doubts) => ask(`/v1/storyboards?${new URLSearchParams({ ...(before && { before }), ...(doubts && { in_doubt: true }) })}`);
export const submit = (task) => post("/v1/storyboards", task);
export const state = (id, by) => ask(at(id, `?${new URLSearchParams({ record: "false", by })}`));
export const edit = (id, after, by, change) => post(at(id, "/edits"), { after, by, edit: change });
export const resume = (id) => post(at(id, "/resume"), {});
export const cancel = (id) => post(at(id, "/cancel"), {});
export const remove = (id) => ask(at(id), { method: "DELETE" });
export const saved = (id) => at(id, "/export/storyboard.zip");

const NAMES = [
  "submitted", "begun", "planned", "waiting", "edited", "judged", "failure", "step", "end", "changed", "finished", "forgotten",
];
const AGAIN_MS = 1000;

// The events of one storyboard after number `seen()`, for as long as somebody looks. `heard(name, data)` gets each one,
// `live(true or false)` whether the server is there. The browser asks again where it is not; where it refuses, this does.
export class Follower {
  #source = null;
  #timer = null;

  constructor(id, { seen, heard, live }) {
    Object.assign(this, { id, seen, heard, live });
    this.open();
  }

  // After `close`, goes on where it was.
  open() {
    if (this.#source) return;
    const source = new EventSource(at(this.id, `/events?${new URLSearchParams({ after: this.seen(), follow: "true" })}`));
    this.#source = source;
    source.onopen = () => this.live(true);
    source.onerror = () => {
      this.live(false);
      if (source.readyState !== EventSource.CLOSED) return;
      this.close();
      this.#timer = setTimeout(() => this.open(), AGAIN_MS);
    };
    for (const name of NAMES) source.addEventListener(name, ({ data }) => this.heard(name, JSON.parse(data)));
  }

  close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }
}
