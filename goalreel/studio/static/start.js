// Where a storyboard begins: a picture, an instruction, one button. Below: examples, and what the folder holds, a page
// at a time and with a search over all.

import * as api from "./api.js";
import { fill, find, h } from "/common/dom.js";
import { searches } from "/common/page.js";
import { Rows, badge, count } from "/common/parts.js";
import { attempt } from "/common/server.js";
import { Named, marks } from "./named.js";
import { Picker } from "./picker.js";
import { BOARD, caution, modelNames, unavailable } from "./words.js";

const MAX_INSTRUCTION = 20_000;
const MAX_ATTEMPTS = 10;

// What was begun and not sent: Back finds it again.
const draft = { picture: null, named: [], instruction: "", preset: "", max_attempts: null, seed: "0" };

export class StartView {
  leaving = new AbortController();
  problem = "";
  busy = false;

  constructor(holder, { studio, examples, go }) {
    Object.assign(this, { holder, studio, examples, go });
    draft.max_attempts ??= String(studio.max_attempts);
    fill(holder, page(this));
    this.picker = new Picker(find("#picker", holder), { studio, picture: draft.picture, changed: (scene) => this.#took(scene) });
    const { signal } = this.leaving;
    showHistory(find("#history", holder), signal);
    this.form = find("#task", holder);
    const { instruction: field } = this.form.elements;
    this.named = new Named(find("#named", holder), { field, studio, pictures: draft.named, changed: () => this.#typed() });
    const on = (target, name, work) => target.addEventListener(name, work, { signal });
    for (const kind of ["input", "change"]) on(this.form, kind, () => this.#typed());
    on(this.form, "submit", (event) => this.#submit(event));
    on(holder, "click", (event) => this.#click(event));
    on(document, "keydown", ({ key, ctrlKey, metaKey, target }) => {
      if (key === "Enter" && (ctrlKey || metaKey) && target.form === this.form) this.form.requestSubmit();
    });
    this.#draw();
  }

  close() {
    this.picker.close();
    this.leaving.abort();
  }

  #draw() {
    const send = find("#send", this.holder);
    send.disabled = this.busy || missing() !== "";
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
    if (scene.instruction) this.form.elements.instruction.value = draft.instruction = scene.instruction;
    this.problem = "";
    this.#draw();
  }

  #click(event) {
    const pressed = event.target.closest("[data-example]");
    if (!pressed) return;
    const { picture, ...scene } = this.examples[Number(pressed.dataset.example)];
    this.picker.take({ ...scene, data: picture });
    find("#task", this.holder).scrollIntoView({ block: "nearest" });
    find("#send", this.holder).focus({ preventScroll: true });
  }

  async #submit(event) {
    event.preventDefault();
    if (this.busy || missing()) return;
    Object.assign(this, { busy: true, problem: "" });
    this.#draw();
    const task = {
      instruction: draft.instruction.trim(), image: draft.picture.data, images: draft.named.map(({ data }) => data), seed: Number(draft.seed), max_attempts: Number(draft.max_attempts),
      ...(draft.preset && { preset: draft.preset }),
    };
    const begun = await attempt(() => api.submit(task), ({ message }) => (this.problem = `Not started: ${message}.`));
    if (begun) {
      Object.assign(draft, { picture: null, named: [], instruction: "" });
      return this.go(`#/storyboard/${begun.id}`);
    }
    this.busy = false;
    this.#draw();
  }
}

function missing() {
  if (!draft.picture && !draft.instruction.trim()) return "It takes a picture and a sentence. Or start from an example.";
  if (!draft.picture) return "A picture of the scene is missing.";
  if (!draft.instruction.trim()) return "The sentence is missing.";
  const [written, named] = [marks(draft.instruction), draft.named.length];
  return written === named ? "" : `The sentence has ${count(written, "<image> mark")} for ${count(named, "picture")}.`;
}

function page({ studio, examples }) {
  return h("div", { class: "start-page", "data-key": "start-page" },
    h("main", {},
      h("section", { class: "begin", "aria-label": "New storyboard" },
        h("div", { id: "picker" }),
        h("form", { id: "task", class: "task" },
          h("h1", {}, "What should the robot do?"),
          h("textarea", { name: "instruction", rows: 4, maxlength: MAX_INSTRUCTION, placeholder: "put the red block in the bowl", "aria-label": "Instruction", dir: "auto" }, draft.instruction),
          h("div", { id: "named" }),
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
  return [
    h("p", { class: "muted", "data-key": "names" }, modelNames(models)),
    draft.named.length > 0 && h("p", { class: "muted", "data-key": "named" }, `The Planner sees the pictures in the sentence; ${!draft.preset && studio.references ? "the Editor draws with them, too" : "the Editor does not: start the studio with --references for one that takes several"}.`),
    caution(models) && h("p", { class: "muted", "data-key": "caution" }, caution(models)),
  ];
}

const example = ({ name, instruction, picture }, number) =>
  h("li", { "data-key": number },
    h("button", { type: "button", class: "card", "data-example": number, "aria-label": `Example: ${instruction}` },
      h("img", { src: picture, alt: "" }),
      h("span", { class: "said", dir: "auto", title: name }, instruction),
    ),
  );

const PAGE = 24;

// What the folder holds, until `signal` aborts. A search answers with each letter.
function showHistory(holder, signal) {
  fill(holder, frame());
  const form = find("form", holder);
  const on = (target, name, work) => target.addEventListener(name, work, { signal });
  let shown = [];
  const rows = new Rows(find("#items", holder), {
    signal,
    ask: async (aborted, before) => {
      const q = form.elements.q.value.trim();
      const query = new URLSearchParams({ q, limit: PAGE, ...(before && { before }) });
      return { q, before, ...(await api.storyboards(query, aborted)) };
    },
    show: ({ q, before, storyboards, total, damaged }) => {
      shown = before ? [...shown, ...storyboards] : storyboards;
      holder.hidden = !shown.length && !q && !damaged.length;
      fill(find("#items", holder), ...shown.map(row));
      find("#nothing", holder).hidden = shown.length > 0 || !q;
      fill(find("#damaged", holder), ...damaged.map((line) => h("li", {}, `Cannot be read: ${line}`)));
      find("#more", holder).hidden = total <= shown.length;
    },
  });
  searches(form, signal, () => rows.load());
  on(find("#more", holder), "click", () => rows.load(shown.at(-1).id));
  on(document, "visibilitychange", () => document.hidden || rows.load());
  rows.load();
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

function row({ id, instruction, created, status, pictures, steps, words, word, complete, degraded }) {
  const thumb = pictures.at(-1);
  return h("li", { class: "row", "data-key": id },
    h("a", { href: `#/storyboard/${id}` },
      h("span", { class: "thumb" }, thumb && h("img", { src: thumb, alt: "", loading: "lazy", decoding: "async" })),
      h("span", { class: "about" },
        h("span", { class: "said", dir: "auto" }, instruction),
        h("span", { class: "muted" }, new Date(created).toLocaleString()),
        h("span", { class: "facts" }, standing({ status, complete, degraded, word }), h("span", { class: "muted" }, steps.length ? `${count(steps.length, "step")}, ${words}` : "no plan")),
      ),
    ),
  );
}

function standing({ status, complete, degraded, word }) {
  if (status === "failed" || degraded) return badge("failed", degraded ? "degraded" : "failed");
  if (status !== "done") return badge(status === "running" ? "drawn" : "skipped", BOARD[status]);
  if (!complete) return badge("rejected", "not all accepted");
  return badge(word, word === "text" ? "in words alone" : word);
}
