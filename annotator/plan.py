"""Plan one task: a storyboard nobody has filmed, written into a folder.

OUT/storyboard.json     the complete record; pictures by their relative path
OUT/images/             the first frame and every attempt
OUT/index.html          a page to look at
OUT/TASK.png, .gif, .mp4  contact sheet, and every attempt with its caption, for a talk
OUT/examination/        the critic's answers to control questions
OUT/answers/            what the models said, so that a killed run goes on where it stopped
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from goalreel import claims, files, storyboard_io, terms
from goalreel.annotator.guards import CircuitBreaker, rule_roles
from goalreel.annotator.report import cards, write
from goalreel.chat.conversation import MARK
from goalreel.critics.examination import FOLDER as EXAMINATION, Examination, read_examination
from goalreel.drivers import Limits, Observer, run
from goalreel.errors import InputError
from goalreel.image import Image, PictureLike
from goalreel.loop import OnRejected
from goalreel.middleware import Middleware, use_known_answers
from goalreel.models import load, presets
from goalreel.models.journal import Journal
from goalreel.models.model_set import ModelSet
from goalreel.types import ROLES, Critic, DoneStep, Editor, Planner, Role, Storyboard, Task
from goalreel.wording import draws_line

log = logging.getLogger(__name__)
PICTURES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
"""Suffixes of picture files."""
NO_INSTRUCTION = "there is no instruction: say what the robot should do"


def check_instruction(instruction: object) -> str:
    """Return an instruction; refuse what can be none, such as a file's name, before any model is loaded."""
    if instruction is None or not str(instruction).strip():
        raise InputError(NO_INSTRUCTION)
    if not isinstance(instruction, str):
        raise TypeError(f"an instruction is a str, not {type(instruction).__name__}")
    name = Path(instruction)
    is_file = " " not in instruction.strip() and name.suffix.lower() in PICTURES
    with suppress(OSError, ValueError):  # too long for a name, or with a NUL
        is_file = is_file or name.is_file()
    if is_file:
        raise InputError(
            f"{instruction} is a file, and there is no instruction: say what the robot should do"
        )
    return instruction


def make_task(
    instruction: str,
    image: Image | None = None,
    *,
    images: Sequence[Image] = (),
    done: Sequence[DoneStep] = (),
    seed: int = 0,
) -> Task:
    """Make a task of an instruction, the scene as it is now, and pictures for the instruction's marks.

    Without `image` the scene is the last picture there is; one scene alone stands for one mark.

    Raises:
        InputError: an empty instruction, or not one picture a mark.
    """
    if not instruction.strip():
        raise InputError(NO_INSTRUCTION)
    for text in (instruction, *(step.instruction for step in done)):
        try:
            terms.check_controls(text)
        except ValueError as e:
            raise InputError(f"the instruction: {e}") from e
    marks = instruction.count(MARK)
    if not images and image is not None and marks == 1:
        images = (image,)
    if len(images) != marks:
        raise InputError(
            f"pictures: {len(images)}, {MARK} marks in the instruction: {marks}: write one mark where each "
            "picture belongs"
        )
    pictures = [*images, *(step.image for step in done if step.image is not None)]
    scene = image or (pictures[-1] if pictures else None)
    return Task(
        id="task", instruction=instruction, image=scene, images=tuple(images), done=tuple(done), seed=seed
    )


def plan_task(
    task: Task,
    out: Path | None,
    models: ModelSet,
    *,
    on_rejected: OnRejected = "continue",
    num_draws: int = 1,
    observe: Observer | None = None,
) -> Storyboard:
    """Plan, render and judge a task as `plan` does; `out` None writes nothing.

    A storyboard that is there gives way to one of the same task, unless models fail at that and did not
    before.
    """
    if out is None:
        return _plan(task, models, on_rejected, num_draws, observe)
    with files.exclusive(out / "answers", out):
        old = _stored(task, out)
        examiner = models.examiner(out / EXAMINATION)
        board = _plan(task, models, on_rejected, num_draws, observe, examiner, Journal(out / "answers"))
        if board.degraded and old is not None and not old.degraded:
            log.warning("%s: the storyboard that was there is kept: the new one failed", out)
            return board
        write_plan(board, out, models.provenance.display_names(), read_examination(out / EXAMINATION))
    return board


def _stored(task: Task, out: Path) -> Storyboard | None:
    """Read the storyboard of a task that a folder holds; None where it holds none."""
    if (out / "storyboards").is_dir():
        raise InputError(f"{out}: holds the storyboards of a file of prompts: choose another --out")
    if not (out / "storyboard.json").is_file():
        return None
    old = storyboard_io.load_storyboard(out)
    if old.task.model_copy(update={"id": task.id, "seed": task.seed}) != task:
        other = "another picture" if old.task.instruction == task.instruction else "another task"
        raise InputError(f"{out}: made from {other} (“{old.task.instruction}”): choose another --out")
    return old


