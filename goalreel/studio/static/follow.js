// The events of one storyboard, for as long as somebody looks at it. The browser connects again by itself, with
// Last-Event-ID; where the server refuses, or is gone, this asks again until it answers.

const NAMES = [
  "submitted", "begun", "text", "planned", "waiting", "drawing", "edited", "judging", "judged", "failure", "step", "changed",
  "finished", "forgotten",
];
const AGAIN_MS = 1000;

export class Follower {
  #source = null;
  #timer = null;
  #last = 0;
  #closed = false;

  // `heard(name, data)` gets each event, `live(true or false)` whether the server is there.
  constructor(address, { heard, live }) {
    Object.assign(this, { address, heard, live });
    this.#open();
  }

  #open() {
    const source = new EventSource(this.address(this.#last));
    this.#source = source;
    source.onopen = () => this.live(true);
    source.onerror = () => {
      if (this.#closed) return;
      this.live(false);
      if (source.readyState !== EventSource.CLOSED) return;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#open(), AGAIN_MS);
    };
    for (const name of NAMES) {
      source.addEventListener(name, (event) => {
        if (event.lastEventId) this.#last = Number(event.lastEventId);
        this.heard(name, JSON.parse(event.data));
      });
    }
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#source.close();
  }

  // After `close`, goes on where it was.
  reopen() {
    if (!this.#closed) return;
    this.#closed = false;
    this.#open();
  }
}
