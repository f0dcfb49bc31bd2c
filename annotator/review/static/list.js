// All episodes, those first that are most in doubt; a page of them at a time, as the server gives it.

import { fill, find, h } from "/common/dom.js";
import { commandOf, searches } from "/common/page.js";
import { Rows, badge, count, say, turnedBack } from "/common/parts.js";
import { ask, attempt, post } from "/common/server.js";
import { Tasks } from "./tasks.js";
import { UNSEEN, VERDICT, doubt, frameUrl, minutes } from "./words.js";

const PAGE = 24;
const ORDERS = { doubt: "most in doubt first", index: "by number" };
const STATUSES = { all: "all", unreviewed: "not reviewed", doubt: "in doubt", accept: "accepted", unseen: `judged${UNSEEN}`, reject: "rejected", unsure: "unsure" };

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
  leaving = new AbortController();

  constructor(holder, { dataset, query, keep, by }) {
    Object.assign(this, { holder, dataset, keep, query, by });
    fill(holder, page(dataset, query));
    const { signal } = this.leaving;
    const form = find("form", holder);
    const restart = () => this.open(new URLSearchParams(new FormData(form)));
    searches(form, signal, restart);
    form.addEventListener("change", ({ target }) => target.name === "q" || restart(), { signal });
    holder.addEventListener("click", ({ target }) => this.#turn(target.closest("[data-turn]")), { signal });
    const turn = (event) => this.#turnBack(commandOf(event, [], () => undefined)?.act);
    document.addEventListener("keydown", turn, { signal });
    this.rows = new Rows(find("#items", holder), {
      ask: (aborted) => ask(`/api/episodes?${this.query}`, { signal: aborted }),
      show: (found) => this.#show(found),
      signal,
    });
    this.rows.load();
    this.tasks = new Tasks(find("#tasks", holder), { by, signal, changed: () => this.rows.load() });
  }

  close() {
    this.leaving.abort();
  }

  // Takes back this person's own last change, in whatever episode, or makes it again.
  async #turnBack(kind) {
    if (kind !== "undo" && kind !== "redo") return;
    const by = this.by();
    await attempt(async () => {
      const what = (await ask(`/api/turns?${new URLSearchParams({ by })}`))[kind];
      if (!what) return say(`There is nothing of yours to ${kind}.`);
      await post(`/api/episodes/${what.episode}/events`, { revision: 0, by, event: { kind, of: what.number } });
      say(turnedBack(kind, what));
      this.rows.load();
      this.tasks.load();
    }, ({ message }) => say(`Not done: ${message}.`));
  }

  async open(query) {
    this.query = queue(query);
    await this.rows.load();
    if (!this.leaving.signal.aborted) this.keep(this.query);
  }

  #page(offset) {
    this.query.set("offset", Math.max(0, offset));
    return this.open(this.query);
  }

  #turn(pressed) {
    if (pressed) this.#page(this.offset + Number(pressed.dataset.turn) * PAGE).then(() => window.scrollTo(0, 0));
  }

  get offset() {
    return Number(this.query.get("offset") ?? 0);
  }

  #show({ total, reviewed, unseen, in_doubt: doubted, spent_s: spent, rows }) {
    const { dataset, holder, offset, query } = this;
    // What was on this page has been reviewed, and is not of this list any more.
    if (!rows.length && offset > 0) return this.#page(Math.floor((total - 1) / PAGE) * PAGE);
    const others = [doubted > 0 && `${doubted} in doubt`, unseen > 0 && `${unseen}${UNSEEN}`, spent > 0 && `${minutes(spent)} spent`].filter(Boolean);
    fill(find("#progress", holder), [`${reviewed} of ${dataset.episodes} reviewed`, ...others].join(", "));
    find("#done", holder).value = reviewed;
    fill(find("#count", holder), count(total, "episode"));
    fill(find("#items", holder), ...rows.map((row) => line(row, dataset, query)));
    find("#nothing", holder).hidden = rows.length > 0;
    const pager = find(".pager", holder);
    pager.hidden = total <= PAGE;
    fill(find("#where", pager), `Page ${Math.floor(offset / PAGE) + 1} of ${Math.max(1, Math.ceil(total / PAGE))}`);
    find("[data-turn='-1']", pager).disabled = offset === 0;
    find("[data-turn='1']", pager).disabled = offset + PAGE >= total;
  }
}

const select = (name, names, chosen) =>
  h("select", { name }, Object.entries(names).map(([value, words]) => h("option", { value, selected: value === chosen }, words)));

function page(dataset, query) {
  return h("div", { class: "list-page", "data-key": "list-page" },
    h("header", { class: "top" },
      h("h1", {}, `Review of ${dataset.name}`),
      dataset.examination && h("p", { class: "muted" }, dataset.examination),
      h("p", { class: "progress-line" }, h("span", { id: "progress" }), h("progress", { id: "done", max: dataset.episodes, value: 0, "aria-label": "Reviewed" })),
    ),
    h("main", {},
      h("form", { class: "toolbar", role: "search" },
        h("label", { class: "grow" }, "Search", h("input", { name: "q", type: "search", value: query.get("q") ?? "", placeholder: "words, a number, a reason, a name", autocomplete: "off" })),
        h("label", {}, "Show", select("status", STATUSES, query.get("status") ?? "all")),
        h("label", {}, "Order", select("order", ORDERS, query.get("order") ?? "doubt")),
        h("output", { id: "count" }),
      ),
      h("div", { id: "tasks" }),
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
  const thumb = dataset.cameras[0] && frameUrl(row.episode, dataset.cameras[0], 0, 160);
  return h("li", { class: "row", "data-key": row.episode },
    h("a", { href: `#/episode/${row.episode}?${query}` },
      h("span", { class: "thumb" }, thumb && h("img", { src: thumb, alt: "", loading: "lazy", decoding: "async" })),
      h("span", { class: "about" },
        h("span", { class: "muted" }, `Episode ${row.episode} · ${count(row.steps, "step")} · ${row.seconds.toFixed(1)} s`),
        h("span", { class: "said", dir: "auto" }, row.instruction),
        row.words && h("span", { class: "muted words-by" }, row.words),
        row.reasons.length > 0 && h("span", { class: "muted why" }, row.reasons.join(", ")),
        h("span", { class: "facts" },
          row.verdict ? badge(row.verdict, VERDICT[row.verdict] + (row.unseen ? UNSEEN : "")) : badge("skipped", "not reviewed"),
          row.verdict && h("span", { class: "muted" }, `by ${row.by}`),
          badge(row.word),
          h("meter", { min: 0, max: 1, low: 0.33, high: 0.66, optimum: 0, value: row.doubt, "aria-hidden": "true" }),
          h("span", { class: "muted" }, doubt(row.doubt)),
        ),
      ),
    ),
  );
}
