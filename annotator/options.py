"""Settings of an annotation besides the models. `annotate --help` reads them, so this imports little."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field

from goalreel.datasets.writing.plan import TextOptions
from goalreel.details import DetailName, parse_details
from goalreel.errors import InputError
from goalreel.models.presets import PLANNER
from goalreel.planners.watch.exemplars import Exemplar
from goalreel.settings import Panel, settings
from goalreel.terms import DEFAULT_FORM, SUBGOAL, Granularity, LabelForm, OnUnverified, SubGoalForm

if TYPE_CHECKING:
    from goalreel.datasets.source import Source
    from goalreel.models.registry import RecordingContext
    from goalreel.planners.kinematic.layout import Layout

_DATASET = Panel("The new dataset")
_RUN = Panel("The run")


@settings
class Options:
    """Settings that decide the result besides the models. `out` keeps them; a second run must have the same.

    Raises:
        SettingError: there is no such option, or a value does not fit.
        InputError: options contradict each other, or a layout cannot be read.
    """

    camera: Annotated[
        str | None, Field(description="Camera of the goal images. [default: one that stands still]")
    ] = None
    subgoal_key: Annotated[
        str, Field(description="Feature name of the sub-goal camera.", min_length=1), _DATASET
    ] = SUBGOAL
    subgoal_form: Annotated[
        SubGoalForm,
        Field(
            description="How the sub-goal camera shows a goal; not plain for ACT "
            "(docs/explanation/subgoal-forms.md)."
        ),
        _DATASET,
    ] = DEFAULT_FORM
    """As `goalreel.subgoal_camera.in_form`."""
    granularity: Annotated[
        Granularity,
        Field(
            description="What a step is: from one grasp or release to the next (event), "
            "a sub-task, or a phase of motion."
        ),
    ] = "event"
    last_retreat: Annotated[
        bool,
        Field(description="With event: also make the retreat after the last release a step."),
        _DATASET,
    ] = False
    """If False, the retreat belongs to the step before it: the goal is seen best once the arm is away."""
    layout: Annotated[
        str | None,
        Field(
            description="Which numbers of the state are what, if not found: "
            "gripper=6,position=0:3,closed=low."
        ),
        PLANNER,
    ] = None
    on_unverified: Annotated[
        OnUnverified, Field(description="What to do after a step without an accepted goal image."), _RUN
    ] = "continue"
    use_unverified: Annotated[
        bool,
        Field(description="Use steps without an accepted goal image as training data, too."),
        _DATASET,
    ] = False
    replace_rows: Annotated[
        bool, Field(description="Replace the sub-tasks that the dataset has."), _DATASET
    ] = False
    labels: Annotated[
        LabelForm | None,
        Field(description="Which labels --planner rows reads, where the dataset has several kinds."),
        PLANNER,
    ] = None
    """One of `goalreel.datasets.labels.LABEL_FORMS`; None takes the first of them that an episode has."""
    seed: Annotated[int, Field(ge=0, description="Seed of the pictures."), _RUN] = 0
    language: Annotated[
        bool,
        Field(description="Write lerobot's language columns. Data loaders that do not know them fail."),
        _DATASET,
    ] = True
    motion_rows: Annotated[
        bool, Field(description="Also write the phases of motion as language rows."), _DATASET
    ] = False
    """Rows of style `motion`, where the planner reads motion."""
    task_aug: Annotated[bool, Field(description="Also write the instruction in other words."), _DATASET] = (
        False
    )
    """Rows of style `task_aug`."""
    task_per_frame: Annotated[
        bool, Field(description="Make each frame's task its sub-task (task_index)."), _DATASET
    ] = False
    """If False, it tells the instruction."""
    details: Annotated[
        str | None,
        Field(
            description="More to say of each step, with commas between: motion, pose, "
            "scene, reasoning, failure, progress (docs/how-to/annotate.md).",
        ),
        _DATASET,
    ] = None
    """As `goalreel.details.parse_details` reads it."""
    follow_links: Annotated[
        bool,
        Field(description="Copy files from outside the dataset that links lead to. They become part of OUT."),
        _RUN,
    ] = False
    accepted: tuple[Exemplar, ...] = ()
    """Examples that people accepted (`goalreel.annotator.exemplars.accepted`), for the planner `watch`."""

    def __post_init__(self) -> None:
        if not self.language and (self.motion_rows or self.task_aug):
            raise InputError("--motion-rows and --task-aug write language rows: leave out --no-language")
        _ = self.detail_names, self.state_layout  # refuses one that cannot be read

    @property
    def state_layout(self) -> "Layout | None":
        """Which dimensions of the state are gripper and position; None infers them."""
        if not self.layout:
            return None
        from goalreel.planners.kinematic.layout import Layout

        return Layout.parse(self.layout)

    @property
    def detail_names(self) -> tuple[DetailName, ...]:
        """The details to write, in a fixed order."""
        return parse_details(self.details)

    @property
    def text(self) -> TextOptions:
        """Which words and numbers are written into the dataset."""
        progress = "progress" in self.detail_names
        return TextOptions(self.language, self.replace_rows, self.task_aug, self.task_per_frame, progress)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Take the options from a mapping of settings, such as those that `out` keeps.

        Raises:
            InputError: a value does not fit.
        """
        names = (field.name for field in fields(cls))
        return cls(**{name: settings[name] for name in names if name in settings})

    def recorded(self, source: "Source") -> "RecordingContext":
        """Make the context for models that read recordings, as `load_models(..., recordings=...)` takes it.

        Raises:
            DatasetError: there is no such camera.
            InputError: the layout cannot be read, or does not fit the dataset.
        """
        from goalreel.annotator.robot import goal_camera, read_robot
        from goalreel.models.registry import RecordingContext

        instructions = tuple(source.tasks.values())
        robot = read_robot(source, self.state_layout, self.camera)
        camera = goal_camera(robot, source)
        views = source.views(camera)
        return RecordingContext(
            source.recording,
            camera,
            instructions,
            self.granularity,
            robot.layout,
            views,
            self.motion_rows,
            self.accepted,
            robot,
            self.last_retreat,
            self.labels,
            self.detail_names,
        )
