"""The progress of a storyboard, from which a planner plans again."""

from dataclasses import dataclass

from goalreel.image import Image
from goalreel.types import Storyboard


@dataclass(frozen=True)
class ReplanContext:
    """A storyboard in progress: its first `done` steps are done, and `image` is the scene now.

    Raises:
        ValueError: there are fewer than `done` steps.
    """

    storyboard: Storyboard
    done: int
    image: Image | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.done <= len(self.storyboard.steps):
            raise ValueError(f"{self.done} steps done, but the storyboard has {len(self.storyboard.steps)}")
