// One storyboard: what the server has, what is selected and looked at, and who is told of what.

import * as api from "./api.js";
import { Changes } from "./changes.js";
import { run } from "./commands.js";
import { fill, find, h, onceAFrame } from "/common/dom.js";
import { Drafts } from "/common/drafts.js";
import { say } from "/common/parts.js";
import { Follower } from "./follow.js";
import { command } from "./keys.js";
import { Picker } from "./picker.js";
import { announced } from "./said.js";
import { changesOf } from "./submitted.js";
import { clock, draw, page } from "./view.js";
import { START } from "./words.js";

export class BoardView {
  #asking = false;
  #again = false;
  #picker = null;
  #reached = null;

  leaving = new AbortController();
  draw = onceAFrame(() => this.#draw(), this.leaving.signal);

  constructor(holder, { studio, state, by, go }) {
    Object.assign(this, { holder, studio, state, by, go });
    this.id = state.id;
    this.selected = state.steps[0]?.id ?? START;
    this.attempt = null;
    this.follows = state.status === "running";
    this.form = null;
    this.writing = state.writing ?? "";
    this.live = true;
    this.gone = false;
    this.asOf = performance.now();
    this.drafts = new Drafts(`studio ${this.id}`);
    this.changes = new Changes({
      id: this.id,
      by,
      number: () => this.state.number,
      take: (now) => this.#take(now),
      changed: () => this.draw(),
      refused: (why) => say(`Not done: ${why}.`),
    });
    fill(holder, page());
    this.#listen();
    this.#draw();
    this.#resume();
    this.follower = new Follower((after) => api.events(this.id, Math.max(after, this.state.number)), {
      heard: (name, data) => this.#heard(name, data),
      live: (live) => this.#connected(live),
    });
    this.ticking = setInterval(() => clock(this), 1000);
  }

  #listen() {
    const { signal } = this.leaving;
    const on = (target, name, work) => target.addEventListener(name, work, { signal });
    on(document, "keydown", (event) => this.#key(event));
    on(this.holder, "click", (event) => this.#click(event));
    on(this.holder, "submit", (event) => this.#submit(event));
    on(this.holder, "input", (event) => event.target.form?.dataset.form && this.drafts.keep(event.target.form));
    this.holder.addEventListener("load", (event) => this.#measure(event.target), { signal, capture: true });
    on(document, "visibilitychange", () => this.#seen());
    on(window, "beforeunload", (event) => this.changes.waiting.length && event.preventDefault());
  }

  // A browser has few connections to a server: a page that nobody looks at keeps one only while models work.
  #seen() {
    if (!document.hidden) {
      this.follower.reopen();
      this.refresh();
    } else if (this.state.status !== "running") this.follower.close();
  }

  close() {
    clearInterval(this.ticking);
    this.follower.close();
    this.#picker?.close();
    this.leaving.abort();
  }

  get unsaved() {
    return this.changes.waiting.length > 0;
  }

  get step() {
    return this.state.steps.find(({ id }) => id === this.selected) ?? null;
  }

  // The attempt on show: the one that the person looks at, else the goal image, else the last one.
  get shown() {
    const { step } = this;
    if (!step) return null;
    const at = (number) => step.attempts.find((attempt) => attempt.number === number);
    const last = step.attempts.at(-1) ?? null;
    if (this.attempt !== null) return at(this.attempt) ?? last;
    return step.activity ? last : (at(step.chosen) ?? last);
  }

  // All pictures of a storyboard have one shape, by which the page lays them out.
  #measure({ naturalWidth: width, naturalHeight: height }) {
    if (width && height) this.holder.style.setProperty("--ratio", (width / height).toFixed(4));
  }

  // Whether the picture on show would be the one that is being drawn.
  get drawing() {
    return this.attempt === null && this.step?.activity === "drawing";
  }

  // The seconds that models have worked on it.
  get seconds() {
    const since = this.state.status === "running" && this.live ? (performance.now() - this.asOf) / 1000 : 0;
    return this.state.seconds + since;
  }

  // What somebody else, or a model, has done meanwhile. One question at a time, and one more if it was asked again.
  async refresh() {
    if (this.#asking) return void (this.#again = true);
    this.#asking = true;
    try {
      do {
        this.#again = false;
        this.#take(await api.state(this.id));
      } while (this.#again && !this.leaving.signal.aborted);
    } catch (error) {
      if (!(error instanceof api.Refusal)) throw error;
      if (error.status === 404) this.gone = true;
      else if (error.status) say(`Not loaded: ${error.message}.`);
    } finally {
      this.#asking = false;
    }
    this.draw();
  }

  // Answers may overtake one another.
  #take(state) {
    if (state.number < this.state.number) return;
    this.state = state;
    this.asOf = performance.now();
    if (state.steps.length || state.failure) this.writing = "";
    else this.writing = longer(this.writing, state.writing ?? "");
    if (this.follows) this.#follow();
    this.draw();
  }

  // While nobody has selected another step, the one that is worked on is on show.
  #follow() {
    const active = this.active;
    if (active && active !== this.selected && !this.form) {
      this.selected = active;
      this.attempt = null;
    }
  }

  get active() {
    const { waiting, steps } = this.state;
    return waiting?.step ?? steps.find(({ activity }) => activity)?.id ?? null;
  }

  #heard(name, data) {
    if (name === "forgotten") this.gone = true;
    if (name === "text") {
      this.writing = data.first ? data.piece : this.writing + data.piece;
      return this.draw();
    }
    if (name === "begun" && !this.state.steps.length) this.follows = true;
    if (name === "finished" && data.message) say(`${data.message}.`);
    announced(name, data, this);
    this.refresh();
  }

  #connected(live) {
    if (this.live === live) return;
    this.live = live;
    if (live) this.refresh();
    this.draw();
  }

  // Words that were typed here before, and neither saved nor dropped.
  #resume() {
    const found = this.drafts.first(this.state.steps);
    if (!found) return;
    this.select(found.step);
    this.open(found.form);
    say("The words that you had typed are here again, and not saved yet.");
  }

