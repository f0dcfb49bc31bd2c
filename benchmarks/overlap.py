"""The batch driver against one that asks one kind of model at a time: three servers, the same storyboards.

    python benchmarks/overlap.py --json

The servers are stand-ins that take 0.5 s (planner), 1.0 s (editor) and 0.5 s (critic) a call, multiplied by
--scale, for 16 requests at once each. Every role has a floor, the time of its requests in full batches. No
driver is faster than the slowest role's floor, nor than the longest storyboard.

Keys of --json: `speedup` (of wall time), `floor_share` (the slowest role's floor over our wall time),
`busy_share` (of our wall time in which the slowest role is at work), `identical` (all storyboards are equal),
`seconds`, `serial_seconds`, `floor_seconds`, `longest_seconds` (the longest storyboard, had it all servers to
itself), `narrow_speedup` (against one kind at a time with 8 edits at once, as a remote editor has without
`?concurrency=`), `narrow_serial_seconds`, `episodes`, and `requests` and `calls` by kind.
"""

import math
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from common import ScriptedModels, argument_parser, parse, report

from goalreel.drivers import Limits, run
from goalreel.image import Image
from goalreel.loop import Trajectory, storyboard
from goalreel.types import Request, Stage, Storyboard, Task, stage_of

SECONDS: dict[Stage, float] = {"plan": 0.5, "edit": 1.0, "judge": 0.5}
BATCH, IN_FLIGHT, MAX_ATTEMPTS = 16, 64, 3
NARROW = 8


class Servers(ScriptedModels):
    """Models that take their time and count it."""

    def __init__(self, scale: float, edits_at_once: int = BATCH) -> None:
        self.seconds: dict[Stage, float] = {stage: scale * seconds for stage, seconds in SECONDS.items()}
        """Of a call."""
        self._capacity = {stage: edits_at_once if stage == "edit" else BATCH for stage in SECONDS}
        self.requests: Counter[Stage] = Counter()
        self.calls: Counter[Stage] = Counter()
        self.busy: defaultdict[Stage, float] = defaultdict(float)
        """Seconds in which at least one call is under way."""
        self._under_way: dict[Stage, tuple[int, float]] = {}
        """The number of calls under way, and when it changed."""
        self._lock = threading.Lock()

    def work(self, stage: Stage, requests: Sequence[Request]) -> None:
        """Take the time of as many full batches as the requests need."""
        self._count(stage, 1)
        self.requests[stage] += len(requests)
        self.calls[stage] += 1
        time.sleep(self.seconds[stage] * math.ceil(len(requests) / self._capacity[stage]))
        self._count(stage, -1)

    def _count(self, stage: Stage, change: int) -> None:
        with self._lock:
            now = time.perf_counter()
            calls, since = self._under_way.get(stage, (0, now))
            self.busy[stage] += (now - since) if calls else 0.0
            self._under_way[stage] = (calls + change, now)


def run_serially(tasks: Sequence[Task], servers: Servers) -> list[Storyboard]:
    """Ask one kind of model at a time, first come first served, as the batch driver did until 0.1.0."""
    calls: dict[Stage, Callable[[list[Any]], Sequence[Any]]] = {
        "plan": servers.plan,
        "edit": servers.edit,
        "judge": servers.judge,
    }
    queues: dict[Stage, deque[tuple[Trajectory[Storyboard], Request]]] = {k: deque() for k in SECONDS}
    upcoming, boards = iter(tasks), []

    def admit() -> None:
        while sum(map(len, queues.values())) < IN_FLIGHT and (task := next(upcoming, None)) is not None:
            trajectory = storyboard(task, max_attempts=MAX_ATTEMPTS)
            queues["plan"].append((trajectory, next(trajectory)))

    admit()
    while any(queues.values()):
        stage = max(reversed(queues), key=lambda k: min(len(queues[k]), BATCH))
        batch = [queues[stage].popleft() for _ in range(min(len(queues[stage]), BATCH))]
        answers = calls[stage]([request for _, request in batch])
        for (trajectory, _), answer in zip(batch, answers, strict=True):
            try:
                request = trajectory.send(answer)
            except StopIteration as end:
                boards.append(end.value)
            else:
                queues[stage_of(request)].append((trajectory, request))
        admit()
    return boards


def run_overlapping(tasks: Sequence[Task], servers: Servers) -> list[Storyboard]:
    """Ask all kinds of models at once: the batch driver."""
    return list(
        run(
            tasks,
            servers,
            servers,
            servers,
            max_attempts=MAX_ATTEMPTS,
            limits=Limits(BATCH, IN_FLIGHT),
            remote=tuple(SECONDS),
        )
    )


def longest(boards: Sequence[Storyboard], seconds: dict[Stage, float]) -> float:
    """Seconds that the longest storyboard takes by itself."""
    edits = max(sum(len(step.attempts) for step in board.steps) for board in boards)
    return seconds["plan"] + edits * (seconds["edit"] + seconds["judge"])


def measure(episodes: int, scale: float) -> dict[str, object]:
    """Run each way once, over the same tasks."""
    image = Image(np.zeros((8, 8, 3), np.uint8))
    tasks = [
        Task(id=f"task-{i}", instruction="put the blocks in the bowls", image=image, seed=i)
        for i in range(episodes)
    ]
    wall, results = [], []
    ours = Servers(scale)
    ways = (
        (run_serially, Servers(scale, NARROW)),
        (run_serially, Servers(scale)),
        (run_overlapping, ours),
    )
    for way, servers in ways:
        start = time.perf_counter()
        boards = way(tasks, servers)
        wall.append(time.perf_counter() - start)
        results.append(sorted(boards, key=lambda b: b.task.id))
    floor = max(math.ceil(n / BATCH) * ours.seconds[stage] for stage, n in ours.requests.items())
    slowest = max(ours.requests, key=lambda stage: ours.requests[stage] * ours.seconds[stage])
    narrow_s, serial_s, our_s = wall
    return {
        "speedup": serial_s / our_s,
        "floor_share": floor / our_s,
        "busy_share": ours.busy[slowest] / our_s,
        "identical": results[0] == results[1] == results[2],
        "seconds": our_s,
        "serial_seconds": serial_s,
        "floor_seconds": floor,
        "longest_seconds": longest(results[2], ours.seconds),
        "narrow_speedup": narrow_s / our_s,
        "narrow_serial_seconds": narrow_s,
        "episodes": episodes,
        "requests": dict(ours.requests),
        "calls": dict(ours.calls),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--scale", type=float, default=1.0, help="of the servers' times")
    options = parse(parser, argv, episodes=4, scale=0.001)
    report(measure(options.episodes, options.scale), options.json)


if __name__ == "__main__":
    main()
