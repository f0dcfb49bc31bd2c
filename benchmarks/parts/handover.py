"""The parts of `benchmarks/ros_handover.py`: its scenes, and the node with models that take their time.

    python benchmarks/parts/handover.py FOLDER LATENCY --ros-args ...

Plans, goal images and what the camera sees are made before anything is measured, so that a model is a look-up
and a delay. Every instruction and prompt ends in a tag, `[SEED/STEP/OBSERVER]`, by which it is looked up.
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

sys.path.append(str(Path(__file__).parents[1]))
from common import ScriptedModels

from goalreel.image import Image
from goalreel.types import Candidate, Edit, Plan, Request, Stage, Step, Task, Verdict

SIZE = 128
EVERY = 5
"""The camera shows one in so many control steps of the expert."""
TAG = re.compile(r"\[(\d+)/(\d+|all)/(policy|critic)\]")
AGAIN = " Really do it."

type Observer = Literal["policy", "critic"]
"""Who sees that a step is done."""


@dataclass(frozen=True)
class Latency:
    """Seconds a call takes, and the share of first attempts that the critic rejects (0-1)."""

    planner: float
    editor: float
    critic: float
    rejected: float


@dataclass(frozen=True)
class Scene:
    """One task with everything that is shown of it.

    `steps` has a (state, order) each, `goals` the goal images that the editor draws. `films` has what the
    camera sees during each step, (n, h, w, 3), and ends with a picture of the step done.
    """

    seed: int
    instruction: str
    steps: tuple[tuple[str, str], ...]
    goals: NDArray[np.uint8]
    films: tuple[NDArray[np.uint8], ...]

    def tagged_instruction(self, step: int | None, observer: Observer) -> str:
        """The instruction of the whole task (None), or of one step alone."""
        text = self.instruction if step is None else self.steps[step][0]
        return f"{text} [{self.seed}/{'all' if step is None else step}/{observer}]"

    def save(self, folder: Path) -> None:
        """Write `SEED.npz`."""
        texts = json.dumps({"instruction": self.instruction, "steps": self.steps})
        arrays = {f"film{i}": film for i, film in enumerate(self.films)}
        arrays |= {"goals": self.goals, "texts": np.array(texts)}
        np.savez(folder / f"{self.seed}.npz", allow_pickle=False, **arrays)

    @classmethod
    def read(cls, file: Path) -> "Scene":
        """Read what `save` wrote."""
        with np.load(file, allow_pickle=False) as arrays:
            texts = json.loads(str(arrays["texts"]))
            steps = tuple((state, order) for state, order in texts["steps"])
            films = tuple(arrays[f"film{i}"] for i in range(len(steps)))
            return cls(int(file.stem), texts["instruction"], steps, arrays["goals"], films)


def film_scene(seed: int) -> Scene:
    """Film the tabletop's expert at the task of a seed, and draw each goal image from the one before it."""
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


class SceneModels(ScriptedModels):
    """Planner, editor and critic of known scenes, whose right answers come late."""

    def __init__(self, scenes: Sequence[Scene], latency: Latency) -> None:
        self._scenes = {scene.seed: scene for scene in scenes}
        self._rejected = latency.rejected
        self._seconds: dict[Stage, float] = {
            "plan": latency.planner,
            "edit": latency.editor,
            "judge": latency.critic,
        }

    def work(self, stage: Stage, requests: Sequence[Request]) -> None:
        """Sleep for the time of a call."""
        time.sleep(self._seconds[stage])

    def look_up(self, text: object) -> tuple[Scene, int | None, Observer]:
        """Scene, step (None: the whole task) and observer by the tag of a text."""
        match = TAG.search(str(text))
        assert match is not None
        seed, step, observer = match.groups()
        scene = self._scenes[int(seed)]
        return scene, None if step == "all" else int(step), "policy" if observer == "policy" else "critic"

    def plan_of(self, task: Task) -> Plan:
        """The steps of the task, or the one that it asks for."""
        scene, only, observer = self.look_up(task.instruction)
        return Plan(
            steps=tuple(
                Step(name=state, instruction=state, prompt=f"{order} [{scene.seed}/{i}/{observer}]")
                for i, (state, order) in enumerate(scene.steps)
                if only in (None, i)
            )
        )

    def image_of(self, edit: Edit) -> Image:
        """The goal image of the step."""
        scene, step, _ = self.look_up(edit.prompt)
        assert step is not None
        return Image(scene.goals[step])

    def verdict_of(self, candidate: Candidate) -> Verdict:
        """Reject a share of first attempts, by scene and step: every way of rendering meets the same."""
        scene, step, _ = self.look_up(candidate.prompt)
        chance = np.random.default_rng([scene.seed, step or 0]).random()
        if str(candidate.prompt).endswith(AGAIN) or chance >= self._rejected:
            return Verdict(success=True)
        return Verdict(success=False, refined_prompt=f"{candidate.prompt}{AGAIN}")


class LiveCritic(SceneModels):
    """The critic of live views: where it is the observer it sees a step done, elsewhere it says no."""

    def verdict_of(self, candidate: Candidate) -> Verdict:
        """Compare the view with the last picture of the step's film; agree that the whole task is done."""
        scene, step, observer = self.look_up(candidate.prompt)
        if step is None:
            return Verdict(success=True)
        done = candidate.image == Image(scene.films[step][-1])
        return Verdict(success=observer == "critic" and done)


def node(folder: Path, latency: Latency, arguments: list[str]) -> None:
    """Run the real node with these models."""
    from goalreel.models.model_set import ModelSet
    from goalreel_ros import main
    from goalreel_ros.node import GoalreelNode

    scenes = [Scene.read(file) for file in folder.glob("*.npz")]
    models, critic = SceneModels(scenes, latency), LiveCritic(scenes, latency)
    remote = frozenset[Stage](("plan", "edit", "judge"))  # as full-size models are on a robot
    model_set = ModelSet(models, models, models, remote=remote, live_critic=critic)
    main.leave(0 if main.run(lambda: GoalreelNode(lambda _: model_set), arguments) else 1)


def command(folder: Path, latency: Latency) -> list[str]:
    """The node's command line, without its ROS arguments."""
    return [sys.executable, __file__, str(folder), json.dumps(asdict(latency))]


if __name__ == "__main__":
    node(Path(sys.argv[1]), Latency(**json.loads(sys.argv[2])), sys.argv[3:])
