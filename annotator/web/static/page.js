// What every page does: views by address, keys, clicks, forms, and words that are typed and not saved.

import { fill, find, h, onceAFrame } from "./dom.js";
import { enlargeOnClick, say, turnedBack } from "./parts.js";
import { Changes, attempt } from "./server.js";

const NAME = "goalreel person";
const holder = document.getElementById("page");

// Who looks, as they call themselves; kept in this browser.
export const person = (usual) => localStorage.getItem(NAME) || usual;

export function nameField(usual, props = {}) {
  const input = h("input", { value: person(usual), maxlength: 80, "aria-label": "Your name", size: 12 });
  input.addEventListener("change", () => {
    localStorage.setItem(NAME, input.value.trim());
    input.value = person(usual);
    dispatchEvent(new Event("hashchange")); // what can be undone is another person's now
  });
  return h("label", props, "You are ", input);
}

const problem = (error, ...more) =>
  fill(holder, h("main", {}, h("p", { class: "empty", role: "alert" }, `Not loaded: ${error.message}. `, more)));

// Shows a view of each address. `first()` gets what all views share, `load(address, shared)` what the one needs, and
// `show(found, tools, shared)` makes it: {close(), unsaved}. Returns when the first one is there.
export async function startPage({ first, load, show, home }) {
  let view = null;
  let here = location.hash;
  const shared = await attempt(first, problem);
  if (shared === null) return;
  const tools = {
    go: (address) => (location.hash = address),
    // Another address of what is on show.
    replace(address) {
      here = address;
      history.replaceState(null, "", address);
    },
  };

  async function route() {
    if (view?.unsaved) {
      if (location.hash !== here) {
        history.replaceState(null, "", here);
        say("Something is not saved yet: send it again, or drop it, before you go on.");
      }
      return;
    }
    const wanted = location.hash;
    let failed = null;
    const found = await attempt(() => load(wanted, shared), (error) => (failed = error));
    if (location.hash !== wanted) return;
    here = wanted;
    view?.close();
    view = null;
    window.scrollTo(0, 0);
    if (failed) problem(failed, h("a", { href: "#/" }, home));
    else view = show(holder, found, tools, shared);
  }

  enlargeOnClick();
  window.addEventListener("hashchange", route);
  await route();
}

const WRITES = "form input, input:not([type=checkbox]), textarea, select, [contenteditable]";

export const pressed = (target) => target.closest("button, a, summary, [type=checkbox]");

// The command that a key press stands for, as {act, ...}; null where the press is for a form, a dialog or the browser,
// or stands for nothing. `sheet` has groups of lines of keys, words, and {key: act}. `special` is asked first, and answers
// undefined for what it leaves to the lines.
export function commandOf(event, sheet, special) {
  const { key, shiftKey, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || find("dialog[open]")) return null;
  if (key === "Escape") return { act: "cancel" };
  if (target.closest(WRITES)) return null;
  const command = special(event);
  if (command !== undefined) return command;
  if (key.toLowerCase() === "z") return { act: shiftKey ? "redo" : "undo" };
  if (/^[1-9]$/.test(key)) return { act: "choose", attempt: Number(key) - 1 };
  const acts = Object.assign({}, ...sheet.flatMap(([, lines]) => lines.map(([, , given]) => given)));
  const act = acts[key] ?? acts[key.toLowerCase()];
  return act ? { act } : null;
}

// A form that searches with each letter, and that a key brings in hand, until `signal` aborts.
export function searches(form, signal, changed) {
  const field = form.elements.q;
  field.addEventListener("input", () => changed(), { signal });
  form.addEventListener("submit", (event) => event.preventDefault(), { signal });
  const slash = (event) => {
    if (event.key !== "/" || event.target.closest(WRITES)) return;
    event.preventDefault();
    field.focus();
  };
  document.addEventListener("keydown", slash, { signal });
}

// Words that are typed and not saved, kept in this tab: a reload, Back, or another step does not lose them.
class Drafts {
  constructor(owner) {
    this.name = `goalreel words ${owner}`;
    this.kept = JSON.parse(sessionStorage.getItem(this.name)) ?? {};
  }

  #change(kept) {
    this.kept = kept;
    sessionStorage.setItem(this.name, JSON.stringify(kept));
  }

  // `opened` is what was there when the form was opened.
  keep(place, opened) {
    const { form, step } = place.dataset;
    this.#change({ ...this.kept, [`${form} ${step}`]: { form, step, fields: Object.fromEntries(new FormData(place)), opened } });
  }

  // Returns what was there when the words were typed; undefined where none were.
  fill(place) {
    const draft = place && this.kept[`${place.dataset.form} ${place.dataset.step}`];
    // A field may be gone since: a step that is done has no failure.
    for (const [name, text] of Object.entries(draft?.fields ?? {})) if (place.elements[name]) place.elements[name].value = text;
    return draft?.opened;
  }

  drop({ form, step }) {
    this.#change({ ...this.kept, [`${form} ${step}`]: undefined });
  }

  clear() {
    this.#change({});
  }

  // The form and the step of a draft whose step is still there.
  first(steps) {
    return Object.values(this.kept).find((draft) => steps.some(({ id }) => id === draft?.step)) ?? null;
  }
}

