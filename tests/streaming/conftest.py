"""Fixtures of the engine's tests."""

from collections.abc import Callable, Iterator

import pytest
from support.streaming_world import Listening, World, make

from goalreel.streaming.engine import Engine


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
