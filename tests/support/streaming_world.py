"""A world without ROS for the engine: a scene that a test sets, and models that know it."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import wait

import numpy as np

from goalreel.errors import BackendError
from goalreel.http.calls import report_retry
from goalreel.image import Image
from goalreel.loop import states_in
from goalreel.models.model_set import ModelSet, no_limit
from goalreel.streaming.board import Board, Frame, Goal
from goalreel.streaming.engine import Engine
from goalreel.streaming.request import TaskRequest
from goalreel.streaming.settings import EngineSettings
from goalreel.types import Failure, Plan, Step, Verdict
from support.wait import until

MOVE, GENERATE = TaskRequest("move it"), TaskRequest("move it", "generate")


def picture(square: int, extra: int = 0) -> Image:
    """A grey table with a bright square at place `square`; `extra` adds another one below."""
    pixels = np.full((48, 96, 3), 90, np.uint8)
    pixels[8:20, 4 + 14 * square : 16 + 14 * square] = (240, 200, 30)
    if extra:
        pixels[24:44, 4 + 14 * extra : 16 + 14 * extra] = (30, 60, 250)
    return Image(pixels)


class World:
    """Step i asks for the square at place i + 1. Every model call can be held up or made to fail."""

    def __init__(self, steps: int = 3) -> None:
        self.plans = [self.plan_of(range(steps))]
        self.scene: Image | None = picture(0)
        self.error: ValueError | None = None
        self.age = 0.0
        self.hold: dict[str, threading.Event] = {}
        """Calls of a kind wait for its event."""
        self.fails: dict[str, str] = {}
        self.refuse: set[str] = set()
        """Prompts whose pictures the critic rejects."""
        self.whole = True
        """Give what the critic says of a task as a whole."""
        self.calls: list[tuple[str, object]] = []
        self.busy = 0
        self.retry = 0
        self._lock = threading.Lock()

    @staticmethod
    def plan_of(places, words=()) -> Plan:
        """`words`: the places whose steps have no picture."""
        steps = (
            Step(
                name=f"step {i}",
                instruction=f"at {i + 1}",
                prompt=None if i in words else f"move to {i + 1}",
                auxiliary_text=f"now move it to {i + 1}" if i in words else None,
            )
            for i in places
        )
        return Plan(steps=tuple(steps))

    def newest(self) -> Frame | None:
        if self.error is not None:
            raise self.error
        if self.scene is None:
            return None
        return Frame(self.scene, stamp=5, frame_id="camera", received=time.monotonic() - self.age)

    def _call(self, kind, requests, answer: Callable):
        hold = self.hold.get(kind)
        with self._lock:
            self.busy += 1
        try:
            self.calls.append((kind, requests[0]))
            if self.retry:
                report_retry(self.retry, "HTTP 500 from it")
            assert hold is None or hold.wait(60)
            if kind in self.fails:
                raise BackendError(self.fails[kind])
            return [answer(r) for r in requests]
        finally:
            with self._lock:
                self.busy -= 1

    # -- Planner, Editor, Critic

    def plan(self, tasks):
        return self._call("plan", tasks, lambda t: self.plans.pop(0) if self.plans else _no_plan())

    def edit(self, edits):
        return self._call("edit", edits, lambda e: picture(int(e.prompt.split()[2])))

    def judge(self, candidates):
        return self._call("judge", candidates, self._verdict)

    def _verdict(self, c):
        if c.instruction != states_in(c.instruction):
            return Verdict(success=self.whole, reasoning="looked at all", probability=0.75)
        if c.prompt in self.refuse and c.image == picture(int(c.prompt.split()[2])):
            better = f"{c.prompt} exactly"
            return Verdict(success=False, reasoning="not quite", refined_prompt=better)
        wanted = picture(int(c.instruction.split()[1])).pixels[:24]
        return Verdict(success=np.array_equal(c.image.pixels[:24], wanted), reasoning="looked")


def _no_plan() -> Failure:
    return Failure(stage="plan", message="no plan in the reply", reply="Sure!")


class Listening:
    """Keeps what the engine tells."""

    def __init__(self) -> None:
        self.boards: list[Board] = []
        self.goals: list[Goal] = []

    def on_board(self, board: Board) -> None:
        self.boards.append(board)

    def on_goal(self, goal: Goal) -> None:
        self.goals.append(goal)

    @property
    def told(self) -> list[int]:
        """Steps the policy was told to reach, in order."""
        return [g.panel.index for g in self.goals if g.active]


QUICK = {
    "preset": "server",
    "controls": 0.0,
    "track_rate": 30.0,
    "critic_period": 0.0,
    "image_timeout": 0.3,
    "max_image_age": 0.5,
    "stall_timeout": 60.0,
}


def make(
    world: World, live_critic=None, remote=(), critic_steps=no_limit, **settings
) -> tuple[Engine, Listening]:
    """`remote`: the stages whose models answer from servers; `critic_steps`: what the critic can judge."""
    heard = Listening()
    places = {"live_critic": live_critic, "remote": frozenset(remote)}
    model_set = ModelSet(world, world, world, critic_steps=critic_steps, **places)
    ticks = iter(range(1, 10**9))
    engine = Engine(
        EngineSettings.of(**QUICK | settings),
        world.newest,
        heard,
        lambda: next(ticks),
        build=lambda preset: model_set,
    )
    engine.start()
    return engine, heard


def play(world: World, heard: Listening, steps: int = 3) -> None:
    """The robot reaches each goal as soon as it is told."""
    for i in range(steps):
        until(lambda i=i: heard.told and heard.told[-1] >= i)
        world.scene = picture(i + 1)


def result(ticket, seconds: float = 30.0):
    wait([ticket.outcome], seconds)
    return ticket.outcome.result(0)
