"""A task mended in IN: what people corrected stays, and what depended on the words is made anew."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.cli import goalreel, invoke

from goalreel.annotator.show import read_storyboards
from goalreel.datasets.corrections.events import Correction, GiveVerdict, MoveBoundary
from goalreel.datasets.corrections.reviews import Reviews
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source

OLD, NEW = "put the red block in the blue bowl", "put the red block in the green bowl"
EPISODES = range(3)


def change(out: Path, episode: int, *events: Correction) -> None:
    reviews, length = Reviews(Records(out / FOLDER, "")), len(Source.open(out).episode(episode))
    for event in events:
        reviews.change(episode, length, reviews.look(episode, length).revision, "ann", event)


def rename(root: Path, text: str) -> None:
    index = pd.Index([text], name="task")
    pd.DataFrame({"task_index": [0]}, index=index).to_parquet(root / "meta/tasks.parquet")


def ends(out: Path) -> list[list[int]]:
    return [[s.segment.end for s in board.steps if s.segment] for _, board in read_storyboards(out)]


def words(out: Path) -> dict[int, set[str]]:
    """Episode -> its task and its sub-task and plan rows, as lerobot gives them."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/test", root=out, video_backend="pyav")
    said: dict[int, set[str]] = {}
    for episode in EPISODES:
        first = dataset.hf_dataset[dataset.meta.episodes[episode]["dataset_from_index"]]
        task = str(dataset.meta.tasks.iloc[int(first["task_index"])].name)
        rows = first["language_persistent"] or ()
        said[episode] = {task, *(row["content"] for row in rows)}
    return said


@pytest.fixture
def renamed(video_dataset, tmp_path) -> tuple[Path, Path]:
    """(IN, OUT): in OUT a person moved an end of episode 1 and accepted it; then IN's task was mended."""
    root, out = shutil.copytree(video_dataset, tmp_path / "in"), tmp_path / "out"
    goalreel("annotate", root, "--out", out)
    first = ends(out)[1][0]
    change(out, 1, MoveBoundary(step="0", edge="end", frame=first - 2), GiveVerdict(verdict="accept"))
    goalreel("build", out)
    rename(root, NEW)
    return root, out


def test_build_keeps_what_a_person_made_and_says_what_to_annotate(renamed, caplog):
    _, out = renamed
    before = words(out)
    result = invoke("build", out)
    assert result.exit_code == 1
    assert "without goal images: episodes 0,2" in result.stderr
    warnings = [record.message for record in caplog.records if "labels have changed" in record.message]
    assert len(warnings) == len(set(warnings)) == 3, "one for each episode"
    assert ["person corrected are kept" in warning for warning in sorted(warnings)] == [False, True, False]
    now = words(out)
    assert now[1] == {text.replace(OLD, NEW) for text in before[1]}
    assert now[0] == now[2] == {NEW}
    assert not _pictures(out)[0]
    assert _pictures(out)[1]


def test_annotate_says_once_what_has_changed(renamed, caplog):
    root, out = renamed
    goalreel("annotate", root, "--out", out, "--episodes", "0")
    changed = [record.message for record in caplog.records if "labels have changed" in record.message]
    assert len(changed) == len(set(changed)) == 4
    kept = [message for message in changed if "person corrected are kept" in message]
    assert ["episode_000001" in message for message in kept] == [True]


def _pictures(out: Path) -> dict[int, bool]:
    """Episode -> whether it has a goal image."""
    frames = pd.read_parquet(out / "data/chunk-000/file-000.parquet")
    return {int(e): bool(np.any(~rows["subgoal_is_pad"])) for e, rows in frames.groupby("episode_index")}


def test_annotate_plans_anew_with_what_a_person_made(renamed, tmp_path):
    root, out = renamed
    corrected = ends(out)
    goalreel("annotate", root, "--out", out)
    assert ends(out) == corrected
    assert {board.task.instruction for _, board in read_storyboards(out)} == {NEW}
    assert not any(OLD in text for texts in words(out).values() for text in texts)
    goalreel("annotate", root, "--out", tmp_path / "other", "--corrections", out)
    assert ends(tmp_path / "other") == corrected


def test_corrections_go_to_another_run_after_a_task_was_mended(renamed, tmp_path):
    root, out = renamed
    goalreel("annotate", root, "--out", tmp_path / "plain")
    goalreel("annotate", root, "--out", tmp_path / "other", "--corrections", out)
    assert ends(tmp_path / "other") == ends(out) != ends(tmp_path / "plain")
