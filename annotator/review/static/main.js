// From the address to a view: #/ is the list, #/episode/3 an episode; behind ? is the queue that it is looked at in.

import { EpisodeView } from "./episode.js";
import { ListView, queue } from "./list.js";
import { find, h } from "/common/dom.js";
import { nameField, person, startPage } from "/common/page.js";
import { ask } from "/common/server.js";

async function load(address, shared) {
  const [path, search] = address.replace(/^#/, "").split("?");
  const query = queue(new URLSearchParams(search ?? ""));
  const index = /^\/episode\/(\d+)$/.exec(path)?.[1];
  return { query, episode: index === undefined ? null : await ask(`/api/episodes/${index}?${query}&${new URLSearchParams({ by: person(shared.reviewer) })}`) };
}

function show(holder, { query, episode }, { go, replace }, dataset) {
  const title = episode ? `Episode ${episode.episode} · ` : "";
  document.title = `${title}${dataset.name} · goalreel review`;
  find(".who")?.remove();
  document.body.append(h("aside", { class: "who", "aria-label": "Who reviews" }, nameField(dataset.reviewer)));
  const by = () => person(dataset.reviewer);
  if (episode) return new EpisodeView(holder, { dataset, episode, query, by, go });
  return new ListView(holder, { dataset, query, by, keep: (now) => replace(`#/?${now}`) });
}

startPage({ first: () => ask("/api/dataset"), load, show, home: "All episodes" });
