"""Annotated recordings to tune an editor on, and steps of held-out tasks, of two simulators."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from goalreel.annotator.api import annotate
from goalreel.annotator.corpus.boards import find_boards
from goalreel.annotator.corpus.make import RecipeOrder, make_from_storyboards
from goalreel.annotator.corpus.scoring import CRITIC, scorer_of
from goalreel.annotator.options import Options
from goalreel.evaluation.metaworld.record import record_task
from goalreel.evaluation.metaworld.tasks import TaskSplit, split_tasks
from goalreel.evaluation.metaworld.truth import read_truth
from goalreel.image import Image
from goalreel.planners.recorded.rows import labelled_step
from goalreel.progress import OnProgress
from goalreel.tabletop.bench.edit import EditCase, edit_cases
from goalreel.tabletop.bench.scenes import SIZE, walks
from goalreel.tabletop.bench.words import prompt_of
from goalreel.tabletop.sim.record import quiet, record
from goalreel.tabletop.sim.splits import seeds
from goalreel.tabletop.sim.task_ids import recording_task_ids, task_of
from goalreel.tabletop.sim.variety import PLAIN, View
from goalreel.training.editor_lora import read_edits
from goalreel.types import Failure

CAMERA = "left"
"""Of the tabletop: the nano editor was trained on none of its pictures."""
FIRST = 600_000
"""The first training seed that is recorded."""
PART = 10
"""Episodes of the tabletop in one recording: what a kill loses."""


@dataclass(frozen=True)
class HeldOutStep:
    """A goal image to draw. `task` tells tasks apart; `right` judges a picture, where the truth is known."""

    task: int
    source: Image
    target: Image
    prompt: str
    right: Callable[[Image | Failure], bool] | None = None


type Conditions = dict[str, list[HeldOutStep]]
"""Name of a condition -> its steps."""


def tabletop_rows(out: Path, episodes: int, progress: OnProgress) -> Path:
    """Record and annotate training episodes through the camera `left`; the folder of the rows."""
    return _tabletop_rows(out, "", seeds("train", episodes, FIRST), progress)


def _tabletop_rows(out: Path, prefix: str, chosen: range, progress: OnProgress) -> Path:
    quiet()
    for number, first in enumerate(range(0, len(chosen), PART)):
        folder = out / f"{prefix}recordings" / f"{number:02d}"
        if not folder.exists():
            record(folder, chosen[first : first + PART], cameras=[CAMERA], size=SIZE)
        progress("record", min(first + PART, len(chosen)), len(chosen))
        annotate(folder, out / f"{prefix}annotated" / folder.name, planner="rows")
    return _corpus(out / f"{prefix}annotated", out / f"{prefix}corpus")


def metaworld_rows(out: Path, split: TaskSplit, tasks: int, seeds: int, progress: OnProgress) -> Path:
    """Record and annotate the first `tasks` tasks of a split; the folder of the rows for an editor."""
    names = split_tasks(split)[:tasks]
    for done, name in enumerate(names, 1):
        folder = out / "recordings" / f"{name}-{seeds}x{SIZE}"
        if not folder.exists():
            record_task(folder, name, seeds, SIZE)
        progress("record", done, len(names))
        # Which end of the gripper is closed differs from task to task, and a lab knows it.
        options = Options(layout=f"closed={read_truth(folder).closed}", camera="corner")
        annotate(folder, out / split / name, options=options)
    return _corpus(out / split, out / f"{split}-corpus")


def _corpus(annotated: Path, out: Path) -> Path:
    boards = find_boards([annotated], recording_task_ids)
    make_from_storyboards(boards, RecipeOrder(scorer_of(CRITIC)), out)
    return out / "edits"


def stored_steps(edits: Path, most: int) -> list[HeldOutStep]:
    """Read at most `most` rows of a corpus, evenly spread; the steps of one dataset are one task."""
    rows = read_edits(edits)
    chosen = (
        [rows[i * len(rows) // most] for i in range(most)]
        if len(rows) > most
        else [rows[i] for i in range(len(rows))]
    )
    names = sorted({row.task_id.split("/")[0] for row in chosen})
    return [
        HeldOutStep(names.index(row.task_id.split("/")[0]), row.source, row.target, row.prompt)
        for row in chosen
    ]


def tabletop_steps(out: Path, episodes: int, recorded: int, progress: OnProgress) -> Conditions:
    """Make all steps of scenes of the test split: true pictures of `episodes`, recordings of `recorded`."""
    chosen = seeds("test", episodes)
    left = edit_cases(walks(chosen, progress, View("plain", CAMERA)))
    front = edit_cases(walks(chosen, progress, PLAIN))
    return {
        "words": _tabletop(left, lambda case: str(labelled_step(case.goal.text).prompt)),
        "explicit": _tabletop(left, _explicit),
        "front": _tabletop(front, _explicit),
        "recorded": _recorded(_tabletop_rows(out, "test-", chosen[:recorded], progress), left),
    }


def _recorded(edits: Path, cases: Iterable[EditCase]) -> list[HeldOutStep]:
    """Make the steps of recorded scenes, which `cases` judge."""
    rows, judges = read_edits(edits), {(case.walk.seed, case.index): _judge(case) for case in cases}
    steps = []
    for row in (rows[i] for i in range(len(rows))):
        seed, _ = task_of(row.task_id)
        steps.append(HeldOutStep(seed, row.source, row.target, row.prompt, judges[seed, row.step]))
    return steps


def _explicit(case: EditCase) -> str:
    return prompt_of(case.walk, case.index, "explicit")


def _tabletop(cases: Iterable[EditCase], words: Callable[[EditCase], str]) -> list[HeldOutStep]:
    return [HeldOutStep(c.walk.seed, c.source, c.target, words(c), _judge(c)) for c in cases]


def _judge(case: EditCase) -> Callable[[Image | Failure], bool]:
    return lambda picture: case.judge(picture).right


def metaworld_steps(out: Path, tasks: int, seeds: int, progress: OnProgress) -> list[HeldOutStep]:
    """Make the steps of tasks of the split `report`, from their recordings."""
    return stored_steps(metaworld_rows(out, "report", tasks, seeds, progress), 10**6)
