"""Fixtures of the engine's tests."""

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from support.streaming_world import Listening, World, make, result
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
def begin(start) -> Callable[..., tuple[Engine, Listening, Ticket]]:
    """As `start`, with a task whose first goal the policy has been given."""

    def _begin(world: World, **settings: object) -> tuple[Engine, Listening, Ticket]:
        engine, heard = start(world, **settings)
        ticket = engine.submit(TaskRequest("move it"))
        until(lambda: heard.told == [0])
        return engine, heard, ticket

    return _begin


@pytest.fixture
def finish(start) -> Callable[..., TaskOutcome]:
    """As `start`, with a task carried out or, as "generate", only planned and drawn; gives its outcome."""

    def _finish(world: World, kind: Literal["execute", "generate"], **settings: object) -> TaskOutcome:
        engine, _ = start(world, **settings)
        return result(engine.submit(TaskRequest("move it", kind)))

    return _finish
