"""The batch driver: any order of answers, models behind servers. Calls are held at gates, never timed."""

import random
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, strategies as st
from support.scripted_models import Scripted, tasks
from support.wait import until

from goalreel.drivers import Limits, run
from goalreel.errors import BackendError, UserError
from goalreel.types import Failure, Stage, Storyboard, Task, Verdict

ALL: tuple[Stage, ...] = ("plan", "edit", "judge")
LONG = 60.0
"""Seconds; they only end a test that hangs."""


class Called(Scripted):
    """Tells `before` of each call (its stage and its task ids), in the thread that makes it.

    With `steps` a plan has so many steps, by the task's number, and every picture is accepted.
    """

    def __init__(self, before: Callable[[Stage, list[str]], None], salt: int = 0, fail_percent=0, steps=None):
        super().__init__(salt, fail_percent)
        self._before, self._steps = before, steps

    def plan(self, tasks):
        self._before("plan", [t.id for t in tasks])
        plans = super().plan(tasks)
        return plans if self._steps is None else [self._plan(self._steps(int(t.id[1:]))) for t in tasks]

    def edit(self, edits):
        self._before("edit", [e.task_id for e in edits])
        return super().edit(edits)

    def judge(self, candidates):
        self._before("judge", [c.task_id for c in candidates])
        verdicts = super().judge(candidates)
        return verdicts if self._steps is None else [Verdict(success=True)] * len(candidates)


