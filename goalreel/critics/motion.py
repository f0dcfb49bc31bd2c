"""The Critic of the `hindsight` preset: it checks frames of a recording by pixels and by the arm's motion.

It recognises a frame that cannot show what the step claims. A block beside its target is accepted.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from goalreel.concurrency import map_threaded
from goalreel.critics.difference import THREADS, DifferenceCritic, Pixels, edges
from goalreel.errors import DatasetError
from goalreel.image import Image
from goalreel.planners.kinematic import robot, signals
from goalreel.planners.kinematic.layout import Layout, Unsegmentable, check_recording
from goalreel.planners.kinematic.motion import ArmMotion, read_arms
from goalreel.types import Candidate, Recording, Recordings, Verdict, opener

NEAR = 0.05
"""Two places of the arm nearer than this share of the space that it visits are the same."""
FAST = 80
"""Percentile of the arm's speed above which it moves at full speed."""
SHORT_S = 2.0
"""Seconds that are too short for an arm to go somewhere and come back."""
BLURRED, SAMPLES = 0.5, 9
"""A picture of a fast object is blurred below this share of the usual sharpness, that of so many
frames, evenly spread."""


class MotionCritic:
    """Rejects what DifferenceCritic rejects, and frames in which, by the recording, the step cannot be seen.

    - The hand holds something and moves at full speed, and the picture is blurred.
    - The hand is still where it let go and covers what changed, by a later frame in which it is away.
    - The arm is back at a place of the step's first half, and nothing else differs: the step changed nothing.

    What no other frame tells is accepted. Only DifferenceCritic judges a picture that is no frame of a
    recording with motion, or where it is not known which end of a gripper is closed.
    """

    def __init__(self, recordings: Recordings, layout: Layout | None = None) -> None:
        """`recordings` are the episodes by id; they are read in several threads."""
        self._open = opener(recordings)
        self._layout = layout
        self._pixels = DifferenceCritic()
        self._motion = lru_cache(32)(self._read_motion)

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Answer i judges candidate i."""
        return map_threaded(self._judge, candidates, THREADS)

    def _judge(self, candidate: Candidate) -> Verdict:
        verdict = self._pixels.judge_one(candidate)
        goal, source = _place(candidate.image), _place(candidate.source)
        if not verdict.success or goal is None or source is None or source[1] >= goal[1]:
            return verdict
        try:
            recording = self._open(candidate.task_id)
            reason = self._fault(recording, goal[0], source[1], goal[1], candidate.image.pixels)
        except (KeyError, DatasetError):
            return verdict
        return verdict.model_copy(update={"success": False, "reasoning": reason} if reason else {})

    def _fault(self, recording: Recording, camera: str, start: int, goal: int, image: Pixels) -> str | None:
        motion = self._motion(recording.id)
        if motion is None or goal >= len(motion) or not motion.extent:
            return None
        if any(cycle.contact <= goal < _release(cycle, len(motion)) for cycle in motion.cycles):
            return self._moving(recording, motion, camera, goal, image)
        done = [c for c in motion.cycles if c.release is not None and start <= c.release <= goal]
        if not done and (motion.cycles or goal - start < SHORT_S * motion.fps):
            return None
        until = done[0].grasp if done else (start + goal) // 2
        if done and _apart(motion, goal, _release(done[-1], goal)) < NEAR:
            end = min((c.grasp for c in motion.cycles if c.grasp > goal), default=len(motion))
            return self._covered(recording, motion, camera, (start, until), (goal, end), image)
        earlier = _same_place(motion, start, until, goal)
        if earlier is None:
            return None
        (first,) = recording.frames(camera, [earlier])
        return None if self._pixels.shows_change(first.pixels, image) else "Nothing changed but the arm."

    def _covered(
        self,
        recording: Recording,
        motion: ArmMotion,
        camera: str,
        start_span: tuple[int, int],
        after: tuple[int, int],
        image: Pixels,
    ) -> str | None:
        """The fault of the first frame of `after` if the hand covers what changed; None without one.

        A frame before and one after with the arm at one place show what changed.
        """
        goal, end = after
        distances = [
            (_apart(motion, early, late), early, late)
            for late in range(goal + 1, end)
            if _apart(motion, late, goal) >= NEAR
            and (early := _same_place(motion, *start_span, late)) is not None
        ]
        if not distances:
            return None
        _, early, late = min(distances)
        first, last = (frame.pixels for frame in recording.frames(camera, [early, late]))
        covers = self._pixels.covers(first, image, last)
        return "Cannot see: the hand covers what changed." if covers else None

    def _moving(
        self, recording: Recording, motion: ArmMotion, camera: str, goal: int, image: Pixels
    ) -> str | None:
        """The fault of a frame in which the hand holds something; None without one."""
        if motion.speed[goal] < np.percentile(motion.speed, FAST):
            return None
        spread = np.linspace(0, len(motion) - 1, SAMPLES).astype(int).tolist()
        usual = [edges(frame.pixels) for frame in recording.frames(camera, spread)]
        if edges(image) >= BLURRED * float(np.median(usual)):
            return None
        return "Cannot see: what the hand holds is moving at full speed, and the picture is blurred."

    def _read_motion(self, recording_id: str) -> ArmMotion | None:
        recording = self._open(recording_id)
        try:
            check_recording(recording)
            layout = robot.find_layout(recording, self._layout)
            is_read = all(hand.closed or not hand.gripper for hand in layout.hands)
            return read_arms(recording, layout) if is_read else None
        except Unsegmentable:
            return None


def _place(image: Image | None) -> tuple[str, int] | None:
    """The camera and the number of a frame; None for another picture."""
    if image is None or image.frame is None:
        return None
    camera, _, number = image.frame.rpartition("#")
    return (camera, int(number)) if camera and number.isdecimal() else None


def _release(cycle: signals.Cycle, otherwise: int) -> int:
    return otherwise if cycle.release is None else cycle.release


def _apart(motion: ArmMotion, a: int, b: int) -> float:
    """Distance between the arm's places at two frames, as a share of the space that it visits."""
    return float(np.linalg.norm(motion.path[a] - motion.path[b])) / motion.extent


def _same_place(motion: ArmMotion, start: int, end: int, goal: int) -> int | None:
    """The frame in [start, end) at which the arm is nearest to its place at `goal`; None if none is near."""
    if end <= start:
        return None
    distance = np.linalg.norm(motion.path[start:end] - motion.path[goal], axis=1) / motion.extent
    return start + int(distance.argmin()) if distance.min() < NEAR else None
