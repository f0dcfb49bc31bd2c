"""`goalreel.annotate` and `goalreel.plan`: each does everything in one call.

They take paths, pictures and names of models, and make the objects that the rest of goalreel works with.
"""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from goalreel.annotator.annotate import annotate as annotate_source
from goalreel.annotator.annotate import open_dataset
from goalreel.annotator.circuit_breaker import Retry
from goalreel.annotator.options import Options
from goalreel.annotator.plan import plan_task
from goalreel.annotator.summary import Summary
from goalreel.annotator.task_input import check_instruction, make_task
from goalreel.datasets.records import Shard
from goalreel.datasets.source import Source
from goalreel.drivers import Limits, Observer
from goalreel.errors import InputError
from goalreel.image import Image, PictureLike
from goalreel.loop import OnUnverified
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.models.model_set import ModelSet
from goalreel.models.presets import Preset
from goalreel.models.registry import RecordingContext
from goalreel.progress import OnProgress
from goalreel.types import ROLES, STAGE_OF_ROLE, Critic, DoneStep, Editor, Planner, Role, Storyboard

if TYPE_CHECKING:
    from goalreel.annotator.workers import Workers

type Folder = str | PathLike[str]

_ABSENT = object()


class ModelArguments(TypedDict, total=False):
    """Which models are asked. A name or an object replaces the preset's model in that role."""

    preset: str | Preset | None
    """A name, or the path of a .yaml file. None: `hindsight` to annotate, `nano` to plan."""
    planner: Planner | str | None
    editor: Editor | str | None
    critic: Critic | str | None


class PlanArguments(ModelArguments, total=False):
    """What `plan` takes by keyword."""

    images: Sequence[PictureLike]
    """The pictures at the `<image>` marks of the instruction."""
    done: Sequence[DoneStep]
    """The steps that are done already: the plan goes on after them."""
    seed: int
    """Seed of the pictures."""
    on_unverified: OnUnverified
    """Whether to go on after a step without an accepted picture."""
    observe: Observer | None
    """Called with every request and its answer."""


def annotate(
    source: Source | Folder,
    out: Folder,
    models: ModelSet | None = None,
    options: Options | None = None,
    *,
    preset: str | Preset | None = None,
    planner: Planner | str | None = None,
    editor: Editor | str | None = None,
    critic: Critic | str | None = None,
    episodes: Sequence[int] | None = None,
    retry: Retry | None = None,
    limits: Limits | None = None,
    shard: Shard | None = None,
    workers: "Workers | None" = None,
    corrections: Path | None = None,
    overwrite: bool = False,
    progress: OnProgress = lambda stage, done, total: None,
) -> Summary:
    """Annotate a recorded LeRobot dataset: write a copy with steps and goal images to `out`.

    `source` is never written to. Each finished episode is saved at once. After a kill, the same call resumes.

    Examples:
        >>> goalreel.annotate("pusht", "pusht-goals", preset="hindsight")  # doctest: +SKIP

    Args:
        source: folder of a LeRobot v3.0 dataset, or the result of `goalreel.open_dataset`.
        out: folder of the new dataset.
        models: all three models. Leave it out to choose them by `preset`, `planner`, `editor` and `critic`.
        options: settings that decide the result besides the models.
        preset: name or path of the preset for the models that are not given (default: `hindsight`).
        planner: a Planner, or the name of one as on the command line.
        editor: an Editor, or the name of one.
        critic: a Critic, or the name of one.
        episodes: which episodes to annotate (default: all).
        retry: which recorded episodes to try again: those with `failed`, or also with `unverified` steps.
        limits: how many requests go into one call, and how many episodes are under way at once.
        shard: the part of the dataset that this process records, of several. Once all parts are recorded,
            `annotator.shards.build_records` writes the dataset.
        workers: processes that ask the models instead of this one; `models` then only names the models.
        corrections: folder of another annotated dataset, whose corrections are copied first.
        overwrite: whether to replace files in `out` that were changed by hand.
        progress: called with a stage's name, the amount that is done, and the total.

    Returns:
        A summary of the run. `failures` has the episodes that could not be read or whose models failed;
        `stopped` says why the run ended early.

    Raises:
        InputError: there is no such preset or model, an option does not fit, or the episodes have sub-task
            labels that would be lost (`Options.replace_rows`).
        DatasetError: `source` is no dataset or cannot be read, or `out` cannot be written.
        TypeError: an argument has another type.
        UserError, OSError: a model cannot be loaded.
    """
    if not isinstance(source, Source):
        source = open_dataset(_folder(source, "source"))
    if not isinstance(options, Options | None):
        raise TypeError(f"options is a goalreel.Options, not {_kind(options)}")
    options = options or Options()
    choice: ModelArguments = {"preset": preset, "planner": planner, "editor": editor, "critic": critic}
    model_set = _model_set(models, choice, "hindsight", options.recorded(source))
    return annotate_source(
        source,
        _folder(out, "out"),
        model_set,
        options,
        episodes=episodes,
        retry=retry,
        limits=limits,
        shard=shard,
        workers=workers,
        corrections=corrections,
        overwrite=overwrite,
        progress=progress,
    )


@overload
def plan(  # pyrefly: ignore[inconsistent-overload]  (`_scene` sorts out the first two)
    image: PictureLike | None,
    instruction: str,
    /,
    out: Folder | None = None,
    models: ModelSet | None = None,
    **arguments: Unpack[PlanArguments],
) -> Storyboard: ...


