// The page of one episode: what is selected and on show, and who is told of what.

import * as api from "./api.js";
import { boundaries, seen, stepAt, timed } from "./boundaries.js";
import { NEW, run } from "./commands.js";
import { fill, find, h, onceAFrame } from "/common/dom.js";
import { Drafts } from "/common/drafts.js";
import { say } from "/common/parts.js";
import { drafted } from "./draft.js";
import { command } from "./keys.js";
import { Player } from "./player.js";
import { Session } from "./session.js";
import { draggable, setPlayhead, timeline } from "./timeline.js";
import { goalOf } from "./steps.js";
import { controls, draw, ends, page } from "./view.js";
import { described } from "./words.js";

export class EpisodeView {
  #dragging = null;

  leaving = new AbortController();
  draw = onceAFrame(() => this.#draw(), this.leaving.signal);

  constructor(holder, { dataset, episode, query, by, go }) {
    Object.assign(this, { holder, dataset, query, go });
    this.session = new Session(episode, {
      by,
      query: () => String(query()),
      changed: () => this.draw(),
      refused: (why) => say(`Not done: ${why}.`),
    });
    this.selected = timed(episode)[0]?.id ?? episode.steps[0]?.id ?? null;
    this.camera = episode.cameras[0]?.key ?? null;
    this.editing = null;
    this.rendering = null;
    this.nudged = null;
    this.past = null;
    this.drafts = new Drafts(`${dataset.name} ${episode.episode}`);
    fill(holder, page());
    fill(find("#names", holder), ...dataset.names.map((name) => h("option", { value: name })));
    this.player = new Player(find("#cameras", holder), {
      moved: (frame) => this.#moved(frame),
      ended: () => this.draw(),
    });
    this.#listen();
    this.#draw();
    this.player.open(episode);
    this.player.show(this.#start());
    this.#resume();
  }

  // Words that were typed here before, and neither saved nor dropped.
  #resume() {
    const found = this.drafts.first(this.episode.steps);
    if (!found) return;
    this.select(found.step);
    if (found.form === "rename") this.edit();
    else if (this.dataset.can_render) this.rerender(this.episode.steps.find((step) => step.id === found.step));
    say("The words that you had typed are here again, and not saved yet.");
  }

  #listen() {
    const { signal } = this.leaving;
    const on = (target, name, work) => target.addEventListener(name, work, { signal });
    on(document, "keydown", (event) => this.#key(event));
    on(this.holder, "click", (event) => this.#click(event));
    on(this.holder, "submit", (event) => this.#submit(event));
    on(this.holder, "input", (event) => event.target.form?.dataset.form && this.drafts.keep(event.target.form));
    on(this.holder, "focusin", (event) => this.#focused(event.target));
    on(window, "resize", () => this.draw());
    on(document, "visibilitychange", () => document.hidden || this.session.refresh().catch(() => {}));
    on(window, "beforeunload", (event) => this.session.state !== "saved" && event.preventDefault());
    draggable(find("#timeline", this.holder), {
      episode: () => this.episode,
      scrub: (frame) => this.seek(frame),
      drag: (boundary, frame) => this.#drag(boundary, frame),
      drop: (boundary, frame) => this.#drop(boundary, frame),
    }, signal);
  }

  close() {
    this.player.pause();
    this.leaving.abort();
  }

  // With the changes that are not saved yet.
  get episode() {
    const { episode } = this.session;
    return this.#dragging ? drafted(episode, this.#dragging) : episode;
  }

  get busy() {
    return this.rendering?.busy ?? false;
  }

  get labelling() {
    return this.player.playing;
  }

  #start() {
    return timed(this.episode).find((step) => step.id === this.selected)?.start ?? 0;
  }

  #draw() {
    const { episode } = this;
    if (!episode.steps.some((step) => step.id === this.selected)) {
      this.selected = stepAt(episode, this.player.frame)?.id ?? episode.steps[0]?.id ?? null;
    }
    draw(this, this.holder);
    const holder = find("#timeline", this.holder);
    const { selected, camera } = this;
    const { frame } = this.player;
    fill(holder, ...timeline({ episode, frame, selected, camera, width: holder.clientWidth }));
  }

  #moved(frame) {
    setPlayhead(find("#timeline", this.holder), this.episode, frame);
    fill(find("#controls", this.holder), ...controls(this));
    if (!this.player.playing) return;
    const now = stepAt(this.episode, frame);
    if (now && now.id !== this.selected) {
      this.selected = now.id;
      this.draw();
    }
  }

  seek(frame) {
    this.player.pause(frame);
  }

  select(id, { stay = false } = {}) {
    if (id === this.selected) return;
    this.selected = id;
    this.cancel();
    const step = this.episode.steps.find((other) => other.id === id);
    if (!stay && step?.start !== null && !this.player.playing) this.seek(step.start);
    this.#draw();
    this.#reveal(id);
  }

  // Scrolls the list of steps, not the page.
  #reveal(id) {
    const list = find(".tell", this.holder);
    const item = find(`.step-item[data-step="${CSS.escape(id)}"]`, list);
    if (item) list.scrollTop += item.getBoundingClientRect().top - list.getBoundingClientRect().top;
  }

