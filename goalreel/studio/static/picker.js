// Where a person brings a picture: a drop, a paste, a file, the webcam, a dataset's episode, or a robot's camera.

import * as api from "./api.js";
import { fill, find, h } from "/common/dom.js";
import { Refusal, attempt } from "/common/server.js";

const TOPIC = "goalreel camera";

export class Picker {
  #leaving = new AbortController();
  #picks = {
    file: () => find("input[type=file]", this.holder).click(),
    webcam: () => this.#try(webcam, (stream) => this.#show({ stream, problem: "" })),
    shoot: () => this.#bring(() => shot(find("video", this.holder), this.studio)),
    stop: () => this.#show({ choice: null }),
    dataset: () => this.#try(api.datasets, ({ datasets }) => this.#choose(datasets)),
    camera: () => {
      this.#show({ choice: { topic: localStorage.getItem(TOPIC) ?? "/camera/image_raw" } });
      find("[name=topic]", this.holder).select();
    },
  };
  stream = null;
  choice = null;
  problem = "";

  // `changed(scene)` is called with each new picture; a scene may bring an instruction.
  constructor(holder, { studio, picture = null, changed }) {
    Object.assign(this, { holder, studio, picture, changed });
    const { signal } = this.#leaving;
    const on = (target, name, work) => target.addEventListener(name, work, { signal });
    const over = (event, inside) => {
      event.preventDefault();
      find(".drop", holder).classList.toggle("over", inside);
    };
    on(holder, "click", ({ target }) => this.#picks[target.closest("[data-pick]")?.dataset.pick]?.());
    on(holder, "change", ({ target }) => this.#changed(target));
    on(holder, "submit", (event) => this.#submit(event));
    on(holder, "dragover", (event) => over(event, true));
    on(holder, "dragleave", (event) => over(event, false));
    on(holder, "drop", (event) => {
      over(event, false);
      this.#file(pictureOf(event.dataTransfer));
    });
    on(document, "paste", (event) => {
      const file = pictureOf(event.clipboardData);
      if (!file) return;
      event.preventDefault();
      this.#file(file);
    });
    this.draw();
  }

  close() {
    this.#leaving.abort();
    this.#stop();
  }

  take(scene) {
    this.#stop();
    this.#show({ choice: null, problem: "", picture: scene });
    this.changed(scene);
  }

  draw() {
    fill(this.holder, view(this));
    const video = find("video", this.holder);
    if (video && video.srcObject !== this.stream) video.srcObject = this.stream;
  }

  // Every other choice ends the webcam.
  #show(now) {
    if ("choice" in now) this.#stop();
    Object.assign(this, now);
    this.draw();
  }

  async #try(work, done) {
    const found = await attempt(work, ({ message }) => this.#show({ problem: message }));
    if (found) done(found);
  }

  #bring(work) {
    return this.#try(work, (scene) => this.take(scene));
  }

  #file(file) {
    this.#bring(() => read(file, this.studio));
  }

  #changed({ type, files, value, name }) {
    if (type === "file" && files[0]) this.#file(files[0]);
    if (name === "dataset") this.#show({ choice: { ...this.choice, dataset: value } });
  }

  #choose(datasets) {
    const problem = datasets.length ? "" : "The folder that was given with --datasets has no dataset.";
    this.#show({ choice: { datasets, dataset: datasets[0]?.path }, problem });
    find("[name=dataset]", this.holder)?.focus();
  }

  #submit(event) {
    event.preventDefault();
    event.stopPropagation();
    const { dataset, episode, topic } = Object.fromEntries(new FormData(event.target));
    if (topic) localStorage.setItem(TOPIC, topic);
    this.#bring(async () => {
      const { picture, ...scene } = await (topic ? api.cameraFrame(topic) : api.firstFrame(dataset, episode));
      return { ...scene, data: picture };
    });
  }

  #stop() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = null;
  }
}

