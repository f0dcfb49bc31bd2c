"""Settings of an annotation besides the models: what decides its result, and how a run goes.

Command lines read them, so this imports little.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator

from goalreel.errors import InputError
from goalreel.models.presets import PLANNER
from goalreel.settings import Settings, setting
from goalreel.terms import DEFAULT_FORM, SUBGOAL, Granularity, LabelForm, OnRejected, SubGoalForm

if TYPE_CHECKING:
    from goalreel.claims import DetailName
    from goalreel.datasets.source import Source
    from goalreel.datasets.writing.plan import TextOptions
    from goalreel.drivers import Limits
    from goalreel.models.registry import RecordingContext
    from goalreel.planners.kinematic.layout import Layout

DATASET, RUN = "The new dataset", "The run"
"""Panels of options in `--help`."""
_DIGITS = 6
"""Digits of an episode's number at most: a range is a list of numbers."""
_EPISODES = re.compile(rf"\s*([0-9]{{1,{_DIGITS}}})(?:-([0-9]{{1,{_DIGITS}}}))?\s*")


def _steps(value: object) -> object:
    from goalreel.annotator.readings import read_steps

    return read_steps(value)


def _shard(value: object) -> object:
    from goalreel.datasets.records import Shard

    return Shard.parse(value) if isinstance(value, str) else value


type Retry = Literal["failed", "rejected"]


