// Small parts of a page, the same for eyes and for screen readers.

import { fill, find, h } from "./dom.js";

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
  return h(
    "button",
    { type: "button", class: "zoom", "data-caption": caption, "aria-label": `Enlarge: ${alt}` },
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
    h(
      "div",
      { class: "sheet" },
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
