"""Write the scores of the nano models into their model cards and lab/docs/nano.md.

lab/docs/nano.md has the commands that make the JSON.
"""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from goalreel.checkpoints import NANO
from goalreel.cli.errors import one_line_errors
from goalreel.errors import InputError

ROOT = Path(__file__).parents[3]
MEASURES = {
    "plan.exact": ("plan: the true sub-goals in their order", None),
    "plan.exact_most": ("plan: the most that can be expected, since some orders are given nowhere", None),
    "plan.reaches": ("plan: exact, or in another order that ends the same", "97 %"),
    "plan.exact_held_out": ("plan, compositions that training never shows", None),
    "plan.f1": ("plan: F1 of sub-goals, order aside", None),
    "edit.score": ("edit, explicit prompt: goal reached, all else untouched", "97 %"),
    "edit.reached": ("edit, explicit prompt: goal reached", None),
    "edit.untouched": ("edit, explicit prompt: all else untouched", None),
    "edit.score_held_out": ("edit, explicit prompt, compositions that training never shows", None),
    "edit.score_terse": ("edit, terse prompt", None),
    "critic.balanced_accuracy": ("critic: balanced accuracy", "97 %"),
    "critic.balanced_accuracy_made": ("critic, made candidates", None),
    "critic.balanced_accuracy_editor": ("critic, the editor's own pictures", None),
    "critic.rewrite": ("critic: its prompt turns a rejected mistake into a success", None),
    "critic.reseed": ("critic: the old prompt does, with the same new seed", None),
    "loop.steps_1": ("loop: right steps, 1 attempt", None),
    "loop.steps_5": ("loop: right steps, 5 attempts", None),
    "loop.steps_5_oracle": ("loop: with a perfect critic, 5 attempts", None),
    "loop.boards_1": ("loop: storyboards with no wrong step, 1 attempt", None),
    "loop.boards_5": ("loop: storyboards with no wrong step, 5 attempts", "93 %"),
    "loop_terse.steps_1": ("loop, terse prompts: right steps, 1 attempt", None),
    "loop_terse.steps_3": ("loop, terse prompts: right steps, 3 attempts", None),
    "loop_terse.steps_5": ("loop, terse prompts: right steps, 5 attempts", None),
    "loop_terse.steps_5_oracle": ("loop, terse prompts: with a perfect critic, 5 attempts", None),
    "loop_terse.steps_5_control": ("loop, terse prompts: new seeds and no critic, 5 attempts", None),
    "loop_terse.gap_closed": (
        "loop, terse prompts: share of the gap to a perfect critic that is closed",
        "60 %",
    ),
    "loop_terse.boards_5": ("loop, terse prompts: storyboards with no wrong step, 5 attempts", None),
    "closed_loop.success": (
        "closed loop: episodes that end with all predicates true",
        "next line, less 5 points",
    ),
    "closed_loop.truth": ("closed loop on true goal images", None),
    "closed_loop_terse.success": ("closed loop, terse prompts", None),
    "annotate.boundary_f1": ("annotate: boundaries within 0.5 s, F1", None),
    "annotate.labels": ("annotate: sub-tasks with the right words", None),
    "annotate.goal_images": ("annotate: sub-tasks with a right goal image", None),
}
"""Measure -> its label, and the project's aim."""
CARDS = {"planner": ("plan.",), "editor": ("edit.",), "critic": ("critic.", "loop")}


def rows(scores: dict[str, float | None], names: list[str]) -> str:
    """Make a table of those measures that have a score."""
    lines = ["| | test split | 95 % interval | aim | episodes |", "|---|---|---|---|---|"]
    for name in names:
        value, (label, aim) = scores.get(name), MEASURES[name]
        if value is not None:
            low, high = (scores[f"{name}_{end}"] for end in ("low", "high"))
            interval = "" if low is None or high is None else f"{100 * low:.0f} - {100 * high:.0f} %"
            cells = f"{100 * value:.1f} %", interval, aim or "", f"{scores[f'{name}_episodes']:.0f}"
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def put(path: Path, table: str) -> None:
    """Replace what stands between the marks of a file.

    Raises:
        InputError: the file has no marks.
    """
    text = path.read_text(encoding="utf-8")
    marked = re.compile(r"(<!-- scores -->\n).*?(<!-- /scores -->)", re.DOTALL)
    if not marked.search(text):
        raise InputError(f"{path} has no <!-- scores --> and <!-- /scores -->")
    path.write_text(marked.sub(lambda m: f"{m[1]}\n{table}\n\n{m[2]}", text), encoding="utf-8")


def card(path: Path, table: str) -> None:
    """Put the scores of a checkpoint into its model card."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"## What it can do\n.*?(?=## What it cannot do)", "", text, flags=re.DOTALL)
    scores = f"TabletopBench, with the other two nano models:\n\n{table}"
    text = text.replace("## What it cannot do", f"## What it can do\n\n{scores}\n\n## What it cannot do")
    path.write_text(text, encoding="utf-8")


def read(files: list[Path]) -> dict[str, float | None]:
    """Read the measures of several runs, with intervals and, as `NAME_episodes`, how many episodes.

    Raises:
        InputError: a run on another split than test, or under another view than the plain one.
    """
    measures: dict[str, float | None] = {}
    for file in files:
        try:
            scores = json.loads(file.read_text())
        except ValueError as e:
            raise InputError(f"{file} is no JSON of goalreel eval tabletop: {e}") from e
        if scores["split"] != "test":
            raise InputError(f"{file} is of the {scores['split']} split; give scores of the test split")
        if (view := (scores["look"], scores["camera"])) != ("plain", "front"):
            raise InputError(
                f"{file} is of {' '.join(view)} scenes; give scores of plain ones, from the front"
            )
        measures |= scores | {f"{name}_episodes": scores["episodes"] for name in MEASURES if name in scores}
    return measures


def main(
    scores: Annotated[list[Path], typer.Argument(help="JSON of `goalreel eval tabletop --json`.")],
) -> None:
    """Write scores of the test split into the model cards and lab/docs/nano.md."""
    with one_line_errors():
        measures = read(scores)
        put(ROOT / "lab" / "docs" / "nano.md", rows(measures, list(MEASURES)))
        for role, parts in CARDS.items():
            names = [name for name in MEASURES if name.startswith(parts)]
            card(NANO / role / "README.md", rows(measures, names))


if __name__ == "__main__":
    typer.run(main)