  selectBy(by) {
    const { steps } = this.episode;
    const at = steps.findIndex((step) => step.id === this.selected) + by;
    if (this.player.playing) this.player.pause();
    if (steps[at]) this.select(steps[at].id);
  }

  change(event) {
    const saved = this.session.change(event);
    this.draw();
    return saved;
  }

  async verdict(verdict) {
    const saved = await this.change({ kind: "verdict", verdict });
    const { next } = this.session.saved;
    if (!saved || this.leaving.signal.aborted) return;
    if (next === null) say("That was the last one that nobody had reviewed.");
    else this.go(`/episode/${next}?${this.query()}`);
  }

  // Both pause: playing on to the next step would take the form away from under the hands.
  edit() {
    this.player.pause();
    this.editing = this.selected;
    this.rendering = null;
    this.#draw();
    this.drafts.fill(find("form[data-form=rename]", this.holder));
    find("form[data-form=rename] [name=name]", this.holder)?.select();
  }

  rerender(step) {
    this.player.pause();
    this.editing = null;
    this.rendering = { step: step.id, prompt: goalOf(step)?.prompt ?? step.prompt ?? step.instruction };
    this.#draw();
    this.drafts.fill(find("form[data-form=render]", this.holder));
    const field = find("form[data-form=render] textarea", this.holder);
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }

  cancel() {
    if (this.busy) return;
    const inside = this.holder.contains(document.activeElement) && document.activeElement.closest("form");
    this.editing = null;
    this.rendering = null;
    if (inside) document.activeElement.blur();
    this.draw();
  }

  #key(event) {
    const given = command(event);
    if (!given) return;
    event.preventDefault();
    run(this, given);
  }

  #click(event) {
    const pressed = event.target.closest("[data-act]");
    if (!pressed || pressed.disabled) return;
    const { act, ...given } = pressed.dataset;
    // A key after a click with the mouse is for the page, not for the button that was clicked.
    if (event.detail) document.activeElement?.blur();
    if (act === "camera") {
      this.camera = given.camera;
      this.draw();
    } else run(this, { act, ...given });
  }

  #focused(node) {
    const { act, step } = node.dataset;
    if (act === "select" && step) this.select(step);
  }

  #submit(event) {
    event.preventDefault();
    const { form } = event.target.dataset;
    const given = Object.fromEntries(new FormData(event.target));
    if (form === "rename") this.#reword(given);
    if (form === "render") this.#render(given.prompt.trim());
  }

  async #reword({ name, instruction, prompt, ...details }) {
    const draft = { form: "rename", step: this.editing };
    const step = this.episode.steps.find((other) => other.id === this.editing);
    const other = (text, before) => {
      // What the step was inserted with goes with its name.
      const now = before === NEW && text.trim() === NEW ? name.trim() : text.trim();
      return now && now !== before ? now : null;
    };
    this.cancel();
    if (!step || !name.trim()) return;
    const changed = {
      name: name.trim(), instruction: other(instruction, step.instruction), prompt: other(prompt, step.prompt),
    };
    const same = changed.name === step.name && changed.instruction === null && changed.prompt === null;
    const changes = [...(same ? [] : [{ kind: "rename", step: step.id, ...changed }]), ...described(step, details)];
    const saved = await Promise.all(changes.map((change) => this.change(change)));
    if (saved.every(Boolean)) this.drafts.drop(draft);
  }

  async #render(prompt) {
    const { step } = this.rendering;
    this.rendering = { step, prompt, busy: true };
    this.draw();
    try {
      await this.session.render(step, prompt);
      this.drafts.drop({ form: "render", step });
      this.rendering = null;
      say("A new picture is there: choose it with its number.");
    } catch (error) {
      if (!(error instanceof api.Refusal)) throw error;
      this.rendering = { step, prompt, error: error.message };
    }
    this.draw();
  }

  #drag(boundary, frame) {
    this.#dragging = { kind: "move", step: boundary.step, edge: boundary.edge, frame };
    const now = boundaries(this.episode).find((one) => one.step === boundary.step && one.edge === boundary.edge);
    this.player.pause(seen(now, { id: this.selected }));
    fill(find("#ends", this.holder), ...ends(this));
    this.draw();
  }

  #drop(boundary, frame) {
    this.#dragging = null;
    if (frame === boundary.frame) return this.draw();
    this.change({ kind: "move", step: boundary.step, edge: boundary.edge, frame });
  }
}
