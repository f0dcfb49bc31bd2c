"""Closed loop: a scripted follower acts on goal images alone, predicted ones or true ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict

from goalreel.evaluation.statistics import Measurement, points, share_with_interval, with_interval
from goalreel.image import Image
from goalreel.models.journal import Journal
from goalreel.models.trio import Trio
from goalreel.progress import OnProgress
from goalreel.tabletop.bench.loop import boards
from goalreel.tabletop.bench.scenes import SIZE, Walk
from goalreel.tabletop.bench.words import tersely
from goalreel.tabletop.lessons.rows import Register
from goalreel.tabletop.sim.env import Tabletop
from goalreel.tabletop.sim.expert import OPEN
from goalreel.tabletop.sim.grammar import sample_episode
from goalreel.tabletop.sim.reach import Reacher, at_home, homeward
from goalreel.tabletop.sim.variety import PLAIN, View, seen
from goalreel.types import Failure, Plan, Planner, Task

MOTIONS = 3
"""At most so many blocks are moved for one goal image: a right one differs from the scene in one."""
SETTLE = 5
"""Actions that the arm has to come to rest."""
HOMING = 20
"""Actions that the arm has to come home."""


class Course(BaseModel):
    """What a follower is asked to do: these goal images, one after the other, in the scene of a seed.

    The images, and what the follower sees, are of the view's camera.
    """

    model_config = ConfigDict(frozen=True)

    seed: int
    images: tuple[Image, ...]
    view: View = PLAIN


class CourseEnd(BaseModel):
    """Which of the episode's sub-goals are true at the end."""

    model_config = ConfigDict(frozen=True)

    held: tuple[bool, ...]


def follow(course: Course) -> CourseEnd:
    """Act until the scene looks like each goal image in turn; pass over a picture that cannot be read."""
    episode = seen(sample_episode(course.seed), course.view)
    with Tabletop(episode.scene) as env:
        reacher = Reacher(episode.scene)
        for goal in course.images:
            for _ in range(MOTIONS):
                try:
                    motion = reacher.motion(Image(env.render(env.scene.camera, SIZE).copy()), goal)
                except ValueError:
                    break
                if motion is None:
                    break
                for action in motion.actions:
                    env.step(action)
                go_home(env)
        return CourseEnd(held=tuple(env.holds(g) for g in episode.goals))


def go_home(env: Tabletop) -> None:
    """Bring the arm to rest, and home, out of the camera's way."""
    hold = np.array([0, 0, 0, 0, OPEN], np.float32)
    for _ in range(SETTLE):
        env.step(hold)
    for _ in range(HOMING):
        state = env.observation().astype(np.float64)
        if at_home(state):
            return
        env.step(homeward(state))


@dataclass(frozen=True)
class CourseFollower:
    """Follows courses, and remembers how each ended."""

    journal: Journal | None = None

    def follow(self, courses: Sequence[Course], stage: str, progress: OnProgress) -> list[CourseEnd]:
        ended = []
        for course in courses:
            ended.append(self._one(course))
            progress(stage, len(ended), len(courses))
        return ended

    def _one(self, course: Course) -> CourseEnd:
        if self.journal is None:
            return follow(course)
        (answer,) = self.journal.ask(
            "follower, a block a goal", CourseEnd, lambda courses: [follow(c) for c in courses], [course]
        )
        assert not isinstance(answer, Failure)
        return answer


@dataclass(frozen=True)
class TersePlanner:
    """A Planner whose orders are said tersely, so that a Critic has something to mend."""

    planner: Planner
    walks: Mapping[str, Walk]

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        answers = zip(tasks, self.planner.plan(tasks), strict=True)
        return [a if isinstance(a, Failure) else tersely(a, self.walks[task.id]) for task, a in answers]


def measure_closed_loop(
    walks: Sequence[Walk],
    trio: Trio,
    attempts: int,
    follower: CourseFollower,
    progress: OnProgress,
    register: Register = "explicit",
) -> dict[str, Measurement]:
    """`success` on predicted goal images and `truth` on true ones: shares of episodes that end with all
    predicates true. `gap`: how many points (0-100) the predicted ones are behind.

    With `register` terse the Planner's orders are said tersely; else they stay as it gave them.
    """
    planner = TersePlanner(trio.planner, {w.task.id: w for w in walks})
    storyboards = boards(
        walks,
        planner if register == "terse" else trio.planner,
        trio.editor,
        trio.critic,
        attempts,
        trio.provenance.preset.keep,
    )
    predicted = [
        Course(seed=w.seed, images=tuple(g for g in b.goal_images() if g is not None), view=w.view)
        for w, b in zip(walks, storyboards, strict=True)
    ]
    true = [Course(seed=w.seed, images=tuple(m.picture for m in w.moments[1:]), view=w.view) for w in walks]
    ours = [all(e.held) for e in follower.follow(predicted, f"follow predicted, {register} orders", progress)]
    best = [all(e.held) for e in follower.follow(true, "follow truth", progress)]
    seeds = [w.seed for w in walks]
    return {
        "success": share_with_interval(zip(seeds, ours, strict=True)),
        "truth": share_with_interval(zip(seeds, best, strict=True)),
        "gap": with_interval([(b, o, 1) for b, o in zip(best, ours, strict=True)], points),
    }
