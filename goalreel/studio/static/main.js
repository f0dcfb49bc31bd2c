// From the address to a view: #/ is the start, #/storyboard/ID a storyboard.

import * as api from "./api.js";
import { BoardView } from "./board.js";
import { fill, find, h } from "/common/dom.js";
import { enlargeOnClick, say } from "/common/parts.js";
import { StartView } from "./start.js";

const NAME = "goalreel person";
const holder = document.getElementById("page");
let studio;
let examples = [];
let view = null;
let here = location.hash;

const person = () => localStorage.getItem(NAME) || studio.person || "person";
const go = (address) => (location.hash = address);

async function route() {
  if (view?.unsaved) {
    if (location.hash !== here) {
      history.replaceState(null, "", here);
      say("Something is not saved yet: send it again, or drop it, before you go on.");
    }
    return;
  }
  const wanted = location.hash;
  const id = /^#\/storyboard\/([\w-]+)$/.exec(wanted)?.[1];
  try {
    const state = id ? await api.state(id) : null;
    if (location.hash !== wanted) return;
    here = wanted;
    view?.close();
    window.scrollTo(0, 0);
    view = state
      ? new BoardView(holder, { studio, state, by: person, go })
      : new StartView(holder, { studio, examples, go });
    document.title = state ? `${state.instruction} · goalreel studio` : "goalreel studio";
  } catch (error) {
    if (!(error instanceof api.Refusal)) throw error;
    here = wanted;
    view?.close();
    view = null;
    fill(holder, h("main", {}, h("p", { class: "empty", role: "alert" }, `Not loaded: ${error.message}. `, h("a", { href: "#/" }, "All storyboards"))));
  }
}

// What stands above every view: the way home, the models, and who looks.
function bar() {
  const models = ["planner", "editor", "critic"].map((role) => studio.models[role]).filter(Boolean);
  const input = h("input", { value: localStorage.getItem(NAME) || studio.person || "", placeholder: "your name", maxlength: 80, "aria-label": "Your name", size: 12 });
  input.addEventListener("change", () => {
    const name = input.value.trim();
    localStorage.setItem(NAME, name);
  });
  const top = h(
    "header",
    { class: "masthead" },
    h("a", { class: "brand", href: "#/" }, h("b", {}, "goalreel"), " studio"),
    h("span", { class: "muted models-line" }, [...new Set(models)].join(" · ")),
    h("label", { class: "you" }, "You are", input),
  );
  document.body.prepend(top);
}

async function start() {
  try {
    studio = await api.studio();
    ({ scenes: examples } = await api.examples());
  } catch (error) {
    if (!(error instanceof api.Refusal)) throw error;
    fill(holder, h("p", { class: "empty", role: "alert" }, `Not loaded: ${error.message}.`));
    return;
  }
  bar();
  enlargeOnClick();
  window.addEventListener("hashchange", route);
  await route();
}

start();
