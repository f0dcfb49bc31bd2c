"""n plans drawn to the end, the best kept, against retries: the nano models, by lab/docs/think-first.md.

    python lab/benchmarks/think_first.py --out out/think --json

The same command goes on after a stop.

Keys of --json: `split`, `first`, `episodes`, and two lists, whose measurements are
[value, low, high] with 95 % over tasks:
- `draws`, one for each register: shares of plans that reach the goal (`first_plan`, `other_plans`), of other
  plans with other sub-goals than the first (`differ`), and of right and wrong ends of which the Critic says
  yes: to all `steps`, or to the `whole`;
- `rows`, one for each register, arm and `n`: shares of kept ends that are `right`, that have all steps
  `accepted`, and of these that are wrong (`untrue`); points of `right` ahead of one plan (`over_one`) and of
  retries with the same n (`over_retries`); pictures drawn for a task (`edits`).
"""

import math
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from ablation import is_done
from common import argument_parser, parse, report

from goalreel.cli.console import progress_bars
from goalreel.drivers import run
from goalreel.files import exclusive
from goalreel.loop import LoopArguments
from goalreel.models import presets
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.tabletop.grammar import MAX_GOALS
from goalreel.tabletop.scene import SubGoal
from goalreel.tabletop.splits import SEEDS, seeds
from goalreel.types import Failure, Plan, Planner, Storyboard, Task, Verdict
from goalreel_lab.bench.plan import REGISTERS, read_plan, score_plan, tersely
from goalreel_lab.bench.scenes import Walk, walks
from goalreel_lab.corpora.rows import Register
from goalreel_lab.statistics import Measurement, points, share, share_with_interval, with_interval

LEAST = 1e-6
"""Probability that stands for an answer that never came."""
APART = 1_000_000
"""Distance of the seeds of two draws of a task; no episode's seed is larger."""
NUMBERS = (1, 2, 4, 8)
TEMPERATURE = 1
"""Temperature of all plans but a task's first."""


@dataclass(frozen=True)
class DrawnEnd:
    """A plan that was drawn to its end: what the simulator and the Critic say of it."""

    seed: int
    goals: tuple[SubGoal | None, ...]
    reaches: bool
    right: bool
    accepted: bool
    edits: int
    steps: float
    """Sum of the logarithms of the probabilities of the steps' pictures."""
    whole: float
    """Logarithm of the probability that the last picture shows the whole task."""


type Judge = Callable[[DrawnEnd], float]
JUDGES: Mapping[str, Judge] = {
    "steps": lambda end: end.steps,
    "whole": lambda end: end.whole,
    "both": lambda end: end.steps + end.whole,
    "oracle": lambda end: end.right,
}


@dataclass(frozen=True)
class DrawPlanner:
    """A Planner whose plans depend on a task's own seed alone, ordered in one register."""

    planner: Planner
    walks: Mapping[str, Walk]
    register: Register
    number: int

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        return [self._plan(task) for task in tasks]

    def _plan(self, task: Task) -> Plan | Failure:
        torch.manual_seed(task.seed)
        (plan,) = self.planner.plan([task])
        if isinstance(plan, Failure) or self.register == "explicit":
            return plan
        return tersely(plan, self.walks[task.id], self.number)


class Thinker:
    """The models, asked for whole draws of all tasks."""

    def __init__(self, scenes: Sequence[Walk], journal: Journal) -> None:
        self.walks, self.preset = {walk.task.id: walk for walk in scenes}, presets.load("nano")
        sampling = presets.load("nano", planner=f"{self.preset.planner}&temperature={TEMPERATURE}")
        self.models = load(self.preset).with_journal(journal)
        self.sampled = load(sampling, roles={"planner"}).with_journal(journal).planner

    def draw(self, register: Register, number: int, attempts: int) -> list[DrawnEnd]:
        """Plan and draw each task; number 0 is the Planner's likeliest plan, the others are sampled."""
        likeliest, editor, critic = self.models.planner, self.models.editor, self.models.critic
        planner = DrawPlanner(self.sampled if number else likeliest, self.walks, register, number)
        tasks = [w.task.model_copy(update={"seed": w.seed + number * APART}) for w in self.walks.values()]
        how = LoopArguments(max_attempts=attempts, keep=self.preset.keep, confirms=lambda steps: True)
        boards = {board.task.id: board for board in run(tasks, planner, editor, critic, **how)}
        return [drawn_end(walk, boards[name]) for name, walk in self.walks.items()]


def drawn_end(walk: Walk, board: Storyboard) -> DrawnEnd:
    """Read the end back, and write down what the Critic said."""
    steps = board.steps
    plan = board.failure or Plan(steps=tuple(s.step for s in steps))
    chosen = [None if s.chosen is None else s.attempts[s.chosen].verdict for s in steps]
    return DrawnEnd(
        seed=walk.seed,
        goals=tuple(read_plan(plan, walk.names)) if isinstance(plan, Plan) else (),
        reaches=score_plan(walk, plan).reaches,
        right=is_done(walk, steps[-1].goal_image if steps else None),
        accepted=bool(steps) and all(s.accepted for s in steps),
        edits=sum(len(s.attempts) for s in steps),
        steps=sum(map(logarithm, chosen or [None] * MAX_GOALS)),
        whole=logarithm(board.end.answer if board.end else None),
    )


