"""(first frame, done steps with their pictures, scene now) -> the rest of the plan, from true scenes.

Asked as `ChatPlanner.continue_plan` asks: half the rows tell the earlier plan for the rest, half do not.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from goalreel.datasets.corpora.planner_rows import rest_lesson
from goalreel.image import Image
from goalreel.replan import ReplanContext
from goalreel.tabletop.grammar import TabletopEpisode
from goalreel.tabletop.variety import Variety
from goalreel.types import Attempt, Plan, Step, Storyboard, StoryboardStep, Task, Verdict
from goalreel_lab.lessons.composition import held_out
from goalreel_lab.lessons.plans import explicit_step, thinking
from goalreel_lab.lessons.rows import ContinuationRow, Origin
from goalreel_lab.lessons.steps import Done, completed, walk

_STREAM = 7


def continuation_rows(
    seeds: Iterable[int], size: int = 128, variety: Variety = 0.0
) -> Iterator[ContinuationRow]:
    """Make one row for each episode of two sub-goals or more, cut at a random one.

    A training seed with a held-out composition gives none. Neither does an episode that cannot be teleported
    to its end.
    """
    for episode, walked in completed(walk(seeds, size, _STREAM, variety, roomy=True)):
        if len(walked) > 1:
            yield _row(episode, walked)


def _row(episode: TabletopEpisode, walked: Sequence[Done]) -> ContinuationRow:
    rng = np.random.default_rng([episode.seed, _STREAM])
    cut, lists_open_steps = int(rng.integers(1, len(walked))), bool(rng.random() < 0.5)
    steps = list(map(explicit_step, walked))
    done_steps = [_behind(step, done.target) for step, done in zip(steps[:cut], walked[:cut], strict=True)]
    open_steps = [StoryboardStep(step=step) for step in steps[cut:]] if lists_open_steps else []
    goals = tuple(done.goal for done in walked)
    task = Task(id=str(episode.seed), instruction=episode.instruction, image=walked[0].source)
    progress = ReplanContext(Storyboard(task=task, steps=(*done_steps, *open_steps)), cut, walked[cut].source)
    lesson = rest_lesson(progress, Plan(steps=tuple(steps[cut:])), thinking(walked[cut:]))
    return ContinuationRow(lesson, goals, Origin(episode.seed, cut, held_out(goals), walked[0].origin.view))


def _behind(step: Step, picture: Image) -> StoryboardStep:
    attempt = Attempt(prompt=step.instruction, seed=0, image=picture, verdict=Verdict(success=True))
    return StoryboardStep(step=step, attempts=(attempt,), status="verified", chosen=0)