const source = (pick, words, more = {}) => h("button", { type: "button", "data-pick": pick, ...more }, words);

function view({ studio, picture, choice, problem, stream }) {
  return h("div", { class: "picker", "data-key": "picker" },
    stream ? live() : zone(picture),
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

const zone = (picture) =>
  source("file",
    picture
      ? h("img", { src: picture.data, alt: "" })
      : h("span", { class: "hint" }, h("b", {}, "Choose a picture"), h("span", {}, "or drop or paste one here")),
    {
      class: picture ? "drop full" : "drop", "data-key": "drop",
      "aria-label": picture ? `Picture: ${picture.name}. Choose another` : "Choose a picture, or drop or paste one here",
    },
  );

const live = () =>
  h("div", { class: "drop live", "data-key": "live" },
    h("video", { autoplay: true, muted: true, playsinline: true, "aria-label": "What the webcam sees", "data-keep": "muted autoplay playsinline" }),
    h("p", { class: "buttons over-picture" }, source("shoot", "Take this picture", { class: "primary" }), source("stop", "Close the camera")),
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
    h("p", { class: "buttons" }, h("button", { class: "primary" }, words), source("stop", "Cancel")),
  );

// A picture that a person brings becomes {data, name, note}: a data URL of at most `limits.max_pixels` pixels and
// MAX_BYTES bytes.

const KEPT = ["image/png", "image/jpeg"];
const MAX_BYTES = 12 * 2 ** 20;
const QUALITY = 0.95;

const unreadable = (words) => {
  throw new Refusal(0, words);
};

// Reads a picture, and scales it down in the browser if it is larger than the server takes.
export async function read(file, limits) {
  if (!file) unreadable("That is no picture: drop a PNG or JPEG file.");
  const bitmap = await createImageBitmap(file).catch(() => unreadable(`${file.name || "That"} is no picture that this browser can read.`));
  const { width, height } = bitmap;
  const fits = KEPT.includes(file.type) && width * height <= limits.max_pixels && file.size <= MAX_BYTES;
  const picture = fits ? { data: await dataUrl(file), width } : await drawn(bitmap, limits);
  bitmap.close();
  const note = picture.width < width ? `made smaller: ${width} × ${height} is more than the server takes` : "";
  return { data: picture.data, name: file.name || "picture", note };
}

// Draws a bitmap or a video onto a canvas; as PNG if that is small enough, else as JPEG, ever smaller.
async function drawn(source, limits) {
  const [width, height] = [source.videoWidth ?? source.width, source.videoHeight ?? source.height];
  const canvas = document.createElement("canvas");
  for (let scale = Math.min(1, Math.sqrt(limits.max_pixels / (width * height))); ; scale *= 0.7) {
    canvas.width = Math.max(1, Math.floor(width * scale));
    canvas.height = Math.max(1, Math.floor(height * scale));
    canvas.getContext("2d").drawImage(source, 0, 0, canvas.width, canvas.height);
    for (const type of KEPT) {
      const blob = await new Promise((done) => canvas.toBlob(done, type, QUALITY));
      if (blob?.size <= MAX_BYTES) return { data: await dataUrl(blob), width: canvas.width };
    }
  }
}

export const dataUrl = (blob) =>
  new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsDataURL(blob);
  });

// The first picture of a drop or of the clipboard.
const pictureOf = (transfer) => [...(transfer?.files ?? [])].find(({ type }) => type.startsWith("image/"));

async function webcam() {
  if (!navigator.mediaDevices) unreadable("A browser gives its camera to pages on this machine or behind https only.");
  return navigator.mediaDevices
    .getUserMedia({ video: { facingMode: "environment" } })
    .catch(({ name }) => unreadable(name === "NotAllowedError" ? "The browser does not let this page see a camera." : "No camera was found."));
}

async function shot(video, limits) {
  if (!video.videoWidth) unreadable("The camera shows no picture yet: try again.");
  return { ...(await drawn(video, limits)), name: "webcam" };
}
