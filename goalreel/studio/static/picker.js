// Where a person brings a picture: a drop, a paste, a file, the webcam, a dataset's episode, or a robot's camera.

import * as api from "./api.js";
import { fill, find, h } from "/common/dom.js";
import { Refusal } from "/common/server.js";

const TOPIC = "goalreel camera";

export class Picker {
  #webcam = null;
  #leaving = new AbortController();

  // `changed(scene)` is called with each new picture; a scene may bring an instruction.
  constructor(holder, { studio, picture = null, changed }) {
    Object.assign(this, { holder, studio, picture, changed });
    this.problem = "";
    this.choice = null;
    const { signal } = this.#leaving;
    const on = (target, name, work) => target.addEventListener(name, work, { signal });
    on(holder, "click", (event) => this.#click(event));
    on(holder, "change", (event) => this.#changed(event.target));
    on(holder, "submit", (event) => this.#submit(event));
    on(holder, "dragover", (event) => this.#over(event, true));
    on(holder, "dragleave", (event) => this.#over(event, false));
    on(holder, "drop", (event) => this.#drop(event));
    on(document, "paste", (event) => this.#paste(event));
    this.draw();
  }

  close() {
    this.#leaving.abort();
    this.#webcam?.stop();
  }

  take(scene) {
    this.#stop();
    this.choice = null;
    this.problem = "";
    this.picture = scene;
    this.draw();
    this.changed(scene);
  }

  draw() {
    fill(this.holder, view(this));
    const video = find("video", this.holder);
    if (video && video.srcObject !== this.#webcam?.stream) video.srcObject = this.#webcam.stream;
  }

  #fail(error) {
    if (!(error instanceof Unreadable || error instanceof Refusal)) throw error;
    this.problem = error.message;
    this.draw();
  }

  async #read(blob) {
    try {
      this.take(await read(blob, this.studio));
    } catch (error) {
      this.#fail(error);
    }
  }

  #changed({ type, files, value, name }) {
    if (type === "file" && files[0]) this.#read(files[0]);
    if (name === "dataset") {
      this.choice = { ...this.choice, dataset: value };
      this.draw();
    }
  }

  #over(event, inside) {
    event.preventDefault();
    find(".drop", this.holder).classList.toggle("over", inside);
  }

  #drop(event) {
    event.preventDefault();
    find(".drop", this.holder).classList.remove("over");
    const file = pictureOf(event.dataTransfer);
    if (file) this.#read(file);
    else this.#fail(new Unreadable("That is no picture: drop a PNG or JPEG file."));
  }

  #paste(event) {
    const file = pictureOf(event.clipboardData);
    if (!file) return;
    event.preventDefault();
    this.#read(file);
  }

  async #click(event) {
    const pressed = event.target.closest("[data-pick]");
    if (!pressed) return;
    const work = {
      file: () => find("input[type=file]", this.holder).click(),
      webcam: () => this.#open(),
      shoot: () => this.#shoot(),
      stop: () => {
        this.#stop();
        this.choice = null;
        this.draw();
      },
      dataset: () => this.#datasets(),
      camera: () => {
        this.choice = { topic: localStorage.getItem(TOPIC) ?? "/camera/image_raw" };
        this.draw();
        find("[name=topic]", this.holder).select();
      },
    }[pressed.dataset.pick];
    await work();
  }

  async #open() {
    try {
      this.#webcam = await Webcam.open();
      this.problem = "";
      this.draw();
    } catch (error) {
      this.#fail(error);
    }
  }

  get live() {
    return this.#webcam !== null;
  }

  #stop() {
    this.#webcam?.stop();
    this.#webcam = null;
  }

  async #shoot() {
    const video = find("video", this.holder);
    if (!video.videoWidth) return this.#fail(new Unreadable("The camera shows no picture yet: try again."));
    this.take(await this.#webcam.take(video, this.studio));
  }

  async #datasets() {
    try {
      const { datasets } = await api.datasets();
      this.choice = { datasets, dataset: datasets[0]?.path };
      this.problem = datasets.length ? "" : "The folder that was given with --datasets has no dataset.";
      this.draw();
      find("[name=dataset]", this.holder)?.focus();
    } catch (error) {
      this.#fail(error);
    }
  }

  #submit(event) {
    event.preventDefault();
    event.stopPropagation();
    const { dataset, episode, topic } = Object.fromEntries(new FormData(event.target));
    if (topic) localStorage.setItem(TOPIC, topic);
    this.#scene(topic ? api.cameraFrame(topic) : api.firstFrame(dataset, episode));
  }

  async #scene(asked) {
    try {
      const { picture, name, instruction } = await asked;
      this.take({ data: picture, name, instruction, note: "" });
    } catch (error) {
      this.#fail(error);
    }
  }
}

function view(picker) {
  const { studio, picture, choice, problem, live } = picker;
  return h("div", { class: "picker", "data-key": "picker" },
    live ? webcam() : zone(picture),
    h("input", { type: "file", accept: "image/*", hidden: true, "data-key": "file", "aria-label": "Picture file" }),
    problem && h("p", { class: "note", role: "alert", "data-key": "problem" }, problem),
    picture?.note && h("p", { class: "muted", "data-key": "note" }, picture.note),
    choice && chooser(choice),
    h("p", { class: "buttons sources", "data-key": "sources" },
      source("file", "Choose a file"),
      source("webcam", "Webcam"),
      studio.datasets.available && source("dataset", "From a dataset"),
      studio.ros.available && source("camera", "Robot’s camera"),
    ),
  );
}