def write_plan(
    board: Storyboard, out: Path, models: Mapping[str, str], examination: Examination | None
) -> None:
    """Write a storyboard into a folder, with its page and films; `models` (role -> name) are on the page."""
    storyboard_io.save_storyboard(board, out)
    instruction = board.task.instruction
    view = cards.EpisodeView(0, "Storyboard", instruction, storyboard=board, examination=examination)
    about = dict(models) | ({} if examination is None else {"examination": examination.line})
    about |= {"draws": draws} if (draws := draws_line(board)) else {}
    write.write_report([view], out, title=instruction, summary={}, about=about, films=True)


def _plan(
    task: Task,
    models: ModelSet,
    on_rejected: OnRejected,
    num_draws: int,
    observe: Observer | None,
    examiner: Middleware = lambda ask: ask,
    journal: Journal | None = None,
) -> Storyboard:
    load.check_first(models, [task.image is not None])
    models.prepare(roles=("planner",) if models.plans_first else ROLES)
    guarded = models.with_middleware(examiner, CircuitBreaker(rule_roles(models)))
    guarded = guarded if journal is None else guarded.with_journal(journal)
    if models.plans_first:
        (known,) = guarded.planner.plan([task])
        guarded = guarded.with_middleware(
            use_known_answers(lambda stage, _: known if stage == "plan" else None)
        )
        models.free_planner()
        models.prepare(roles=("editor", "critic"))
    three = guarded.planner, guarded.editor, guarded.critic
    loop = models.loop_arguments(on_rejected)
    board = next(run([task], *three, limits=Limits(1, 1), observe=observe, num_draws=num_draws, **loop))
    return claims.attributed(board, claims.makers(models.provenance.identities().get))


def plan(
    image: PictureLike | None = None,
    instruction: str | None = None,
    out: str | PathLike[str] | None = None,
    models: ModelSet | None = None,
    *,
    images: Sequence[PictureLike] = (),
    done: Sequence[DoneStep] = (),
    seed: int = 0,
    on_rejected: OnRejected = "continue",
    num_draws: int = 1,
    observe: Observer | None = None,
    preset: str | presets.Preset | None = None,
    planner: Planner | str | None = None,
    editor: Editor | str | None = None,
    critic: Critic | str | None = None,
) -> Storyboard:
    """Plan a task from one picture and an instruction: draw a goal image for each step, and judge it.

    Examples:
        >>> instruction = "put the red block into the blue bowl"
        >>> goalreel.plan("scene.png", instruction, preset="nano")  # doctest: +SKIP

    Args:
        image: the scene as it is now: a path, a NumPy array (height, width, 3) in uint8 RGB, a PIL image or
            a `goalreel.Image`. None takes the last of `images`, or draws the first goal from text.
        instruction: what to do, with an `<image>` mark for each of `images`.
        out: folder for the storyboard, its pictures and a report. The same call resumes after a kill. None
            writes nothing, and asks no control questions: one storyboard is too little to examine a Critic.
        models: all three models. Leave it out to choose them by `preset`, `planner`, `editor` and `critic`.
        images: the pictures at the `<image>` marks of the instruction.
        done: the steps that are done already: the plan goes on after them.
        seed: seed of the pictures.
        on_rejected: whether to go on after a step without an accepted picture.
        num_draws: storyboards to draw, at most, until the end is confirmed; the best one is kept. The Critic
            that picks it also picks its own mistakes.
        observe: called with every request and its answer.
        preset: name or path of the preset for the models that are not given (default: `nano`).
        planner: a Planner, or the name of one as on the command line.
        editor: an Editor, or the name of one.
        critic: a Critic, or the name of one.

    Returns:
        The storyboard. A model that fails shows in it as a `Failure`.

    Raises:
        InputError: the instruction is missing, marks and pictures differ in number, a picture cannot be read,
            `out` holds the storyboard of another task, or there is no such preset or model.
        DatasetError: another run is writing to `out`, or the disk is full.
        TypeError: an argument has another type.
        UserError, OSError: a model cannot be loaded.
    """
    instruction = check_instruction(instruction)
    scene = None if image is None else Image.of(image)
    task = make_task(instruction, scene, images=[Image.of(i) for i in images], done=done, seed=seed)
    named: dict[Role, Any] = {"planner": planner, "editor": editor, "critic": critic}
    model_set = load.choose_models(models, preset, named, "nano")
    folder = None if out is None else load.as_folder(out, "out")
    return plan_task(task, folder, model_set, on_rejected=on_rejected, num_draws=num_draws, observe=observe)
