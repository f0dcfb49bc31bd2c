"""How far a storyboard has come: what a planner is told when it plans again."""

from dataclasses import dataclass

from goalreel.image import Image
from goalreel.types import Storyboard


@dataclass(frozen=True)
class ReplanContext:
    """A storyboard under way: its first `done` steps have been done, and `image` is the scene now.

    Raises:
        ValueError: there are fewer than `done` steps.
    """

    storyboard: Storyboard
    done: int
    image: Image | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.done <= len(self.storyboard.steps):
            raise ValueError(f"{self.done} steps done, but the storyboard has {len(self.storyboard.steps)}")
