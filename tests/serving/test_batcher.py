"""The batcher without a server: whose turn it is, who is refused, and what is dropped."""

import threading

import pytest
from support.wait import until

from goalreel.serving.queues import BatchBounds, Batcher, QueueFull


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
    batcher = Batcher("planner", call, BatchBounds(size=1, wait=0, queue=4))
    yield batcher
    for _ in range(20):
        call.gate.release()
    batcher.close()


def test_requests_are_answered_in_their_order_and_one_too_many_is_refused(batcher, call):
    works = [batcher.put("0")]
    assert call.entered.acquire(timeout=60)
    works += [batcher.put(name) for name in "1234"]
    for refuse in (batcher.check_room, lambda: batcher.put("5")):
        with pytest.raises(QueueFull, match="try again"):
            refuse()
    assert batcher.waiting == 4
    assert works[2].cancel()
    works.append(batcher.put("5"))
    for _ in range(5):
        call.gate.release()
    assert [f.result(60) for f in works if not f.cancelled()] == ["0", "1", "3", "4", "5"]
    assert call.batches == [["0"], ["1"], ["3"], ["4"], ["5"]]


def test_a_client_with_many_requests_does_not_hold_up_one_with_few(batcher, call):
    works = [batcher.put("a0", client="a")]
    assert call.entered.acquire(timeout=60)
    works += [batcher.put(name, client=name[0]) for name in ("a1", "a2", "b0", "c0")]
    for _ in works:
        call.gate.release()
    assert [work.result(60) for work in works] == ["a0", "a1", "a2", "b0", "c0"]
    assert call.batches == [["a0"], ["b0"], ["c0"], ["a1"], ["a2"]]


def test_what_is_cancelled_under_way_does_not_wait_for_the_model(batcher, call):
    first = batcher.put("a0")
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
