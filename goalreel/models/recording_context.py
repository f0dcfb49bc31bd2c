"""What models that read recordings look at."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goalreel.details import DetailName
from goalreel.terms import LabelForm
from goalreel.types import Recordings

if TYPE_CHECKING:
    from goalreel.planners.kinematic import Granularity, Layout
    from goalreel.planners.kinematic.robot import Robot
    from goalreel.planners.watch.exemplars import Exemplar


@dataclass(frozen=True)
class RecordingContext:
    """Recordings by their ids, and how they are to be read."""

    recordings: Recordings
    camera: str
    """The camera whose frames become goal images; one that stands still."""
    instructions: tuple[str, ...] = ()
    """All instructions of the dataset, to take nouns from."""
    granularity: "Granularity" = "event"
    layout: "Layout | None" = None
    """Which state dimensions are the gripper and the position; None finds them, for each episode alone."""
    cameras: tuple[str, ...] = ()
    """All cameras that show the episode: `camera`, then those on a wrist, then the others."""
    with_phases: bool = False
    """Let the planner that reads motion name the phases below its steps too."""
    exemplars: "tuple[Exemplar, ...]" = ()
    """What people have accepted, for a planner that watches to be shown."""
    robot: "Robot | None" = None
    """How `layout` and `camera` were found."""
    last_retreat: bool = False
    """Let the planner that reads motion cut at the last release too."""
    labels: LabelForm | None = None
    """Which labels of the recordings the planner `rows` takes; None takes the first that one has."""
    details: tuple[DetailName, ...] = ()
    """What a planner that watches is to tell of each step besides."""

    @property
    def watched(self) -> tuple[str, ...]:
        """The cameras that a model which watches is shown: `camera`, and one more where there is one."""
        return self.cameras[:2] or (self.camera,)
