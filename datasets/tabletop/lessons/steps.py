"""Episodes as a corpus needs them: one environment each, teleported sub-goal after sub-goal."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from goalreel.datasets.tabletop.env import Tabletop, TabletopState
from goalreel.datasets.tabletop.grammar import TabletopEpisode, sample_episode
from goalreel.datasets.tabletop.lessons.composition import held_out_step, skipped
from goalreel.datasets.tabletop.lessons.rows import Origin
from goalreel.datasets.tabletop.lessons.studio import Studio
from goalreel.datasets.tabletop.predicates import SubGoal
from goalreel.datasets.tabletop.scene import SceneLayout
from goalreel.datasets.tabletop.teleport import teleport
from goalreel.datasets.tabletop.variety import Variety, View, seen, view_of
from goalreel.image import Image


@dataclass(frozen=True)
class Done:
    """A sub-goal and its scene before and after. Whoever moves things in `env` need not put them back."""

    env: Tabletop
    goal: SubGoal
    origin: Origin
    before: TabletopState
    source: Image
    layout: SceneLayout
    """Before; `reached` is the layout after."""
    after: TabletopState
    target: Image
    reached: SceneLayout
    studio: Studio
    rng: np.random.Generator
    """Its own, from seed and sub-goal: rows do not depend on what was made of earlier ones."""


def walk(seeds: Iterable[int], size: int, stream: int, variety: Variety = 0.0) -> Iterator[Done]:
    """Every sub-goal of every episode, arm at home. `stream` sets one corpus's random numbers apart,
    `variety` is the share of episodes that look other than plain (`variety.view_of`), or the view of all.

    A training seed with a held-out composition is passed over, and so is the rest of an episode from a
    sub-goal on that cannot be teleported to.
    """
    with Studio(size) as studio:
        for seed in seeds:
            episode = sample_episode(seed)
            if not skipped(seed, episode.goals):
                view = view_of(seed, variety)
                yield from _episode(seen(episode, view), studio, stream, view)


def _episode(episode: TabletopEpisode, studio: Studio, stream: int, view: View) -> Iterator[Done]:
    env = Tabletop(episode.scene)
    source = studio.look(env)
    for number, goal in enumerate(episode.goals):
        origin = Origin(episode.seed, number, held_out_step(episode.goals, number), view)
        before, layout = env.get_state(), env.layout()
        try:
            after = teleport(env, goal)
        except ValueError:
            return
        rng = np.random.default_rng([episode.seed, number, stream])
        target, reached = studio.look(env), env.layout()
        yield Done(env, goal, origin, before, source, layout, after, target, reached, studio, rng)
        env.set_state(after)
        source = target
