// Where a storyboard begins: a picture, an instruction, one button. Below: examples, and what the folder holds.

import * as api from "./api.js";
import { fill, find, h } from "/common/dom.js";
import { slashSearches } from "/common/page.js";
import { count } from "/common/parts.js";
import { attempt } from "/common/server.js";
import { HistoryList } from "./history.js";
import { Picker } from "./picker.js";
import { caution } from "./words.js";

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
  return h(
    "div",
    { class: "start-page", "data-key": "start-page" },
    h(
      "main",
      {},
      h(
        "section",
        { class: "begin", "aria-label": "New storyboard" },
        h("div", { id: "picker" }),
        h(
          "form",
          { id: "task", class: "task" },
          h("h1", {}, "What should the robot do?"),
          h("textarea", { name: "instruction", rows: 4, maxlength: MAX_INSTRUCTION, placeholder: "put the red block in the bowl", "aria-label": "Instruction", dir: "auto" }, draft.instruction),
          h(
            "p",
            { class: "settings" },
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
        h(
          "section",
          { class: "examples", "aria-label": "Examples" },
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
    h(
      "details",
      { id: "unavailable" },
      h("summary", {}, `${count(away.length, "preset")} cannot be used here`),
      h("dl", {}, away.map(({ name, reason }) => [h("dt", {}, name), h("dd", { class: "muted" }, reason)])),
    )
  );
}

const example = ({ name, instruction, picture }, number) =>
  h(
    "li",
    { "data-key": number },
    h(
      "button",
      { type: "button", class: "card", "data-example": number, "aria-label": `Example: ${instruction}` },
      h("img", { src: picture, alt: "" }),
      h("span", { class: "said", dir: "auto", title: name }, instruction),
    ),
  );
