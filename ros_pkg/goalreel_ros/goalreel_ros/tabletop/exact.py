# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""Planner, editor and critic that read the simulator's state, so that the loop runs without model errors.

Planner and critic are chat models. They read the real agents' prompts and answer in the published reply
format (`ChatPlanner(PlannerChat(world))` is a Planner), so that the real code runs around them.
"""

import hashlib
import json
import logging
import re
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goalreel.chat.conversation import Chat, ChatRequest, Conversation, TokenReply
from goalreel.image import Image
from goalreel.loop import states_in
from goalreel.tabletop.env import HOME_TIP, Tabletop, TabletopState, teleport
from goalreel.tabletop.grammar import order_of, read_order, read_wanted, sample_episode, state_of
from goalreel.tabletop.scene import SceneLayout, SubGoal, shows
from goalreel.types import Edit, Failure

log = logging.getLogger(__name__)

CAMERA = "front"
AT_HOME = 0.02
"""The arm is out of the way when its tip is at most this far from its home (m)."""
MAX_SHIFT = 0.02
"""A block that should stay counts as disturbed when it moves by more (m)."""


@dataclass(frozen=True)
class TableSnapshot:
    """The complete state of the table at one time."""

    state: TabletopState
    layout: SceneLayout
    held_blocks: frozenset[str]
    arm_home: bool

    def holds(self, goal: SubGoal) -> bool:
        """True if the sub-goal is true and the hand has released the block."""
        return shows(self.layout, goal) and goal.object not in self.held_blocks


@dataclass(frozen=True)
class ControlResult:
    """The robot's state (12,) after a control step, as STATE_NAMES says, and the picture if one was taken."""

    observation: NDArray[np.float32]
    picture: Image | None


class World:
    """The scene of a seed, its robot, and a second table on which sub-goals are imagined. Thread-safe.

    MuJoCo's contexts belong to the thread that made them, so one private thread does all of the work.
    """

    def __init__(self, seed: int, size: int = 256) -> None:
        self.episode = sample_episode(seed)
        self.size = size
        scene = self.episode.scene
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tabletop")
        self._snapshots: OrderedDict[bytes, TableSnapshot] = OrderedDict()
        self._real, self._imagination = self._do(lambda: (Tabletop(scene), Tabletop(scene)))
        self.names: tuple[str, ...] = (*self._real.blocks, *self._real.bowls)

    def tick(self, action: NDArray[np.floating], *, look: bool) -> ControlResult:
        """Carry out one action (5,) for 0.1 simulated seconds, then take a picture if `look` is set."""

        def run() -> ControlResult:
            return ControlResult(self._real.step(action), self._picture(self._real) if look else None)

        return self._do(run)

    def now(self) -> TableSnapshot:
        """Give the present state of the table."""
        return self._do(lambda: _snapshot(self._real))

    def snapshot_of(self, picture: Image | None) -> TableSnapshot:
        """Give the table's state in a picture made here; for any other picture, the present state."""
        snapshot = None if picture is None else self._snapshots.get(_digest(picture))
        return snapshot or self.now()

    def imagine(self, start: TableSnapshot, goal: SubGoal) -> Image:
        """Render the exact picture after a sub-goal, from `start` on, with the arm at home.

        Raises:
            ValueError: the sub-goal cannot be reached from there in one move.
        """

        def run() -> Image:
            table = self._imagination
            table.set_state(start.state)
            if start.holds(goal):
                table.home()
                table.settle(0.4)
            else:
                teleport(table, goal)
            return self._picture(table)

        return self._do(run)

    def close(self) -> None:
        """Free the renderers, in the thread that made them."""
        self._do(self._real.close)
        self._do(self._imagination.close)
        self._thread.shutdown()

    def _do[Result](self, run: Callable[[], Result]) -> Result:
        return self._thread.submit(run).result()

    def _picture(self, table: Tabletop) -> Image:
        picture = Image(table.render(CAMERA, self.size))
        key = _digest(picture)
        self._snapshots[key] = _snapshot(table)
        self._snapshots.move_to_end(key)
        if len(self._snapshots) > 10_000:  # of about 3 kB each
            self._snapshots.popitem(last=False)
        return picture


def _snapshot(table: Tabletop) -> TableSnapshot:
    held_blocks = frozenset(b for b in table.blocks if table.grasped(b))
    away = np.linalg.norm(table.observation()[7:10] - HOME_TIP)
    return TableSnapshot(table.get_state(), table.layout(), held_blocks, bool(away < AT_HOME))


def _digest(picture: Image) -> bytes:
    return hashlib.blake2b(picture.pixels.tobytes(), digest_size=16).digest()