  select(id, { attempt = null } = {}) {
    this.selected = id;
    this.attempt = attempt;
    this.form = null;
    this.follows = id === this.active;
    this.draw();
  }

  selectBy(way) {
    const ids = [START, ...this.state.steps.map(({ id }) => id)];
    const at = ids.indexOf(this.selected) + way;
    this.select(ids[Math.max(0, Math.min(at, ids.length - 1))]);
  }

  look(attempt) {
    this.attempt = attempt;
    this.draw();
  }

  open(form) {
    this.form = form;
    this.follows = false;
    this.#draw();
    const place = find(`[data-form="${form}"]`, this.holder);
    this.drafts.fill(place);
    if (form === "continue") this.#picker = new Picker(find("#later", place), { studio: this.studio, changed: (scene) => this.#later(scene) });
    const field = find("textarea, input:not([type=file]):not([hidden]), button", place);
    field?.focus();
    if (field?.select) field.select();
    place?.scrollIntoView({ block: "nearest" });
  }

  cancel() {
    if (!this.form) return;
    const { form } = this;
    this.drafts.drop({ form, step: this.selected });
    this.#shut();
    find(`[data-act="${form}"]`, this.holder)?.focus();
  }

  #shut() {
    this.#picker?.close();
    this.#picker = null;
    this.form = null;
    this.#draw();
  }

  #later(scene) {
    this.later = scene;
    find("[data-form=continue] .primary.go", this.holder).disabled = !scene;
  }

  #key(event) {
    const found = command(event);
    if (!found) return;
    if (run(this, found)) event.preventDefault();
  }

  #click(event) {
    const menu = find("details.menu[open]", this.holder);
    const pressed = event.target.closest("[data-act]");
    if (menu && (pressed || !menu.contains(event.target))) menu.open = false;
    if (!pressed || pressed.disabled) return;
    const { act, ...more } = pressed.dataset;
    run(this, { act, ...more });
  }

  async #submit(event) {
    event.preventDefault();
    const { form, step } = event.target.dataset;
    const given = Object.fromEntries(new FormData(event.target));
    const pressed = event.submitter?.value ?? "";
    const changes = changesOf(form, this, given, pressed);
    if (!changes) return;
    const before = new Set(this.state.steps.map(({ id }) => id));
    const kept = this.selected;
    this.#shut();
    const saved = await Promise.all(changes.map((change) => this.changes.make(change)));
    if (!saved.every(Boolean)) return;
    this.drafts.drop({ form, step });
    if (form === "add") {
      const added = this.state.steps.find(({ id }) => !before.has(id));
      if (added && this.selected === kept) this.select(added.id);
    }
    if (form === "continue") this.follows = true;
  }

  #draw() {
    const { steps } = this.state;
    if (this.selected !== START && !this.step) {
      this.selected = steps[0]?.id ?? START;
      this.attempt = this.form = null;
    }
    draw(this);
    if (this.#reached !== this.selected) this.#reveal();
  }

  // Scrolls the row of steps, and nothing else, to the selected one.
  #reveal() {
    this.#reached = this.selected;
    const row = find(".reel ol", this.holder);
    const { offsetLeft, offsetWidth } = find("[aria-current]", row);
    const middle = offsetLeft - row.offsetLeft - (row.clientWidth - offsetWidth) / 2;
    row.scrollTo({ left: middle });
  }
}

const longer = (one, other) => (other.length > one.length ? other : one);
