"""Fixtures of the engine's tests."""

from collections.abc import Callable, Iterator

import pytest
from support.streaming_world import MOVE, Listening, World, make, result
from support.wait import until

from goalreel.streaming.engine import Engine
from goalreel.streaming.request import TaskOutcome, TaskRequest, Ticket


@pytest.fixture
def start() -> Iterator[Callable[..., tuple[Engine, Listening]]]:
    """Starts an engine in a world, and who listens to it; all are stopped at the end."""
    engines: list[Engine] = []

    def _start(world: World, **settings: object) -> tuple[Engine, Listening]:
        engine, heard = make(world, **settings)
        engines.append(engine)
        return engine, heard

    yield _start
    for engine in engines:
        engine.stop()


@pytest.fixture
def submit(start) -> Callable[..., tuple[Engine, Listening, Ticket]]:
    """As `start`, with a task: "move it", if it is to be no other."""

    def _submit(world: World, request: TaskRequest = MOVE, **settings: object):
        engine, heard = start(world, **settings)
        return engine, heard, engine.submit(request)

    return _submit


@pytest.fixture
def begin(submit) -> Callable[..., tuple[Engine, Listening, Ticket]]:
    """As `submit`, and the policy has been given the first goal."""

    def _begin(world: World, **settings: object) -> tuple[Engine, Listening, Ticket]:
        begun = submit(world, **settings)
        until(lambda: begun[1].told == [0])
        return begun

    return _begin


@pytest.fixture
def finish(submit) -> Callable[..., TaskOutcome]:
    """As `submit`; gives the task's outcome."""
    return lambda *given, **settings: result(submit(*given, **settings)[2])
