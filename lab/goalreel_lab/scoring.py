"""Scores of a picture of the tabletop, read off it: no model is asked, so none can be talked into it.

Graded, so that pictures that miss differ by how far they miss; `success_of` makes of it what is true.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models.scorers import register_scorer
from goalreel.tabletop.grammar import TabletopEpisode, read_wanted, sample_episode
from goalreel.tabletop.mjcf import FIXED
from goalreel.tabletop.readback import (
    MOVED,
    STILL,
    PixelMask,
    SceneReader,
    fit_cubes,
    grown,
    outline,
    read_after,
    read_back,
    segment,
)
from goalreel.tabletop.scene import (
    BESIDE_MAX,
    BESIDE_MIN,
    BESIDE_SLACK,
    BOWL_HEIGHT,
    BOWL_RADIUS,
    DIRECTIONS,
    HALF,
    Floats,
    SceneLayout,
    SubGoal,
    TabletopScene,
    colour,
    displacement,
    shows,
)
from goalreel.types import Candidate, PictureScores
from goalreel_lab.variety import seen, task_of

NEAREST = 0.9
"""Share of the marks for a place that just misses; halfway to all of them where it is in doubt."""
LEAST_WAY = 0.05
"""A block that started nearer than this to its place is marked as if it had come from here (m)."""
POOR, WHOLE = 0.4, 0.8
"""Fit of a block to its cube (`_fits`): at most POOR earns nothing, from WHOLE on all marks."""
SURE_QUALITY = (4.0, 7.5)
"""Up to the first a block is misshapen, from the second on it is not."""
IN_SIGHT = 0.4
"""Least visible share of a block's outline from which its shape can be told."""
FRINGE = 0.05
"""So much of a cube's area may have its colour outside the outline, as where an editor draws it blurred."""


class SimulatorScorer:
    """Scores pictures of simulated tabletops: a `Scorer` that measures.

    Semantics: how much of its way to the goal's place the block has come, or the share of the other things
    that stayed where they were, whichever is lower; 10 only for a goal that surely holds with all else
    untouched. Quality: how well the worst block's colour fits a cube's outline; some misshapen ones pass as
    whole (see `_fits`).

    The scene follows from the candidate's `task_id` (`task_of`), the goal from its `instruction`, else from
    the episode's step. None where that cannot be: no such id or goal, no source, a source in which the goal's
    things cannot be found, a picture that is not square.
    """

    def score(self, candidates: Sequence[Candidate]) -> list[PictureScores | None]:
        """Score each candidate's picture against its source; what its `prompt` says plays no part."""
        return [_score(candidate) for candidate in candidates]


def success_of(scores: PictureScores | None) -> bool | None:
    """Tell by a SimulatorScorer's scores whether the picture is right; None where that is in doubt."""
    if scores is None:
        return None
    if scores.semantics <= 10 * NEAREST or scores.quality <= SURE_QUALITY[0]:
        return False
    return True if scores.semantics == 10 and scores.quality >= SURE_QUALITY[1] else None


@lru_cache(maxsize=512)
def _episode(task_id: str) -> TabletopEpisode:
    seed, view = task_of(task_id)
    return seen(sample_episode(seed), view)


def _score(candidate: Candidate) -> PictureScores | None:
    try:
        episode = _episode(candidate.task_id)
    except InputError:
        return None
    goal = _goal(candidate, episode)
    if goal is None or candidate.source is None:
        return None
    picture = candidate.image.resized(candidate.source.size)
    try:
        layout_before = _read(candidate.source, episode.scene)
        now = read_after(picture.pixels, episode.scene, layout_before, (goal.object,))
    except ValueError:
        return None
    if goal.object not in layout_before or goal.target not in layout_before:
        return None
    place, place_note = _place(layout_before, now, goal)
    rest_score, touched = _stability(layout_before, now, goal)
    fits = _fits(picture, now, episode.scene)
    quality = min(((fit - POOR) / (WHOLE - POOR) for fit in fits.values()), default=0.0)
    worst = min(fits, key=lambda block: fits[block], default="no block")
    return PictureScores(
        semantics=10 * min(place, rest_score),
        quality=10 * float(np.clip(quality, 0, 1)),
        semantics_reason=f"{place_note}; {touched}",
        quality_reason=f"worst: the {worst}",
    )


@lru_cache(maxsize=512)
def _read(picture: Image, scene: TabletopScene) -> SceneLayout:
    # The completions of a group are all made from one source.
    return read_back(picture.pixels, scene)


def _goal(candidate: Candidate, episode: TabletopEpisode) -> SubGoal | None:
    try:
        goals = read_wanted(candidate.instruction, [*episode.scene.layout()])
    except InputError:
        goals = []
    if len(goals) == 1:
        return goals[0]
    return episode.goals[candidate.step] if candidate.step < len(episode.goals) else None


