// From the address to a view: #/ is the start, #/storyboard/ID a storyboard.

import * as api from "./api.js";
import { BoardView } from "./board.js";
import { StartView } from "./start.js";
import { h } from "/common/dom.js";
import { nameField, person, startPage } from "/common/page.js";

async function first() {
  const [studio, { scenes: examples }] = await Promise.all([api.studio(), api.examples()]);
  // What stands above every view: the way home, and who looks.
  document.body.prepend(
    h("header", { class: "masthead" },
      h("a", { class: "brand", href: "#/" }, h("b", {}, "goalreel"), " studio"),
      nameField("person", { class: "you" }),
    ),
  );
  return { studio, examples };
}

async function load(address) {
  const id = /^#\/storyboard\/([\w-]+)$/.exec(address)?.[1];
  return { state: id ? await api.state(id, person("person")) : null };
}

function show(holder, { state }, { go }, { studio, examples }) {
  document.title = state ? `${state.instruction} · goalreel studio` : "goalreel studio";
  if (!state) return new StartView(holder, { studio, examples, go });
  return new BoardView(holder, { studio, state, by: () => person("person"), go });
}

startPage({ first, load, show, home: "All storyboards" });
