// What can be done for many episodes of an instruction at once, and what that would do.

import { fill, h } from "/common/dom.js";
import { button, count } from "/common/parts.js";
import { ask, attempt, post } from "/common/server.js";

export class Tasks {
  // `changed()` is called when an act has changed episodes.
  constructor(holder, { by, signal, changed }) {
    Object.assign(this, { holder, by, changed, tasks: [], busy: false, told: "" });
    holder.addEventListener("click", ({ target }) => this.#act(target.closest("[data-act]")), { signal });
    this.signal = signal;
    this.load();
  }

  async load() {
    this.told = "";
    this.#draw(await attempt(() => ask("/api/tasks", { signal: this.signal }), ({ message }) => (this.told = `Not loaded: ${message}.`)));
  }

  async #act(pressed) {
    if (!pressed || this.busy) return;
    const { act, task, anyway } = pressed.dataset;
    this.busy = true;
    this.told = act === "carry" ? "Carrying over …" : "";
    this.#draw(this.tasks);
    const { instruction } = this.tasks[Number(task)];
    const refused = ({ message }) => (this.told = `Not done: ${message}.`);
    const done = await attempt(() => post("/api/acts", { act, instruction, by: this.by(), anyway: Boolean(anyway) }), refused);
    this.busy = false;
    if (done) this.told = done.told;
    this.#draw(done?.tasks ?? this.tasks);
    if (done) this.changed();
  }

  #draw(tasks) {
    this.tasks = tasks ?? [];
    fill(this.holder,
      this.told && h("p", { class: "task", role: "status", "data-key": "told" }, this.told),
      ...this.tasks.map((task, at) => line(task, at, this.busy)),
    );
  }
}

const told = (act, episodes) => (act.startsWith("accept") ? `${episodes} accepted without looking` : `carried over to ${episodes}`);

function line(task, at, busy) {
  const act = (name, words, more = {}) => button(name, words, null, { "data-task": at, disabled: busy, ...more });
  const { episodes, labelled, open, sure, enough, last, last_count, undone, undone_count } = task;
  const others = open === episodes - labelled ? `the other ${open}` : count(open, "episode");
  return h("section", { class: "task", "data-key": task.instruction, "aria-label": "Task" },
    h("p", {}, h("b", { dir: "auto" }, task.instruction), h("span", { class: "muted" }, ` ${labelled} of ${count(episodes, "episode")} labelled`)),
    task.told && h("p", {}, `Measured on your labels: ${task.told}.`),
    task.next.length > 0 && h("p", {}, labelled ? "Label next: " : "Nothing is labelled. Label first: ",
      task.next.map((episode, n) => [n > 0 && ", ", h("a", { href: `#/episode/${episode}` }, `episode ${episode}`)]),
      labelled ? "." : ". What you cut and name there can be carried over to the others."),
    h("p", { class: "buttons" },
      enough !== null && open > 0 && (enough
        ? act("carry", `Carry over to ${others} of this task`)
        : [h("span", {}, "Too few boundaries were found again: label more episodes. "), act("carry", `Carry over to ${others} anyway`, { "data-anyway": "true" })]),
      sure > 0 && act("accept", `Accept all ${sure} that are sure`, { title: "Their steps stay as they are, and count as accepted without looking" }),
      last && act("undo", `Undo: ${told(last, last_count)}`),
      undone && act("redo", `Redo: ${told(undone, undone_count)}`),
    ),
    sure > 0 && h("p", { class: "muted" }, `${count(sure, "episode")} would be accepted without looking: their words stay “not checked”. Those in doubt stay for you.`),
  );
}
