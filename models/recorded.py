"""What models that read recordings look at."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goalreel.types import Recordings

if TYPE_CHECKING:
    from goalreel.planners.kinematic import Granularity, Layout


@dataclass(frozen=True)
class Recorded:
    """Recordings by their ids, and how they are to be read."""

    recordings: Recordings
    camera: str
    """The camera whose frames become goal images; one that stands still."""
    words: tuple[str, ...] = ()
    """All instructions of the dataset, to take nouns from."""
    granularity: "Granularity" = "event"
    layout: "Layout | None" = None
    """Which state dimensions are the gripper and the position; None finds them."""