UNSURE = 0.008
"""A block may be so far from where it is read (m)."""


def possible(layout: SceneLayout, goal: SubGoal) -> set[bool]:
    """Tell whether the sub-goal holds, for every place of its block within UNSURE of its reading."""
    shifts = [np.array([x, y, 0]) for x, y in product((-UNSURE, 0, UNSURE), repeat=2)]
    return {shows(layout | {goal.object: layout[goal.object] + shift}, goal) for shift in shifts}


def _place(layout_before: SceneLayout, now: SceneLayout, goal: SubGoal) -> tuple[float, str]:
    """Give the share of its way that the block has come, 1 if the goal surely holds, and a note on it."""
    if goal.object not in now or goal.target not in now:
        return 0.0, f"the {goal.object if goal.object not in now else goal.target} cannot be seen"
    answers = possible(now, goal)
    if answers == {True}:
        return 1.0, "the goal holds"
    if answers == {True, False}:
        return (1 + NEAREST) / 2, "whether the goal holds is in doubt"
    way, remaining = max(_missing(layout_before, goal), LEAST_WAY), _missing(now, goal)
    return NEAREST * max(
        0.0, 1 - remaining / way
    ), f"the {goal.object} is {100 * remaining:.0f} cm from its place"


def _missing(layout: SceneLayout, goal: SubGoal) -> float:
    """Compute how far the block is from the nearest place where the sub-goal holds (m)."""
    at, target = layout[goal.object], layout[goal.target]
    apart = float(np.linalg.norm(at[:2] - target[:2]))
    if goal.kind == "inside":
        return max(0.0, apart - 0.8 * BOWL_RADIUS) + max(0.0, float(at[2]) - BOWL_HEIGHT - HALF)
    if goal.kind == "on":
        return max(0.0, apart - 1.2 * HALF) + abs(float(at[2] - target[2]) - 2 * HALF)
    if goal.kind == "out_of":
        return max(0.0, 0.8 * BOWL_RADIUS - apart)
    return _beside(at, target, DIRECTIONS[goal.kind])


def _beside(at: Floats, target: Floats, direction: Floats) -> float:
    offset = at[:2] - target[:2]
    along = float(offset @ direction)
    across = float(np.abs(offset - along * direction).max())
    away = along - np.clip(along, BESIDE_MIN, BESIDE_MAX), max(0.0, across - BESIDE_SLACK)
    return float(np.hypot(*away)) + abs(float(at[2]) - HALF)


def _stability(layout_before: SceneLayout, now: SceneLayout, goal: SubGoal) -> tuple[float, str]:
    """Give the share of the other things that stayed, half of those in doubt counted, and a note on it."""
    others = [name for name in layout_before if name != goal.object]
    shifts = [displacement(now, layout_before, n) if n in now else MOVED for n in others]
    stayed = [float(np.clip((MOVED - shift) / (MOVED - STILL), 0, 1)) for shift in shifts]
    touched = [name for name, share in zip(others, stayed, strict=True) if share < 1]
    return sum(stayed) / len(stayed), f"touched: {', '.join(touched) or 'nothing else'}"


def _fits(picture: Image, layout: SceneLayout, scene: TabletopScene) -> Mapping[str, float]:
    """Rate each block: the share of its cube's outline in its colour, less twice what lies outside.

    What other blocks and bowls may hide, or show in the same colour, does not count. A block that is a little
    stretched, or where it is hidden, may fit a turned cube as well as a whole one does.
    """
    size = len(picture.pixels)
    colours, rings = (
        segment(picture.pixels),
        SceneReader(np.zeros((size, size, 3), np.uint8), scene).draw({}) > 0,
    )
    turns = fit_cubes(picture.pixels, layout, scene.camera)
    camera = FIXED[scene.camera]
    cubes = {b: outline(layout[b], turn, camera, size).astype(bool) for b, (turn, _) in turns.items()}
    return {
        block: _fit(
            colours[colour(block)],
            cube,
            ~grown(np.logical_or.reduce([rings, *(cubes[b] for b in cubes if b != block)])),
        )
        for block, cube in cubes.items()
    }


def _fit(painted: PixelMask, cube: PixelMask, counts: PixelMask) -> float:
    area = int((cube & counts).sum())
    if area < IN_SIGHT * cube.sum():
        return 1.0
    within, beyond = (int((painted & part & counts).sum()) / area for part in (cube, ~cube))
    return within - 2 * max(0.0, beyond - FRINGE)


register_scorer("simulator", success_of)(SimulatorScorer)
