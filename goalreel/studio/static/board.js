// One storyboard: what the server has, what is selected and looked at, and who is told of what.

import * as api from "./api.js";
import { COMMANDS, command } from "./commands.js";
import { changesOf } from "./forms.js";
import { Picker } from "./picker.js";
import { draw, page } from "./view.js";
import { START, announced } from "./words.js";
import { fill, find } from "/common/dom.js";
import { EditedPage } from "/common/page.js";
import { say } from "/common/parts.js";
import { attempt } from "/common/server.js";

const LOOK_MS = 100;

export class BoardView extends EditedPage {
  #asking = false;
  #again = false;
  #picker = null;
  #reached = null;
  // How long each picture was on the screen, in seconds.
  #seconds = new Map();
  attempt = null;
  live = true;
  gone = false;

  constructor(holder, { studio, state, by, go }) {
    super(holder, `studio ${state.id}`, {
      commands: COMMANDS,
      command,
      changes: {
        send: (change, after) => api.edit(state.id, after, by(), change),
        seen: () => this.state.number,
        take: (now) => this.#take(now),
        now: () => this.state,
      },
    });
    Object.assign(this, { studio, state, by, go, id: state.id });
    this.selected = state.steps[0]?.id ?? START;
    this.follows = state.status === "running";
    fill(holder, page());
    this.on(document, "visibilitychange", () => this.#turnedTo());
    this.redraw();
    this.resume();
    this.follower = new api.Follower(this.id, {
      seen: () => this.state.number,
      heard: (name, data) => this.#heard(name, data),
      live: (live) => this.#connected(live),
    });
    this.looking = setInterval(() => this.#looks(), LOOK_MS);
  }

  #looks() {
    const picture = find(".pictures .goal img", this.holder);
    if (document.hidden || !this.shown?.picture || !picture?.complete || !picture.naturalWidth) return;
    const { top, bottom } = picture.getBoundingClientRect();
    const { picture: name } = this.shown;
    if (bottom > 0 && top < window.innerHeight) this.#seconds.set(name, (this.#seconds.get(name) ?? 0) + LOOK_MS / 1000);
  }

  looked({ picture }) {
    return Number((this.#seconds.get(picture) ?? 0).toFixed(2));
  }

  // A browser has few connections to a server: a page that nobody looks at keeps one only while models work.
  #turnedTo() {
    if (!document.hidden) {
      this.follower.open();
      this.refresh();
    } else if (this.state.status !== "running") this.follower.close();
  }

  close() {
    clearInterval(this.looking);
    this.follower.close();
    this.#picker?.close();
    super.close();
  }

  get steps() {
    return this.state.steps;
  }

  get words() {
    return this.form === "task" ? this.state.instruction : super.words;
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

  // Whether the picture on show would be the one that is being drawn.
  get drawing() {
    return this.attempt === null && this.step?.activity === "drawing";
  }

  // What somebody else, or a model, has done meanwhile. One question at a time, and one more if it was asked again.
  async refresh() {
    this.#again = true;
    if (this.#asking) return;
    this.#asking = true;
    const failed = ({ status, message }) => {
      if (status === 404) this.gone = true;
      else if (status) say(`Not loaded: ${message}.`);
    };
    while (this.#again && !this.leaving.signal.aborted) {
      this.#again = false;
      const now = await attempt(() => api.state(this.id, this.by()), failed);
      if (now) this.#take(now);
    }
    this.#asking = false;
    this.draw();
  }

  // Answers may overtake one another. While nobody has selected another step, the one that is worked on is on show.
  #take(state) {
    if (state.number < this.state.number) return;
    this.state = state;
    const { active } = this;
    if (this.follows && active && active !== this.selected && !this.form) {
      this.selected = active;
      this.attempt = null;
    }
    this.draw();
  }

  get active() {
    const { waiting, steps } = this.state;
    return waiting?.step ?? steps.find(({ activity }) => activity)?.id ?? null;
  }

  #heard(name, data) {
    if (name === "forgotten") this.gone = true;
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

  select(id) {
    this.selected = id;
    this.attempt = this.form = null;
    this.follows = id === this.active;
    this.draw();
  }

  selectBy(way) {
    super.selectBy(way, [START, ...this.steps.map(({ id }) => id)]);
  }

  open(form) {
    this.follows = false;
    const place = super.open(form);
    if (form === "continue") this.#picker = new Picker(find("#later", place), { studio: this.studio, changed: (scene) => this.#later(scene) });
    const field = find("textarea, input:not([type=file]):not([hidden]), button", place);
    field?.focus();
    if (field?.select) field.select();
    place?.scrollIntoView({ block: "nearest" });
    return place;
  }

  cancel() {
    const { form } = this;
    super.cancel();
    if (form) find(`[data-act="${form}"]`, this.holder)?.focus();
  }

  shut() {
    this.#picker?.close();
    this.#picker = null;
    super.shut();
  }

  #later(scene) {
    this.later = scene;
    find("[data-form=continue] .primary.go", this.holder).disabled = !scene;
  }

  async submitted(form, given, pressed) {
    const changes = changesOf(form, this, given, pressed);
    if (!changes) return false;
    const before = new Set(this.steps.map(({ id }) => id));
    const kept = this.selected;
    const seen = ["words", "draw", "task"].includes(form) ? this.overtaken : null;
    this.shut();
    const saved = await Promise.all(changes.map((change, at) => this.changes.make(change, { seen: at ? null : seen })));
    if (!saved.every(Boolean)) return false;
    if (form === "add") {
      const added = this.steps.find(({ id }) => !before.has(id));
      if (added && this.selected === kept) this.select(added.id);
    }
    if (form === "continue") this.follows = true;
    return true;
  }

  redraw() {
    if (this.selected !== START && !this.step) {
      this.selected = this.steps[0]?.id ?? START;
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
