// Where a person brings a picture: a drop, a paste, or a file.

import { fill, find, h } from "/common/dom.js";
import { Refusal, attempt } from "/common/server.js";

export class Picker {
  #leaving = new AbortController();
  problem = "";

  // `changed(scene)` is called with each new picture; a scene may bring an instruction.
  constructor(holder, { studio, picture = null, changed }) {
    Object.assign(this, { holder, studio, picture, changed });
    const on = (target, name, work) => target.addEventListener(name, work, { signal: this.#leaving.signal });
    const over = (event, inside) => {
      event.preventDefault();
      find(".drop", holder).classList.toggle("over", inside);
    };
    on(holder, "click", ({ target }) => target.closest("[data-pick]") && find("input", holder).click());
    on(holder, "change", ({ target }) => target.files[0] && this.#bring(target.files[0]));
    on(holder, "dragover", (event) => over(event, true));
    on(holder, "dragleave", (event) => over(event, false));
    on(holder, "drop", (event) => {
      over(event, false);
      this.#bring(pictureOf(event.dataTransfer));
    });
    on(document, "paste", (event) => {
      const file = pictureOf(event.clipboardData);
      if (!file) return;
      event.preventDefault();
      this.#bring(file);
    });
    this.draw();
  }

  close() {
    this.#leaving.abort();
  }

  take(scene) {
    Object.assign(this, { problem: "", picture: scene });
    this.draw();
    this.changed(scene);
  }

  async #bring(file) {
    const scene = await attempt(() => read(file, this.studio), ({ message }) => (this.problem = message));
    if (scene) this.take(scene);
    else this.draw();
  }

  draw() {
    const { picture, problem } = this;
    fill(this.holder,
      h("button",
        {
          type: "button", "data-pick": true, "data-key": "drop", class: picture ? "drop full" : "drop",
          "aria-label": picture ? `Picture: ${picture.name}. Choose another` : "Choose a picture, or drop or paste one here",
        },
        picture
          ? h("img", { src: picture.data, alt: "" })
          : h("span", { class: "hint" }, h("b", {}, "Choose a picture"), h("span", {}, "or drop or paste one here")),
      ),
      h("input", { type: "file", accept: "image/*", hidden: true, "data-key": "file", "aria-label": "Picture file" }),
      problem && h("p", { class: "note", role: "alert", "data-key": "problem" }, problem),
      picture?.note && h("p", { class: "muted", "data-key": "note" }, picture.note),
    );
  }
}

const KEPT = ["image/png", "image/jpeg"];
const MAX_BYTES = 12 * 2 ** 20;
const QUALITY = 0.95;

const unreadable = (words) => {
  throw new Refusal(0, words);
};

// Makes {data, name, note} of a picture file: a data URL, scaled down in the browser if it is larger than the server takes.
export async function read(file, { max_pixels: most }) {
  if (!file) unreadable("That is no picture: drop a PNG or JPEG file.");
  const bitmap = await createImageBitmap(file).catch(() => unreadable(`${file.name || "That"} is no picture that this browser can read.`));
  const { width, height } = bitmap;
  const fits = KEPT.includes(file.type) && width * height <= most && file.size <= MAX_BYTES;
  const [blob, kept] = fits ? [file, width] : await drawn(bitmap, most);
  bitmap.close();
  const note = kept < width ? `made smaller: ${width} × ${height} is more than the server takes` : "";
  return { data: await dataUrl(blob), name: file.name || "picture", note };
}

// Draws a bitmap anew, and returns the file and its width; as PNG if that is small enough, else as JPEG, ever smaller.
async function drawn(bitmap, most) {
  const { width, height } = bitmap;
  for (let scale = Math.min(1, Math.sqrt(most / (width * height))); ; scale *= 0.7) {
    const canvas = new OffscreenCanvas(Math.max(1, Math.floor(width * scale)), Math.max(1, Math.floor(height * scale)));
    canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    for (const type of KEPT) {
      const blob = await canvas.convertToBlob({ type, quality: QUALITY });
      if (blob.size <= MAX_BYTES) return [blob, canvas.width];
    }
  }
}

const dataUrl = (blob) =>
  new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsDataURL(blob);
  });

// The first picture of a drop or of the clipboard.
const pictureOf = (transfer) => [...(transfer?.files ?? [])].find(({ type }) => type.startsWith("image/"));
