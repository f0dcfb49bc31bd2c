// What a server is asked, and the changes of this browser's person on their way to it.

// Every answer that is no success becomes a Refusal with its status and one line.
export class Refusal extends Error {
  constructor(status, detail, body) {
    super(detail);
    this.status = status;
    this.body = body;
  }
}

export async function ask(path, options = {}) {
  const gone = (error) => {
    throw error.name === "AbortError" ? error : new Refusal(0, "the server does not answer", null);
  };
  const answer = await fetch(path, { credentials: "same-origin", ...options }).catch(gone);
  const body = await answer.json().catch((error) => (error.name === "AbortError" ? gone(error) : null));
  if (answer.ok && (body !== null || answer.status === 204)) return body;
  const detail = body?.error?.message ?? body?.detail;
  throw new Refusal(answer.status, typeof detail === "string" ? detail : `the server answered ${answer.status}`, body);
}

export const post = (path, body) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

// Does some work whose refusal `refused` gets; null then, and where it was called off.
export async function attempt(work, refused) {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Refusal) refused(error);
    else if (error.name !== "AbortError") throw error;
    return null;
  }
}

// Changes are sent one after the other. One that fails is kept, and everything behind it waits until the person
// decides.
export class Changes {
  #queue = [];
  #busy = false;
  #theirs = null;

  problem = null;

  // `send(change, seen)` asks the server; `seen()` is the last line of the log that the person has seen. `take(state)`
  // gets each answer, `refused(why)` the reason why a change does not fit, and `changed()` is called when something moved.
  constructor({ send, seen, take, begins, changed, refused, now = () => null }) {
    Object.assign(this, { send, seen, take, begins, changed, refused, now });
  }

  // saved, saving, failed or conflict.
  get state() {
    return this.problem?.kind ?? (this.#queue.length ? "saving" : "saved");
  }

  // The changes that are not saved yet, those left out that are not made yet.
  get made() {
    return this.#queue.map(({ change }) => change).filter(Boolean);
  }

  get waiting() {
    return this.#queue.map(({ change, make }) => change ?? make(this.now())).filter(Boolean);
  }

  // A change, or a function that makes one of what is saved when its turn comes (null: nothing to do any more). It
  // takes the place of the last one if that is not sent yet, and `replaces` says so. `seen`: what it rests on, where
  // that is older than what is on show. The promise tells whether it was saved.
  make(change, { replaces = () => false, seen = null } = {}) {
    this.begins();
    const last = this.#queue.at(-1);
    if (last?.change && !last.sent && replaces(last.change)) {
      last.change = change;
      this.#send();
      return last.done;
    }
    const item = typeof change === "function" ? { change: null, make: change } : { change, make: null };
    Object.assign(item, { seen, sent: false, done: new Promise((resolve) => (item.resolve = resolve)) });
    this.#queue.push(item);
    this.#send();
    return item.done;
  }

  async #send() {
    if (this.#busy || this.problem) return this.changed();
    this.#busy = true;
    while (this.#queue.length && !this.problem) await this.#first(this.#queue[0]);
    this.#busy = false;
    this.changed();
  }

  async #first(item) {
    item.change ??= item.make(this.now());
    if (item.change === null) return this.#drop(item, false);
    // Without an answer it may have been saved: it is sent again as it was, and then made once.
    item.seen ??= this.seen();
    item.sent = true;
    this.changed();
    try {
      this.take(await this.send(item.change, item.seen));
      this.#drop(item, true);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { status, message, body } = error;
      if (status === 409) {
        Object.assign(item, { seen: null, sent: false }, item.make && { change: null });
        this.problem = { kind: "conflict", detail: message, by: body?.by };
        this.#theirs = body?.state ?? null;
      } else if (status >= 400 && status < 500 && status !== 401 && status !== 429) {
        this.#drop(item, false);
        this.refused(message);
      } else this.problem = { kind: "failed", detail: message };
    }
  }

  #drop(item, saved) {
    this.#queue.shift();
    this.changed();
    item.resolve(saved);
  }

  // Sends again what was not saved, on top of what others have saved meanwhile.
  again() {
    if (this.problem?.kind === "conflict") this.#seeTheirs();
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
    if (this.#theirs) this.take(this.#theirs);
    this.#theirs = null;
  }
}
