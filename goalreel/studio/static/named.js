// Pictures that a sentence names, each where it has its mark: "put the <image> into the bowl".

import { fill, find, h } from "/common/dom.js";
import { say } from "/common/parts.js";
import { attempt } from "/common/server.js";
import { read } from "./picker.js";

const MARK = "<image>";

export const marks = (text) => text.split(MARK).length - 1;

export class Named {
  // `field` is the sentence's, `pictures` are what it names, and `changed(pictures)` gets them when there are others.
  constructor(holder, { field, studio, pictures, changed }) {
    Object.assign(this, { holder, field, studio, pictures, changed });
    holder.addEventListener("change", ({ target }) => this.#add([...target.files]));
    holder.addEventListener("click", ({ target }) => this.#click(target.closest("[data-named]")?.dataset.named));
    this.draw();
  }

  // Each goes where the sentence is being written.
  async #add(files) {
    for (const file of files) {
      const picture = await attempt(() => read(file, this.studio), ({ message }) => say(message));
      if (!picture) continue;
      const { value, selectionStart: at } = this.field;
      this.pictures.splice(marks(value.slice(0, at)), 0, picture);
      this.field.setRangeText(`${/\S$/.test(value.slice(0, at)) ? " " : ""}${MARK} `, at, at, "end");
      this.#told();
    }
  }

  #click(which) {
    if (which === "add") return find("input", this.holder).click();
    if (which === undefined) return;
    this.pictures.splice(Number(which), 1);
    let at = -1;
    this.field.value = this.field.value.replaceAll(new RegExp(` ?${MARK}`, "g"), (mark) => (++at === Number(which) ? "" : mark));
    this.#told();
  }

  #told() {
    this.draw();
    this.changed();
    this.field.focus();
  }

  draw() {
    fill(this.holder,
      h("input", { type: "file", accept: "image/*", multiple: true, hidden: true, "data-key": "file", "aria-label": "Pictures that the sentence names" }),
      h("ol", { class: "attempt-row", "data-key": "row" },
        this.pictures.map(({ data, name }, at) =>
          h("li", {}, h("button", { type: "button", class: "take", "data-named": at, "aria-label": `Picture ${at + 1} of the sentence: ${name}. Take it out` }, h("img", { src: data, alt: "" }), h("span", { class: "mark", "aria-hidden": "true" }, `${at + 1} ✕`))),
        ),
      ),
      h("button", { type: "button", "data-named": "add", "data-key": "add" }, "Add a picture to the sentence"),
    );
  }
}
