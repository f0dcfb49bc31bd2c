"""Models load one by one once the engine starts, before any task, and which one is said."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from support.streaming_world import GENERATE, MOVE, QUICK, Listening, World, result
from support.wait import until

from goalreel.errors import BackendError, InputError, UserError
from goalreel.models.model_set import Lazy, ModelSet
from goalreel.streaming.board import ErrorCode
from goalreel.streaming.engine import Engine
from goalreel.streaming.settings import EngineSettings


class Probed:
    """A model whose probes end as `outcomes` say, the last of them for good."""

    def __init__(self, world: World, outcomes: list[str | Exception] | None) -> None:
        self.outcomes = outcomes
        self.plan, self.edit, self.judge = world.plan, world.edit, world.judge

    def probe(self) -> str | None:
        if not self.outcomes:
            return None
        outcome = self.outcomes.pop(0) if self.outcomes[1:] else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Slow:
    """Models that each load when their gate opens."""

    def __init__(self, world: World) -> None:
        self.probed: dict[str, list[str | Exception]] = {}
        self.world = world
        self.gates = {role: threading.Event() for role in ("planner", "editor", "critic")}
        self.broken: str | None = None

    def open(self) -> None:
        for gate in self.gates.values():
            gate.set()

    def model_set(self, _: object) -> ModelSet:
        def model(role: str):
            assert self.gates[role].wait(60)
            if role == self.broken:
                raise OSError("no space for the weights")
            return Probed(self.world, self.probed.get(role))

        return ModelSet(*(Lazy(partial(model, role)) for role in self.gates))


@pytest.fixture
def slow():
    return Slow(World(1))


@pytest.fixture
def engine(slow):
    ticks = iter(range(1, 10**9))
    settings = EngineSettings.of(**QUICK)
    engine = Engine(settings, slow.world.newest, Listening(), lambda: next(ticks), build=slow.model_set)
    yield engine
    slow.open()
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
    ticket = engine.submit(GENERATE)
    until(lambda: engine.board.task == "move it" and said(engine).startswith("loading the editor"))
    slow.gates["editor"].set()
    until(lambda: said(engine).startswith("loading the critic"))
    assert not ticket.done
    slow.gates["critic"].set()
    assert result(ticket).error is ErrorCode.NONE
    assert (engine.loading, said(engine)) == (("ready", ""), "")


def test_one_that_cannot_be_loaded_ends_the_loading_and_every_task_with_its_reason(slow, engine):
    slow.broken = "editor"
    slow.open()
    with pytest.raises(BackendError, match=r"the editor \(server:.*\) cannot be loaded: no space") as said:
        engine.finish_loading(engine.begin_loading())
    engine.start()
    outcome = result(engine.submit(MOVE))
    assert (outcome.error, outcome.message) == (ErrorCode.MODELS_NOT_LOADED, str(said.value))
    assert engine.loading == ("failed", "no space for the weights")


def test_an_engine_that_is_stopped_while_it_loads_lets_go_of_who_waits(slow, engine):
    with ThreadPoolExecutor() as pool:
        loading = pool.submit(engine.finish_loading, engine.begin_loading())
        until(lambda: said(engine).startswith("loading the planner"))
        engine.stop()
        assert not loading.result(60)


def test_an_engine_that_is_stopped_before_anybody_waits_loads_nothing(slow, engine):
    loading = engine.begin_loading()
    engine.stop()
    assert not engine.finish_loading(loading)


@pytest.mark.parametrize(
    ("outcomes", "seconds", "says"),
    [
        ([BackendError("out of reach"), "odd"], 60.0, None),
        ([BackendError("out of reach")], 0.0, r"planner \(server:.*\), critic \(server:.*\): out of reach"),
        ([InputError("no such model")], 60.0, "no such model"),
    ],
    ids=["late", "absent", "wrong"],
)
def test_servers_are_waited_for_as_long_as_is_said(slow, engine, outcomes, seconds, says):
    slow.probed = {"planner": [*outcomes], "critic": [*outcomes]}
    slow.open()
    if says is not None:
        with pytest.raises(UserError, match=says):
            engine.probe(seconds)
        return
    assert engine.probe(seconds)
    assert sorted(engine.probes.remarks) == ["the critic: odd", "the planner: odd"]


def test_a_wrong_model_is_said_though_another_server_never_answers(slow, engine):
    slow.probed = {"planner": [InputError("no such model")], "critic": [BackendError("out of reach")]}
    slow.open()
    with pytest.raises(InputError, match="no such model"):
        engine.probe(1e6)


def test_it_takes_no_task_before_it_is_started_and_keeps_its_models_after_one(slow, engine):
    slow.open()
    assert engine.finish_loading(engine.begin_loading())
    assert result(engine.submit(GENERATE)).error is ErrorCode.NOT_ACTIVE
    engine.start()
    assert result(engine.submit(GENERATE)).error is ErrorCode.NONE
    engine.end_task()
    assert engine.loading[0] == "ready"
    assert result(engine.submit(GENERATE)).error is ErrorCode.NOT_ACTIVE
