"use strict";
// Without this script the pages still show everything; it adds enlarging, search and paging.

(function viewer() {
  const dialog = document.getElementById("viewer");
  const picture = dialog.querySelector("img");
  const earlier = dialog.querySelector(".before");
  const wipe = dialog.querySelector("input");
  const text = dialog.querySelector("p");
  let all = [];
  let at = 0;

  function show(index) {
    at = (index + all.length) % all.length;
    const button = all[at];
    const source = button.querySelector("img");
    picture.src = source.src;
    picture.alt = source.alt;
    text.textContent = button.dataset.caption;
    const before = pictureBefore(button);
    earlier.hidden = wipe.parentNode.hidden = !before;
    if (before) earlier.src = before.src;
    wipe.value = 0;
    cut();
  }

  // The goal image of the step before, or the first frame; for a real end frame the goal image beside it.
  function pictureBefore(button) {
    let step = button.closest(".step");
    if (button.matches(".end")) return step.querySelector(".goal img");
    while ((step = step.previousElementSibling)) {
      const goal = step.querySelector(".goal img");
      if (goal) return goal;
    }
    return null;
  }

  // Shows the left part of the earlier picture: both lie on one another, and leave margins at their sides.
  function cut() {
    const { width, height } = picture.getBoundingClientRect();
    const shown = Math.min(width, (height * picture.naturalWidth) / (picture.naturalHeight || 1));
    earlier.style.clipPath = `inset(0 ${width - (width - shown) / 2 - (shown * wipe.value) / 100}px 0 0)`;
  }

  picture.addEventListener("load", cut);
  window.addEventListener("resize", cut);
  wipe.addEventListener("input", cut);

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.zoom");
    if (!button) return;
    all = [...button.closest("article").querySelectorAll("button.zoom")].filter((b) => b.checkVisibility());
    show(all.indexOf(button));
    dialog.showModal();
    dialog.querySelector("[data-close]").focus();
  });

  dialog.addEventListener("click", (event) => {
    const move = event.target.closest("[data-move]");
    if (move) show(at + Number(move.dataset.move));
    else if (!event.target.closest("img, p, label")) dialog.close();
  });

  // On the document: focus may fall to the body, when a caption stops being scrollable.
  document.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (dialog.open && move && event.target !== wipe) {
      event.preventDefault();
      show(at + move);
    }
  });

  dialog.addEventListener("close", () => all[at].focus());
})();

(function list() {
  const form = document.querySelector("form.toolbar");
  if (!form) return;
  const holder = document.getElementById("items");
  const rows = document.getElementById("rows");
  const items = rows ? listed(JSON.parse(rows.textContent)) : whole();
  const size = Number(holder.dataset.size) || items.count || 1;
  const query = document.getElementById("query");
  const status = document.getElementById("status");
  const pager = document.querySelector(".pager");
  let page = 0;

  // Items are numbered; what has to do with their texts is done when somebody searches.
  function whole() {
    const nodes = [...holder.querySelectorAll("[data-item]")];
    return {
      count: nodes.length,
      text: (at) => nodes[at].textContent.toLowerCase(),
      status: (at) => nodes[at].dataset.status,
      show(shown) {
        const seen = new Set(shown);
        nodes.forEach((node, at) => (node.hidden = !seen.has(at)));
      },
    };
  }

  function listed(rows) {
    const texts = [];
    return {
      count: rows.length,
      text(at) {
        const { title, instruction, word, facts } = rows[at];
        return (texts[at] ??= `${title} ${instruction} ${word} ${facts}`.toLowerCase());
      },
      status: (at) => rows[at].words,
      show: (shown) => holder.replaceChildren(...shown.map((at) => line(rows[at]))),
    };
  }

  function line({ episode, page, pictured, word, title, instruction, facts, bars }) {
    const node = document.getElementById("row").content.firstElementChild.cloneNode(true);
    const find = (css) => node.querySelector(css);
    find("a").href = `page-${String(page).padStart(4, "0")}.html#episode-${episode}`;
    if (pictured) find("img").src = `thumbs/episode_${String(episode).padStart(6, "0")}.jpg`;
    else find("img").remove();
    find(".about > .muted").textContent = title;
    find(".said").textContent = instruction;
    find(".facts .muted").textContent = facts;
    find(".facts").prepend(document.getElementById("badges").content.querySelector(`.${word.replace(" ", "-")}`).cloneNode(true));
    for (const [hue, worth, left, width] of bars) {
      const bar = document.createElement("i");
      bar.className = `hue${hue} ${worth}`;
      bar.style.left = `${left}%`;
      bar.style.width = `${width}%`;
      find(".strip").append(bar);
    }
    if (!bars.length) find(".strip").remove();
    return node;
  }

  function matching() {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (at) => {
      const text = words.length ? items.text(at) : "";
      return items.status(at).includes(status.value) && words.every((word) => text.includes(word));
    };
    return [...Array(items.count).keys()].filter(fits);
  }

  function draw() {
    const found = matching();
    const pages = Math.max(1, Math.ceil(found.length / size));
    page = Math.min(Math.max(page, 0), pages - 1);
    items.show(found.slice(page * size, (page + 1) * size));
    document.getElementById("count").textContent =
      found.length === items.count ? `${items.count} episodes` : `${found.length} of ${items.count} episodes`;
    document.getElementById("nothing").hidden = found.length > 0 || items.count === 0;
    if (!pager) return;
    pager.hidden = pages === 1;
    document.getElementById("where").textContent = `Page ${page + 1} of ${pages}`;
    pager.querySelector("[data-turn='-1']").disabled = page === 0;
    pager.querySelector("[data-turn='1']").disabled = page === pages - 1;
  }

  // The list's state lives in the address, so that Back returns to the same place.
  function remember() {
    const state = new URLSearchParams();
    if (query.value) state.set("q", query.value);
    if (status.value) state.set("status", status.value);
    if (page) state.set("page", String(page + 1));
    history.replaceState(null, "", `#${state}`);
  }

  function recall() {
    const state = new URLSearchParams(location.hash.slice(1));
    query.value = state.get("q") || "";
    status.value = state.get("status") || "";
    page = (Number(state.get("page")) || 1) - 1;
    draw();
  }

  function restart() {
    page = 0;
    draw();
    remember();
  }

  query.addEventListener("input", restart);
  status.addEventListener("change", restart);
  form.addEventListener("submit", (event) => event.preventDefault());
  if (pager) {
    pager.addEventListener("click", (event) => {
      const turn = event.target.closest("[data-turn]");
      if (!turn) return;
      page += Number(turn.dataset.turn);
      draw();
      remember();
      holder.scrollIntoView();
    });
  }
  form.hidden = items.count < 2;
  // Links of the table above; those to a step have no state.
  window.addEventListener("hashchange", () => location.hash.includes("=") && recall());
  recall();
})();
