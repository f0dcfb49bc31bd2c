"""The batch driver against one that asks one kind of model at a time: three servers, the same storyboards.

    python benchmarks/overlap.py --json

The servers are stand-ins that sleep 0.5 s (planner), 1.0 s (editor) and 0.5 s (critic) a call, with 16
requests at once each. Every role has a floor, the time of its requests in full batches; no driver is faster
than the slowest role's, nor than the longest storyboard.

Keys of --json: `speedup` (of wall time), `floor_share` (the slowest role's floor over our wall time),
`busy_share` (of our wall time in which the slowest role is at work), `identical` (all storyboards are equal),
`seconds`, `serial_seconds`, `floor_seconds`, `longest_seconds` (the longest storyboard, had it all servers to
itself), `narrow_speedup` (against one kind at a time with 8 edits at once, as a remote editor has without
`?concurrency=`), `narrow_serial_seconds`, `episodes`, and `requests` and `calls` by kind.
"""

import argparse
import json
import math
import threading
import time
import zlib
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from goalreel.batch import Limits, run
from goalreel.image import Image
from goalreel.loop import Request, Trajectory, stage_of, storyboard
from goalreel.types import Candidate, Edit, Plan, Stage, Step, Storyboard, Task, Verdict

SECONDS: dict[Stage, float] = {"plan": 0.5, "edit": 1.0, "judge": 0.5}
BATCH, IN_FLIGHT, MAX_ATTEMPTS = 16, 64, 3
NARROW = 8


@dataclass
class Servers:
    """Planner, editor and critic whose answers depend on the request alone."""

    edits_at_once: int = BATCH
    requests: Counter[Stage] = field(default_factory=Counter)
    calls: Counter[Stage] = field(default_factory=Counter)
    busy: Counter[Stage] = field(default_factory=Counter)
    """Seconds in which a call is under way."""
    _since: dict[Stage, tuple[int, float]] = field(default_factory=dict)
    """How many calls are, and when that changed."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def _work(self, stage: Stage, count: int) -> None:
        self._count(stage, 1)
        self.requests[stage] += count
        self.calls[stage] += 1
        at_once = self.edits_at_once if stage == "edit" else BATCH
        time.sleep(SECONDS[stage] * math.ceil(count / at_once))
        self._count(stage, -1)

    def _count(self, stage: Stage, more: int) -> None:
        with self._lock:
            now = time.perf_counter()
            calls, since = self._since.get(stage, (0, now))
            self.busy[stage] += (now - since) if calls else 0
            self._since[stage] = (calls + more, now)

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        self._work("plan", len(tasks))
        return [_plan(task.id) for task in tasks]

    def edit(self, edits: Sequence[Edit]) -> list[Image]:
        self._work("edit", len(edits))
        return [Image(np.full((8, 8, 3), e.seed % 256, np.uint8)) for e in edits]

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        self._work("judge", len(candidates))
        return [_verdict(candidate) for candidate in candidates]


def _plan(task: str) -> Plan:
    count = 2 + zlib.crc32(task.encode()) % 3
    return Plan(
        steps=tuple(Step(name=f"step {i}", instruction=f"{task} {i}", prompt=f"do {i}") for i in range(count))
    )


def _verdict(candidate: Candidate) -> Verdict:
    """About two in five are rejected."""
    said = zlib.crc32(f"{candidate.task_id} {candidate.instruction} {candidate.prompt}".encode())
    return Verdict(success=said % 5 > 1, refined_prompt=f"{candidate.prompt}, carefully")


def serial(tasks: Sequence[Task], servers: Servers) -> list[Storyboard]:
    """One kind of request at a time, first come first served: what the batch driver did until 0.1.0."""
    calls = {"plan": servers.plan, "edit": servers.edit, "judge": servers.judge}
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
            except StopIteration as finished:
                boards.append(finished.value)
            else:
                queues[stage_of(request)].append((trajectory, request))
        admit()
    return boards


def overlapping(tasks: Sequence[Task], servers: Servers) -> list[Storyboard]:
    """The batch driver."""
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


def _longest(boards: Sequence[Storyboard]) -> float:
    edits = max(sum(len(step.attempts) for step in board.steps) for board in boards)
    return SECONDS["plan"] + edits * (SECONDS["edit"] + SECONDS["judge"])


def measure(episodes: int) -> dict[str, object]:
    """Each way once, over the same tasks."""
    image = Image(np.zeros((8, 8, 3), np.uint8))
    tasks = [
        Task(id=f"task-{i}", instruction="put the blocks in the bowls", image=image, seed=i)
        for i in range(episodes)
    ]
    seconds, found = [], []
    ways = ((serial, Servers(NARROW)), (serial, Servers()), (overlapping, ours := Servers()))
    for way, servers in ways:
        start = time.perf_counter()
        boards = way(tasks, servers)
        seconds.append(time.perf_counter() - start)
        found.append(sorted(boards, key=lambda b: b.task.id))
    floor = max(math.ceil(n / BATCH) * SECONDS[stage] for stage, n in ours.requests.items())
    slowest = max(ours.requests, key=lambda stage: ours.requests[stage] * SECONDS[stage])
    narrow_s, serial_s, our_s = seconds
    return {
        "speedup": serial_s / our_s,
        "floor_share": floor / our_s,
        "busy_share": ours.busy[slowest] / our_s,
        "identical": found[0] == found[1] == found[2],
        "seconds": our_s,
        "serial_seconds": serial_s,
        "floor_seconds": floor,
        "longest_seconds": _longest(found[2]),
        "narrow_speedup": narrow_s / our_s,
        "narrow_serial_seconds": narrow_s,
        "episodes": episodes,
        "requests": dict(ours.requests),
        "calls": dict(ours.calls),
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    arguments = parser.parse_args()
    result = measure(arguments.episodes)
    for key, value in result.items():
        print(f"{key:24} {value:.3f}" if isinstance(value, float) else f"{key:24} {value}")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
