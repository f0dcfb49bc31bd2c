"""Plan one task: a storyboard nobody has filmed, written into a folder.

OUT/storyboard.json     the complete record; pictures by their relative path
OUT/images/             the first frame and every attempt
OUT/index.html          a page to look at, and sheets/ with the contact sheet
OUT/preview.gif         the goal images one after the other
OUT/answers/            what the models said, so that a killed run goes on where it stopped
"""

from collections.abc import Sequence
from pathlib import Path

from goalreel.annotator.report.model import EpisodeView
from goalreel.annotator.report.write import write_report
from goalreel.annotator.task_input import order
from goalreel.batch import Limits, Observer, run
from goalreel.files import exclusive
from goalreel.image import Image
from goalreel.loop import OnUnverified
from goalreel.models.journal import Journal
from goalreel.models.trio import Trio
from goalreel.storyboard_io import save_storyboard
from goalreel.types import DoneStep, Storyboard, Task

PREVIEW_SIDE = 480
PREVIEW_MS = 1200


def plan(
    instruction: str,
    image: Image | None,
    out: Path | str,
    models: Trio,
    *,
    images: Sequence[Image] = (),
    done: Sequence[DoneStep] = (),
    seed: int = 0,
    on_unverified: OnUnverified = "continue",
    observe: Observer | None = None,
) -> Storyboard:
    """Plan, render and judge one task, from pictures or from text alone, and write everything into `out`.

    Args:
        instruction: what is to be done, with an `<image>` mark for each of `images`.
        image: the scene as it is now; None is the last picture given, or without any a start from text.
        out: the folder; run again with the same arguments to resume.
        models: a preset's (`goalreel.load_models`), or your own.
        images: the pictures that the instruction speaks of.
        done: the steps that are behind us: the plan goes on after them.
        seed: of the pictures.
        on_unverified: whether to go on after a step without an accepted picture.
        observe: is told every request with its answer.

    Raises:
        InputError: an empty instruction, or not one picture a mark.
        DatasetError: another run is writing there, or the disk is full.
        UserError, OSError: a model cannot be loaded.
    """
    task = order(instruction, image, images=images, done=done, seed=seed)
    return plan_task(task, out, models, on_unverified=on_unverified, observe=observe)


def plan_task(
    task: Task,
    out: Path | str,
    models: Trio,
    *,
    on_unverified: OnUnverified = "continue",
    observe: Observer | None = None,
) -> Storyboard:
    """Plan, render and judge a task, and write everything into `out`, as `plan` does.

    Raises:
        DatasetError: another run is writing there, or the disk is full.
        UserError, OSError: a model cannot be loaded.
    """
    out = Path(out)
    with exclusive(out / "answers", out):
        models.prepare()
        kept, names = models.kept(Journal(out / "answers")), models.called
        board = next(
            run(
                [task],
                planner=kept.planner,
                editor=kept.editor,
                critic=kept.critic,
                max_attempts=names.max_attempts,
                on_unverified=on_unverified,
                keep=names.keep,
                limits=Limits(1, 1),
                observe=observe,
            )
        )
        save_storyboard(board, out)
        view = EpisodeView(0, "Storyboard", task.instruction, storyboard=board)
        write_report([view], out, title=task.instruction, summary=names.shown())
        _preview(board, out / "preview.gif")
    return board


def _preview(board: Storyboard, path: Path) -> None:
    import PIL.Image

    pictures = [board.task.image, *board.goal_images()]
    frames = [PIL.Image.fromarray(p.pixels) for p in pictures if p is not None]
    if not frames:
        return
    for frame in frames:
        frame.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    # One canvas: a GIF's frames share a size, and a text-to-image start may differ from its edits.
    fitted = [frame if frame.size == frames[0].size else frame.resize(frames[0].size) for frame in frames]
    fitted[0].save(path, save_all=True, append_images=fitted[1:], duration=PREVIEW_MS, loop=0)
