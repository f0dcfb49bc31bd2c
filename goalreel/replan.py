"""The progress of a storyboard, from which a planner plans again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from goalreel.image import Image
from goalreel.types import Failure, Plan, Planner, Storyboard


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


@runtime_checkable
class Replanner(Protocol):
    """A Planner that can continue a storyboard under way."""

    def continue_plan(self, progress: Sequence[ReplanContext]) -> Sequence[Plan | Failure]: ...


def plan_rest(planner: Planner, progress: Sequence[ReplanContext]) -> Sequence[Plan | Failure]:
    """Ask for plans for the remaining steps. A planner that cannot continue plans each task anew."""
    if isinstance(planner, Replanner):
        return planner.continue_plan(progress)
    return planner.plan([p.storyboard.task.model_copy(update={"image": p.image}) for p in progress])
