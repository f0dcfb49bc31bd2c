"use strict";
// Without this script the pages still show everything; it adds enlarging, search and paging.

(function viewer() {
  const dialog = document.getElementById("viewer");
  const picture = dialog.querySelector("img");
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
  }

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
    else if (event.target !== picture && !event.target.closest("p")) dialog.close();
  });

  // On the document: focus may fall to the body, when a caption stops being scrollable.
  document.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (dialog.open && move) {
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
  const items = [...holder.querySelectorAll("[data-item]")].map((node) => ({
    node,
    text: node.textContent.toLowerCase(),
    status: node.dataset.status,
  }));
  const size = Number(holder.dataset.size) || items.length || 1;
  const query = document.getElementById("query");
  const status = document.getElementById("status");
  const pager = document.querySelector(".pager");
  let page = 0;

  function matching() {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    return items.filter(
      (item) => (!status.value || item.status === status.value) && words.every((word) => item.text.includes(word)),
    );
  }

  function draw() {
    const found = matching();
    const pages = Math.max(1, Math.ceil(found.length / size));
    page = Math.min(Math.max(page, 0), pages - 1);
    const shown = new Set(found.slice(page * size, (page + 1) * size));
    for (const item of items) item.node.hidden = !shown.has(item);
    document.getElementById("count").textContent =
      found.length === items.length ? `${items.length} episodes` : `${found.length} of ${items.length} episodes`;
    document.getElementById("nothing").hidden = found.length > 0 || items.length === 0;
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
  form.hidden = items.length < 2;
  recall();
})();
