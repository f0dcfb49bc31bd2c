// Small parts of a page, the same for eyes and for screen readers.

import { fill, find, h } from "./dom.js";
import { Refusal } from "./server.js";

const MARK = {
  accept: "✓", accepted: "✓", observed: "◉", verified: "✓", person: "✓", unsure: "?", unverified: "!", reject: "✕",
  rejected: "✕", failed: "✕", skipped: "–", text: "≡", edited: "✎", stale: "↻", drawn: "…", person_accepted: "✓", person_refused: "✕",
};

export const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

export const badge = (status, words = status) =>
  h("span", { class: `badge ${status}` }, h("span", { "aria-hidden": "true" }, MARK[status] ?? "·"), ` ${words}`);

export const button = (act, words, key, more = {}) =>
  h("button", { type: "button", "data-act": act, "aria-keyshortcuts": key, ...more }, words, key && h("kbd", {}, key));

export function zoom(src, alt, caption) {
  const image = h("img", { src, alt, loading: "lazy", decoding: "async" });
  return h("button", { type: "button", class: "zoom", "data-caption": caption, "aria-label": `Enlarge: ${alt}` },
    image,
  );
}

let waiting;
export function say(text) {
  const line = document.getElementById("said");
  line.textContent = text;
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
    h("div", { class: "sheet" },
      groups.map(([title, lines]) => h("section", {}, h("h3", {}, title), h("dl", {}, lines.map(line)))),
    ),
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
export const cancelButton = () => h("button", { type: "button", "data-act": "cancel" }, "Cancel", h("kbd", {}, "Esc"));

// A text that is folded where it is long, so that the buttons stay where they are; `line(text)` draws it.
export function folded(text, line) {
  const said = h("span", { dir: "auto" }, text);
  if (text.length <= 160) return line(said);
  return h("details", { class: "fold", "data-keep": "open", "data-key": "said" }, h("summary", {}, line(said)));
}

export const undoButtons = ({ can_undo, can_redo }) => [
  button("undo", "Undo", "Z", { disabled: !can_undo, "data-key": "undo" }),
  button("redo", "Redo", "⇧Z", { disabled: !can_redo, "aria-keyshortcuts": "Shift+Z", "data-key": "redo" }),
];

export const alert = (name, ...lines) => h("div", { class: "note banner", role: "alert", "data-key": name }, lines);

// What is not saved, and the choice that there is; null where all is. `told` says what a change would do.
export function unsaved(changes, me, told) {
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

// The changes of people, the newest first; `more` stands above them.
export const history = (changes, lines, more) => [
  h("summary", { "data-key": "title" }, `History: ${count(changes, "change")}`),
  more,
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

// Shows the rows that a server answers with, or why there are none; nothing where another question came meanwhile.
export async function showRows(list, asked, show) {
  try {
    await show(await asked());
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Refusal)) throw error;
    fill(list, h("li", { class: "note", role: "alert" }, `Not loaded: ${error.message}.`));
  }
}
