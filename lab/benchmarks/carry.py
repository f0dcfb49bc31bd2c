"""Time and memory to carry the steps of three labelled episodes over to many.

    python lab/benchmarks/carry.py --json

Episodes of 30 s at 30 Hz, with 14 numbers of state and as many of action, are made as they are asked for;
that does not count. Keys of --json: `episodes`, `carry_s` on the clock, `cpu_s` of all threads, and
`memory_growth_mb`, of the peak from the first tenth of the episodes to the last.
"""

import resource
import sys
import time
from collections.abc import Sequence
from itertools import batched, pairwise
from pathlib import Path
from typing import cast

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import argument_parser, parse, report

from goalreel.planners.examples.carry import Example
from goalreel.planners.examples.planner import ExamplesPlanner
from goalreel.planners.rows import labelled_step
from goalreel.types import Plan, Recording, Segment, Task

SECONDS, FPS, NUMBERS, STEPS = 30, 30, 14, 5


def motion(seed: int) -> Example:
    """Make an episode: smooth motion between poses that all share, each at its own pace."""
    poses, own = np.random.default_rng(0).normal(size=(STEPS + 1, NUMBERS)), np.random.default_rng(seed + 1)
    times = np.arange(SECONDS * FPS) / FPS
    at = np.cumsum([0, *own.uniform(0.7, 1.3, STEPS)])
    at *= SECONDS / at[-1]
    state = np.stack([np.interp(times, at, column) for column in poses.T], axis=1)
    state += own.normal(0, 0.02, state.shape)
    segments = tuple(Segment(start=round(a), end=round(b)) for a, b in pairwise((at * FPS).tolist()))
    steps = tuple(labelled_step(f"fold {i}") for i in range(STEPS))
    action = np.roll(state, -1, axis=0)
    return Example(str(seed), str(seed), "fold it", FPS, times, state, action, steps, segments, "rows")


def measure(episodes: int) -> dict[str, object]:
    """Carry over to `episodes` recordings, a batch at a time."""
    recordings = dict[str, Recording]()
    planner = ExamplesPlanner(recordings, [motion(seed) for seed in range(3)])
    spent, peaks = np.zeros(2), list[float]()
    for seeds in batched(range(3, 3 + episodes), 16):
        recordings.clear()
        recordings |= {str(seed): cast("Recording", motion(seed)) for seed in seeds}
        began = np.array([time.perf_counter(), time.process_time()])
        plans = planner.plan([Task(id=id, instruction="fold it") for id in recordings])
        spent += [time.perf_counter(), time.process_time()] - began
        assert all(isinstance(plan, Plan) and len(plan.steps) == STEPS for plan in plans)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)
    growth = peaks[-1] - peaks[len(peaks) // 10]
    return {"episodes": episodes, "carry_s": spent[0], "cpu_s": spent[1], "memory_growth_mb": growth}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--episodes", type=int, default=1000)
    options = parse(parser, argv, episodes=4)
    report(measure(options.episodes), options.json)


if __name__ == "__main__":
    main()
