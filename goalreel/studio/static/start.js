// Where a storyboard begins: a picture, an instruction, one button. Below: examples, and what the folder holds, a page
// at a time and with a search over all.

import * as api from "./api.js";
import { fill, find, h } from "/common/dom.js";
import { slashSearches } from "/common/page.js";
import { badge, count, showRows } from "/common/parts.js";
import { attempt } from "/common/server.js";
import { Picker } from "./picker.js";
import { BOARD, caution } from "./words.js";

const MAX_INSTRUCTION = 20_000;
const MAX_ATTEMPTS = 10;

// What was begun and not sent: Back finds it again.
const draft = { picture: null, instruction: "", preset: "", max_attempts: null, seed: "0" };

export class StartView {
  constructor(holder, { studio, examples, go }) {
    Object.assign(this, { holder, studio, examples, go });
    this.problem = "";
    this.busy = false;
    draft.max_attempts ??= String(studio.max_attempts);
    fill(holder, page(this));
    this.picker = new Picker(find("#picker", holder), { studio, picture: draft.picture, changed: (scene) => this.#took(scene) });
    this.history = new HistoryList(find("#history", holder));
    this.leaving = new AbortController();
    const { signal } = this.leaving;
    this.form = find("#task", holder);
    for (const kind of ["input", "change"]) this.form.addEventListener(kind, () => this.#typed(), { signal });
    this.form.addEventListener("submit", (event) => this.#submit(event), { signal });
    holder.addEventListener("click", (event) => this.#click(event), { signal });
    document.addEventListener("keydown", (event) => this.#key(event), { signal });
    slashSearches(find("[name=q]", holder), signal);
    this.#draw();
  }

  close() {
    this.picker.close();
    this.history.close();
    this.leaving.abort();
  }

  #draw() {
    const send = find("#send", this.holder);
    send.disabled = this.busy || !draft.instruction.trim() || !draft.picture;
    fill(send, this.busy ? "Starting …" : "Make the storyboard");
    fill(find("#missing", this.holder), missing());
    fill(find("#models", this.holder), chosen(this.studio));
    fill(find("#problem", this.holder), this.problem && h("p", { class: "note", role: "alert" }, this.problem));
  }

  #typed() {
    Object.assign(draft, Object.fromEntries(new FormData(this.form)));
    this.#draw();
  }

  #took(scene) {
    draft.picture = scene;
    if (scene.instruction) {
      this.form.elements.instruction.value = draft.instruction = scene.instruction;
    }
    this.problem = "";
    this.#draw();
  }

  #click(event) {
    const pressed = event.target.closest("[data-example]");
    if (!pressed) return;
    const { picture, ...scene } = this.examples[Number(pressed.dataset.example)];
    this.picker.take({ ...scene, data: picture, note: "" });
    find("#task", this.holder).scrollIntoView({ block: "nearest" });
    find("#send", this.holder).focus({ preventScroll: true });
  }

  #key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form === this.form) this.form.requestSubmit();
  }

  async #submit(event) {
    event.preventDefault();
    if (this.busy || !draft.picture || !draft.instruction.trim()) return;
    this.busy = true;
    this.problem = "";
    this.#draw();
    const task = {
      instruction: draft.instruction.trim(), image: draft.picture.data, seed: Number(draft.seed), max_attempts: Number(draft.max_attempts),
      ...(draft.preset && { preset: draft.preset }),
    };
    const begun = await attempt(() => api.submit(task), ({ message }) => (this.problem = `Not started: ${message}.`));
    if (begun) {
      Object.assign(draft, { picture: null, instruction: "" });
      return this.go(`#/storyboard/${begun.id}`);
    }
    this.busy = false;
    this.#draw();
  }
}

function missing() {
  if (!draft.picture && !draft.instruction.trim()) return "It takes a picture and a sentence. Or start from an example.";
  if (!draft.picture) return "A picture of the scene is missing.";
  return draft.instruction.trim() ? "" : "The sentence is missing.";
}

function page({ studio, examples }) {
  return h("div", { class: "start-page", "data-key": "start-page" },
    h("main", {},
      h("section", { class: "begin", "aria-label": "New storyboard" },
        h("div", { id: "picker" }),
        h("form", { id: "task", class: "task" },
          h("h1", {}, "What should the robot do?"),
          h("textarea", { name: "instruction", rows: 4, maxlength: MAX_INSTRUCTION, placeholder: "put the red block in the bowl", "aria-label": "Instruction", dir: "auto" }, draft.instruction),
          h("p", { class: "settings" },
            studio.presets.length > 0 && h("label", {}, "Models", h("select", { name: "preset" }, presetOptions(studio.presets))),
            h("label", {}, "Attempts at each step", h("input", { name: "max_attempts", type: "number", min: 1, max: MAX_ATTEMPTS, value: draft.max_attempts, required: true })),
            h("label", {}, "Seed", h("input", { name: "seed", type: "number", min: 0, max: 2 ** 31 - 1, value: draft.seed, required: true })),
          ),
          h("div", { id: "problem" }),
          h("button", { id: "send", class: "primary big" }, "Make the storyboard"),
          h("p", { id: "missing", class: "muted", role: "status" }),
          h("div", { id: "models" }),
          unavailable(studio.presets),
        ),
      ),
      examples.length > 0 &&
        h("section", { class: "examples", "aria-label": "Examples" },
          h("h2", {}, "Examples"),
          h("ul", { class: "cards" }, examples.map(example)),
        ),
      h("section", { id: "history", class: "past", "aria-label": "Storyboards" }),
    ),
  );
}

const presetOptions = (presets) => [
  h("option", { value: "", selected: !draft.preset }, "as started"),
  ...presets.map(({ name, available }) => h("option", { value: name, disabled: !available, selected: draft.preset === name }, name)),
];

// The models that are chosen, and what a newcomer should know of them.
function chosen(studio) {
  const { models } = studio.presets.find(({ name }) => name === draft.preset) ?? studio;
  const names = [...new Set([models.planner, models.editor, models.critic])];
  return [
    h("p", { class: "muted", "data-key": "names" }, names.join(" · ")),
    caution(models) && h("p", { class: "muted", "data-key": "caution" }, caution(models)),
  ];
}

function unavailable(presets) {
  const away = presets.filter(({ available }) => !available);
  return (
    away.length > 0 &&
    h("details", { id: "unavailable" },
      h("summary", {}, `${count(away.length, "preset")} cannot be used here`),
      h("dl", {}, away.map(({ name, reason }) => [h("dt", {}, name), h("dd", { class: "muted" }, reason)])),
    )
  );
}

const example = ({ name, instruction, picture }, number) =>
  h("li", { "data-key": number },
    h("button", { type: "button", class: "card", "data-example": number, "aria-label": `Example: ${instruction}` },
      h("img", { src: picture, alt: "" }),
      h("span", { class: "said", dir: "auto", title: name }, instruction),
    ),
  );

const PAGE = 24;

class HistoryList {
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
  h("form", { class: "toolbar", role: "search", "data-key": "search" },
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
  return h("li", { class: "row", "data-key": id },
    h("a", { href: `#/storyboard/${id}` },
      h("span", { class: "thumb" }, thumb && h("img", { src: thumb, alt: "", loading: "lazy", decoding: "async" })),
      h("span", { class: "about" },
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
