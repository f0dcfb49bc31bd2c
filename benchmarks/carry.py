"""Time and memory to carry the steps of three labelled episodes over to many.

    python benchmarks/carry.py --json

Episodes of 30 s at 30 Hz, with 14 numbers of state and as many of action, like those of two arms. They are
made as they are asked for, and their time does not count. Beside it: reading the numbers of as many episodes
of the same size from a Parquet file.

Keys of --json: `episodes`, `carry_s`, `read_s`, `carry_over_read`, `times_real_time` (seconds of recordings a
second), `memory_growth_mb` (peak memory, from the first tenth of the episodes to the last).
"""

import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import argument_parser, parse, report
from numpy.typing import NDArray

from goalreel.planners.examples.example import Example
from goalreel.planners.examples.planner import ExamplesPlanner
from goalreel.types import Failure, Segment, Step, Task

SECONDS, FPS, NUMBERS, STEPS = 30, 30.0, 14, 5
TEXT = "fold the towel"


@dataclass
class Motion:
    """A recording: smooth motion between poses that all share, each at its own pace."""

    id: str
    timestamps: NDArray[np.float32]
    state: NDArray[np.float32]
    action: NDArray[np.float32]
    cuts: list[int]
    instruction: str = TEXT
    fps: float = FPS
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()


def motion(seed: int) -> Motion:
    """Make the recording of a seed."""
    poses = np.random.default_rng(0).normal(size=(STEPS + 1, NUMBERS))
    own = np.random.default_rng(seed + 1)
    times = np.arange(int(SECONDS * FPS)) / FPS
    at = np.cumsum(own.uniform(0.7, 1.3, STEPS))
    at = np.concatenate([[0], at / at[-1] * SECONDS])
    state = np.stack([np.interp(times, at, column) for column in poses.T], axis=1)
    state = (state + own.normal(0, 0.02, state.shape)).astype(np.float32)
    cuts = [round(float(second) * FPS) for second in at[1:-1]]
    return Motion(f"episode {seed}", times.astype(np.float32), state, np.roll(state, -1, axis=0), cuts)


def example(recording: Motion) -> Example:
    """Label a recording by its cuts."""
    edges = [0, *recording.cuts, len(recording.timestamps)]
    return Example(
        id=recording.id,
        numbers=recording.id,
        instruction=TEXT,
        fps=FPS,
        timestamps=recording.timestamps.astype(np.float64),
        state=recording.state.astype(np.float64),
        action=recording.action.astype(np.float64),
        steps=tuple(
            Step(name=f"fold {i}", instruction=f"fold {i} is done", prompt="Fold.") for i in range(STEPS)
        ),
        segments=tuple(Segment(start=a, end=b) for a, b in pairwise(edges)),
        by="a person",
    )


def measure(episodes: int, batch: int = 16) -> dict[str, object]:
    """Carry over to `episodes` recordings, a batch at a time, and read as many from a file."""
    recordings: dict[str, Any] = {}
    planner = ExamplesPlanner(recordings, [example(motion(seed)) for seed in range(3)])
    carry_s, early = 0.0, 0
    for first in range(3, 3 + episodes, batch):
        recordings.clear()
        for seed in range(first, min(first + batch, 3 + episodes)):
            recordings[f"episode {seed}"] = motion(seed)
        start = time.perf_counter()
        plans = planner.plan([Task(id=id, instruction=TEXT) for id in recordings])
        carry_s += time.perf_counter() - start
        if any(isinstance(plan, Failure) or len(plan.steps) != STEPS for plan in plans):
            raise SystemExit("an episode was not carried over")
        if not early and first + batch >= 3 + episodes / 10:
            early = _peak_kb()
    growth = (_peak_kb() - early) / 1000
    read_s = _read(motion(0), episodes)
    return {
        "episodes": episodes,
        "carry_s": carry_s,
        "read_s": read_s,
        "carry_over_read": carry_s / read_s,
        "times_real_time": episodes * SECONDS / carry_s,
        "memory_growth_mb": growth,
    }


def _read(recording: Motion, episodes: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.parquet"
        pq.write_table(pa.table({"state": list(recording.state), "action": list(recording.action)}), path)
        start = time.perf_counter()
        for _ in range(episodes):
            table = pq.read_table(path)
            for name in table.column_names:
                table[name].combine_chunks().flatten().to_numpy()
        return time.perf_counter() - start


def _peak_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--episodes", type=int, default=1000)
    arguments = parse(parser, argv, episodes=4)
    report(measure(arguments.episodes), arguments.json)


if __name__ == "__main__":
    main()
