"""The parts of `benchmarks/ros_handover.py`: its scenes, and the node with models that take their time.

    python benchmarks/parts/handover.py FOLDER LATENCY --ros-args ...

Plans, goal images and what the camera sees are made before anything is measured, so that a model is a look-up
and a delay. Every instruction and prompt ends in a tag, `[SEED/STEP/TELLER]`, by which it is looked up.
"""

import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from goalreel.image import Image
from goalreel.types import Candidate, Edit, Plan, Stage, Step, Task, Verdict

SIZE = 128
EVERY = 5
"""Of so many control steps of the expert one is shown."""
TAG = re.compile(r"\[(\d+)/(\d+|all)/(policy|critic)\]")
AGAIN = " Really do it."

type Teller = Literal["policy", "critic"]


@dataclass(frozen=True)
class Latency:
    """Seconds a call takes, and the share of first attempts that the critic rejects."""

    planner: float
    editor: float
    critic: float
    rejected: float


@dataclass(frozen=True)
class Scene:
    """One task: what is asked for, a (state, order) for each step, the goal images as the models imagine
    them, and what the camera sees meanwhile, (n, h, w, 3) each, the last of them the step done."""

    seed: int
    instruction: str
    steps: tuple[tuple[str, str], ...]
    goals: NDArray[np.uint8]
    films: tuple[NDArray[np.uint8], ...]

    def asked(self, step: int | None, teller: Teller) -> str:
        """The instruction of the whole task, or of one step alone."""
        text = self.instruction if step is None else self.steps[step][0]
        return f"{text} [{self.seed}/{'all' if step is None else step}/{teller}]"

    def save(self, folder: Path) -> None:
        films = {f"film{i}": film for i, film in enumerate(self.films)}
        words = json.dumps({"instruction": self.instruction, "steps": self.steps})
        np.savez(folder / f"{self.seed}.npz", goals=self.goals, words=np.array(words), **films)

    @classmethod
    def read(cls, file: Path) -> "Scene":
        with np.load(file, allow_pickle=False) as kept:
            words = json.loads(str(kept["words"]))
            steps = tuple((state, order) for state, order in words["steps"])
            films = tuple(kept[f"film{i}"] for i in range(len(steps)))
            return cls(int(file.stem), words["instruction"], steps, kept["goals"], films)


def play(seed: int) -> Scene:
    """Let the tabletop's expert carry the task out, and imagine each goal from the one before it."""
    from goalreel.tabletop.sim.env import Tabletop
    from goalreel.tabletop.sim.grammar import sample_episode
    from goalreel.tabletop.sim.rollout import rollout
    from goalreel.tabletop.sim.sentences import order_of, state_of
    from goalreel.tabletop.sim.teleport import teleport

    episode = sample_episode(seed)
    table = Tabletop(episode.scene)
    names = (*table.blocks, *table.bowls)
    start, films = table.get_state(), [[] for _ in episode.goals]
    for number, step in enumerate(rollout(table, episode.goals)):
        if number % EVERY == 0 or not films[step.goal]:
            if step.goal and not films[step.goal]:
                films[step.goal - 1].append(table.render("front", SIZE).copy())
            films[step.goal].append(table.render("front", SIZE).copy())
    films[-1].append(table.render("front", SIZE).copy())
    table.set_state(start)
    goals = []
    for goal in episode.goals:
        teleport(table, goal)
        goals.append(table.render("front", SIZE).copy())
    table.close()
    steps = tuple((state_of(goal), order_of(goal, names)) for goal in episode.goals)
    return Scene(seed, episode.instruction, steps, np.stack(goals), tuple(map(np.stack, films)))


class Models:
    """Planner, editor and critic: the answer is known, and comes late."""

    def __init__(self, scenes: Sequence[Scene], latency: Latency) -> None:
        self._scenes = {scene.seed: scene for scene in scenes}
        self._latency = latency

    def _of(self, text: str) -> tuple[Scene, int | None, Teller]:
        found = TAG.search(text)
        assert found is not None
        seed, step, teller = found.groups()
        return self._scenes[int(seed)], None if step == "all" else int(step), teller

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        time.sleep(self._latency.planner)
        return [self._plan(task.instruction) for task in tasks]

    def _plan(self, instruction: str) -> Plan:
        scene, only, teller = self._of(instruction)
        steps = []
        for i, (state, order) in enumerate(scene.steps):
            if only in (None, i):
                steps.append(
                    Step(name=state, instruction=state, prompt=f"{order} [{scene.seed}/{i}/{teller}]")
                )
        return Plan(steps=tuple(steps))

    def edit(self, edits: Sequence[Edit]) -> list[Image]:
        time.sleep(self._latency.editor)
        return [self._edit(edit.prompt) for edit in edits]

    def _edit(self, prompt: str) -> Image:
        scene, step, _ = self._of(prompt)
        assert step is not None
        return Image(scene.goals[step])

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        time.sleep(self._latency.critic)
        return [self._judge(candidate.prompt) for candidate in candidates]

    def _judge(self, prompt: str) -> Verdict:
        scene, step, _ = self._of(prompt)
        # By scene and step, so that every way of rendering meets the same rejections.
        chance = np.random.default_rng([scene.seed, step or 0]).random()
        if prompt.endswith(AGAIN) or chance >= self._latency.rejected:
            return Verdict(success=True)
        return Verdict(success=False, refined_prompt=prompt + AGAIN)


class Observer(Models):
    """The critic before the live view: it sees a step done where that is its part, and else says no."""

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        time.sleep(self._latency.critic)
        return [Verdict(success=self._done(candidate)) for candidate in candidates]

    def _done(self, candidate: Candidate) -> bool:
        scene, step, teller = self._of(candidate.prompt)
        if step is None:  # asked about the task as a whole, once every step is over
            return True
        return teller == "critic" and candidate.image == Image(scene.films[step][-1])


def node(folder: Path, latency: Latency, arguments: list[str]) -> None:
    """The real node with these models."""
    from goalreel.models.trio import Trio
    from goalreel_ros import main
    from goalreel_ros.node import GoalreelNode

    scenes = [Scene.read(file) for file in folder.glob("*.npz")]
    models, observer = Models(scenes, latency), Observer(scenes, latency)
    remote = frozenset[Stage](("plan", "edit", "judge"))  # as full-size models are on a robot
    trio = Trio(models, models, models, remote=remote, observing=observer)
    main.leave(0 if main.run(lambda: GoalreelNode(lambda _: trio), arguments) else 1)


def command(folder: Path, latency: Latency) -> list[str]:
    """How the node is started, but for its ROS arguments."""
    return [sys.executable, __file__, str(folder), json.dumps(asdict(latency))]


if __name__ == "__main__":
    node(Path(sys.argv[1]), Latency(**json.loads(sys.argv[2])), sys.argv[3:])
