"""What decides an annotation beside the models."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel.datasets.writing.text import TextOptions
from goalreel.errors import InputError
from goalreel.loop import OnUnverified
from goalreel.models.recording_context import Recorded
from goalreel.planners.kinematic import Granularity, Layout
from goalreel.planners.watch.exemplars import Exemplar
from goalreel.subgoal_camera import DEFAULT_FORM, SubGoalForm


@dataclass(frozen=True)
class Options:
    """What decides the result beside the models; kept in OUT, and a second run must agree with it."""

    camera: str | None = None
    """Of the goal images; None is the first that is not on the wrist."""
    subgoal_key: str = SUBGOAL
    """The feature that the goal images are written to."""
    subgoal_form: SubGoalForm = DEFAULT_FORM
    """How a goal is shown there (`goalreel.subgoal_camera.in_form`)."""
    granularity: Granularity = "event"
    layout: str | None = None
    """State dimensions, such as `gripper=6,position=0:3`; None finds them."""
    on_unverified: OnUnverified = "continue"
    use_unverified: bool = False
    """Let steps without an accepted image become training data, image and words."""
    replace_rows: bool = False
    """Let new sub-task rows take the place of those that the dataset has."""
    seed: int = 0
    language: bool = True
    """Write language columns; plain loaders, such as torch's own, fail on them."""
    motion_rows: bool = False
    """Write the phases below the sub-tasks too, as rows of style `motion`, where the planner reads motion."""
    task_aug: bool = False
    """Write the instruction in other words too, as rows of style `task_aug`."""
    task_per_frame: bool = False
    """Let `task_index` tell each frame's sub-task; without one, the instruction."""
    accepted: tuple[Exemplar, ...] = ()
    """What people have accepted (`goalreel.annotator.exemplars.accepted`), for a planner that watches."""

    def __post_init__(self) -> None:
        if not self.language and (self.motion_rows or self.task_aug):
            raise InputError("--motion-rows and --task-aug write language rows: leave out --no-language")

    @property
    def text(self) -> TextOptions:
        """Which words the dataset is built with."""
        return TextOptions(self.language, self.replace_rows, self.task_aug, self.task_per_frame)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The options among settings, such as those that OUT keeps."""
        return cls(**{field.name: settings[field.name] for field in fields(cls) if field.name in settings})

    def recorded(self, source: Source) -> Recorded:
        """What models that read recordings are to read: `load(preset, recordings=options.recorded(source))`.

        Raises:
            DatasetError: there is no such camera.
            InputError: the layout cannot be read.
        """
        layout = Layout.parse(self.layout) if self.layout else None
        words = tuple(source.tasks.values())
        camera = source.camera(self.camera)
        views = source.views(camera)
        return Recorded(
            source.recording,
            camera,
            words,
            self.granularity,
            layout,
            views,
            self.motion_rows,
            self.accepted,
        )