class Gates:
    """Hold every call; a thread of its own lets them go, one after the other, as a seed wants it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._held: list[threading.Event] = []
        self._changed = threading.Condition()
        self._open = False
        self._thread = threading.Thread(target=self._work, daemon=True)

    def hold(self, stage: Stage, ids: list[str]) -> None:
        gate = threading.Event()
        with self._changed:
            self._held.append(gate)
            self._changed.notify()
        assert gate.wait(LONG)

    def __enter__(self) -> "Gates":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._open = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        with self._changed:
            while self._changed.wait_for(lambda: self._held or self._open) and self._held:
                self._held.pop(self._random.randrange(len(self._held))).set()


def ordered(boards: list[Storyboard]) -> list[Storyboard]:
    return sorted(boards, key=lambda b: int(b.task.id[1:]))


@given(
    salt=st.integers(0, 2**32),
    seed=st.integers(0, 2**32),
    n=st.integers(0, 12),
    remote=st.sets(st.sampled_from(ALL)),
    batch_size=st.integers(1, 8),
    in_flight=st.integers(1, 16),
    max_attempts=st.integers(1, 5),
    on_rejected=st.sampled_from(["stop", "continue"]),
)
def test_any_order_of_answers_gives_the_same_storyboards(
    salt, seed, n, remote, batch_size, in_flight, max_attempts, on_rejected
):
    begun = 0

    def counted() -> Iterator[Task]:
        nonlocal begun
        for task in tasks(n):
            begun += 1
            yield task

    with Gates(seed) as gates:
        model, got = Called(gates.hold, salt, fail_percent=15), []
        limits = Limits(batch_size, in_flight)
        loop = {"max_attempts": max_attempts, "on_rejected": on_rejected}
        for board in run(counted(), model, model, model, limits=limits, remote=remote, **loop):
            got.append(board)
            assert begun - len(got) < in_flight + batch_size
    one = Scripted(salt)
    assert ordered(got) == list(run(tasks(n), one, one, one, limits=Limits(1, 1), **loop))
    assert all(size <= batch_size for sizes in model.calls.values() for size in sizes)
    attempts = [a for b in got for s in b.steps for a in s.attempts]
    judged = sum(a.image is not None for a in attempts)
    for calls in (model.calls, one.calls):
        assert [sum(calls[stage]) for stage in ALL] == [n, len(attempts), judged]
    for step in (s for b in got for s in b.steps if s.status not in ("accepted", "skipped")):
        assert len(step.attempts) == max_attempts


def test_requests_of_one_kind_go_out_together():
    model = Scripted(0, fail_percent=0)
    assert len(list(run(tasks(32), model, model, model, max_attempts=3, limits=Limits(16, 32)))) == 32
    assert model.calls["plan"] == [16, 16]
    assert sum(model.calls["edit"]) > 8 * len(model.calls["edit"])
    with pytest.raises(ValueError, match="at least 1"):
        Limits(batch_size=0)


def test_remote_models_go_on_while_a_local_one_works():
    judged = threading.Event()

    def before(stage: Stage, ids: list[str]) -> None:
        if stage == "judge" and ids == ["t0"]:
            judged.set()
        if stage == "edit" and ids == ["t1"]:
            assert judged.wait(LONG)

    model = Called(before)
    limits = Limits(1, 2)
    assert list(run(tasks(2), model, model, model, max_attempts=1, limits=limits, remote=["plan", "judge"]))


def test_a_call_that_takes_long_holds_up_no_other_request_of_its_model():
    others = threading.Event()

    class Once(Called):
        """The first picture of t0 is rejected, so that its second edit goes out alone."""

        def judge(self, candidates):
            first = len(super().judge(candidates)) == 3
            return [Verdict(success=c.task_id != "t0" or not first) for c in candidates]

    def before(stage: Stage, ids: list[str]) -> None:
        if stage == "edit" and ids == ["t0"]:
            assert others.wait(LONG)

    model, got = Once(before, steps=lambda number: 1), []
    for board in run(tasks(5), model, model, model, max_attempts=2, limits=Limits(3, 3), remote=ALL):
        got.append(board.task.id)
        if len(got) == 4:
            others.set()
    assert got[-1] == "t0"


def test_whoever_has_the_most_steps_left_goes_first():
    edited: list[list[str]] = []
    note = lambda stage, ids: edited.append(ids) if stage == "edit" else None  # noqa: E731
    model = Called(note, steps=lambda number: 1 + number)
    got = list(run(tasks(4), model, model, model, max_attempts=1, limits=Limits(2, 4)))
    assert edited == [["t1", "t0"], ["t3", "t2"], ["t3", "t2"], ["t3", "t1"], ["t2", "t3"]]
    assert [len(b.steps) for b in ordered(got)] == [1, 2, 3, 4]


@pytest.mark.parametrize("remote", [(), ALL])
def test_a_dead_model_costs_its_batch_only(remote):
    def before(stage: Stage, ids: list[str]) -> None:
        if stage == "edit" and ids == ["t0"]:
            raise BackendError("connection refused")

    model = Called(before)
    boards = run(tasks(3), model, model, model, max_attempts=1, limits=Limits(1, 3), remote=remote)
    by_id = {b.task.id: b for b in boards}
    assert by_id["t0"].steps[0].attempts[0].failure == Failure(stage="edit", message="connection refused")
    assert all(s.status != "failed" for t in ("t1", "t2") for s in by_id[t].steps)


@pytest.mark.parametrize("error", [UserError("no money left"), ZeroDivisionError(), KeyboardInterrupt()])
def test_any_other_error_is_raised_where_the_run_is_read(error):
    def before(stage: Stage, ids: list[str]) -> None:
        if stage == "edit":
            raise error

    model = Called(before)
    with pytest.raises(type(error)) as caught:
        list(run(tasks(4), model, model, model, max_attempts=1, limits=Limits(2, 4), remote=ALL))
    assert caught.value is error


def test_finished_storyboards_come_before_the_error():
    error, read = ZeroDivisionError(), threading.Event()

    def before(stage: Stage, ids: list[str]) -> None:
        if stage == "edit" and "t2" in ids:
            assert read.wait(LONG)
            raise error

    model = Called(before, steps=lambda number: 1)
    boards = run(tasks(4), model, model, model, max_attempts=1, limits=Limits(2, 4), remote=ALL)
    first = next(boards)
    read.set()
    until(lambda: error.__traceback__)
    assert {first.task.id, next(boards).task.id} == {"t0", "t1"}
    with pytest.raises(ZeroDivisionError):
        next(boards)


@pytest.mark.parametrize("remote", [(), ALL])
def test_a_model_that_miscounts_is_refused(remote):
    class Short(Called):
        def judge(self, candidates):
            return super().judge(candidates)[:-1]

    model = Short(lambda stage, ids: None)
    with pytest.raises(ValueError, match="judge: 1 requests but 0 answers"):
        list(run(tasks(1), model, model, model, max_attempts=1, remote=remote))


def test_who_stops_early_does_not_wait_for_a_call_that_hangs():
    gate, hanging, ended = threading.Event(), threading.Event(), threading.Event()

    def before(stage: Stage, ids: list[str]) -> None:
        if stage == "plan" and ids == ["t1"]:
            hanging.set()
            assert gate.wait(LONG)
            ended.set()

    model = Called(before)
    boards = run(tasks(2), model, model, model, max_attempts=1, limits=Limits(1, 2), remote=ALL)
    assert next(boards).task.id == "t0"
    assert hanging.wait(LONG)
    boards.close()
    assert not ended.is_set()
    gate.set()
    assert ended.wait(LONG)


def test_what_is_not_remote_is_asked_in_the_callers_thread():
    asked: dict[Stage, set[int]] = {stage: set() for stage in ALL}
    told: set[int] = set()
    model = Called(lambda stage, ids: asked[stage].add(threading.get_ident()))
    observe = lambda request, answer: told.add(threading.get_ident())  # noqa: E731
    list(run(tasks(9), model, model, model, max_attempts=2, observe=observe, remote=["edit"]))
    here = {threading.get_ident()}
    assert asked["plan"] == asked["judge"] == told == here
    assert asked["edit"]
    assert not asked["edit"] & here


def test_a_full_batch_goes_out_while_tasks_are_still_read():
    asked = threading.Event()

    def read() -> Iterator[Task]:
        yield from tasks(4)[:2]
        assert asked.wait(LONG)
        yield from tasks(4)[2:]

    model = Called(lambda stage, ids: asked.set())
    assert len(list(run(read(), model, model, model, max_attempts=1, limits=Limits(2, 8), remote=ALL))) == 4
    assert model.calls["plan"] == [2, 2]
