// What the page of one episode looks like; nothing here acts.

import { boundaries } from "./boundaries.js";
import { fill, find, h } from "/common/dom.js";
import { badge, button, count, folded, history, undoButtons, unsaved, zoom } from "/common/parts.js";
import { steps } from "./steps.js";
import { ISSUE, UNSEEN, VERDICT, camera as short, doubt, frameUrl, onwards, seconds } from "./words.js";

const SMALL = 240;

// The frame of the page; what is inside is filled by draw().
export function page() {
  return h("div", { class: "episode-page", "data-key": "episode-page" },
    h("header", { class: "top", id: "head" }),
    h("div", { id: "banner" }),
    h("main", {},
      h("section", { class: "look", "aria-label": "Recording" },
        h("div", { id: "cameras", class: "cameras" }),
        h("div", { id: "controls", class: "controls" }),
        h("div", { id: "timeline", class: "time-line" }),
        h("div", { id: "ends", class: "ends" }),
      ),
      h("section", { class: "tell", "aria-label": "Steps" },
        h("div", { id: "steps" }),
        h("div", { id: "whole" }),
        h("details", { id: "history" }),
      ),
    ),
    h("datalist", { id: "names" }),
  );
}

function head(view) {
  const { dataset, episode, changes, query } = view;
  const verdict = VERDICT[episode.verdict];
  return [
    h("div", { class: "title" },
      h("a", { href: `#/?${query}` }, "← All episodes"),
      h("h1", {}, `Episode ${episode.episode}`),
      episode.verdict
        ? badge(episode.verdict, `${verdict}${episode.unseen ? UNSEEN : ""} by ${episode.by ?? view.by()}`)
        : badge("skipped", "not reviewed"),
      doubted(episode) > 0 && badge("in doubt", `${doubted(episode)} of ${count(episode.steps.length, "step")} in doubt`),
      episode.reasons?.length > 0 && h("span", { class: "muted" }, `${doubt(episode.doubt)}: ${episode.reasons.join(", ")}`),
      h("span", { class: `saving ${changes.state}`, role: "status", id: "saving" }, SAVING[changes.state]),
    ),
    folded(episode.instruction, (text) => h("p", { class: "instruction" }, text)),
    dataset.examination && h("p", { class: "muted" }, dataset.examination),
    h("div", { class: "bar-of-buttons" },
      verdictButton(episode, "accept", `Accept episode ${episode.episode}`, "A"),
      verdictButton(episode, "reject", "Reject", "R"),
      verdictButton(episode, "unsure", "Unsure", "U"),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "onwards", checked: onwards() }), "then go to the next"),
      h("span", { class: "between" }),
      undoButtons(episode),
      h("span", { class: "between" }),
      turn(view, episode.previous, "← Previous"),
      turn(view, episode.next, "Next unreviewed →", "N"),
      button("sheet", "Keys", "?"),
    ),
  ];
}

const doubted = ({ steps }) => steps.filter(({ word }) => word === "in doubt").length;

const SAVING = { saved: "Saved", saving: "Saving …", failed: "Not saved", conflict: "Not saved" };

const verdictButton = (episode, verdict, words, key) =>
  button(verdict, words, key, { class: `verdict ${verdict}`, "aria-pressed": episode.verdict === verdict });

const turn = ({ query }, index, words, key) =>
  index === null
    ? h("span", { class: "muted" }, words)
    : h("a", { class: "turn", href: `#/episode/${index}?${query}`, "aria-keyshortcuts": key }, words, key && h("kbd", {}, key));

