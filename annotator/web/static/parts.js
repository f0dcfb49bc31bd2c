// Small parts of a page, the same for eyes and for screen readers.

import { fill, find, h } from "./dom.js";
import { attempt } from "./server.js";

const MARK = {
  accept: "✓", accepted: "✓", verified: "✔", "in doubt": "?", observed: "◉", person: "✓", unsure: "?", unjudged: "!", rejected: "✕", reject: "✕",
  failed: "✕", skipped: "–", text: "≡", edited: "✎", stale: "↻", drawn: "…", person_accepted: "✓", person_refused: "✕",
};

export const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

export const badge = (status, words = status) =>
  h("span", { class: `badge ${status.replace(" ", "-")}` }, h("span", { "aria-hidden": "true" }, MARK[status] ?? "·"), ` ${words}`);

export const OUTCOME = {
  accepted: "accepted", unjudged: "picture checks alone", rejected: "rejected", failed: "failed", drawn: "not judged yet",
  observed: "the last frame of the step", person: "chosen by a person", person_accepted: "accepted by a person", person_refused: "refused by a person",
};
const EDITED = { time: "times", words: "words", outcome: "outcome", goal: "goal image", prompt: "prompt" };
// The parts of a step that people have set.
export const editedBadges = ({ edited }) => edited.map((what) => badge("edited", `${EDITED[what]} by hand`));

export const button = (act, words, key, more = {}) =>
  h("button", { type: "button", "data-act": act, "aria-keyshortcuts": key, ...more }, words, key && h("kbd", {}, key));

export const zoom = (src, alt, caption) =>
  h("button", { type: "button", class: "zoom", "data-caption": caption, "aria-label": `Enlarge: ${alt}` },
    h("img", { src, alt, loading: "lazy", decoding: "async" }),
  );

let waiting;
// With `undo` a button beside the words takes back what they tell.
export function say(text, { undo = false } = {}) {
  const line = document.getElementById("said");
  line.replaceChildren(text, ...(undo ? [button("undo", "Undo", "Z")] : []));
  line.hidden = !text;
  clearTimeout(waiting);
  if (text) waiting = setTimeout(() => say(""), 6000);
}

// The sheet that tells which key does what: groups of a title and lines of keys and words.
export function sheet(groups) {
  const dialog = document.getElementById("sheet");
  const line = ([key, words]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, words)];
  fill(
    dialog,
    h("h2", { id: "sheet-title" }, "Keys"),
    h("div", { class: "sheet" }, groups.map(([title, lines]) => h("section", {}, h("h3", {}, title), h("dl", {}, lines.map(line))))),
    h("p", { class: "buttons" }, h("button", { type: "button", "data-close": true }, "Close", h("kbd", {}, "Esc"))),
  );
  dialog.showModal();
}

// Lets a click on a picture enlarge it, and a click beside it or on Close end that.
export function enlargeOnClick() {
  const dialog = document.getElementById("viewer");
  document.addEventListener("click", (event) => {
    const zoomed = event.target.closest("button.zoom");
    if (zoomed) {
      const { src, alt } = find("img", zoomed);
      Object.assign(find("img", dialog), { src: src.replace(/\?width=\d+$/, ""), alt });
      find("p", dialog).textContent = zoomed.dataset.caption;
      dialog.showModal();
    } else if (event.target.closest("[data-close]") || event.target === find(".stage", dialog)) {
      event.target.closest("dialog").close();
    }
  });
}

export const field = (label, control) => h("label", {}, label, control);
export const area = (name, rows, text, more = {}) => h("textarea", { name, rows, maxlength: 2000, dir: "auto", ...more }, text);

// A form of a step, or of the page; `submits` are its buttons.
export const editForm = (name, step, label, submits, ...fields) =>
  h("form", { class: "edit-form", "data-key": `${name} ${step}`, "data-form": name, "data-step": step, "aria-label": label },
    fields,
    submits && h("p", { class: "buttons" }, submits, h("button", { type: "button", "data-act": "cancel" }, "Cancel", h("kbd", {}, "Esc"))),
  );

// The fields of a step's words; `more` are of the field with its name.
export const wordFields = (step, more = {}) => [
  field("Name", h("input", { name: "name", value: step.name, maxlength: 200, required: true, dir: "auto", ...more })),
  field("What is true afterwards", area("instruction", 2, step.instruction)),
  field("Prompt for the image editor", area("prompt", 2, step.prompt ?? "")),
];

// What the words in such fields are besides the step's own; an empty field leaves them.
export function otherWords(step, given) {
  const names = ["name", "instruction", "prompt"].filter((name) => given[name].trim() && given[name].trim() !== step[name]);
  return Object.fromEntries(names.map((name) => [name, given[name].trim()]));
}

