"""What the nano Critic's probability is worth: to judge by, with a threshold, and to choose pictures by.

The threshold is set on validation episodes of its own; what is printed was measured on others: made
candidates and the editor's own pictures, then the loop with the Critic's word and with the threshold. Answers
are kept in --out, so that a killed run goes on.

OMP_NUM_THREADS=1 python benchmarks/nano_threshold.py --out out/nano-threshold --json
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import typer

from goalreel.batch import run
from goalreel.evaluation.intervals import area, balanced, measured, measured_share, points
from goalreel.evaluation.measured import Measured
from goalreel.loop import Keep
from goalreel.models import presets
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.models.trio import Trio
from goalreel.planners.agents.critic import decided
from goalreel.tabletop.bench.critic import MADE, REAL, Judged, judge_all
from goalreel.tabletop.bench.edit import edit_all
from goalreel.tabletop.bench.loop import TruePlanner, right_steps
from goalreel.tabletop.bench.scenes import SIZE, Walk, walks
from goalreel.tabletop.lessons.verdicts import verdict_rows
from goalreel.tabletop.sim.splits import seeds
from goalreel.types import Candidate, Critic, Failure, Verdict

ATTEMPTS = 5
UNSURE = 0.5
"""The probability of an answer that tells none."""


@dataclass(frozen=True)
class Thresholded:
    """A Critic of whose verdicts a threshold decides."""

    critic: Critic
    threshold: float

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict | Failure]:
        answers = self.critic.judge(candidates)
        return [a if isinstance(a, Failure) else decided(a, self.threshold) for a in answers]


def main(
    out: Annotated[Path, typer.Option(help="Where the models' answers are kept.")],
    episodes: Annotated[int, typer.Option(min=1, help="Validation episodes to measure on.")] = 200,
    tuning: Annotated[
        int, typer.Option(min=1, help="Validation episodes after them, for the threshold.")
    ] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
) -> None:
    trio = load(presets.load("nano"), roles={"editor", "critic"}).kept(Journal(out))
    tuned = walks(seeds("validation", tuning, episodes), _tell)
    threshold = best_threshold(_judged(tuned, trio))
    scenes = walks(seeds("validation", episodes), _tell)
    found = measure_judging(_judged(scenes, trio), threshold) | measure_loops(scenes, trio, threshold)
    if as_json:
        values = {key: value.model_dump() for key, value in found.items()}
        facts = {"threshold": threshold, "measured": _span(scenes), "tuned": _span(tuned)}
        typer.echo(json.dumps({**facts, "values": values}))
        return
    typer.echo(f"threshold {threshold:.6g}, from seeds {_span(tuned)}; measured on seeds {_span(scenes)}\n")
    typer.echo("| | value | 95 % interval |\n|---|---|---|")
    for key, value in found.items():
        typer.echo(f"| {key} | {_shown(value.value)} | {_shown(value.low)} - {_shown(value.high)} |")


def _shown(number: float | None) -> str:
    return "none" if number is None else f"{number:.3f}"


def _judged(scenes: Sequence[Walk], trio: Trio) -> list[Judged]:
    edited = edit_all(scenes, trio.editor, _tell)
    made = list(verdict_rows([w.seed for w in scenes], SIZE))
    return judge_all(made, edited, trio.critic, _tell)


def _span(scenes: Sequence[Walk]) -> str:
    return f"{scenes[0].seed} .. {scenes[-1].seed}"


def _tell(stage: str, done: int, total: int) -> None:
    if done == total or done % 160 == 0:
        typer.echo(f"{stage} {done}/{total}", err=True)


def probability(judged: Judged) -> float:
    known = judged.answer.probability if isinstance(judged.answer, Verdict) else None
    return UNSURE if known is None else known


def best_threshold(judged: Sequence[Judged]) -> float:
    """The probability with the best balanced accuracy as a threshold; of equal ones that nearest 0.5."""

    def worth(threshold: float) -> tuple[float, float]:
        sums = np.sum(_halves(judged, lambda j: probability(j) >= threshold), axis=0)
        return float(balanced(sums)), -abs(threshold - 0.5)

    return max({probability(j) for j in judged}, key=worth)


def _halves(judged: Sequence[Judged], accepts: Callable[[Judged], bool]) -> list[list[int]]:
    """A row an episode: good ones accepted, good ones, bad ones rejected, bad ones."""
    rows: dict[int, list[int]] = {}
    for j in judged:
        row = rows.setdefault(j.seed, [0, 0, 0, 0])
        first = 0 if j.good else 2
        row[first] += accepts(j) == j.good
        row[first + 1] += 1
    return list(rows.values())


def measure_judging(judged: Sequence[Judged], threshold: float) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    for end, rows in (
        ("", judged),
        *((f", {name}", [j for j in judged if j.source == source]) for name, source in SOURCES.items()),
    ):
        found |= {
            f"balanced accuracy, word{end}": measured(_halves(rows, _word), balanced),
            f"balanced accuracy, threshold{end}": measured(
                _halves(rows, lambda j: probability(j) >= threshold), balanced
            ),
            f"AUC, word{end}": _auc(rows, lambda j: float(_word(j))),
            f"AUC, probability{end}": _auc(rows, probability),
        }
    told = [(j.seed, isinstance(j.answer, Verdict) and j.answer.probability is not None) for j in judged]
    return found | {"answers with a probability": measured_share(told)}


SOURCES = {"made": MADE, "the editor's": REAL}


def _word(judged: Judged) -> bool:
    return isinstance(judged.answer, Verdict) and judged.answer.success


def _auc(judged: Sequence[Judged], score: Callable[[Judged], float]) -> Measured:
    place = {value: i for i, value in enumerate(sorted({score(j) for j in judged}))}
    rows: dict[int, list[int]] = {}
    for j in judged:
        row = rows.setdefault(j.seed, [0] * 2 * len(place))
        row[place[score(j)] + (0 if j.good else len(place))] += 1
    return measured(list(rows.values()), area)


def measure_loops(scenes: Sequence[Walk], trio: Trio, threshold: float) -> dict[str, Measured]:
    """Right steps of each arm, and by how many points (0-100) each exceeds the first."""
    arms: dict[str, tuple[Critic, Keep]] = {
        "word, best kept": (trio.critic, "best"),
        "word, last kept": (trio.critic, "last"),
        "threshold, best kept": (Thresholded(trio.critic, threshold), "best"),
    }
    found: dict[str, Measured] = {}
    first: list[int] | None = None
    for arm, (critic, keep) in arms.items():
        hits = _hits(scenes, trio, critic, keep)
        each = [(w.seed, hit) for w, row in zip(scenes, hits, strict=True) for hit in row]
        found[f"right steps, {arm}"] = measured_share(each)
        found[f"right storyboards, {arm}"] = measured_share(
            (w.seed, all(row)) for w, row in zip(scenes, hits, strict=True)
        )
        sums = [sum(row) for row in hits]
        if first is not None:
            steps = [len(row) for row in hits]
            more = measured(list(zip(sums, first, steps, strict=True)), points)
            found[f"right steps, {arm}: points more"] = more
        first = first or sums
    return found


def _hits(scenes: Sequence[Walk], trio: Trio, critic: Critic, keep: Keep) -> list[list[bool]]:
    planner = TruePlanner({w.task.id: w for w in scenes}, "terse")
    tasks = [w.task for w in scenes]
    made = run(tasks, planner, trio.editor, critic, max_attempts=ATTEMPTS, keep=keep)
    boards = {board.task.id: board for board in made}
    return [right_steps(w, boards[w.task.id]) for w in scenes]


if __name__ == "__main__":
    typer.run(main)