@overload
def plan(  # pyrefly: ignore[inconsistent-overload]  (as the first)
    instruction: str,
    image: PictureLike | None = None,
    out: Folder | None = None,
    models: ModelSet | None = None,
    **arguments: Unpack[PlanArguments],
) -> Storyboard: ...


def plan(
    first: Any = _ABSENT,
    second: Any = _ABSENT,
    /,
    out: Folder | None = None,
    models: ModelSet | None = None,
    *,
    instruction: Any = None,
    image: Any = None,
    images: Sequence[PictureLike] = (),
    done: Sequence[DoneStep] = (),
    seed: int = 0,
    on_unverified: OnUnverified = "continue",
    observe: Observer | None = None,
    preset: str | Preset | None = None,
    planner: Planner | str | None = None,
    editor: Editor | str | None = None,
    critic: Critic | str | None = None,
) -> Storyboard:
    """Plan a task from one picture and an instruction: draw a goal image for each step, and judge it.

    Examples:
        >>> instruction = "put the red block into the blue bowl"
        >>> goalreel.plan("scene.png", instruction, preset="nano")  # doctest: +SKIP

    Args:
        first: `image`, the scene as it is now: a path, a NumPy array (height, width, 3) in uint8 RGB, a PIL
            image or a `goalreel.Image`. None takes the last of `images`, or draws the first goal from text.
        second: `instruction`, what to do, with an `<image>` mark for each of `images`. The two may also be
            given in the other order, or by keyword.
        out: folder for the storyboard, its pictures and a report. The same call resumes after a kill. None
            writes nothing.
        models: all three models. Leave it out to choose them by `preset`, `planner`, `editor` and `critic`.
        instruction: see `second`.
        image: see `first`.
        images: the pictures at the `<image>` marks of the instruction.
        done: the steps that are done already: the plan goes on after them.
        seed: seed of the pictures.
        on_unverified: whether to go on after a step without an accepted picture.
        observe: called with every request and its answer.
        preset: name or path of the preset for the models that are not given (default: `nano`).
        planner: a Planner, or the name of one as on the command line.
        editor: an Editor, or the name of one.
        critic: a Critic, or the name of one.

    Returns:
        The storyboard. A model that fails shows in it as a `Failure`.

    Raises:
        InputError: the instruction is missing, marks and pictures differ in number, a picture cannot be read,
            or there is no such preset or model.
        DatasetError: another run is writing to `out`, or the disk is full.
        TypeError: an argument has another type.
        UserError, OSError: a model cannot be loaded.
    """
    image, instruction = _scene(first, second, image, instruction)
    check_instruction(instruction)
    scene = None if image is None else Image.of(image)
    task = make_task(instruction, scene, images=[Image.of(i) for i in images], done=done, seed=seed)
    choice: ModelArguments = {"preset": preset, "planner": planner, "editor": editor, "critic": critic}
    model_set = _model_set(models, choice, "nano", None)
    folder = None if out is None else _folder(out, "out")
    return plan_task(task, folder, model_set, on_unverified=on_unverified, observe=observe)


def _scene(first: Any, second: Any, image: Any, instruction: Any) -> tuple[Any, Any]:
    """Find the picture and the instruction in `plan`'s arguments: (image, instruction)."""
    count = sum(value is not _ABSENT for value in (first, second))
    if count + sum(value is not None for value in (image, instruction)) > 2:
        raise TypeError("plan takes one picture and one instruction: one of them is there twice")
    if second is not _ABSENT:
        return (first, second) if isinstance(second, str) else (second, first)
    if first is _ABSENT:
        return image, instruction
    if instruction is None and isinstance(first, str):
        return image, first
    return first, instruction


def _model_set(
    models: ModelSet | None, choice: ModelArguments, default: str, recordings: RecordingContext | None
) -> ModelSet:
    """Find or load the models that the arguments name.

    Raises:
        InputError: `models` is given beside a preset or a model, or there is no such preset or model.
        TypeError: a model lacks its method.
        UserError, OSError: a model cannot be loaded.
    """
    if models is not None:
        if not isinstance(models, ModelSet):
            raise TypeError(
                f"models is a goalreel.ModelSet, not {_kind(models)}: give single ones by planner=..."
            )
        if extra := [name for name, value in choice.items() if value is not None]:
            raise InputError(f"models and {extra[0]} both say which models to ask: leave one of them out")
        return models
    names: dict[Role, str] = {}
    objects: dict[Role, Any] = {}
    for role in ROLES:
        model = choice.get(role)
        if isinstance(model, str):
            names[role] = model
        elif model is not None:
            _check_model(role, model)
            objects[role] = model
    preset = choice.get("preset")
    if preset is None and len(objects) == len(ROLES):
        return ModelSet(**objects)
    chosen = preset if isinstance(preset, Preset) else presets.load(preset or default, objects, **names)
    if isinstance(preset, Preset) and names:
        chosen = Preset.model_validate({**dict(preset), **names})
    return load(chosen, recordings=recordings, roles=()).with_models(objects)


def _check_model(role: Role, model: object) -> None:
    method = STAGE_OF_ROLE[role]
    if isinstance(model, type) or not callable(getattr(model, method, None)):
        raise TypeError(f"{role} is a model's name or an object with a method {method}(), not {_kind(model)}")


def _folder(folder: object, argument: str) -> Path:
    if not isinstance(folder, str | PathLike):
        raise TypeError(f"{argument} is a folder's path, not {_kind(folder)}")
    return Path(folder)


def _kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
