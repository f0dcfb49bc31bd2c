"""Episodes as a corpus needs them: one environment each, teleported sub-goal after sub-goal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from goalreel.image import Image
from goalreel.tabletop.env import Tabletop, TabletopState, teleport
from goalreel.tabletop.grammar import TabletopEpisode, sample_episode
from goalreel.tabletop.scene import SceneLayout, SubGoal, find_spot
from goalreel.tabletop.variety import Variety, View, seen, view_of
from goalreel_lab.lessons.composition import held_out_step, skipped
from goalreel_lab.lessons.prompts import zones
from goalreel_lab.lessons.rows import Origin
from goalreel_lab.lessons.studio import Studio


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


def walk(
    seeds: Iterable[int], size: int, stream: int, variety: Variety = 0.0, roomy: bool = False
) -> Iterator[Done]:
    """Teleport to every sub-goal of every episode, the arm at home.

    A training seed with a held-out composition is passed over. So is the rest of an episode, from a sub-goal
    on that cannot be teleported to.

    Args:
        stream: sets the random numbers of one corpus apart.
        variety: the share of episodes that look other than plain (`variety.view_of`), or the view of all.
        roomy: put a block that leaves its bowl where most room is, which a Planner can see. Else it goes to
            the first place that the expert finds.
    """
    with Studio(size) as studio:
        for seed in seeds:
            episode = sample_episode(seed)
            if not skipped(seed, episode.goals):
                view = view_of(seed, variety)
                yield from _episode(seen(episode, view), studio, stream, view, roomy)


def completed(steps: Iterable[Done]) -> Iterator[tuple[TabletopEpisode, list[Done]]]:
    """Yield each episode whose walk came to its end, with its steps."""
    for seed, group in groupby(steps, key=lambda done: done.origin.seed):
        walked, episode = list(group), sample_episode(seed)
        if len(walked) == len(episode.goals):
            yield episode, walked


def _episode(
    episode: TabletopEpisode, studio: Studio, stream: int, view: View, roomy: bool
) -> Iterator[Done]:
    env = Tabletop(episode.scene)
    source = studio.look(env)
    for number, goal in enumerate(episode.goals):
        origin = Origin(episode.seed, number, held_out_step(episode.goals, number), view)
        state_before, layout = env.get_state(), env.layout()
        place = _most_room(layout, episode.goals[number:]) if roomy and goal.kind == "out_of" else None
        try:
            after = teleport(env, goal, place)
        except ValueError:
            return
        rng = np.random.default_rng([episode.seed, number, stream])
        target, reached = studio.look(env), env.layout()
        yield Done(env, goal, origin, state_before, source, layout, after, target, reached, studio, rng)
        env.set_state(after)
        source = target


def _most_room(layout: SceneLayout, goals: Sequence[SubGoal]) -> NDArray[np.float64] | None:
    """Find most room for the first goal's block that leaves some for the goals after it; None if nowhere."""
    for place in zones(layout, goals[0]).values():
        after = layout | {goals[0].object: place}
        for goal in goals[1:]:
            spot, room = find_spot(after, goal)
            if room < 0:
                break
            after |= {goal.object: spot}
        else:
            return place
    return None
