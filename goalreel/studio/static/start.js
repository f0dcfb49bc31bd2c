// Where a storyboard begins: a picture, an instruction, one button. Below: examples, and what the folder holds.

import * as api from "./api.js";
import { fill, find, h } from "/common/dom.js";
import { badge, count } from "/common/parts.js";
import { attempt } from "/common/server.js";
import { Named, marks } from "./named.js";
import { Picker } from "./picker.js";
import { BOARD, caution, modelNames } from "./words.js";

// What was begun and not sent: Back finds it again.
const draft = { picture: null, named: [], instruction: "" };

export class StartView {
  leaving = new AbortController();
  problem = "";
  busy = false;
  shown = [];
  listed = { total: 0, in_doubt: 0, damaged: [] };
  doubts = false; // whether only those in doubt are listed
  #question = null;

  constructor(holder, { studio, examples, go }) {
    Object.assign(this, { holder, studio, examples, go });
    fill(holder, page(this));
    this.picker = new Picker(find("#picker", holder), { studio, picture: draft.picture, changed: (scene) => this.#took(scene) });
    this.form = find("#task", holder);
    const { instruction: field } = this.form.elements;
    this.named = new Named(find("#named", holder), { field, studio, pictures: draft.named, changed: () => this.#typed() });
    const on = (target, name, work) => target.addEventListener(name, work, { signal: this.leaving.signal });
    on(this.form, "input", () => this.#typed());
    on(this.form, "submit", (event) => this.#submit(event));
    on(holder, "click", ({ target }) => this.#click(target.closest("[data-example], #more")));
    on(document, "keydown", ({ key, ctrlKey, metaKey, target }) => {
      if (key === "Enter" && (ctrlKey || metaKey) && target.form === this.form) this.form.requestSubmit();
    });
    on(holder, "change", ({ target }) => {
      if (target.id !== "doubts") return;
      this.doubts = target.checked;
      this.#list();
    });
    on(document, "visibilitychange", () => document.hidden || this.#list());
    this.#draw();
    this.#list();
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
    fill(find("#models", this.holder), models(this.studio));
    fill(find("#problem", this.holder), this.problem && h("p", { class: "note", role: "alert" }, this.problem));
  }

  #typed() {
    draft.instruction = this.form.elements.instruction.value;
    this.#draw();
  }

  #took(scene) {
    draft.picture = scene;
    if (scene.instruction) this.form.elements.instruction.value = draft.instruction = scene.instruction;
    this.problem = "";
    this.#draw();
  }

  #click(pressed) {
    if (pressed?.id === "more") return this.#list(this.shown);
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
    const { instruction, picture, named } = draft;
    const task = { instruction: instruction.trim(), image: picture.data, images: named.map(({ data }) => data) };
    const begun = await attempt(() => api.submit(task), ({ message }) => (this.problem = `Not started: ${message}.`));
    if (begun) {
      Object.assign(draft, { picture: null, named: [], instruction: "" });
      return this.go(`#/storyboard/${begun.id}`);
    }
    this.busy = false;
    this.#draw();
  }

  // The newest storyboards of the folder, or those after the ones that are `shown`. The later question wins.
  async #list(shown = []) {
    const question = (this.#question = {});
    let problem = "";
    const answer = await attempt(() => api.storyboards(shown.at(-1)?.id, this.doubts), ({ message }) => (problem = `Not loaded: ${message}.`));
    if (question !== this.#question || this.leaving.signal.aborted) return;
    if (answer) {
      this.shown = [...shown, ...answer.storyboards];
      this.listed = answer;
    }
    fill(find("#history", this.holder), past(this.shown, this.listed, this.doubts, problem));
  }
}

function missing() {
  if (!draft.picture && !draft.instruction.trim()) return "It takes a picture and a sentence. Or start from an example.";
  if (!draft.picture) return "A picture of the scene is missing.";
  if (!draft.instruction.trim()) return "The sentence is missing.";
  const [written, named] = [marks(draft.instruction), draft.named.length];
  return written === named ? "" : `The sentence has ${count(written, "<image> mark")} for ${count(named, "picture")}.`;
}

const page = ({ examples }) =>
  h("div", { class: "start-page", "data-key": "start-page" },
    h("main", {},
      h("section", { class: "begin", "aria-label": "New storyboard" },
        h("div", { id: "picker", class: "picker" }),
        h("form", { id: "task", class: "task" },
          h("h1", {}, "What should the robot do?"),
          h("textarea", { name: "instruction", rows: 4, maxlength: 20_000, placeholder: "put the red block in the bowl", "aria-label": "Instruction", dir: "auto" }, draft.instruction),
          h("div", { id: "named" }),
          h("div", { id: "problem" }),
          h("button", { id: "send", class: "primary big" }, "Make the storyboard"),
          h("p", { id: "missing", class: "muted", role: "status" }),
          h("div", { id: "models" }),
        ),
      ),
      h("section", { class: "examples", "aria-label": "Examples" },
        h("h2", {}, "Examples"),
        h("ul", { class: "cards" }, examples.map(example)),
      ),
      h("section", { id: "history", class: "past", "aria-label": "Storyboards" }),
    ),
  );

// The models, and what a newcomer should know of them.
const models = ({ models, references, presets }) => [
  h("p", { class: "muted", "data-key": "names" }, modelNames(models)),
  draft.named.length > 0 && h("p", { class: "muted", "data-key": "named" }, `The Planner sees the pictures in the sentence; ${references ? "the Editor draws with them, too" : "the Editor does not: start the studio with --references for one that takes several"}.`),
  caution(models, presets) && h("p", { class: "muted", "data-key": "caution" }, caution(models, presets)),
];

const example = ({ name, instruction, picture }, number) =>
  h("li", { "data-key": number },
    h("button", { type: "button", class: "card", "data-example": number, "aria-label": `Example: ${instruction}` },
      h("img", { src: picture, alt: "" }),
      h("span", { class: "said", dir: "auto", title: name }, instruction),
    ),
  );

const past = (shown, { total, in_doubt: doubted, damaged }, doubts, problem) => [
  (shown.length > 0 || damaged.length > 0 || problem) && h("h2", { "data-key": "title" }, "Storyboards"),
  (doubted > 0 || doubts) && h("label", { class: "check", "data-key": "doubts" }, h("input", { type: "checkbox", id: "doubts", checked: doubts }), `only the ${doubted} in doubt`),
  problem && h("p", { class: "note", role: "alert", "data-key": "problem" }, problem),
  h("ul", { id: "items", class: "list", "data-key": "items", "aria-label": "Storyboards" }, shown.map(row)),
  damaged.length > 0 &&
    h("ul", { class: "note", "data-key": "damaged", "aria-label": "Storyboards that cannot be read" }, damaged.map((line) => h("li", {}, `Cannot be read: ${line}`))),
  total > shown.length && h("p", { class: "buttons", "data-key": "pages" }, h("button", { type: "button", id: "more" }, "Earlier ones")),
];

function row({ id, instruction, created, pictures, steps, words, ...rest }) {
  const thumb = pictures.at(-1);
  return h("li", { class: "row", "data-key": id },
    h("a", { href: `#/storyboard/${id}` },
      h("span", { class: "thumb" }, thumb && h("img", { src: thumb, alt: "", loading: "lazy", decoding: "async" })),
      h("span", { class: "about" },
        h("span", { class: "said", dir: "auto" }, instruction),
        h("span", { class: "muted" }, new Date(created).toLocaleString()),
        h("span", { class: "facts" }, standing(rest), h("span", { class: "muted" }, steps.length ? `${count(steps.length, "step")}, ${words}` : "no plan")),
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
