"""What the critic of the preset `hindsight` accepts on recorded episodes, and why it rejects the rest.

    python benchmarks/real_critic.py --json
    python benchmarks/real_critic.py tabletop

By default it takes the labelled datasets of tests/data/real with their pictures in ../shared/data. Of those
that are not there it has no row.

Keys of --json: `rows`, each with
    dataset, granularity
    steps             steps planned
    first, accepted   those whose first frame was accepted, and those of which any was
    rejected          the others: episode, name, start, end (frames) and the last reason
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from common import argument_parser, parse, report

from goalreel.annotator.options import Options
from goalreel.batch import run
from goalreel.datasets.source import Source
from goalreel.models.load import load
from goalreel.planners.kinematic import Granularity
from goalreel.types import StoryboardStep, Task

SHARED = Path(__file__).parents[2] / "shared/data"
REAL = ("droid_new_setup", "g1_inspire", "gr1_sim")
GRANULARITIES: tuple[Granularity, ...] = ("event", "subtask", "phase")


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("datasets", type=Path, nargs="*", help="LeRobot datasets with their pictures")
    parser.add_argument("--episodes", type=int, help="the first so many of each dataset (default: all)")
    parser.add_argument("--granularities", nargs="+", choices=GRANULARITIES, default=GRANULARITIES)
    options = parse(parser, argv, episodes=1, granularities=("event",))
    datasets = options.datasets or [path for path in (SHARED / name for name in REAL) if path.is_dir()]
    episodes = None if options.episodes is None else range(options.episodes)
    rows = [row(path, granularity, episodes) for path in datasets for granularity in options.granularities]
    if options.json:
        report({"rows": rows}, as_json=True)
        return
    print("| dataset | granularity | steps | accepted | ... at the first frame |\n|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['dataset']} | {r['granularity']} | {r['steps']} | {r['accepted']} | {r['first']} |")
    print("\n| rejected, by granularity and episode | frames | step | reason |\n|---|---|---|---|")
    for r in rows:
        for step in r["rejected"]:
            where = f"{r['dataset']} {r['granularity']} {step['episode']}"
            print(f"| {where} | {step['start']} to {step['end']} | {step['name']} | {step['reason']} |")


def row(root: Path, granularity: Granularity, episodes: Collection[int] | None = None) -> dict[str, Any]:
    """Count what is accepted of a dataset."""
    steps = list(judged_steps(root, granularity, episodes))
    first = [s.attempts[0].verdict for _, s in steps if s.attempts]
    return {
        "dataset": root.name,
        "granularity": granularity,
        "steps": len(steps),
        "first": sum(verdict is not None and verdict.success for verdict in first),
        "accepted": sum(s.accepted for _, s in steps),
        "rejected": [rejection(episode, s) for episode, s in steps if not s.accepted],
    }


def judged_steps(
    root: Path, granularity: Granularity, episodes: Collection[int] | None = None
) -> Iterator[tuple[int, StoryboardStep]]:
    """Yield every step of some episodes (None: of all), as `goalreel annotate` has it unwritten."""
    source = Source.open(root)
    context = Options(granularity=granularity).recorded(source)
    models = load("hindsight", recordings=context)
    for index in source.select(episodes):
        episode = source.episode(index)
        first = episode.frames(context.camera, [0])[0]
        task = Task(id=episode.id, instruction=episode.instruction, image=first)
        attempts = models.provenance.preset.max_attempts
        for board in run([task], models.planner, models.editor, models.critic, max_attempts=attempts):
            yield from ((index, step) for step in board.steps)


def rejection(episode: int, step: StoryboardStep) -> dict[str, object]:
    """Say where a step without an accepted picture lies, and why."""
    reasons = [a.verdict.reasoning for a in step.attempts if a.verdict]
    segment = step.segment
    return {
        "episode": episode,
        "name": step.step.name,
        "start": segment.start if segment else None,
        "end": segment.end if segment else None,
        "reason": reasons[-1] if reasons else step.status,
    }


if __name__ == "__main__":
    main()
