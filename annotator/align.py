"""A storyboard beside its recorded episode: where each predicted step ends, and what rules tell of a step.

Planned steps come in order and cover the episode, so their ends are a monotonic path through the frames. Ends
are only where the motion proposes one (`kinematic.proposals`), and one dynamic programme finds those
at which the recording looks most like the predicted goal images, where those differ from the pictures they
were made from. Where the goals move the arm, it follows the arm rather than the thing.
"""

import itertools
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from goalreel.claims import RULE, DetailName, Details, FailureDetail, by_rule
from goalreel.image import Image
from goalreel.planners.kinematic.description import MotionDescription, proposals
from goalreel.planners.kinematic.layout import Layout, Unsegmentable, check_recording
from goalreel.planners.kinematic.motion import read_arms
from goalreel.planners.kinematic.robot import find_layout
from goalreel.types import Alignment, Recording, Segment, Storyboard, StoryboardStep

SIDE = 48
"""Pictures are compared at this width and height."""
CHUNK = 64
WITHIN_S = 0.5
"""A goal may be seen this long before the step ends, and no step is shorter."""
FOUND = 0.5
"""The most unlikeness of a goal that counts as seen: halfway between the goal and what it was made from."""
MOST = 10.0
"""Unlikeness is cut off here; a goal that changes nothing, or shows another scene, is that unlike all
frames."""
LEVEL = 10.0
"""Grey levels (of 255) that a goal must change somewhere, at SIDE, to be looked for."""
SCENE = 0.3
"""The least correlation of a goal with a frame of the same scene. A flat or noisy picture has none; it would
otherwise be like every frame from which a thing has gone."""


def features(images: Sequence[Image]) -> NDArray[np.float32]:
    """Small, blurred, contrast-free pictures, (n, SIDE * SIDE * 3): what is where, not how it is lit."""
    import cv2

    small = np.stack(
        [cv2.resize(i.pixels, (SIDE, SIDE), interpolation=cv2.INTER_AREA) for i in images]
    ).astype(np.float32)
    blurred = np.stack([cv2.GaussianBlur(picture, (0, 0), 1.0) for picture in small])
    return (blurred - blurred.mean(axis=(1, 2), keepdims=True)).reshape(len(images), -1)


def ends(
    first: Image,
    goals: Sequence[Image | None],
    frames: NDArray[np.float32],
    cuts: Collection[int],
    min_length: int,
) -> list[tuple[int, float | None]] | None:
    """Find each step's end (exclusive, ascending; the last with the last frame), and how unlike its goal the
    recording is just before: 0 is alike, 1 as unlike as the picture it was made from, at most MOST.

    `goals[i]` is step i's predicted goal image, made from the one before, and at the beginning from `first`;
    where there is none, nor is an unlikeness. `frames` are the `features` of all frames, (frames, n); `cuts`
    where a step may end. No step is shorter than `min_length` frames. A goal that is not seen (FOUND)
    has no say in where the others are. Of equal choices the earlier wins. None where there are not enough
    cuts for so many steps.
    """
    allowed = [c for c in sorted(set(cuts)) if min_length <= c <= len(frames) - min_length] + [len(frames)]
    if len(frames) < min_length:
        return None
    sources = itertools.accumulate(goals, lambda source, goal: goal or source, initial=first)
    pairs = zip(sources, goals, strict=False)
    cost = np.stack([_costs(source, goal, frames, allowed, min_length) for source, goal in pairs])
    path = _cheapest(np.minimum(cost, FOUND), allowed, min_length)
    if path is None:
        return None
    boundaries = zip(goals, cost, path, strict=True)
    return [(allowed[at], None if goal is None else float(row[at])) for goal, row, at in boundaries]


def _costs(
    source: Image, goal: Image | None, frames: NDArray[np.float32], cuts: Sequence[int], within: int
) -> NDArray[np.float64]:
    """Unlikeness of the goal to what comes just before each cut, (cuts,): each place counts for as much as
    the goal changed there."""
    if goal is None:
        return np.zeros(len(cuts))
    source_features, after = features([source, goal])
    changed = np.abs(after - source_features)
    if changed.max() < LEVEL:
        return np.full(len(cuts), MOST)
    distance = np.sqrt((frames - after) ** 2 @ changed / (changed**3).sum())
    norms = np.linalg.norm(frames, axis=1) * np.linalg.norm(after)
    same = frames @ after >= SCENE * np.maximum(norms, 1e-9)
    unlike = np.where(same, np.minimum(distance, MOST), MOST)
    return np.array([unlike[max(0, cut - within) : cut].min() for cut in cuts])


