"""The batch driver, against scripted models whose answers depend on the request alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scripted_models import Scripted, tasks

from goalreel.drivers import Limits, run
from goalreel.errors import BackendError
from goalreel.types import (
    Failure,
    Plan,
    Storyboard,
)


def boards(model: Scripted, n: int, **kwargs) -> list[Storyboard]:
    return list(run(tasks(n), model, model, model, **{"max_attempts": 3, **kwargs}))


@given(
    salt=st.integers(0, 2**32),
    n=st.integers(0, 12),
    max_attempts=st.integers(1, 5),
    on_rejected=st.sampled_from(["stop", "continue"]),
    batch_size=st.integers(1, 20),
    in_flight=st.integers(1, 20),
)
def test_whatever_the_models_answer(salt, n, max_attempts, on_rejected, batch_size, in_flight):
    model = Scripted(salt)
    common = {"max_attempts": max_attempts, "on_rejected": on_rejected}
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


def test_every_step_that_is_not_accepted_used_all_its_attempts():
    for board in boards(Scripted(3), 40):
        for step in board.steps:
            assert step.status == "accepted" or len(step.attempts) == 3


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
