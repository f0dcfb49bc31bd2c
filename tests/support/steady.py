"""Models whose answers depend on the request alone, and what a run of them leaves."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from goalreel.image import Image
from goalreel.types import Candidate, Edit, Failure, Plan, Step, Task, Verdict


class Steady:
    """Planner, editor and critic in one, which counts what it is asked.

    It plans so many `steps`, draws noise by the seed, and accepts pictures whose first value is below
    `accepts`. At its edit number `dies_at` it gets a Ctrl-C.
    """

    def __init__(self, steps: int = 1, accepts: int = 256, dies_at: int | None = None) -> None:
        self.asked: Counter[str] = Counter()
        self.steps, self.accepts, self.dies_at = steps, accepts, dies_at

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        self.asked["plan"] += len(tasks)
        steps = (Step(name=f"s{i}", instruction=f"i{i}", prompt=f"p{i}") for i in range(self.steps))
        return [Plan(steps=tuple(steps))] * len(tasks)

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        if self.dies_at is not None and self.asked["edit"] >= self.dies_at:
            raise KeyboardInterrupt
        return [self.draw(edit) for edit in edits]

    def draw(self, edit: Edit) -> Image | Failure:
        self.asked["edit"] += 1
        return Image(np.random.default_rng(edit.seed).integers(0, 256, (48, 48, 3), np.uint8))

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict | Failure]:
        self.asked["judge"] += len(candidates)
        return [Verdict(success=int(c.image.pixels[0, 0, 0]) < self.accepts) for c in candidates]


class Drawless(Steady):
    """Plans, and cannot draw."""

    def draw(self, edit: Edit) -> Failure:
        self.asked["edit"] += 1
        return Failure(stage="edit", message="out of memory")


def contents(root: Path) -> dict[str, bytes]:
    """Every file below a folder, but for locks and control questions, which depend on the order of calls."""
    files = [p for p in sorted(root.rglob("*")) if p.is_file() and p.parent.name != "examination"]
    lines = {p: p.read_bytes().splitlines(keepends=True) for p in files if p.stat().st_size}
    return {
        str(p.relative_to(root)): b"".join(n for n in lines[p] if b"control question" not in n) for p in lines
    }
