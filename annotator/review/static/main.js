// From the address to a view: #/ is the list, #/episode/3 an episode; behind ? is the queue that it is looked at in.

import * as api from "./api.js";
import { fill, find, h } from "/common/dom.js";
import { enlargeOnClick, say } from "/common/parts.js";
import { EpisodeView } from "./episode.js";
import { ListView, queue } from "./list.js";

const NAME = "goalreel reviewer";
const holder = document.getElementById("page");
let dataset;
let view = null;
let here = location.hash;

const reviewer = () => localStorage.getItem(NAME) || dataset.reviewer;

function parsed() {
  const [path, search] = location.hash.replace(/^#/, "").split("?");
  const found = /^\/episode\/(\d+)$/.exec(path);
  return { episode: found && Number(found[1]), query: queue(new URLSearchParams(search ?? "")) };
}

const go = (address) => (location.hash = address);

async function route() {
  const unsaved = view?.session && view.session.state !== "saved";
  if (unsaved) {
    if (location.hash !== here) {
      history.replaceState(null, "", here);
      say("Something is not saved yet: send it again, or drop it, before you go on.");
    }
    return;
  }
  const wanted = location.hash;
  const { episode, query } = parsed();
  try {
    const found = episode === null ? null : await api.episode(episode, query);
    if (location.hash !== wanted) return;
    here = wanted;
    view?.close();
    view = found ? shown(found, query) : listed(query);
    document.title = `${found ? `Episode ${episode} · ` : ""}${dataset.name} · goalreel review`;
    who();
  } catch (error) {
    if (!(error instanceof api.Refusal)) throw error;
    here = wanted;
    view?.close();
    view = null;
    fill(holder, h("p", { class: "empty", role: "alert" }, `Not loaded: ${error.message}. `, h("a", { href: "#/" }, "All episodes")));
  }
}

function listed(query) {
  const keep = (now) => {
    here = `#/?${now}`;
    history.replaceState(null, "", here);
  };
  const list = new ListView(holder, { dataset, query, keep });
  list.open();
  return list;
}

function shown(episode, query) {
  window.scrollTo(0, 0);
  return new EpisodeView(holder, { dataset, episode, query: () => query, by: reviewer, go });
}

// Who reviews: asked once, kept in this browser.
function who() {
  const label = h("label", { class: "who", "data-key": "who" }, "You are ", h("input", { value: reviewer(), maxlength: 80, "aria-label": "Your name", size: 12 }));
  find("input", label).addEventListener("change", (event) => {
    const name = event.target.value.trim();
    if (name) localStorage.setItem(NAME, name);
    event.target.value = reviewer();
  });
  find(".who")?.remove();
  document.body.append(label);
}

async function start() {
  try {
    dataset = await api.dataset();
  } catch (error) {
    if (!(error instanceof api.Refusal)) throw error;
    fill(holder, h("p", { class: "empty", role: "alert" }, `Not loaded: ${error.message}.`));
    return;
  }
  enlargeOnClick();
  window.addEventListener("hashchange", route);
  await route();
}

start();