def logarithm(answer: Verdict | Failure | None) -> float:
    """Compute the logarithm of the probability of success, or of the yes or no that has none."""
    if not isinstance(answer, Verdict):
        return math.log(LEAST)
    probability = float(answer.success) if answer.probability is None else answer.probability
    return math.log(max(LEAST, probability))


type Kept = list[tuple[DrawnEnd, int]]
"""The end that is kept of each task, and the pictures that were drawn for the task."""


def best(draws: Sequence[Sequence[DrawnEnd]], judge: Judge) -> Kept:
    """Keep the best end of each task; of equals, to a hundredth, the earliest."""
    return [
        (max(ends, key=lambda end: round(judge(end), 2)), sum(end.edits for end in ends))
        for ends in zip(*draws, strict=True)
    ]


def best_in_doubt(draws: Sequence[Sequence[DrawnEnd]]) -> Kept:
    """Draw the first plan alone where all plans have its sub-goals and the Critic accepts all its steps."""
    kept = zip(zip(*draws, strict=True), best(draws, JUDGES["steps"]), strict=True)
    return [
        thought if len({end.goals for end in ends}) > 1 or not ends[0].accepted else (ends[0], ends[0].edits)
        for ends, thought in kept
    ]


def measure_arm(ends: Kept, one: Kept, retries: Kept) -> dict[str, list[float | None]]:
    """Measure what an arm keeps, beside one plan and beside retries."""

    def ahead(other: Kept) -> Measurement:
        pairs = zip(ends, other, strict=True)
        return with_interval([(end.right, o.right, 1) for (end, _), (o, _) in pairs], points)

    return {
        "right": shares((end, end.right) for end, _ in ends),
        "accepted": shares((end, end.accepted) for end, _ in ends),
        "untrue": shares((end, not end.right) for end, _ in ends if end.accepted),
        "over_one": values(ahead(one)),
        "over_retries": values(ahead(retries)),
        "edits": values(with_interval([(edits, 1) for _, edits in ends], share)),
    }


def measure_draws(draws: Sequence[Sequence[DrawnEnd]]) -> dict[str, list[float | None]]:
    """Measure the plans, and the Critic on all their ends."""
    first, others = draws[0], [pair for draw in draws[1:] for pair in zip(draw, draws[0], strict=True)]
    measured = {
        "first_plan": shares((end, end.reaches) for end in first),
        "other_plans": shares((end, end.reaches) for end, _ in others),
        "differ": shares((end, end.goals != likeliest.goals) for end, likeliest in others),
    }
    for name, right in (("right", True), ("wrong", False)):
        ends = [end for draw in draws for end in draw if end.right == right]
        measured[f"steps_{name}"] = shares((end, end.accepted) for end in ends)
        measured[f"whole_{name}"] = shares((end, end.whole > math.log(0.5)) for end in ends)
    return measured


def shares(hits: Iterable[tuple[DrawnEnd, bool]]) -> list[float | None]:
    return values(share_with_interval((end.seed, hit) for end, hit in hits))


def values(measurement: Measurement) -> list[float | None]:
    numbers = measurement.value, measurement.low, measurement.high
    return [None if x is None else round(x, 3) for x in numbers]


def measure(thinker: Thinker, register: Register, most: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Draw all plans in one register, and measure all arms."""
    attempts, rows = thinker.preset.max_attempts, []
    draws = [thinker.draw(register, number, attempts) for number in range(most)]
    one = best(draws[:1], JUDGES["steps"])
    for n in NUMBERS[: NUMBERS.index(most) + 1]:
        retries = best([thinker.draw(register, 0, attempts * n)], JUDGES["steps"])
        arms = {name: best(draws[:n], judge) for name, judge in JUDGES.items()}
        arms |= {"doubt": best_in_doubt(draws[:n]), "retries": retries}
        rows += [
            {"register": register, "arm": arm, "n": n, **measure_arm(ends, one, retries)}
            for arm, ends in arms.items()
        ]
    return {"register": register, **measure_draws(draws)}, rows


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--split", choices=list(SEEDS), default="test")
    parser.add_argument("--first", type=int, default=0, help="first seed, counted from the split's start")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--orders", nargs="+", choices=REGISTERS, default=REGISTERS)
    parser.add_argument("--most", type=int, choices=NUMBERS, default=8, help="plans of a task, at most")
    parser.add_argument("--out", type=Path, help="where answers are kept [default: nowhere]")
    options = parse(parser, argv, episodes=2, most=2, split="validation")
    folder = nullcontext(options.out) if options.out else tempfile.TemporaryDirectory()
    with folder as name, exclusive(Path(name), Path(name)), progress_bars() as progress:
        scenes = walks(seeds(options.split, options.episodes, options.first), progress)
        thinker = Thinker(scenes, Journal(Path(name) / "answers"))
        measured = [measure(thinker, register, options.most) for register in options.orders]
    result = {"split": options.split, "first": options.first, "episodes": len(scenes)}
    result |= {"draws": [one for one, _ in measured], "rows": [row for _, rows in measured for row in rows]}
    report(result, options.json)


if __name__ == "__main__":
    main()
