"""Time and memory to carry the steps of three labelled episodes over to many.

    python benchmarks/carry.py --json

Episodes of 30 s at 30 Hz, with 14 numbers of state and as many of action, like those of two arms: smooth
motion between poses that all share, each at its own pace. They are made while it runs, which does not count.

Keys of --json: `episodes`, `carry_s` (on the clock), `cpu_s` (of all threads), and `memory_growth_mb` (peak
memory, from the first tenth of the episodes to the last).
"""

import resource
import time
from collections.abc import Sequence
from itertools import batched, pairwise
from typing import Any

import numpy as np
from common import argument_parser, parse, report
from support.arms import Motions

from goalreel.planners.examples.carry import Example
from goalreel.planners.examples.planner import ExamplesPlanner
from goalreel.types import Failure, Segment, Step, Task

SECONDS, FPS, NUMBERS, STEPS, LABELLED = 30, 30, 14, 5, 3


def motion(seed: int) -> tuple[Motions, list[int]]:
    """Make the recording of a seed, and the frames of its poses."""
    poses, own = np.random.default_rng(0).normal(size=(NUMBERS, STEPS + 1)), np.random.default_rng(seed + 1)
    at = np.cumsum([0, *own.uniform(0.7, 1.3, STEPS)])
    edges = np.round(at / at[-1] * SECONDS * FPS).astype(int)
    state = np.stack([np.interp(np.arange(edges[-1]), edges, column) for column in poses], axis=1)
    state = (state + own.normal(0, 0.02, state.shape)).astype(np.float32)
    commands = np.roll(state, -1, axis=0)
    return Motions("fold the towel", state, (), fps=FPS, id=str(seed), commands=commands), edges.tolist()


def example(seed: int) -> Example:
    """Label a recording by its poses."""
    made, edges = motion(seed)
    return Example(
        id=made.id,
        numbers=made.id,
        instruction=made.instruction,
        fps=FPS,
        timestamps=made.timestamps.astype(float),
        state=made.state.astype(float),
        action=made.action.astype(float),
        steps=tuple(Step(name=f"{n}", instruction=f"{n} is done", prompt="Fold.") for n in range(STEPS)),
        segments=tuple(Segment(start=start, end=end) for start, end in pairwise(edges)),
        by="a person",
    )


def measure(episodes: int) -> dict[str, object]:
    """Carry over to so many recordings, some at a time."""
    recordings: dict[str, Any] = {}
    planner = ExamplesPlanner(recordings, [example(seed) for seed in range(LABELLED)])
    spent, peaks = np.zeros(2), list[int]()
    for seeds in batched(range(LABELLED, LABELLED + episodes), max(1, min(16, episodes // 10))):
        recordings.clear()
        recordings.update({str(seed): motion(seed)[0] for seed in seeds})
        start = np.array([time.perf_counter(), time.process_time()])
        plans = planner.plan([Task(id=key, instruction=it.instruction) for key, it in recordings.items()])
        spent += np.array([time.perf_counter(), time.process_time()]) - start
        if any(isinstance(plan, Failure) or len(plan.steps) != STEPS for plan in plans):
            raise SystemExit("an episode was not carried over")
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return {
        "episodes": episodes,
        "carry_s": spent[0],
        "cpu_s": spent[1],
        "memory_growth_mb": (peaks[-1] - peaks[len(peaks) // 10]) / 1000,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--episodes", type=int, default=1000)
    options = parse(parser, argv, episodes=4)
    report(measure(options.episodes), options.json)


if __name__ == "__main__":
    main()