def _cheapest(cost: NDArray[np.float64], cuts: Sequence[int], min_length: int) -> list[int] | None:
    """The cheapest path: one column of (steps, cuts) for each row, at least `min_length` frames apart.

    The last row takes the last column. None where there is no such path.
    """
    at = np.array(cuts)
    apart = at[:, None] + min_length <= at
    total = cost[0].copy()
    came_from: list[NDArray[np.intp]] = []
    for row in cost[1:]:
        through = np.where(apart, total[:, None], np.inf)
        came_from.append(through.argmin(axis=0))
        total = through.min(axis=0) + row
    if not np.isfinite(total[-1]):
        return None
    path = [len(cuts) - 1]
    for came in reversed(came_from):
        path.append(int(came[path[-1]]))
    return path[::-1]


def align(board: Storyboard, recording: Recording, camera: str, layout: Layout | None = None) -> Storyboard:
    """The storyboard with a segment for each step whose end and whose beginning are found.

    The others have none, and `StoryboardStep.alignment` says why: they are no training data.
    """
    frames = range(len(recording.timestamps))
    cuts = _cuts(recording, layout)
    # A few at a time: an episode's frames at full size do not fit into memory.
    frame_features = np.concatenate(
        [features(recording.frames(camera, frames[i : i + CHUNK])) for i in frames[::CHUNK]]
    )
    min_length = max(2, round(WITHIN_S * recording.fps))
    first = board.task.image or recording.frames(camera, [0])[0]
    boundaries = ends(first, [s.goal_image for s in board.steps], frame_features, cuts, min_length)
    if boundaries is None:
        alignment = Alignment(
            reason=f"no room for {len(board.steps)} steps of {WITHIN_S:g} s or more: "
            f"the motion changes at {len(cuts)} places in {len(frames) / recording.fps:.1f} s"
        )
        steps = [step.aligned(alignment) for step in board.steps]
    else:
        steps = _aligned(board.steps, boundaries)
    return board.model_copy(update={"steps": tuple(steps)})


def _cuts(recording: Recording, layout: Layout | None) -> set[int]:
    """Frames at which a step may end: those that the motion proposes, and the end of each retreat, where
    nothing hides the thing; none without any motion."""
    try:
        proposed = {proposal.frame for proposal in proposals(recording, layout)}
        motion = read_arms(recording, find_layout(recording, layout))
    except Unsegmentable:
        return set()
    return proposed | {motion.between(a, b) for a, b in itertools.pairwise(motion.cycles)}


def _aligned(
    steps: Sequence[StoryboardStep], boundaries: Sequence[tuple[int, float | None]]
) -> list[StoryboardStep]:
    aligned: list[StoryboardStep] = []
    start: int | None = 0
    for step, (end, cost) in zip(steps, boundaries, strict=True):
        missing = _missing(cost)
        reason = missing or ("where the step before it ends is not known" if start is None else None)
        segment = Segment(start=start, end=end) if start is not None and not missing else None
        alignment = Alignment(cost=None if cost is None else round(cost, 3), reason=reason)
        aligned.append(step.aligned(alignment, segment))
        start = None if missing else end
    return aligned


def _missing(cost: float | None) -> str | None:
    """Say why the end of a step is not known; None where it is."""
    if cost is None:
        return "it has no picture to look for in the recording"
    if cost > FOUND:
        return f"nothing like its goal image was recorded (difference {cost:.2f}, at most {FOUND:g})"
    return None


_RULES: frozenset[DetailName] = frozenset({"motion", "pose", "failure"})


def with_details(
    board: Storyboard, recording: Recording, layout: Layout | None, names: Collection[DetailName]
) -> Storyboard:
    """The storyboard with the details `names` that rules tell; what a model or a person told stays.

    Of a recording whose motion cannot be read it stays as it is.
    """
    if not _RULES.intersection(names):
        return board
    try:
        check_recording(recording)
        description = MotionDescription(recording, find_layout(recording, layout))
    except Unsegmentable:
        return board
    steps = list(board.steps)
    for i, step in enumerate(steps):
        measurements = _details(
            description, step, any(s.step.outcome == "done" for s in steps[i + 1 :]), names
        )
        if measurements != Details():
            details = (step.step.details or Details()).filled(measurements)
            plan_step = step.step.model_copy(update={"details": details})
            steps[i] = step.model_copy(update={"step": plan_step})
    return board.model_copy(update={"steps": tuple(steps)})


def _details(
    description: MotionDescription, step: StoryboardStep, goes_on: bool, names: Collection[DetailName]
) -> Details:
    """Details of a step by rules; after a failure that was mended the recording `goes_on` to a done step."""
    if step.segment is None:
        return Details()
    cause = description.failure(step.segment) if step.step.outcome == "failed" else None
    return Details(
        motion=by_rule(description.motion(step.segment)) if "motion" in names else None,
        pose=by_rule(description.pose(step.segment) or None) if "pose" in names else None,
        failure=FailureDetail(text=cause, by=RULE, restorable=goes_on or None)
        if cause and "failure" in names
        else None,
    )