class Options(Settings):
    """Settings that decide the result besides the models. `out` keeps them; a second run must have the same.

    Raises:
        SettingError: there is no such option, or a value does not fit.
        InputError: options contradict each other, or a layout cannot be read.
    """

    camera: str | None = setting(None, "Camera of the goal images. [default: one that stands still]")
    subgoal_key: str = setting(SUBGOAL, "Feature name of the sub-goal camera.", min_length=1, panel=DATASET)
    subgoal_form: SubGoalForm = setting(
        DEFAULT_FORM,
        "How the sub-goal camera shows a goal; not plain for ACT (docs/explanation/subgoal-forms.md).",
        panel=DATASET,
    )
    granularity: Granularity = setting(
        "event",
        "What a step is: from one grasp or release to the next (event), a sub-task, or a phase of motion.",
    )
    last_retreat: bool = setting(
        False, "With event: also make the retreat after the last release a step.", panel=DATASET
    )
    """False: the retreat belongs to the step before it: the goal is seen best once the arm is away."""
    layout: str | None = setting(
        None,
        "Which numbers of the state are what, if not found: gripper=6,position=0:3,closed=low.",
        panel=PLANNER,
    )
    steps: Annotated[Any, BeforeValidator(_steps)] = setting(
        None,
        "YAML file with the steps of instructions that are read wrongly: check --write-steps makes one.",
        metavar="FILE",
        as_text=True,
        panel=PLANNER,
    )
    """Instruction -> steps; a file or a mapping (`goalreel.annotator.readings.read_steps`)."""
    on_rejected: OnRejected = setting(
        "continue", "What to do after a step without an accepted goal image.", panel=RUN
    )
    use_rejected: bool = setting(
        False, "Use steps without an accepted goal image as training data, too.", panel=DATASET
    )
    replace_rows: bool = setting(False, "Replace the sub-tasks that the dataset has.", panel=DATASET)
    labels: LabelForm | None = setting(
        None, "Which labels --planner rows reads, where the dataset has several kinds.", panel=PLANNER
    )
    seed: int = setting(0, "Seed of the pictures.", ge=0, panel=RUN)
    language: bool = setting(
        True, "Write lerobot's language columns. Data loaders that do not know them fail.", panel=DATASET
    )
    motion_rows: bool = setting(False, "Also write the phases of motion as language rows.", panel=DATASET)
    task_aug: bool = setting(False, "Also write the instruction in other words.", panel=DATASET)
    task_per_frame: bool = setting(False, "Make each frame's task its sub-task (task_index).", panel=DATASET)
    details: str | None = setting(
        None,
        "More to say of each step, with commas between: motion, pose, "
        "scene, reasoning, failure (docs/how-to/annotate.md).",
        panel=DATASET,
    )
    follow_links: bool = setting(
        False, "Copy files from outside the dataset that links lead to. They become part of OUT.", panel=RUN
    )
    labelled: tuple[Any, ...] = ()
    """The labelled episodes of `RunOptions.examples` (`goalreel.annotator.examples.read_examples`)."""

    def model_post_init(self, context: Any) -> None:
        if not self.language and (self.motion_rows or self.task_aug):
            raise InputError("--motion-rows and --task-aug write language rows: leave out --no-language")
        _ = self.detail_names, self.state_layout  # refuses one that cannot be read

    @property
    def state_layout(self) -> "Layout | None":
        """Dimensions of the state that are gripper and position; None infers them."""
        if not self.layout:
            return None
        from goalreel.planners.kinematic.layout import Layout

        return Layout.parse(self.layout)

    @property
    def detail_names(self) -> "tuple[DetailName, ...]":
        """The details to write, in a fixed order."""
        if not self.details:
            return ()
        from goalreel.claims import parse_details

        return parse_details(self.details)

    @property
    def text(self) -> "TextOptions":
        from goalreel.datasets.writing.plan import TextOptions

        return TextOptions(
            language=self.language,
            replace_rows=self.replace_rows,
            task_aug=self.task_aug,
            task_per_frame=self.task_per_frame,
        )

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Take the options from a mapping of settings, such as those that `out` keeps."""
        return cls.read({name: settings[name] for name in cls.model_fields if name in settings})

    def recorded(self, source: "Source") -> "RecordingContext":
        """Make the context for models that read recordings, as `load_models(..., recordings=...)` takes it.

        Raises:
            DatasetError: there is no such camera.
            InputError: the layout cannot be read, or does not fit the dataset.
        """
        from goalreel.annotator.readings import check_instructions
        from goalreel.annotator.robot import goal_camera, read_robot
        from goalreel.models.registry import RecordingContext

        check_instructions(self.steps, source.tasks.values())
        robot = read_robot(source, self.state_layout, self.camera)
        camera = goal_camera(robot, source)
        return RecordingContext(
            source.recording,
            camera,
            granularity=self.granularity,
            layout=robot.layout,
            cameras=source.views(camera),
            with_phases=self.motion_rows,
            examples=self.labelled,
            robot=robot,
            last_retreat=self.last_retreat,
            steps=self.steps,
            labels=self.labels,
            details=self.detail_names,
        )


def parse_episodes(text: str | None) -> list[int] | None:
    """Read episode numbers; None stays None.

    >>> parse_episodes("0-2,7")
    [0, 1, 2, 7]

    Raises:
        InputError: the text holds anything else.
    """
    if text is None:
        return None
    episodes: set[int] = set()
    for part in text.split(","):
        match = _EPISODES.fullmatch(part)
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1) if match else ()
        if not numbers:
            raise InputError(
                f"--episodes takes numbers and ranges such as 0-4,7, of at most {_DIGITS} digits, "
                f"the smaller one first, not {part.strip()[:80]!r}"
            )
        episodes.update(numbers)
    return sorted(episodes)


class RunOptions(Settings):
    """The episodes that a run works on and how, apart from what decides its result.

    Raises:
        SettingError: there is no such option, or a value does not fit.
    """

    episodes: Annotated[
        tuple[int, ...] | None,
        BeforeValidator(lambda value: parse_episodes(value) if isinstance(value, str) else value),
    ] = setting(None, "Which episodes, such as 3, 0-9 or 0-4,7. [default: all]", as_text=True, panel=RUN)
    examples: Annotated[
        Path | None, BeforeValidator(lambda value: Path(str(value)) if isinstance(value, int) else value)
    ] = setting(
        None,
        "Label by these episodes: a dataset of which some are reviewed or labelled, a table of steps, or a "
        "number of each instruction for the model of --preset watch to label, such as 3.",
        metavar="LABELLED",
        panel=PLANNER,
    )
    """The planner `examples` takes the place of `kinematic`; `watch` is shown them, or makes so many."""
    examples_anyway: bool = setting(
        False, "With --examples: go on where too few boundaries were found again.", panel=PLANNER
    )
    retry: Retry | None = setting(
        None,
        "Annotate episodes again that have failed steps; rejected: also those with rejected goal images.",
        panel=RUN,
    )
    """An episode that then has fewer accepted pictures keeps its record."""
    overwrite: bool = setting(
        False, "Also write files again that somebody changed in OUT by hand.", panel=RUN
    )
    batch_size: int = setting(16, "Requests that one model gets at once.", ge=1, panel=RUN)
    in_flight: int | None = setting(None, "Storyboards under way at once.", ge=1, panel=RUN)
    """None: four times `batch_size`."""
    shard: Annotated[Any, BeforeValidator(_shard)] = setting(
        None,
        "Work on part i of n, beside other processes. Then run `goalreel build OUT`.",
        metavar="i/n",
        as_text=True,
        panel=RUN,
    )
    """A `goalreel.datasets.records.Shard`; only its records are written."""

    @property
    def to_watch(self) -> int:
        """Episodes of each instruction that a model labels for the others; 0 where `examples` names some."""
        name = str(self.examples)
        return int(name) if name.isdecimal() and not Path(name).exists() else 0

    @property
    def limits(self) -> "Limits":
        from goalreel.drivers import Limits

        return Limits(self.batch_size, self.in_flight or 4 * self.batch_size)