const source = (pick, words) => h("button", { type: "button", "data-pick": pick }, words);

const zone = (picture) =>
  h(
    "button",
    { type: "button", class: picture ? "drop full" : "drop", "data-key": "drop", "data-pick": "file", "aria-label": picture ? `Picture: ${picture.name}. Choose another` : "Choose a picture, or drop or paste one here" },
    picture
      ? h("img", { src: picture.data, alt: "" })
      : h("span", { class: "hint" }, h("b", {}, "Choose a picture"), h("span", {}, "or drop or paste one here")),
  );

const webcam = () =>
  h("div", { class: "drop live", "data-key": "live" },
    h("video", { autoplay: true, muted: true, playsinline: true, "aria-label": "What the webcam sees", "data-keep": "muted autoplay playsinline" }),
    h("p", { class: "buttons over-picture" },
      h("button", { type: "button", class: "primary", "data-pick": "shoot" }, "Take this picture"),
      h("button", { type: "button", "data-pick": "stop" }, "Close the camera"),
    ),
  );

function chooser({ datasets, dataset, topic }) {
  if (topic) return form("A robot’s camera", "Take its next picture", h("label", {}, "Topic", h("input", { name: "topic", value: topic, required: true })));
  if (!datasets.length) return null;
  const chosen = datasets.find(({ path }) => path === dataset);
  return form(
    "First frame of an episode",
    "Take its first frame",
    h("label", {}, "Dataset", h("select", { name: "dataset" }, datasets.map(({ path }) => h("option", { value: path, selected: path === dataset }, path)))),
    h("label", {}, "Episode", h("input", { name: "episode", type: "number", min: 0, max: Math.max(0, (chosen?.episodes ?? 1) - 1), value: 0, required: true })),
  );
}

const form = (title, words, ...fields) =>
  h("form", { class: "edit-form", "data-key": title, "aria-label": title },
    fields,
    h("p", { class: "buttons" }, h("button", { class: "primary" }, words), h("button", { type: "button", "data-pick": "stop" }, "Cancel")),
  );

// A picture that a person brings becomes {data, width, height, name}: a data URL of at most `limits.max_pixels` pixels
// and MAX_BYTES bytes.

class Unreadable extends Error {}

const KEPT = ["image/png", "image/jpeg"];
const MAX_BYTES = 12 * 2 ** 20;
const QUALITY = 0.95;

// Reads a picture, and scales it down in the browser if it is larger than the server takes.
async function read(blob, limits) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob);
  } catch {
    throw new Unreadable(`${blob.name || "That"} is no picture that this browser can read.`);
  }
  const { width, height } = bitmap;
  const fits = KEPT.includes(blob.type) && width * height <= limits.max_pixels && blob.size <= MAX_BYTES;
  const picture = fits ? { data: await dataUrl(blob), width, height } : await drawn(bitmap, limits);
  bitmap.close();
  const scaled = picture.width < width;
  return { ...picture, name: blob.name ?? "picture", note: scaled ? `made smaller: ${width} × ${height} is more than the server takes` : "" };
}

// Draws a bitmap or a video onto a canvas; as PNG if that is small enough, else as JPEG, ever smaller.
async function drawn(source, limits) {
  const [width, height] = [source.videoWidth ?? source.width, source.videoHeight ?? source.height];
  let scale = Math.min(1, Math.sqrt(limits.max_pixels / (width * height)));
  for (;;) {
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.floor(width * scale));
    canvas.height = Math.max(1, Math.floor(height * scale));
    canvas.getContext("2d").drawImage(source, 0, 0, canvas.width, canvas.height);
    for (const type of KEPT) {
      const blob = await new Promise((done) => canvas.toBlob(done, type, QUALITY));
      if (blob && blob.size <= MAX_BYTES) {
        return { data: await dataUrl(blob), width: canvas.width, height: canvas.height };
      }
    }
    scale *= 0.7;
  }
}

function dataUrl(blob) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(new Unreadable("The picture cannot be read."));
    reader.readAsDataURL(blob);
  });
}

// The first picture of a drop or of the clipboard; null where there is none.
const pictureOf = (transfer) => [...(transfer?.files ?? [])].find(({ type }) => type.startsWith("image/")) ?? null;

// The camera of this computer: its live picture, until it is stopped.
class Webcam {
  static async open() {
    if (!navigator.mediaDevices) throw new Unreadable("A browser gives its camera to pages on this machine or behind https only.");
    try {
      return new Webcam(await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } }));
    } catch (error) {
      throw new Unreadable(
        error.name === "NotAllowedError" ? "The browser does not let this page see a camera." : "No camera was found.",
      );
    }
  }

  constructor(stream) {
    this.stream = stream;
  }

  async take(video, limits) {
    const picture = await drawn(video, limits);
    return { ...picture, name: "webcam", note: "" };
  }

  stop() {
    for (const track of this.stream.getTracks()) track.stop();
  }
}
