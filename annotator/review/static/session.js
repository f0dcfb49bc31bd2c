// One episode under review: what the server has, and the changes that it has not answered yet. Changes are sent
// one after the other. One that fails is kept, and everything behind it waits until the person decides.

import * as api from "./api.js";
import { drafted } from "./draft.js";

export class Session {
  #queue = [];
  #busy = false;

  constructor(episode, { by, query, changed, refused }) {
    this.saved = episode;
    this.state = "saved";
    this.detail = "";
    this.by = by;
    this.query = query;
    this.changed = changed;
    this.refused = refused;
  }

  get episode() {
    return this.#queue.reduce((episode, { event }) => (event ? drafted(episode, event) : episode), this.saved);
  }

  get unsaved() {
    return this.#queue.map(({ event, make }) => event ?? make(this.episode)).filter(Boolean);
  }

  // `make` is an event, or makes one of the episode as it is when its turn comes (null: nothing to do any more).
  // The promise tells whether it was saved.
  change(make) {
    const event = typeof make === "function" ? null : make;
    const last = this.#queue.at(-1);
    const again = event?.kind === "move" && last?.event?.kind === "move" && !last.sent;
    if (again && last.event.step === event.step && last.event.edge === event.edge) {
      last.event = event;
      this.#send();
      return last.done;
    }
    const item = { event, make, sent: false };
    item.done = new Promise((resolve) => (item.resolve = resolve));
    this.#queue.push(item);
    this.#send();
    return item.done;
  }

  async #send() {
    if (this.#busy || this.state === "failed" || this.state === "conflict") {
      this.changed();
      return;
    }
    this.#busy = true;
    while (this.#queue.length && (await this.#first()));
    this.#busy = false;
    this.changed();
  }

  async #first() {
    const item = this.#queue[0];
    item.event ??= item.make(this.saved);
    if (item.event === null) return this.#done(item, false);
    item.sent = true;
    this.state = "saving";
    this.changed();
    try {
      const { episode, revision } = this.saved;
      this.#take(await api.change(episode, revision, this.by(), item.event, this.query()));
      return this.#done(item, true);
    } catch (error) {
      if (!(error instanceof api.Refusal)) throw error;
      if (error.status === 422) {
        this.#done(item, false);
        this.refused(error.message);
        return true;
      }
      if (error.status === 409) {
        item.sent = false;
        if (typeof item.make === "function") item.event = null;
      }
      // Without an answer it may have been saved: it is sent again as it was, and then made once.
      this.state = error.status === 409 ? "conflict" : "failed";
      this.detail = error.message;
      this.first = error.body?.by ?? null;
      this.theirs = error.body?.state ?? null;
      return false;
    }
  }

  #done(item, saved) {
    this.#queue.shift();
    this.state = this.#queue.length ? "saving" : "saved";
    this.changed();
    item.resolve(saved);
    return true;
  }

  // Sends again what was not saved, on top of what others have saved meanwhile.
  again() {
    if (this.state === "conflict" && this.theirs) {
      this.saved = this.theirs;
      // It was to take back a change of one's own; the last one is now theirs.
      while (["undo", "redo"].includes(this.#queue[0]?.event?.kind)) this.#queue.shift().resolve(false);
    }
    this.#recover();
  }

  discard() {
    if (this.state === "conflict" && this.theirs) this.saved = this.theirs;
    for (const item of this.#queue) item.resolve(false);
    this.#queue = [];
    this.#recover();
  }

  #recover() {
    this.theirs = null;
    this.detail = "";
    this.state = this.#queue.length ? "saving" : "saved";
    this.#send();
  }

  // What somebody else saved meanwhile; kept out while a change of ours waits.
  async refresh() {
    if (this.#queue.length) return;
    const now = await api.episode(this.saved.episode, this.query());
    if (this.#queue.length || now.revision === this.saved.revision) return;
    this.#take(now);
    this.changed();
  }

  // A picture takes long: it is no part of the queue, and changes go on meanwhile.
  async render(step, prompt) {
    const { episode, revision } = this.saved;
    try {
      this.#take(await api.render(episode, revision, this.by(), step, prompt, this.query()));
    } catch (error) {
      if (error instanceof api.Refusal && error.status === 409) this.#take(error.body.state);
      throw error;
    } finally {
      this.changed();
    }
  }

  // Answers may overtake one another.
  #take(episode) {
    if (episode.revision >= this.saved.revision) this.saved = episode;
  }
}
