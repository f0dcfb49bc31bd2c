// The storyboards of the folder, the newest first: a page of them at a time, and a search over all.

import * as api from "./api.js";
import { fill, find, h } from "/common/dom.js";
import { badge, count, showRows } from "/common/parts.js";
import { BOARD } from "./words.js";

const PAGE = 24;

export class HistoryList {
  #asked = new AbortController();
  #leaving = new AbortController();
  #rows = [];

  constructor(holder) {
    this.holder = holder;
    fill(holder, frame());
    const { signal } = this.#leaving;
    this.search = find("[name=q]", holder);
    this.search.addEventListener("input", () => this.#load(), { signal });
    find("form", holder).addEventListener("submit", (event) => event.preventDefault(), { signal });
    find("#more", holder).addEventListener("click", () => this.#load(this.#rows.at(-1).id), { signal });
    document.addEventListener("visibilitychange", () => document.hidden || this.#load(), { signal });
    this.#load();
  }

  close() {
    this.#asked.abort();
    this.#leaving.abort();
  }

  async #load(before = null) {
    this.#asked.abort();
    this.#asked = new AbortController();
    const query = new URLSearchParams({ q: this.search.value.trim(), limit: PAGE, ...(before && { before }) });
    await showRows(find("#items", this.holder), () => api.storyboards(query, this.#asked.signal), ({ storyboards, total, damaged }) => {
      this.#rows = before ? [...this.#rows, ...storyboards] : storyboards;
      this.#show(total > this.#rows.length, query.get("q") !== "", damaged);
    });
  }

  // `searched`: whether the rows answer a search; the field may hold other words by now.
  #show(more, searched, damaged) {
    this.holder.hidden = !this.#rows.length && !searched && !damaged.length;
    fill(find("#items", this.holder), ...this.#rows.map(row));
    find("#nothing", this.holder).hidden = this.#rows.length > 0 || !searched;
    fill(find("#damaged", this.holder), ...damaged.map((line) => h("li", {}, `Cannot be read: ${line}`)));
    find("#more", this.holder).hidden = !more;
  }
}

const frame = () => [
  h(
    "form",
    { class: "toolbar", role: "search", "data-key": "search" },
    h("h2", {}, "Storyboards"),
    h("label", { class: "grow" }, h("input", { name: "q", type: "search", placeholder: "search the instructions and steps", autocomplete: "off", "aria-label": "Search storyboards" })),
  ),
  h("ul", { id: "items", class: "list", "data-key": "items", "aria-label": "Storyboards" }),
  h("p", { id: "nothing", class: "empty", hidden: true, "data-key": "nothing" }, "No storyboard matches."),
  h("ul", { id: "damaged", class: "note", "data-key": "damaged", "aria-label": "Storyboards that cannot be read" }),
  h("p", { class: "buttons", "data-key": "pages" }, h("button", { type: "button", id: "more", hidden: true }, "Earlier ones")),
];

function row({ id, instruction, created, status, pictures, steps, verified, complete, degraded }) {
  const thumb = pictures.at(-1);
  return h(
    "li",
    { class: "row", "data-key": id },
    h(
      "a",
      { href: `#/storyboard/${id}` },
      h("span", { class: "thumb" }, thumb && h("img", { src: thumb, alt: "", loading: "lazy", decoding: "async" })),
      h(
        "span",
        { class: "about" },
        h("span", { class: "said", dir: "auto" }, instruction),
        h("span", { class: "muted" }, new Date(created).toLocaleString()),
        h("span", { class: "facts" }, standing({ status, complete, degraded, verified }), h("span", { class: "muted" }, steps.length ? `${count(steps.length, "step")}, ${verified} verified` : "no plan")),
      ),
    ),
  );
}

function standing({ status, complete, degraded, verified }) {
  if (status === "failed" || degraded) return badge("failed", degraded ? "degraded" : "failed");
  if (status !== "done") return badge(status === "running" ? "drawn" : "skipped", BOARD[status]);
  if (!complete) return badge("unverified", "not all verified");
  return verified ? badge("verified", "verified") : badge("text", "in words alone");
}
