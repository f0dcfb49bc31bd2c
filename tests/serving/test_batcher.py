"""The batcher without a server: whose turn it is, who is refused, what is dropped, and when it is stuck."""

import threading
from concurrent.futures import Future

import pytest
from support.wait import until

from goalreel.errors import BackendError
from goalreel.serving.queues import BatchBounds, Batcher, CallEngine, QueueFull, WorkerDead


class Gated:
    """Answers with the request itself, one batch each time the gate is opened."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Semaphore(0)
        self.entered = threading.Semaphore(0)

    def __call__(self, requests) -> list[str]:
        self.batches.append(list(requests))
        self.entered.release()
        assert self.gate.acquire(timeout=60)
        return list(requests)


@pytest.fixture
def call() -> Gated:
    return Gated()


@pytest.fixture
def batcher(call):
    batcher = Batcher("planner", [lambda: CallEngine("planner", call)], BatchBounds(size=1, wait=0, queue=4))
    yield batcher
    for _ in range(20):
        call.gate.release()
    batcher.close()


def test_a_client_with_many_requests_does_not_hold_up_one_with_few(batcher, call):
    first = batcher.put("a0", client="a")
    assert call.entered.acquire(timeout=60)
    others = [batcher.put(name, client=name[0]) for name in ("a1", "a2", "b0", "c0")]
    for _ in range(5):
        call.gate.release()
    assert [f.result(60) for f in (first, *others)] == ["a0", "a1", "a2", "b0", "c0"]
    assert call.batches == [["a0"], ["b0"], ["c0"], ["a1"], ["a2"]]


def test_a_full_queue_refuses_the_client_with_most_requests(batcher, call):
    batcher.put("a0", client="a")
    assert call.entered.acquire(timeout=60)
    waiting = [batcher.put(f"a{n}", client="a") for n in (1, 2, 3, 4)]
    for refuse in (batcher.check_room, lambda client: batcher.put("a5", client=client)):
        with pytest.raises(QueueFull):
            refuse("a")
    batcher.check_room("b")
    waiting.append(batcher.put("b0", client="b"))
    with pytest.raises(QueueFull, match="try again"):
        waiting[3].result(0)
    assert batcher.waiting == 4


def test_what_is_cancelled_under_way_does_not_wait_for_the_model(batcher, call):
    first: Future[str] = batcher.put("a0")
    assert call.entered.acquire(timeout=60)
    assert batcher.under_way == 1
    assert batcher.silent_seconds >= 0
    assert first.cancel()
    assert batcher.under_way == 0
    second = batcher.put("a1")
    call.gate.release()
    call.gate.release()
    assert second.result(60) == "a1"
    until(lambda: batcher.silent_seconds == 0)


def test_a_long_request_to_one_engine_holds_up_no_other():
    end = threading.Event()

    def call(requests: list[str]) -> list[str]:
        assert len(requests) == 1
        assert requests != ["long"] or end.wait(60)
        return requests

    batcher = Batcher("critic", [lambda: CallEngine("critic", call)] * 2, BatchBounds(size=1, wait=0))
    long = batcher.put("long")
    assert [batcher.put(name).result(60) for name in ("a", "b", "c")] == ["a", "b", "c"]
    assert not long.done()
    assert batcher.under_way == 1
    end.set()
    assert long.result(60) == "long"
    batcher.close()
    assert not batcher.alive


def test_a_bug_fails_its_own_batch_and_the_model_goes_on():
    end = threading.Event()

    def call(requests: list[str]) -> list[str]:
        assert requests != ["bug"]
        assert requests != ["held"] or end.wait(60)
        return requests

    batcher = Batcher("critic", [lambda: CallEngine("critic", call)] * 2, BatchBounds(size=1, wait=0))
    held, broken = batcher.put("held"), batcher.put("bug")
    with pytest.raises(BackendError, match="the critic model failed: see the server's log"):
        broken.result(60)
    until(lambda: not batcher.alive)
    assert batcher.put("next").result(60) == "next"
    until(lambda: batcher.alive)
    end.set()
    assert held.result(60) == "held"
    batcher.close()
    with pytest.raises(WorkerDead):
        batcher.put("late")


def test_a_model_that_cannot_be_made_fails_who_waits_and_is_tried_again():
    faults, go = [MemoryError("no room"), BackendError("no weights")], threading.Event()

    def make() -> CallEngine:
        assert go.wait(60)
        if faults:
            raise faults.pop(0)
        return CallEngine("critic", list)

    batcher = Batcher("critic", [make], BatchBounds(size=1, wait=0))
    waiting = [batcher.put("a"), batcher.put("b")]
    until(lambda: batcher.silent_seconds > 0.05)  # one that loads for ever is stuck
    go.set()
    for work in waiting:
        with pytest.raises(BackendError, match="the critic model failed: see the server's log"):
            work.result(60)
    assert not batcher.alive
    with pytest.raises(BackendError, match="no weights"):
        batcher.put("c").result(60)
    assert batcher.put("d").result(60) == "d"
    until(lambda: batcher.alive and batcher.silent_seconds == 0)
    batcher.close()


def test_what_nobody_asked_is_not_loaded_when_the_server_stops():
    made = []
    Batcher("critic", [lambda: made.append(1)], BatchBounds()).close()
    assert not made
