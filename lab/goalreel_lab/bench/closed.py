"""Closed loop: a scripted follower acts on goal images alone, predicted ones or true ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel

from goalreel.annotator.statistics import Measurement, with_interval
from goalreel.image import Image
from goalreel.models.journal import Journal
from goalreel.models.model_set import ModelSet
from goalreel.progress import OnProgress
from goalreel.tabletop.env import Tabletop
from goalreel.tabletop.expert import OPEN
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.reach import Reacher, at_home, homeward
from goalreel.types import Failure, Plan, Planner, Task
from goalreel_lab.bench.job import measure_accepted
from goalreel_lab.bench.loop import boards
from goalreel_lab.bench.plan import tersely
from goalreel_lab.bench.scenes import SIZE, Walk
from goalreel_lab.corpora.rows import Register
from goalreel_lab.statistics import points, share_with_interval
from goalreel_lab.variety import PLAIN, View, seen

MOTIONS = 3
"""At most so many blocks are moved for one goal image: a right one differs from the scene in one."""
SETTLE = 5
"""Actions that the arm has to come to rest."""
HOMING = 20
"""Actions that the arm has to come home."""
FOLLOWER = "follower, a block a goal"
"""The follower's name in the journal."""


class Course(BaseModel, frozen=True):
    """Task of a follower: these goal images, one after the other, in the scene of a seed.

    The images, and what the follower sees, are of the view's camera.
    """

    seed: int
    images: tuple[Image, ...]
    view: View = PLAIN


class CourseEnd(BaseModel, frozen=True):
    """Which of the episode's sub-goals are true at the end."""

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


def follow_all(
    courses: Sequence[Course], journal: Journal, stage: str, progress: OnProgress
) -> list[CourseEnd]:
    """Follow the courses whose ends the journal does not know."""
    ends = []
    for course in courses:
        (end,) = journal.ask(FOLLOWER, CourseEnd, lambda courses: [*map(follow, courses)], [course])
        assert not isinstance(end, Failure)
        ends.append(end)
        progress(stage, len(ends), len(courses))
    return ends


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
    model_set: ModelSet,
    attempts: int,
    journal: Journal,
    progress: OnProgress,
    register: Register = "explicit",
    num_draws: int = 1,
) -> dict[str, Measurement]:
    """Measure `success` on predicted goal images, `truth` on true ones, and the `gap` between them.

    The first two are shares of episodes that end with all predicates true; the gap is in points (0-100).
    `measure_accepted` says how often the storyboards' word *accepted* is untrue, and `untrue_examined` holds
    the interval in which that share lies by the Critic's control questions (`Examination.untrue`). With
    `register` terse the Planner's orders are said tersely; else they stay as it gave them.
    """
    examiner = model_set.examiner()
    model_set = model_set.with_middleware(examiner)
    planner = TersePlanner(model_set.planner, {w.task.id: w for w in walks})
    storyboards = boards(
        walks,
        planner if register == "terse" else model_set.planner,
        model_set.editor,
        model_set.critic,
        attempts,
        model_set.provenance.preset.keep,
        num_draws,
        model_set.loop_arguments("continue", confirm=num_draws > 1)["confirms"],
    )
    predicted = [
        Course(seed=w.seed, images=tuple(g for g in b.goal_images() if g is not None), view=w.view)
        for w, b in zip(walks, storyboards, strict=True)
    ]
    true = [Course(seed=w.seed, images=tuple(m.picture for m in w.moments[1:]), view=w.view) for w in walks]
    stage = f"follow predicted, {register} orders"
    ours = [all(e.held) for e in follow_all(predicted, journal, stage, progress)]
    best = [all(e.held) for e in follow_all(true, journal, "follow truth", progress)]
    seeds = [w.seed for w in walks]
    least, most = examiner.examination.untrue
    return {
        "success": share_with_interval(zip(seeds, ours, strict=True)),
        "truth": share_with_interval(zip(seeds, best, strict=True)),
        "gap": with_interval([(b, o, 1) for b, o in zip(best, ours, strict=True)], points),
        **measure_accepted(walks, storyboards),
        "untrue_examined": Measurement(value=most, low=least, high=most),
    }
