"""The content of the report on one episode; the loader of a dataset builds them one at a time."""

import math
from dataclasses import dataclass

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.types import Status, Storyboard


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """One annotated episode, or a storyboard of its own. The first frame is the storyboard's `task.image`.

    Raises:
        InputError: the parts do not fit one another.
    """

    index: int
    """The episode's number in its dataset; unique within a report."""
    title: str
    instruction: str
    storyboard: Storyboard
    fps: float = 1.0
    """Frames a second of the recording."""
    length: int = 0
    """Frames in the recording; 0 for a storyboard that was planned and never recorded."""
    end_frames: tuple[Image | None, ...] = ()
    """The real frame at the end of each step's segment, one a step; empty when there is none at all."""
    failure: str | None = None
    """Why the episode could not be annotated; the storyboard's own failure needs no copy here."""

    def __post_init__(self) -> None:
        if self.index < 0 or self.length < 0 or not (math.isfinite(self.fps) and self.fps > 0):
            raise InputError(
                f"episode {self.index}: needs index >= 0, length >= 0 and fps > 0, "
                f"got length {self.length}, fps {self.fps}"
            )
        steps = self.storyboard.steps
        if self.end_frames and len(self.end_frames) != len(steps):
            raise InputError(
                f"episode {self.index}: {len(self.end_frames)} end frames for {len(steps)} steps"
            )
        for step in steps:
            if step.segment is not None and step.segment.end > self.length:
                raise InputError(
                    f"episode {self.index}: segment [{step.segment.start}, {step.segment.end}) "
                    f"ends after the last of {self.length} frames"
                )

    @property
    def seconds(self) -> str | None:
        """The recording's length as a person reads it; None without one."""
        return f"{self.length / self.fps:.1f} s" if self.length else None

    @property
    def message(self) -> str | None:
        """The failure to show, if any: the episode's own or its storyboard's."""
        if self.failure is not None or self.storyboard.failure is None:
            return self.failure
        return f"{self.storyboard.failure.stage}: {self.storyboard.failure.message}"

    @property
    def status(self) -> Status:
        """The worst status of its steps; `failed` if the episode failed, `text` if all steps are in words."""
        if self.message is not None:
            return "failed"
        statuses = {step.status for step in self.storyboard.steps}
        order: tuple[Status, ...] = ("failed", "unverified", "skipped")
        for status in order:
            if status in statuses:
                return status
        if "observed" in statuses:
            return "observed"
        return "text" if statuses == {"text"} else "verified"
