// All episodes, those first that are most in doubt; a page of them at a time, as the server gives it.

import * as api from "./api.js";
import { fill, find, h } from "/common/dom.js";
import { slashSearches } from "/common/page.js";
import { badge, count, showRows } from "/common/parts.js";
import { VERDICT, doubt } from "./words.js";

const PAGE = 24;
const ORDERS = { doubt: "most in doubt first", index: "by number" };
const STATUSES = {
  all: "all", unreviewed: "not reviewed", accept: "accepted", reject: "rejected", unsure: "unsure",
};

// The state of the list in the address, so that Back returns to it and an episode knows its queue.
export function queue(parameters) {
  const kept = new URLSearchParams();
  for (const [name, usual] of [["order", "doubt"], ["status", "all"], ["q", ""], ["offset", "0"]]) {
    const value = parameters.get(name);
    if (value && value !== usual) kept.set(name, value);
  }
  return kept;
}

export class ListView {
  #asked = new AbortController();

  constructor(holder, { dataset, query, keep }) {
    Object.assign(this, { holder, dataset, keep, query });
    this.leaving = new AbortController();
    fill(holder, page(dataset, query));
    this.form = find("form", holder);
    const { signal } = this.leaving;
    const { q } = this.form.elements;
    q.addEventListener("input", () => this.#restart(), { signal });
    this.form.addEventListener("change", (event) => event.target === q || this.#restart(), { signal });
    this.form.addEventListener("submit", (event) => event.preventDefault(), { signal });
    holder.addEventListener("click", (event) => this.#turn(event), { signal });
    slashSearches(q, signal);
    this.open();
  }

  close() {
    this.#asked.abort();
    this.leaving.abort();
  }

  async open() {
    this.#asked.abort();
    this.#asked = new AbortController();
    const asked = new URLSearchParams(this.query);
    asked.set("limit", PAGE);
    await showRows(find("#items", this.holder), () => api.episodes(asked, this.#asked.signal), (found) => this.#show(found));
  }

  #restart() {
    this.query = queue(new URLSearchParams(new FormData(this.form)));
    this.keep(this.query);
    this.open();
  }

  #turn(event) {
    const by = event.target.closest("[data-turn]")?.dataset.turn;
    if (!by) return;
    this.query.set("offset", Math.max(0, this.offset + Number(by) * PAGE));
    this.keep(queue(this.query));
    this.open().then(() => window.scrollTo(0, 0));
  }

  get offset() {
    return Number(this.query.get("offset") ?? 0);
  }

  #show({ total, reviewed, an_hour: pace, rows }) {
    if (!rows.length && this.offset > 0) {
      // What was on this page has been reviewed, and is not of this list any more.
      this.query.set("offset", total ? Math.floor((total - 1) / PAGE) * PAGE : 0);
      this.keep(queue(this.query));
      return this.open();
    }
    const { episodes } = this.dataset;
    const speed = pace === null ? "" : `, ${Math.round(pace)} an hour`;
    fill(find("#progress", this.holder), `${reviewed} of ${episodes} reviewed${speed}`);
    find("#done", this.holder).value = reviewed;
    fill(find("#count", this.holder), count(total, "episode"));
    fill(find("#items", this.holder), ...rows.map((row) => line(row, this.dataset, queue(this.query))));
    find("#nothing", this.holder).hidden = rows.length > 0;
    this.#pages(total);
  }

  #pages(total) {
    const pager = find(".pager", this.holder);
    pager.hidden = total <= PAGE;
    fill(find("#where", pager), `Page ${Math.floor(this.offset / PAGE) + 1} of ${Math.max(1, Math.ceil(total / PAGE))}`);
    find("[data-turn='-1']", pager).disabled = this.offset === 0;
    find("[data-turn='1']", pager).disabled = this.offset + PAGE >= total;
  }
}

const options = (names, chosen) =>
  Object.entries(names).map(([value, words]) => h("option", { value, selected: value === chosen }, words));

function page(dataset, query) {
  return h("div", { class: "list-page", "data-key": "list-page" },
    h("header", { class: "top" },
      h("h1", {}, `Review of ${dataset.name}`),
      h("p", { class: "progress-line" }, h("span", { id: "progress" }), h("progress", { id: "done", max: dataset.episodes, value: 0, "aria-label": "Reviewed" })),
    ),
    h("main", {},
      h("form", { class: "toolbar", role: "search" },
        h("label", { class: "grow" }, "Search", h("input", { name: "q", type: "search", value: query.get("q") ?? "", placeholder: "words, a number, a reason, a name", autocomplete: "off" })),
        h("label", {}, "Show", h("select", { name: "status" }, options(STATUSES, query.get("status") ?? "all"))),
        h("label", {}, "Order", h("select", { name: "order" }, options(ORDERS, query.get("order") ?? "doubt"))),
        h("output", { id: "count" }),
      ),
      h("ul", { id: "items", class: "list", "aria-label": "Episodes" }),
      h("p", { id: "nothing", class: "empty", hidden: true }, "No episode matches."),
      h("nav", { class: "pager", "aria-label": "Pages", hidden: true },
        h("button", { type: "button", "data-turn": "-1" }, "← Previous"),
        h("span", { id: "where" }),
        h("button", { type: "button", "data-turn": "1" }, "Next →"),
      ),
    ),
  );
}

function line(row, dataset, query) {
  const thumb = dataset.cameras[0] && api.frame(row.episode, dataset.cameras[0], 0, 160);
  return h("li", { class: "row", "data-key": row.episode },
    h("a", { href: `#/episode/${row.episode}?${query}` },
      h("span", { class: "thumb" }, thumb && h("img", { src: thumb, alt: "", loading: "lazy", decoding: "async" })),
      h("span", { class: "about" },
        h("span", { class: "muted" }, `Episode ${row.episode} · ${count(row.steps, "step")} · ${row.seconds.toFixed(1)} s`),
        h("span", { class: "said", dir: "auto" }, row.instruction),
        row.words && h("span", { class: "muted words-by" }, row.words),
        row.reasons.length > 0 && h("span", { class: "muted why" }, row.reasons.join(", ")),
        h("span", { class: "facts" },
          row.verdict ? badge(row.verdict, VERDICT[row.verdict]) : badge("skipped", "not reviewed"),
          row.verdict && h("span", { class: "muted" }, `by ${row.by}`),
          h("meter", { min: 0, max: 1, low: 0.33, high: 0.66, optimum: 0, value: row.doubt, "aria-hidden": "true" }),
          h("span", { class: "muted" }, doubt(row.doubt)),
        ),
      ),
    ),
  );
}
