// The page of one episode: what is selected and on show, and who is told of what.

import { boundaries, drafted, number, seen, stepAt, timed } from "./boundaries.js";
import { COMMANDS, NEW, command } from "./commands.js";
import { Looked } from "./looked.js";
import { Player } from "./player.js";
import { draggable, setPlayhead, timeline } from "./timeline.js";
import { controls, draw, ends, page } from "./view.js";
import { ONWARDS, UNSEEN, VERDICT, described, onwards } from "./words.js";
import { fill, find } from "/common/dom.js";
import { EditedPage } from "/common/page.js";
import { count, otherWords, say } from "/common/parts.js";
import { ask, attempt, post } from "/common/server.js";

export class EpisodeView extends EditedPage {
  #dragging = null;
  nudged = null;

  constructor(holder, { dataset, episode, query, by, go }) {
    super(holder, `${dataset.name} ${episode.episode}`, {
      commands: COMMANDS,
      command,
      changes: {
        send: ({ at: index = episode.episode, ...event }, revision) => post(`/api/episodes/${index}/events?${this.asked}`, { revision, by: by(), event }),
        seen: () => this.saved.revision,
        take: (now) => this.#take(now),
        now: () => this.saved,
      },
    });
    Object.assign(this, { dataset, query, by, go, saved: episode });
    this.selected = timed(episode)[0]?.id ?? episode.steps[0]?.id ?? null;
    this.camera = episode.cameras[0]?.key ?? null;
    fill(holder, page());
    this.player = new Player(find("#cameras", holder), { episode, moved: (frame) => this.#moved(frame), ended: this.draw });
    this.on(holder, "focusin", ({ target }) => target.dataset.act === "select" && this.select(target.dataset.step));
    this.on(holder, "change", ({ target }) => target.name === "onwards" && localStorage.setItem(ONWARDS, target.checked ? "on" : ""));
    this.on(window, "resize", () => this.draw());
    this.on(document, "visibilitychange", () => document.hidden || attempt(() => this.#refresh(), () => {}));
    draggable(find("#timeline", holder), {
      episode: () => this.episode,
      scrub: (frame) => this.seek(frame),
      drag: (boundary, frame) => this.#drag(boundary, frame),
      drop: (boundary, frame) => this.#drop(boundary, frame),
    }, this.leaving.signal);
    this.redraw();
    this.player.hurry();
    this.player.show(timed(episode)[0]?.start ?? 0);
    this.looked = new Looked(this, this.leaving.signal);
    this.resume();
  }

  close() {
    this.player.pause();
    super.close();
  }

  // With the changes that are not saved yet.
  get episode() {
    const episode = this.changes.made.reduce(drafted, this.saved);
    return this.#dragging ? drafted(episode, this.#dragging) : episode;
  }

  get steps() {
    return this.episode.steps;
  }

  // The list that the episode was chosen from, and whose undo is asked for.
  get asked() {
    return `${this.query}&${new URLSearchParams({ by: this.by() })}`;
  }

  // Answers may overtake one another; one about another episode tells what can be undone now.
  #take(episode) {
    if (episode.episode !== this.saved.episode) Object.assign(this.saved, { undo: episode.undo, redo: episode.redo });
    else if (episode.revision >= this.saved.revision) this.saved = episode;
  }

  turned(what, words) {
    super.turned(what, words);
    if (what.episode !== this.saved.episode) this.go(`#/episode/${what.episode}?${this.query}`);
  }

  // What somebody else saved meanwhile; kept out while a change of ours waits.
  async #refresh() {
    if (this.unsaved) return;
    const now = await ask(`/api/episodes/${this.saved.episode}?${this.asked}`);
    if (this.unsaved) return;
    this.#take(now);
    this.draw();
  }

  redraw() {
    const { episode } = this;
    if (!episode.steps.some((step) => step.id === this.selected)) {
      // Of the first steps that are made here, the first is named first, however soon the answers come.
      const here = this.selected === null ? timed(episode)[0] : stepAt(episode, this.player.frame);
      this.selected = (here ?? episode.steps[0])?.id ?? null;
    }
    draw(this);
    const holder = find("#timeline", this.holder);
    const { selected, camera, player } = this;
    fill(holder, ...timeline({ episode, frame: player.frame, selected, camera, width: holder.clientWidth }));
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
    this.shut();
    const { step } = this;
    if (!stay && step?.start !== null && !this.player.playing) this.seek(step.start);
    this.redraw();
    this.#reveal(id);
  }

  // Scrolls the list of steps, not the page.
  #reveal(id) {
    const list = find(".tell", this.holder);
    const item = find(`.step-item[data-step="${CSS.escape(id)}"]`, list);
    if (item) list.scrollTop += item.getBoundingClientRect().top - list.getBoundingClientRect().top;
  }

  selectBy(way) {
    if (this.player.playing) this.player.pause();
    super.selectBy(way);
  }

  change(event, { seen = null } = {}) {
    const again = (last) => event.kind === "move" && ["kind", "step", "edge"].every((part) => last[part] === event[part]);
    const saved = this.changes.make(event, { replaces: again, seen });
    this.draw();
    return saved;
  }

  async verdict(verdict) {
    const saved = await this.change({ kind: "verdict", verdict, looked: this.looked.told });
    if (!saved || this.leaving.signal.aborted) return;
    const { episode, next, unseen, not_shown: missed, steps } = this.saved;
    const were = missed.length === 1 ? "was" : "were";
    const notes = [
      unseen ? `${VERDICT[verdict]}${UNSEEN}: it was hardly on the screen` : `${VERDICT[verdict]}, ${count(steps.length, "step")}`,
      !unseen && verdict === "accept" && missed.length > 0 && `${missed.length} of them ${were} not on the screen, and ${were} not checked`,
      next === null && "it was the last one that nobody had reviewed",
    ];
    say(`Episode ${episode} ${notes.filter(Boolean).join("; ")}.`, { undo: true });
    if (onwards() && next !== null) this.onwards();
  }

  // The next episode that nobody has reviewed.
  onwards() {
    if (this.saved.next === null) return say("There is no other one that nobody has reviewed.");
    this.go(`/episode/${this.saved.next}?${this.query}`);
  }

  async vouch(step) {
    const saved = await this.change({ kind: "accept", step: step.id, looked: this.looked.told });
    if (saved) say(`Step ${number(this.saved, step)} of episode ${this.saved.episode} accepted.`, { undo: true });
  }

  // It pauses: playing on to the next step would take the form away from under the hands.
  open(form) {
    this.player.pause();
    const field = find("[name=name]", super.open(form));
    field.focus();
    field.select();
  }

  shut() {
    const inside = this.holder.contains(document.activeElement) && document.activeElement.closest("form");
    this.form = null;
    if (inside) document.activeElement.blur();
    this.draw();
  }

  clicked(event, pressed) {
    // A key after a click with the mouse is for the page, not for the button that was clicked.
    if (event.detail && pressed && !pressed.disabled) document.activeElement?.blur();
    super.clicked(event, pressed);
  }

  async submitted(form, given) {
    const { step, overtaken: seen } = this;
    this.shut();
    if (!step || !given.name.trim()) return false;
    const words = otherWords(step, given);
    const rename = { kind: "rename", step: step.id, name: step.name, ...words };
    const changes = [...(Object.keys(words).length ? [rename] : []), ...described(step, given)];
    const making = changes.map((change, at) => this.change(change, { seen: at ? null : seen }));
    const next = timed(this.episode).find((other) => other.name === NEW);
    if (step.name === NEW && next) {
      this.select(next.id);
      this.open("rename");
    }
    const saved = await Promise.all(making);
    return saved.every(Boolean);
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
