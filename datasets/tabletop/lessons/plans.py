"""(frame, instruction) -> plan: the whole list of sub-goals, from the scene at the start."""

from collections.abc import Iterable, Iterator

import numpy as np

from goalreel.datasets.tabletop.env import Tabletop
from goalreel.datasets.tabletop.grammar import sample_episode
from goalreel.datasets.tabletop.lessons.composition import held_out, skipped
from goalreel.datasets.tabletop.lessons.prompts import step_of
from goalreel.datasets.tabletop.lessons.rows import Origin, PlanRow
from goalreel.datasets.tabletop.lessons.studio import Studio
from goalreel.types import Plan

_STREAM = 1


def plan_rows(seeds: Iterable[int], size: int = 128) -> Iterator[PlanRow]:
    """One row an episode; none for a training seed with a held-out composition."""
    with Studio(size) as studio:
        for seed in seeds:
            episode = sample_episode(seed)
            goals = episode.goals
            if skipped(seed, goals):
                continue
            rng = np.random.default_rng([seed, _STREAM])
            plan = Plan(steps=tuple(step_of(goal, rng) for goal in goals))
            image = studio.look(Tabletop(episode.scene))
            yield PlanRow(image, episode.instruction, plan, goals, Origin(seed, 0, held_out(goals)))
