"""The rows of the bench: an episode's seed gives its pictures before and after every sub-goal, exactly."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.progress import OnProgress
from goalreel.tabletop.env import Tabletop, TabletopState, teleport
from goalreel.tabletop.grammar import TabletopEpisode, sample_episode
from goalreel.tabletop.readback import read_after, shown
from goalreel.tabletop.scene import SceneLayout, SubGoal, TabletopScene, displacement
from goalreel.types import Failure, Task
from goalreel_lab.variety import PLAIN, View, seen, task_id_of

log = logging.getLogger(__name__)
SIZE = 128
MOVED = 0.03
"""A thing this far from its place has moved, in a picture (m). See lab/docs/tabletop-bench.md."""


@dataclass(frozen=True)
class SceneMoment:
    """The table between two sub-goals, the arm at home: state, layout and picture."""

    state: TabletopState
    layout: SceneLayout
    picture: Image


@dataclass(frozen=True)
class Walk:
    """An episode with its moments: `moments[i]` is the table after i sub-goals."""

    episode: TabletopEpisode
    moments: tuple[SceneMoment, ...]
    view: View = PLAIN
    """View of the episode."""

    @property
    def seed(self) -> int:
        return self.episode.seed

    @property
    def goals(self) -> tuple[SubGoal, ...]:
        return self.episode.goals

    @property
    def names(self) -> tuple[str, ...]:
        """Name all things on the table."""
        return tuple(self.moments[0].layout)

    @property
    def task(self) -> Task:
        """Make the task as an agent gets it; `variety.task_of` reads its id."""
        return Task(
            id=task_id_of(self.seed, self.view),
            instruction=self.episode.instruction,
            image=self.moments[0].picture,
            seed=self.seed,
        )


def walk(seed: int, view: View = PLAIN) -> Walk:
    """Teleport through the episode of a seed, as it looks under a view."""
    return walk_through(seen(sample_episode(seed), view), view)


def walk_through(episode: TabletopEpisode, view: View = PLAIN) -> Walk:
    """Teleport through an episode that looks as the view says.

    Raises:
        ValueError: one of its sub-goals cannot be reached in one move.
    """
    with Tabletop(episode.scene) as env:
        moments = [_moment(env, env.get_state())]
        for goal in episode.goals:
            moments.append(_moment(env, teleport(env, goal)))
    return Walk(episode, tuple(moments), view)


def walks(seeds: Sequence[int], progress: OnProgress, view: View = PLAIN) -> list[Walk]:
    """Teleport through the episodes of all seeds.

    Rare ones in which the solver throws a block off are left out, with a warning.

    Raises:
        InputError: none is left.
    """
    episodes = []
    for done, seed in enumerate(seeds, start=1):
        try:
            episodes.append(walk(seed, view))
        except ValueError as e:
            log.warning("episode %d is left out: %s", seed, e)
        progress("scenes", done, len(seeds))
    if not episodes:
        raise InputError("none of the episodes can be carried out: choose others by --first and --episodes")
    return episodes


def _moment(env: Tabletop, state: TabletopState) -> SceneMoment:
    return SceneMoment(state, env.layout(), Image(env.render(env.scene.camera, SIZE).copy()))


@dataclass(frozen=True)
class GoalOutcome:
    """Tell if a goal picture shows the goal reached, and everything else where it was."""

    reached: bool
    untouched: bool

    @property
    def right(self) -> bool:
        return self.reached and self.untouched


NOTHING = GoalOutcome(False, False)
"""The outcome of a picture that never came."""


def look(
    picture: Image | Failure | None, scene: TabletopScene, layout: SceneLayout, moved: str
) -> SceneLayout | None:
    """Read the layout off a picture that should show one block moved from `layout`.

    None where there is no picture, or where it is not of this camera.
    """
    if not isinstance(picture, Image):
        return None
    return _read(picture, scene, tuple((name, tuple(at)) for name, at in layout.items()), moved)


def look_rendered(
    picture: Image | Failure | None, scene: TabletopScene, layout: SceneLayout, moved: str
) -> SceneLayout | None:
    """Look at an editor's picture, brought to the size of the frame that it began with."""
    picture = picture.resized((SIZE, SIZE)) if isinstance(picture, Image) else picture
    return look(picture, scene, layout, moved)


@lru_cache(maxsize=4096)
def _read(
    picture: Image, scene: TabletopScene, layout: tuple[tuple[str, tuple[float, ...]], ...], moved: str
) -> SceneLayout | None:
    # The arms of the loop come to the same pictures again and again.
    try:
        return read_after(picture.pixels, scene, {name: np.array(at) for name, at in layout}, (moved,))
    except ValueError:
        return None


def outcome(drawn_layout: SceneLayout | None, layout: SceneLayout, goal: SubGoal) -> GoalOutcome:
    """Compare a layout that was read off a picture with `layout`, the one before the sub-goal.

    A thing that is gone was touched, the goal's own target included.
    """
    if drawn_layout is None:
        return NOTHING
    return GoalOutcome(shown(drawn_layout, goal), not disturbed(drawn_layout, layout, {goal.object}))


def disturbed(drawn_layout: SceneLayout, layout: SceneLayout, moved: Iterable[str]) -> list[str]:
    """Name what is gone, or not where it was, though it was not to be moved."""
    still = layout.keys() - set(moved)
    return [n for n in still if n not in drawn_layout or displacement(drawn_layout, layout, n) > MOVED]
