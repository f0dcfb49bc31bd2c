"""The batch driver, against scripted models whose answers depend on the request alone."""

import zlib
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goalreel.batch import Limits, run
from goalreel.errors import BackendError
from goalreel.image import Image
from goalreel.types import (
    Candidate,
    Edit,
    Failure,
    Plan,
    Step,
    Storyboard,
    Task,
    Verdict,
)


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


def boards(model: Scripted, n: int, **kwargs) -> list[Storyboard]:
    return list(run(tasks(n), model, model, model, **{"max_attempts": 3, **kwargs}))


@settings(max_examples=60)
@given(
    salt=st.integers(0, 2**32),
    n=st.integers(0, 12),
    max_attempts=st.integers(1, 5),
    on_unverified=st.sampled_from(["stop", "continue"]),
    batch_size=st.integers(1, 20),
    in_flight=st.integers(1, 20),
)
def test_whatever_the_models_answer(salt, n, max_attempts, on_unverified, batch_size, in_flight):
    model = Scripted(salt)
    common = {"max_attempts": max_attempts, "on_unverified": on_unverified}
    got = boards(model, n, limits=Limits(batch_size, in_flight), **common)
    one_at_a_time = boards(Scripted(salt), n, limits=Limits(1, 1), **common)
    assert [b.task.id for b in one_at_a_time] == [f"t{i}" for i in range(n)]
    assert sorted(got, key=lambda b: int(b.task.id[1:])) == one_at_a_time

    for board in got:
        planned = model.plan([board.task])[0]
        assert board.failure == (planned if isinstance(planned, Failure) else None)
        if isinstance(planned, Plan):
            assert tuple(s.step for s in board.steps) == planned.steps
    model.calls["plan"] = model.calls["plan"][: -n or None]

    attempts = [a for b in got for s in b.steps for a in s.attempts]
    assert all(len(s.attempts) <= max_attempts for b in got for s in b.steps)
    assert sum(model.calls["plan"]) == n
    assert sum(model.calls["edit"]) == len(attempts)
    assert sum(model.calls["judge"]) == sum(a.image is not None for a in attempts)
    assert all(size <= batch_size for sizes in model.calls.values() for size in sizes)


def test_every_step_that_is_not_verified_used_all_its_attempts():
    for board in boards(Scripted(3), 40):
        for step in board.steps:
            assert step.status == "verified" or len(step.attempts) == 3


def test_requests_of_one_kind_go_out_together():
    model = Scripted(0, fail_percent=0)
    boards(model, 32, limits=Limits(batch_size=16, in_flight=32))
    assert model.calls["plan"] == [16, 16]
    assert np.mean(model.calls["edit"]) > 8


def test_a_dead_back_end_costs_its_batch_only():
    class Dies(Scripted):
        def edit(self, edits):
            if any(e.task_id == "t0" for e in edits):
                raise BackendError("connection refused")
            return super().edit(edits)

    model = Dies(0, fail_percent=0)
    by_id = {b.task.id: b for b in boards(model, 4, limits=Limits(batch_size=1))}
    assert len(by_id) == 4
    assert {s.status for s in by_id["t0"].steps} == {"failed"}
    assert by_id["t0"].steps[0].attempts[0].failure == Failure(stage="edit", message="connection refused")
    assert all(s.status != "failed" for t in ("t1", "t2", "t3") for s in by_id[t].steps)


def test_an_interrupt_leaves_finished_storyboards_with_the_caller():
    class Interrupted(Scripted):
        def edit(self, edits):
            if any(e.task_id == "t5" for e in edits):
                raise KeyboardInterrupt
            return super().edit(edits)

    saved: list[Storyboard] = []
    model = Interrupted(0, fail_percent=0)
    with pytest.raises(KeyboardInterrupt):
        for board in run(tasks(9), model, model, model, max_attempts=2, limits=Limits(1, 1)):
            saved.append(board)
    assert [b.task.id for b in saved] == ["t0", "t1", "t2", "t3", "t4"]


def test_a_miscounting_back_end_is_refused():
    class Short(Scripted):
        def judge(self, candidates):
            return super().judge(candidates)[:-1]

    with pytest.raises(ValueError, match="judge: 1 requests but 0 answers"):
        boards(Short(0, fail_percent=0), 1)


def test_limits_are_checked():
    with pytest.raises(ValueError, match="at least 1"):
        Limits(batch_size=0)
