"""Name the things an instruction leaves open: by its words, the motion and what the pictures show."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from goalreel.planners.kinematic.align import ClauseSpan
from goalreel.planners.kinematic.motion import ArmMotion
from goalreel.planners.kinematic.object_colour import FrameStack, Moved, look, sample
from goalreel.planners.kinematic.underspecified import opened
from goalreel.types import Recording

SEEN = "The instruction does not name this object; its colour was seen in the recording."
"""The `auxiliary_text` of a step named so."""
_PICTURES = 9
"""Pictures looked at before the grasp, while held, and after the release."""


def name_by_look(
    parts: list[ClauseSpan], recording: Recording, motion: ArmMotion, camera: str, words: Sequence[str]
) -> list[ClauseSpan]:
    """The parts, those whose clause leaves its thing open named by what `camera` shows.

    A part the pictures or the words leave in doubt is returned as it was (the same object).

    Raises:
        DatasetError: the pictures cannot be read.
    """
    return [_name(part, recording, motion, camera, words) for part in parts]


def _name(
    part: ClauseSpan, recording: Recording, motion: ArmMotion, camera: str, words: Sequence[str]
) -> ClauseSpan:
    question = opened(part.clause)
    seen = look_at(part, recording, motion, camera) if question else None
    clause = question.close(seen, words) if question and seen else None
    return replace(part, clause=clause) if clause else part


def look_at(part: ClauseSpan, recording: Recording, motion: ArmMotion, camera: str) -> Moved | None:
    """What a part's grasps moved, as `camera` saw it: before its first grasp (back to the release before),
    while held, and after its last release (up to the next grasp). None where that is not sure, or nothing
    was let go."""
    if not part.cycles:
        return None
    first, last = part.cycles[0], part.cycles[-1]
    if last.release is None or last.free is None:
        return None
    start = max((c.free or 0 for c in motion.cycles if c.grasp < first.grasp), default=0)
    end = min((c.grasp for c in motion.cycles if c.grasp > last.grasp), default=len(motion))
    spans = ((start, first.grasp), (first.held, last.release), (last.free, end))
    if any(b <= a for a, b in spans):
        return None
    before, carry, after = (_pictures(recording, camera, sample(a, b, _PICTURES)) for a, b in spans)
    return look(before, carry, after)


def _pictures(recording: Recording, camera: str, frames: Sequence[int]) -> FrameStack:
    return np.stack([image.pixels for image in recording.frames(camera, frames)])
