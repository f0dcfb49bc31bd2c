// One question about the robot: its picture, and a button for each answer.

import { fill, find, h } from "/common/dom.js";
import { button, say } from "/common/parts.js";
import { ask, attempt, post } from "/common/server.js";

const { look, text, answers } = await ask("/api/question");
const page = find("#page");
document.title = `${look} · goalreel`;
fill(
  page,
  h("main", {},
    h("h1", {}, look),
    h("img", { src: "/picture.png", alt: look }),
    h("p", { class: "buttons" }, answers.map(({ letter, words }) => button(letter, `${letter}: ${words}`, null))),
    h("p", { class: "muted" }, `The data do not tell: ${text}.`),
  ),
);
page.addEventListener("click", async ({ target }) => {
  const letter = target.closest("[data-act]")?.dataset.act;
  if (letter === undefined) return;
  const failed = await attempt(async () => void (await post(`/api/answers/${letter}`, {})), (why) => say(why.message));
  if (failed === undefined) fill(page, h("main", {}, h("h1", {}, `${letter} it is. The run goes on in the terminal.`)));
});