class TableChat(Chat):
    """Answers by the table's state; a question about another table gets a text that is no answer."""

    def __init__(self, world: World) -> None:
        self._world = world

    def answer(self, requests: Sequence[ChatRequest]) -> list[TokenReply]:
        """Give a reply to each question."""
        return [TokenReply(self._answer(request.conversation)) for request in requests]

    def _answer(self, conversation: Conversation) -> str:
        # Later turns only say what was wrong with a reply.
        question = next(message for message in conversation if message.role == "user")
        text = "\n".join(part for part in question.parts if isinstance(part, str))
        try:
            goals = self._goals(text)
        except ValueError as e:
            log.warning("no answer: %s", e)
            return str(e)
        return self._respond(goals, [part for part in question.parts if isinstance(part, Image)])

    @abstractmethod
    def _goals(self, text: str) -> Sequence[SubGoal]:
        """Read a question. A ValueError says that it is about another table."""

    @abstractmethod
    def _respond(self, goals: Sequence[SubGoal], images: Sequence[Image]) -> str:
        """Answer a question: its sub-goals, and its pictures in their order."""


class PlannerChat(TableChat):
    """Plans the sub-goals that do not hold yet, of the scene's own instruction or of a simpler one."""

    def _respond(self, goals: Sequence[SubGoal], images: Sequence[Image]) -> str:
        now = self._world.snapshot_of(images[-1] if images else None)
        missing = _missing(goals, now) or goals[-1:]
        return _reply(f"{len(missing)} left to do.", {"execution_plan": [self._step(g) for g in missing]})

    def _goals(self, text: str) -> Sequence[SubGoal]:
        instruction, episode = _line(text, "Instruction"), self._world.episode
        if instruction.casefold() == episode.instruction.casefold():
            return episode.goals
        return read_wanted(instruction, self._world.names)

    def _step(self, goal: SubGoal) -> dict[str, str | None]:
        state = state_of(goal)
        return {
            "step_name": state.replace("the ", "").replace(" is ", " "),
            "instruction": state,
            "prompt": order_of(goal, self._world.names),
            "auxiliary_text": None,
        }


class CriticChat(TableChat):
    """Judges whether a picture shows the wanted state, and nothing else has changed since the source."""

    def _goals(self, text: str) -> Sequence[SubGoal]:
        return read_wanted(states_in(_line(text, "Wanted state")), self._world.names)

    def _respond(self, goals: Sequence[SubGoal], images: Sequence[Image]) -> str:
        now = self._world.snapshot_of(images[-1])
        source = self._world.snapshot_of(images[0]) if len(images) > 1 else now
        disturbed = _disturbed(source, now, {goal.object for goal in goals})
        faults = [f"It is not so that {state_of(goal)}." for goal in goals if not now.holds(goal)]
        faults += [f"The {name} was moved." for name in disturbed]
        faults += [] if now.arm_home else ["The arm is not out of the way."]
        warning = "".join(f"Leave the {name} where it is. " for name in disturbed)
        better = order_of(goals[0], self._world.names, warning or "Really do it this time. ")
        thinking = " ".join(faults) or f"It is so: {', and '.join(map(state_of, goals))}."
        answer = {"previous_step_success": not faults, "refine_prompt": better if faults else None}
        return _reply(thinking, answer)


class SimulatorEditor:
    """Moves the block on a second table and takes a picture of it."""

    def __init__(self, world: World) -> None:
        self._world = world

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Give the exact goal image of each edit, or a Failure."""
        return [self._edit(edit) for edit in edits]

    def _edit(self, edit: Edit) -> Image | Failure:
        try:
            goal = read_order(edit.prompt, self._world.names)
            return self._world.imagine(self._world.snapshot_of(edit.image), goal)
        except ValueError as e:
            return Failure(stage="edit", message=str(e))


def _missing(goals: Sequence[SubGoal], now: TableSnapshot) -> list[SubGoal]:
    """The sub-goals that do not hold, and those that will not hold once these have been moved."""
    missing: list[SubGoal] = []
    for goal in goals:
        moved = {missing_goal.object for missing_goal in missing}
        if not now.holds(goal) or moved & {goal.object, goal.target}:
            missing.append(goal)
    return missing


def _line(text: str, label: str) -> str:
    """The text after `LABEL: ` on its line; a task's auxiliary text is on lines of its own."""
    match = re.search(rf"^{label}: (.*)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _disturbed(source: TableSnapshot, now: TableSnapshot, moved: set[str]) -> list[str]:
    others = (name for name in now.layout if name not in moved)
    return [n for n in others if np.linalg.norm(now.layout[n] - source.layout[n]) > MAX_SHIFT]


def _reply(thinking: str, answer: Mapping[str, object]) -> str:
    return f"<think>{thinking}</think>\n<answer>{json.dumps(answer)}</answer>"