function cameras({ episode, camera }) {
  return episode.cameras.map((one) =>
    h("figure", { "data-key": one.key, class: one.video ? "camera" : "camera stills", "data-keep": "class" },
      h("div", { class: "screen" },
        one.video &&
          h("video", { src: one.video, "data-camera": one.key, muted: true, playsinline: true, preload: "auto", "data-keep": "muted" }),
        h("img", {
          class: "still", "data-camera": one.key, alt: `${short(one.key)}: frame on show`,
          "data-keep": "src data-wanted data-loading",
        }),
      ),
      h("figcaption", {},
        episode.cameras.length > 1
          ? button("camera", short(one.key), null, {
              class: "chip", "data-camera": one.key, "aria-pressed": one.key === camera,
              title: "Show this camera's frames below, and take goal images from it",
            })
          : short(one.key),
      ),
    ),
  );
}

export function controls({ episode, player }) {
  const { frame } = player;
  return [
    button("play", player.playing ? "Pause" : "Play step", "Space"),
    button("back", "−1", ",", { "aria-label": "One frame back" }),
    button("on", "+1", ".", { "aria-label": "One frame on" }),
    h("span", { class: "where" }, h("b", {}, `frame ${frame}`), ` of ${episode.length} · ${seconds(frame, episode.fps)}`),
    button("faster", `${player.rate}×`, "X", { "aria-label": `Speed: ${player.rate} times` }),
    h("span", { class: "between" }),
    button("start", "Start here", "["),
    button("end", "End here", "]"),
    button("cut", "Cut", "S"),
    button("merge", "Merge", "M", { title: "Merge with the next step" }),
    button("insert", "Insert", "I"),
    button("delete", "Delete", "Del", { class: "danger", "aria-keyshortcuts": "Delete" }),
    button("label", player.playing ? "Cut now" : "Label", "C", { title: "Play on, and mark each change with a key" }),
  ];
}

// Two frames at each boundary of the step: the last of the left one, the first of the right one.
export function ends({ episode, selected, camera }) {
  const own = boundaries(episode).filter(({ left, right }) => left?.id === selected || right?.id === selected);
  return own.map((boundary) => {
    const starts = boundary.right?.id === selected;
    const title = starts ? "Where this step begins" : "Where this step ends";
    const { frame } = boundary;
    return h("div", { class: "joint", "data-key": `${boundary.step} ${boundary.edge}`, role: "group", "aria-label": title },
      h("p", { class: "muted" }, title),
      shot(episode, camera, frame - 1, starts ? "frame before" : "last frame"),
      shot(episode, camera, frame, starts ? "first frame" : "frame after"),
    );
  });
}

function shot(episode, camera, frame, words) {
  const there = frame >= 0 && frame < episode.length;
  const alt = `${words}, ${frame}`;
  return h("figure", { class: "shot" },
    there ? zoom(frameUrl(episode.episode, camera, frame, SMALL), alt, alt) : h("div", { class: "blank" }, "none"),
    h("figcaption", {}, `${words} `, there && h("span", { class: "muted" }, String(frame))),
  );
}

function whole({ episode }) {
  return h("p", { class: "buttons issues" },
    h("span", { class: "muted" }, "Of the whole episode:"),
    button("issue", ISSUE.missing, null, {
      "data-issue": "missing", "data-whole": "episode", "aria-pressed": episode.issues.includes("missing"),
    }),
    h("label", { class: "copied" }, "Copy the steps of episode",
      h("input", { name: "copied", type: "number", min: 0, required: true, value: episode.copy_from ?? "" }),
    ),
    button("copy", "Copy", "V", { title: "In the place of all steps" }),
  );
}

// Brings every part of the page up to date but the time line, whose width the caller knows.
export function draw(view) {
  const { episode } = view;
  const into = (id, ...parts) => fill(find(`#${id}`, view.holder), ...parts);
  into("head", ...head(view));
  into("banner", unsaved(view.changes, view.by()));
  into("cameras", cameras(view));
  into("controls", controls(view));
  into("ends", ends(view));
  into("names", episode.names.map((name) => h("option", { value: name })));
  into("steps", steps(view));
  into("whole", whole(view));
  into("history", ...history(episode.changes, episode.history));
}
