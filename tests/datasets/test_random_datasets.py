"""Random datasets as people have them: for each that lerobot loads, OUT loads, and nothing of IN is lost.

GOALREEL_EXAMPLES says how many `make soak` makes, other ones each time: 1,000 without it.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.random_datasets import ODD_CLOCKS, Recipe, recipes, write

from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.options import Options
from goalreel.datasets.records import FOLDER, Records
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.subgoal_camera import fit, in_form
from goalreel.terms import SUBGOAL
from goalreel.types import Storyboard, StoryboardStep

PAD = "subgoal_is_pad"
LANGUAGE = ("language_persistent", "language_events")
FORMS = ("plain", "bordered", "difference", "beside")
type Item = dict[str, Any]


@st.composite
def choices(draw: st.DrawFn) -> tuple[str, Options]:
    """A planner, and how it is to annotate a dataset."""
    language = draw(st.sampled_from((True, True, True, False)))
    options = Options(
        layout="closed=low",
        language=language,
        replace_rows=draw(st.booleans()),
        task_per_frame=draw(st.booleans()),
        task_aug=language and draw(st.booleans()),
        motion_rows=language and draw(st.booleans()),
        use_rejected=draw(st.booleans()),
        subgoal_form=draw(st.sampled_from(FORMS)),
        granularity=draw(st.sampled_from(("event", "phase"))),
    )
    return draw(st.sampled_from(("kinematic", "kinematic", "rows"))), options


same = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
many = settings(same, max_examples=int(os.environ.get("GOALREEL_EXAMPLES", "1000")), derandomize=False)


@same
@given(recipes(), choices())
def test_a_random_dataset_is_annotated_whole(recipe, choice):
    check(recipe, *choice)


@pytest.mark.slow
@many
@given(recipes(), choices())
def test_many_random_datasets_are_annotated_whole(recipe, choice):
    check(recipe, *choice)


def check(recipe: Recipe, planner: str, options: Options) -> None:
    """Annotate the dataset of a recipe, and compare what lerobot reads before and after."""
    from datasets import config

    labelled = {e for e, said in enumerate(recipe.rows) if any(row[1] == "subtask" for row in said)}
    refused = planner == "rows" if options.replace_rows else planner != "rows" and bool(labelled)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "HF_DATASETS_CACHE", Path(name) / "cache")
        root, out = write(recipe, Path(name)), Path(name) / "out"
        backend = "pyav" if recipe.clock in ODD_CLOCKS else "torchcodec"
        old, before = items(root, backend), contents(root)
        source = open_dataset(root)
        if recipe.state is None:
            options = options.model_copy(update={"layout": "gripper=2,closed=low"})
        models = load(presets.load("hindsight", planner=planner), recordings=options.recorded(source))
        if refused:
            with pytest.raises(InputError, match=r"\A[^\n]*--replace-rows[^\n]*\Z"):
                annotate(source, out, models, options)
            assert not out.exists()
            return
        summary = annotate(source, out, models, options)
        lost = set(range(len(recipe.lengths))) - labelled if planner == "rows" else set()
        assert set(summary.failures) == lost
        assert contents(root) == before
        new = items(out, backend)
        assert len(new) == len(old)
        records, at = Records(out / FOLDER, source=""), 0
        for episode, length in enumerate(recipe.lengths):
            pair = old[at : at + length], new[at : at + length]
            board = None if episode in summary.failures else board_of(records, episode, pair[0])
            check_episode(*pair, board, summary.camera, options)
            at += length


def items(root: Path, backend: str) -> list[Item]:
    """Every frame as lerobot gives it."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/random", root=root, video_backend=backend)
    return [dataset[i] for i in range(len(dataset))]


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def board_of(records: Records, episode: int, old: list[Item]) -> Storyboard:
    """The storyboard of a record, its frames as lerobot reads them from IN."""

    def frame(reference: str) -> Image:
        camera, _, index = reference.rpartition("#")
        return Image(pixels(old[int(index)][camera]), frame=reference)

    return records.load(episode, frame)


def pixels(picture: Any) -> np.ndarray:
    return (picture.permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)


def check_episode(
    old: list[Item], new: list[Item], board: Storyboard | None, camera: str, options: Options
) -> None:
    """Check all frames of an episode; without a storyboard it has to be as it was."""
    known = [key for key in old[0] if key not in LANGUAGE]
    if options.task_per_frame:
        known = [key for key in known if key not in ("task", "task_index")]
    steps = dict(spans(board)) if board else {}
    names = {i: step.step.name for i, step in steps.items() if may_be_named(step, options)}
    for i, (before, after) in enumerate(zip(old, new, strict=True)):
        for key in known:
            equal = before[key] == after[key]
            assert equal if isinstance(equal, bool) else equal.all(), (key, i)
        if options.task_per_frame:
            assert after["task"] == names.get(i, before["task"]), i
        check_goal(after, before, steps.get(i), camera, options)
        if board:
            check_rows(after, before, names.get(i), options)
        elif options.language:  # else the dataset has no language columns
            assert all((after.get(name) or []) == (before.get(name) or []) for name in LANGUAGE)


def spans(board: Storyboard) -> Iterator[tuple[int, StoryboardStep]]:
    """Each frame in a step's segment, and the step."""
    for step in board.steps:
        if step.segment is not None:
            yield from ((i, step) for i in range(step.segment.start, step.segment.end))


def may_be_named(step: StoryboardStep, options: Options) -> bool:
    words_hold = step.usable or step.claims.what.by == "rows"
    done = step.step.outcome == "done" and words_hold and not step.step.doubts
    return not step.unaligned and (options.use_rejected or done)


def check_goal(after: Item, before: Item, step: StoryboardStep | None, camera: str, options: Options) -> None:
    """The sub-goal camera shows what the record says, in the size of the camera that it is of."""
    assert after[SUBGOAL].shape == before[camera].shape
    shown = pixels(after[SUBGOAL]).astype(int)
    usable = options.use_rejected or (step and step.accepted and step.step.outcome == "done")
    goal = step.goal_image if step and usable else None
    assert bool(after[PAD]) == (goal is None)
    if goal is None:
        assert shown.max() < 8
        return
    live = pixels(before[camera])
    fitted = fit(goal.pixels, (live.shape[1], live.shape[0]))
    wanted = in_form(options.subgoal_form, fitted, live).astype(int)
    assert np.abs(shown - wanted).mean() < 8


def check_rows(after: Item, before: Item, name: str | None, options: Options) -> None:
    """The sub-task of a frame is the record's, or the owner's; all that is not replaced stays."""
    if not options.language:
        assert not set(LANGUAGE) & set(after)
        return
    old, new = (item.get("language_persistent") or [] for item in (before, after))
    assert after["language_events"] == (before.get("language_events") or [])
    kept = [] if options.replace_rows else [row for row in old if row["style"] == "memory"]
    memories = [row for row in new if row["style"] == "memory"]
    assert memories == kept if kept else all(row["content"].startswith("Done so far: ") for row in memories)
    said, owned = (active(rows, after["timestamp"].item()) for rows in (new, old))
    owners = not options.replace_rows and any(row["style"] == "subtask" for row in old)
    assert said == (owned if owners else name)


def active(rows: list[Item], seconds: float) -> str | None:
    """The sub-task that holds at a time, as lerobot's renderer finds it."""
    said = [row for row in rows if row["style"] == "subtask" and row["timestamp"] <= seconds]
    return max(said, key=lambda row: row["timestamp"])["content"] if said else None
