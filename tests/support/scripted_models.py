"""Planner, editor and critic whose answers depend on the request alone."""

import zlib
from collections.abc import Sequence

import numpy as np

from goalreel.image import Image
from goalreel.types import Candidate, Edit, Failure, Plan, Step, Task, Verdict


class Scripted:
    """Planner, editor and critic in one; a digest of the request decides the answer."""

    def __init__(self, salt: int, fail_percent: int = 15):
        self.salt, self.fail_percent = salt, fail_percent
        self.calls: dict[str, list[int]] = {"plan": [], "edit": [], "judge": []}

    def _digest(self, *words: object) -> int:
        return zlib.crc32(repr((self.salt, *words)).encode())

    def _failure(self, stage, digest: int) -> Failure | None:
        return Failure(stage=stage, message="scripted") if digest % 100 < self.fail_percent else None

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        self.calls["plan"].append(len(tasks))
        return [self._failure("plan", d := self._digest(t.id)) or self._plan(d // 100 % 5 + 1) for t in tasks]

    @staticmethod
    def _plan(n: int) -> Plan:
        return Plan(steps=tuple(Step(name=f"s{i}", instruction=f"i{i}", prompt=f"p{i}") for i in range(n)))

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        self.calls["edit"].append(len(edits))
        return [self._failure("edit", d := self._digest(e.prompt, e.seed)) or self._image(d) for e in edits]

    @staticmethod
    def _image(digest: int) -> Image:
        return Image(np.random.default_rng(digest).integers(0, 256, (2, 2, 3), np.uint8))

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]:
        self.calls["judge"].append(len(candidates))
        out: list[Verdict | Failure] = []
        for c in candidates:
            d = self._digest(c.image.pixels.tobytes(), c.prompt)
            out.append(
                self._failure("judge", d)
                or Verdict(
                    success=d // 100 % 3 == 0,
                    refined_prompt=f"again {d}" if d % 2 else None,
                    semantics=d // 1000 % 11,
                    quality=d // 5000 % 11,
                )
            )
        return out


def tasks(n: int) -> list[Task]:
    return [Task(id=f"t{i}", instruction="go", image=Scripted._image(i), seed=i) for i in range(n)]
