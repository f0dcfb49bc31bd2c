// The changes of this browser's person, sent one after the other. One that fails is kept, and everything behind it
// waits until the person decides.

import * as api from "./api.js";

export class Changes {
  #queue = [];
  #busy = false;

  // `number()` is the last event that was seen; `take(state)` gets the server's answer.
  constructor({ id, by, number, take, changed, refused }) {
    Object.assign(this, { id, by, number, take, changed, refused });
    this.problem = null;
  }

  get waiting() {
    return this.#queue.map(({ change }) => change);
  }

  // The promise tells whether it was saved.
  make(change) {
    const item = { change, after: null };
    item.done = new Promise((resolve) => (item.resolve = resolve));
    this.#queue.push(item);
    this.#send();
    return item.done;
  }

  async #send() {
    if (this.#busy || this.problem) return this.changed();
    this.#busy = true;
    this.changed();
    while (this.#queue.length && !this.problem) await this.#first(this.#queue[0]);
    this.#busy = false;
    this.changed();
  }

  async #first(item) {
    // Without an answer it may have been saved: it is sent again as it was, and then made once.
    item.after ??= this.number();
    try {
      this.take(await api.edit(this.id, item.after, this.by(), item.change));
      this.#drop(item, true);
    } catch (error) {
      if (!(error instanceof api.Refusal)) throw error;
      const { status, message, body } = error;
      if (status === 409) {
        item.after = null;
        this.problem = { kind: "conflict", detail: message };
        this.theirs = body?.state ?? null;
      } else if (status >= 400 && status < 500 && status !== 401 && status !== 429) {
        this.#drop(item, false);
        this.refused(message);
      } else this.problem = { kind: "failed", detail: message };
    }
  }

  #drop(item, saved) {
    this.#queue.shift();
    item.resolve(saved);
  }

  // Sends again what was not saved, on top of what others have saved meanwhile.
  again() {
    if (this.problem?.kind === "conflict") {
      this.#seeTheirs();
      // It was to take back a change of one's own; the last one is theirs now.
      while (["undo", "redo"].includes(this.#queue[0]?.change.kind)) this.#drop(this.#queue[0], false);
    }
    this.problem = null;
    this.#send();
  }

  discard() {
    this.#seeTheirs();
    for (const { resolve } of this.#queue) resolve(false);
    this.#queue = [];
    this.problem = null;
    this.changed();
  }

  #seeTheirs() {
    if (this.theirs) this.take(this.theirs);
    this.theirs = null;
  }
}