// A storyboard on show that a person edits. What a page adds: `steps`, `redraw()`, `select(id)`, `submitted(form,
// given, pressed)`, `command(event)` for keys, and `commands`, which do the work: {act: (view, {step, ...}) => ...}.
export class EditedPage {
  leaving = new AbortController();
  draw = onceAFrame(() => this.redraw(), this.leaving.signal);
  selected = null;
  form = null;
  // What the open form rests on: the last line of the log, and the words of the step.
  opened = null;

  constructor(holder, owner, { commands, command, changes }) {
    Object.assign(this, { holder, commands, command });
    this.drafts = new Drafts(owner);
    this.changes = new Changes({ ...changes, begins: () => say(""), changed: () => this.draw(), refused: (why) => say(`Not done: ${why}.`) });
    this.on(document, "keydown", (event) => this.#key(event));
    this.on(holder, "click", (event) => this.clicked(event, event.target.closest("[data-act]")));
    this.on(holder, "submit", (event) => this.#submit(event));
    this.on(document.getElementById("said"), "click", ({ target }) => target.closest("[data-act]") && this.turn("undo"));
    this.on(holder, "input", (event) => event.target.form?.dataset.form && this.drafts.keep(event.target.form, this.opened));
    this.on(window, "beforeunload", (event) => this.unsaved && event.preventDefault());
  }

  on(target, name, work, options = {}) {
    target.addEventListener(name, work, { signal: this.leaving.signal, ...options });
  }

  close() {
    this.leaving.abort();
  }

  get unsaved() {
    return this.changes.state !== "saved";
  }

  get step() {
    return this.steps.find(({ id }) => id === this.selected) ?? null;
  }

  // Whether there is such a command.
  run({ act, ...given }) {
    const work = COMMON[act] ?? this.commands[act];
    if (!work) return false;
    work(this, { ...given, step: this.steps.find(({ id }) => id === (given.step ?? this.selected)) ?? null });
    return true;
  }

  #key(event) {
    const found = this.command(event);
    if (found && this.run(found)) event.preventDefault();
  }

  clicked(event, pressed) {
    if (!pressed || pressed.disabled) return;
    const { act, ...given } = pressed.dataset;
    this.run({ act, ...given });
  }

  async #submit(event) {
    event.preventDefault();
    const { form, step } = event.target.dataset;
    const saved = await this.submitted(form, Object.fromEntries(new FormData(event.target)), event.submitter?.value ?? "");
    if (saved) this.drafts.drop({ form, step });
  }

  // Words that were typed here before, and neither saved nor dropped.
  resume() {
    const found = this.drafts.first(this.steps);
    if (!found) return;
    this.select(found.step);
    this.open(found.form);
    say("The words that you had typed are here again, and not saved yet.");
  }

  // A form of the selected step, with what was typed there before.
  open(form) {
    this.form = form;
    this.redraw();
    const place = find(`form[data-form="${form}"]`, this.holder);
    this.opened = this.drafts.fill(place) ?? { number: this.changes.seen(), words: this.words };
    return place;
  }

  // The words that the open form changes.
  get words() {
    const { step } = this;
    return step && JSON.stringify([step.name, step.instruction, step.prompt]);
  }

  // What a change of these words rests on, where somebody else has changed them since the form was opened: the server
  // asks what is to be done.
  get overtaken() {
    return this.opened && this.words !== this.opened.words ? this.opened.number : null;
  }

  // Takes back this person's own last change, wherever it was, or makes it again.
  async turn(kind) {
    let what = null;
    const saved = await this.changes.make((now) => (what = now[kind]) && { kind, of: what.number, ...("episode" in what && { at: what.episode }) });
    if (saved) this.turned(what, turnedBack(kind, what));
    else if (!what) say(`There is nothing of yours to ${kind}.`);
  }

  turned(what, words) {
    say(words);
  }

  shut() {
    this.form = null;
    this.redraw();
  }

  cancel() {
    if (!this.form) return;
    this.drafts.drop({ form: this.form, step: this.selected });
    this.shut();
  }

  selectBy(way, ids = this.steps.map(({ id }) => id)) {
    const at = Math.max(0, Math.min(ids.indexOf(this.selected) + way, ids.length - 1));
    if (ids[at] !== undefined) this.select(ids[at]);
  }
}

const COMMON = {
  previous: (view) => view.selectBy(-1),
  next: (view) => view.selectBy(1),
  cancel: (view) => view.cancel(),
  undo: (view) => view.turn("undo"),
  redo: (view) => view.turn("redo"),
  again: (view) => view.changes.again(),
  discard(view) {
    view.drafts.clear();
    view.changes.discard();
  },
};
