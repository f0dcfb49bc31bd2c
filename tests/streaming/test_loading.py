"""Models load one by one once the engine starts, before any task, and which one is said."""

import re
import threading

import pytest
from support.streaming_world import QUICK, Listening, World, result
from support.wait import until

from goalreel.models.lazy import Lazy
from goalreel.models.trio import Trio
from goalreel.streaming.board import ErrorCode
from goalreel.streaming.engine import Engine
from goalreel.streaming.request import TaskRequest
from goalreel.streaming.settings import EngineSettings


class Slow:
    """Models that each load when their gate opens."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.gates = {role: threading.Event() for role in ("planner", "editor", "critic")}
        self.broken: str | None = None

    def trio(self, _: object) -> Trio:
        def model(role: str):
            assert self.gates[role].wait(60)
            if role == self.broken:
                raise OSError("no space for the weights")
            return self.world

        return Trio(
            Lazy(lambda: model("planner")),
            Lazy(lambda: model("editor")),
            Lazy(lambda: model("critic")),
        )


@pytest.fixture
def slow():
    return Slow(World(1))


@pytest.fixture
def engine(slow):
    ticks = iter(range(1, 10**9))
    settings = EngineSettings.of(**QUICK)
    engine = Engine(settings, slow.world.newest, Listening(), lambda: next(ticks), build=slow.trio)
    yield engine
    for gate in slow.gates.values():
        gate.set()
    engine.stop()


def said(engine: Engine) -> str:
    return engine.progress().message


def test_each_model_is_named_while_it_loads_with_a_task_waiting_or_none(slow, engine):
    engine.start()
    until(lambda: re.fullmatch(r"loading the planner \(server:.*\) for \d+ s", said(engine)))
    assert engine.loading[0] == "loading"
    slow.gates["planner"].set()
    until(lambda: said(engine).startswith("loading the editor"))
    assert engine.loading[1].startswith("loading the editor")
    ticket = engine.submit(TaskRequest("move it", "generate"))
    until(lambda: engine.board.task == "move it" and said(engine).startswith("loading the editor"))
    slow.gates["editor"].set()
    until(lambda: said(engine).startswith("loading the critic"))
    assert not ticket.done
    slow.gates["critic"].set()
    assert result(ticket).error is ErrorCode.NONE
    assert (engine.loading, said(engine)) == (("ready", ""), "")


def test_they_are_there_before_the_first_task(slow, engine):
    for gate in slow.gates.values():
        gate.set()
    engine.start()
    until(lambda: engine.loading == ("ready", ""))
    assert said(engine) == ""
    assert slow.world.calls == []


def test_one_that_cannot_be_loaded_ends_every_task_with_its_reason(slow, engine):
    slow.broken = "editor"
    for gate in slow.gates.values():
        gate.set()
    engine.start()
    outcome = result(engine.submit(TaskRequest("move it")))
    assert (outcome.error, outcome.message) == (
        ErrorCode.MODELS_NOT_LOADED,
        "no space for the weights",
    )
    assert engine.loading == ("failed", "no space for the weights")