// A text that is folded where it is long, so that the buttons stay where they are; `line(text)` draws it.
export function folded(text, line) {
  const said = h("span", { dir: "auto" }, text);
  if (text.length <= 240) return line(said);
  return h("details", { class: "fold", "data-keep": "open", "data-key": "said" }, h("summary", {}, line(said)));
}

// What one's own last change was, in whatever episode: undo and redo touch nobody else's.
export const turned = ({ episode, words }) => (episode === undefined ? words : `episode ${episode}: ${words}`);
export const turnedBack = (kind, what) => `${kind === "undo" ? "Taken back" : "Redone"}, ${turned(what)}.`;
export const undoButtons = ({ undo, redo }) => [
  button("undo", "Undo", "Z", { disabled: !undo, "data-key": "undo", title: undo && turned(undo) }),
  button("redo", "Redo", "⇧Z", { disabled: !redo, "aria-keyshortcuts": "Shift+Z", "data-key": "redo", title: redo && turned(redo) }),
];

export const alert = (name, ...lines) => h("div", { class: "note banner", role: "alert", "data-key": name }, lines);

// What a change that is not saved yet would do; {words} are its fields. A move is of a step, or of its edge.
const TOLD = {
  add: "a new step, “{name}”", blank: "a step without a goal image", change: "other words of a step", choose: "attempt {number} as the goal image",
  copy: "the steps of episode {episode}",
  continue: "the plan from a later picture", delete: "a step taken out", describe: "{detail}: “{text}”", draw: "a step drawn again",
  frame: "frame {frame} as the goal image", instruct: "the task “{instruction}”", insert: "a new step at frame {start}", issue: "what is wrong", judge: "attempt {number} judged",
  accept: "a step accepted", merge: "two steps joined", move: "a step moved", outcome: "the outcome “{outcome}”", place: "a step placed at frame {start}",
  undo: "a change taken back", redo: "a change made again", rename: "the words “{name}”", split: "a split at frame {frame}", verdict: "the verdict “{verdict}”",
};

const told = (change) => {
  const fields = { ...change, number: change.attempt + 1 };
  return (TOLD[change.kind] ?? change.kind).replace(/\{(\w+)\}/g, (_, name) => fields[name]);
};

// What is not saved, and the choice that there is; null where all is.
export function unsaved(changes, me) {
  const { problem, waiting } = changes;
  if (!problem) return null;
  const conflict = problem.kind === "conflict";
  const first = problem.by === me ? "You were first, from another window. " : "Somebody was first. ";
  return alert(
    "problem",
    h("p", {}, h("b", {}, conflict ? first : "Not saved: "), `${problem.detail}.`),
    h("p", {}, `Yours is kept here: ${waiting.map(told).join("; ")}.`),
    h("p", { class: "buttons" },
      button("again", conflict ? "Apply mine on top" : "Send again", null),
      button("discard", conflict ? "See theirs, drop mine" : "Drop it", null),
    ),
  );
}

// The last `lines` of the changes of people, the newest first.
export const history = (changes, lines) => [
  h("summary", { "data-key": "title" }, `History: ${count(changes, "change")}`),
  h("ol", { class: "history", "data-key": "lines" },
    [...lines].reverse().map(({ number, words, by, at, undone }) =>
      h("li", { value: number, "data-key": number, class: undone ? "undone" : null },
        h("span", {}, words), " ",
        h("span", { class: "muted" }, `${undone ? "taken back · " : ""}${by} · ${new Date(at).toLocaleString()}`),
      ),
    ),
  ),
];

// What an attempt's judge scored, each in words.
export function scores({ probability, semantics, quality }) {
  const given = [["semantics", semantics], ["quality", quality]].filter(([, value]) => value !== null);
  return [
    ...(probability === null ? [] : [`probability of success ${probability.toFixed(2)}`]),
    ...given.map(([name, value]) => `${name} ${Number(value.toFixed(1))}/10`),
  ];
}

// The rows that a server answers a search with; of two questions the last one counts.
export class Rows {
  #asked = new AbortController();

  // `ask(signal, ...given)` puts a question, `show(answer)` shows what comes; `signal` ends it all.
  constructor(list, { ask, show, signal }) {
    Object.assign(this, { list, ask, show });
    signal.addEventListener("abort", () => this.#asked.abort());
  }

  async load(...given) {
    this.#asked.abort();
    this.#asked = new AbortController();
    const refused = ({ message }) => fill(this.list, h("li", { class: "note", role: "alert" }, `Not loaded: ${message}.`));
    const answer = await attempt(() => this.ask(this.#asked.signal, ...given), refused);
    if (answer) await this.show(answer);
  }
}
