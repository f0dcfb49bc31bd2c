"""What the critic of the preset `hindsight` accepts on recorded episodes, and why it rejects the rest.

    python benchmarks/real_critic.py --json
    python benchmarks/real_critic.py tabletop

Without a dataset named it takes the labelled ones of tests/data/real with their pictures in ../shared/data;
of those that are not there it has no row. With --json the last line is one JSON object: `rows`, each with
    dataset, granularity
    steps             steps planned
    first, accepted   those whose first frame was accepted, and those of which any was
    rejected          the others: `episode`, `name`, `start`, `end` (frames) and the last `reason`
"""

import argparse
import json
from collections.abc import Collection, Iterator
from pathlib import Path

from goalreel.annotator.options import Options
from goalreel.batch import run
from goalreel.datasets.source import Source
from goalreel.models.load import load
from goalreel.planners.kinematic import Granularity
from goalreel.types import StoryboardStep, Task

SHARED = Path(__file__).parents[2] / "shared/data"
REAL = ("droid_new_setup", "g1_inspire")
GRANULARITIES: tuple[Granularity, ...] = ("event", "subtask", "phase")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("datasets", type=Path, nargs="*", help="LeRobot datasets with their pictures")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    there = [path for path in (SHARED / name for name in REAL) if path.is_dir()]
    datasets = options.datasets or there
    rows = [row(path, granularity) for path in datasets for granularity in GRANULARITIES]
    if options.json:
        print(json.dumps({"rows": rows}))
        return
    print("| dataset | granularity | steps | accepted | ... at the first frame |\n|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['dataset']} | {r['granularity']} | {r['steps']} | {r['accepted']} | {r['first']} |")
    print("\n| rejected, by granularity and episode | frames | step | reason |\n|---|---|---|---|")
    for r in rows:
        for no in r["rejected"]:
            where = f"{r['dataset']} {r['granularity']} {no['episode']}"
            print(f"| {where} | {no['start']} to {no['end']} | {no['name']} | {no['reason']} |")


def row(root: Path, granularity: Granularity) -> dict[str, object]:
    steps = list(judged(root, granularity))
    first = [s.attempts[0].verdict for _, s in steps if s.attempts]
    return {
        "dataset": root.name,
        "granularity": granularity,
        "steps": len(steps),
        "first": sum(verdict is not None and verdict.success for verdict in first),
        "accepted": sum(s.status == "verified" for _, s in steps),
        "rejected": [told(episode, s) for episode, s in steps if s.status != "verified"],
    }


def judged(
    root: Path, granularity: Granularity, episodes: Collection[int] | None = None
) -> Iterator[tuple[int, StoryboardStep]]:
    """Every step with its episode (None: of all), as `goalreel annotate` has it before it is written."""
    source = Source.open(root)
    recorded = Options(granularity=granularity).recorded(source)
    models = load("hindsight", recordings=recorded)
    for index in source.select(episodes):
        episode = source.episode(index)
        first = episode.frames(recorded.camera, [0])[0]
        task = Task(id=episode.id, instruction=episode.instruction, image=first)
        attempts = models.called.max_attempts
        for board in run([task], models.planner, models.editor, models.critic, max_attempts=attempts):
            yield from ((index, step) for step in board.steps)


def told(episode: int, step: StoryboardStep) -> dict[str, object]:
    reasons = [a.verdict.reasoning for a in step.attempts if a.verdict]
    span = step.segment
    return {
        "episode": episode,
        "name": step.step.name,
        "start": span.start if span else None,
        "end": span.end if span else None,
        "reason": reasons[-1] if reasons else step.status,
    }


if __name__ == "__main__":
    main()
