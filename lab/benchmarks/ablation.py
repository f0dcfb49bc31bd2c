"""The rows of InterleaveThinker's Table 5 that need no training of their own, at nano scale.

    python lab/benchmarks/ablation.py --out out/ablation --json

Each row plans and draws the same scenes of the tabletop from the instruction alone. Orders are said tersely,
so that a Critic has something to mend. Not fine-tuned (zero-shot) are, for want of a model that was trained
on other data and sees at this scale: a Planner that makes a step of each clause of the instruction, and the
Critic `difference`, which finds unusable pictures by rules. The same command goes on after a stop.

Keys of --json: `split`, `first`, `episodes`, and `rows`. A row has `name`, `attempts` (T) and, as
[value, low, high] with 95 % over episodes:
- text: share of the plans that reach the goal, by carrying them out (0 without a Planner);
- image: share of the storyboards whose last picture shows the task done and all else untouched;
- ahead: by how many points `image` exceeds that of the fine-tuned pair with one attempt.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import argument_parser, parse, report

from goalreel.annotator.statistics import Measurement, with_interval
from goalreel.cli.console import progress_bars
from goalreel.files import exclusive
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.planners.chat import InstructionPlanner
from goalreel.planners.kinematic.clauses import read
from goalreel.tabletop.readback import shown
from goalreel.tabletop.splits import SEEDS, seeds
from goalreel.types import Critic, Failure, Plan, Planner, Step, Storyboard, Task
from goalreel_lab.bench.closed import TersePlanner
from goalreel_lab.bench.loop import NoCritic, OracleCritic, TruePlanner, boards
from goalreel_lab.bench.plan import score_plan
from goalreel_lab.bench.scenes import Walk, disturbed, look_rendered, walks
from goalreel_lab.statistics import points, share_with_interval


class ClausePlanner:
    """A Planner without a model: each clause of the instruction is a step."""

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        """Read each instruction."""
        return [
            Plan(
                steps=tuple(
                    Step(name=clause.name, instruction=clause.state, prompt=clause.prompt)
                    for clause in read(task.instruction)
                )
            )
            for task in tasks
        ]


@dataclass(frozen=True)
class AblationRow:
    """One row of the table: who plans and judges, and how often a step is tried."""

    name: str
    planner: Planner
    critic: Critic
    attempts: int


def is_done(walk: Walk, picture: Image | None) -> bool:
    """Tell whether a picture shows what the task asks for at its end, and all else where it was."""
    first, before, last = (walk.moments[i].layout for i in (0, -2, -1))
    layout = look_rendered(picture, walk.episode.scene, before, walk.goals[-1].object)
    if layout is None:
        return False
    goals = [goal for goal in walk.goals if shown(last, goal)]
    return all(shown(layout, goal) for goal in goals) and not disturbed(
        layout, first, {goal.object for goal in walk.goals}
    )


def measure(scenes: Sequence[Walk], journal: Journal) -> list[dict[str, object]]:
    """Run all rows."""
    by_task = {walk.task.id: walk for walk in scenes}
    tuned = load(presets.load("nano")).with_journal(journal)
    rules = load(presets.load("nano", critic="difference"), roles={"critic"}).critic
    planner, true = TersePlanner(tuned.planner, by_task), TruePlanner(by_task, "terse")
    clauses = TersePlanner(ClausePlanner(), by_task)
    rows = [
        AblationRow("editor alone", InstructionPlanner(), NoCritic(), 1),
        AblationRow("Planner and Critic not fine-tuned", clauses, rules, 5),
        AblationRow("Planner fine-tuned, Critic not", planner, rules, 5),
        AblationRow("both fine-tuned", planner, NoCritic(), 1),
        *(AblationRow("both fine-tuned", planner, tuned.critic, limit) for limit in (3, 5)),
        AblationRow("true plan and a perfect Critic", true, OracleCritic(by_task), 5),
    ]
    numbers = [walk.seed for walk in scenes]
    results: list[tuple[AblationRow, Measurement, list[bool]]] = []
    for row in rows:
        storyboards = boards(
            scenes, row.planner, tuned.editor, row.critic, row.attempts, tuned.provenance.preset.keep
        )
        plans = (
            [False] * len(storyboards)
            if isinstance(row.planner, InstructionPlanner)
            else [*map(_reaches, scenes, storyboards)]
        )
        ends = [
            is_done(walk, board.steps[-1].goal_image if board.steps else None)
            for walk, board in zip(scenes, storyboards, strict=True)
        ]
        results.append((row, share_with_interval(zip(numbers, plans, strict=True)), ends))
    base = next(ends for row, _, ends in results if row.planner is planner and row.attempts == 1)
    return [
        {
            "name": row.name,
            "attempts": row.attempts,
            "text": _values(text),
            "image": _values(share_with_interval(zip(numbers, ends, strict=True))),
            "ahead": _values(with_interval([(e, b, 1) for e, b in zip(ends, base, strict=True)], points)),
        }
        for row, text, ends in results
    ]


def _reaches(walk: Walk, board: Storyboard) -> bool:
    return score_plan(walk, Plan(steps=tuple(step.step for step in board.steps))).reaches


def _values(measurement: Measurement) -> list[float | None]:
    numbers = measurement.value, measurement.low, measurement.high
    return [None if x is None else round(x, 3) for x in numbers]


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--split", choices=list(SEEDS), default="test")
    parser.add_argument("--first", type=int, default=0, help="first seed, counted from the split's start")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--out", type=Path, help="where answers are kept [default: nowhere]")
    options = parse(parser, argv, episodes=1)
    folder = nullcontext(options.out) if options.out else tempfile.TemporaryDirectory()
    with folder as name, exclusive(Path(name), Path(name)), progress_bars() as progress:
        scenes = walks(seeds(options.split, options.episodes, options.first), progress)
        rows = measure(scenes, Journal(Path(name) / "answers"))
    result = {"split": options.split, "first": options.first, "episodes": len(scenes), "rows": rows}
    report(result, options.json)


if __name__ == "__main__":
    main()
