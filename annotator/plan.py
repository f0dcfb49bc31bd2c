"""Plan one task: a storyboard nobody has filmed, written into a folder.

OUT/storyboard.json     the complete record; pictures by their relative path
OUT/images/             the first frame and every attempt
OUT/index.html          a page to look at, and sheets/ with the contact sheet
OUT/preview.gif         the goal images one after the other
OUT/answers/            what the models said, so that a killed run goes on where it stopped
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from goalreel.annotator.report.cards import EpisodeView
from goalreel.annotator.report.write import write_report
from goalreel.claims import attributed, makers
from goalreel.drivers import Limits, Observer, run
from goalreel.files import exclusive
from goalreel.loop import LoopArguments, OnUnverified
from goalreel.models.journal import Journal
from goalreel.models.model_set import ModelSet
from goalreel.storyboard_io import save_storyboard
from goalreel.types import ROLES, Failure, Plan, Storyboard, Task

PREVIEW_SIDE = 480
PREVIEW_MS = 1200


def plan_task(
    task: Task,
    out: Path | None,
    models: ModelSet,
    *,
    on_unverified: OnUnverified = "continue",
    observe: Observer | None = None,
) -> Storyboard:
    """Plan, render and judge a task, and write everything into `out`; None writes nothing.

    Args:
        task: the instruction with its pictures (`annotator.task_input`).
        out: the folder; run again with the same arguments to resume.
        models: a preset's (`goalreel.load_models`), or your own.
        on_unverified: whether to go on after a step without an accepted picture.
        observe: is called with every request and its answer.

    Raises:
        DatasetError: another run is writing there, or the disk is full.
        UserError, OSError: a model cannot be loaded.
    """
    if out is None:
        return _plan(task, models, on_unverified, observe)
    with exclusive(out / "answers", out):
        board = _plan(task, models, on_unverified, observe, Journal(out / "answers"))
        write_plan(board, out, models.provenance.display_names())
    return board


def write_plan(board: Storyboard, out: Path, models: Mapping[str, str]) -> None:
    """Write a storyboard into a folder, with its page and its GIF; `models` (role -> name) are on the page.

    Raises:
        DatasetError: the disk is full.
    """
    save_storyboard(board, out)
    instruction = board.task.instruction
    view = EpisodeView(0, "Storyboard", instruction, storyboard=board)
    write_report([view], out, title=instruction, summary={}, models=models)
    _preview(board, out / "preview.gif")


def _plan(
    task: Task,
    models: ModelSet,
    on_unverified: OnUnverified,
    observe: Observer | None,
    journal: Journal | None = None,
) -> Storyboard:
    models.prepare(roles=("planner",) if models.plans_first else ROLES)
    journaled = models if journal is None else models.with_journal(journal)
    planner = journaled.planner
    if models.plans_first:
        planner = KnownPlan(planner.plan([task])[0])
        models.free_planner()
        models.prepare(roles=("editor", "critic"))
    loop: LoopArguments = {**models.provenance.preset.loop_arguments, "on_unverified": on_unverified}
    board = next(
        run(
            [task],
            planner,
            journaled.editor,
            journaled.critic,
            limits=Limits(1, 1),
            observe=observe,
            **loop,
        )
    )
    return attributed(board, makers(models.provenance.identities().get))


class KnownPlan:
    """A Planner that answers every task with one plan, which is there already."""

    def __init__(self, plan: Plan | Failure) -> None:
        self._plan = plan

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        return [self._plan] * len(tasks)


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
