"""Sub-task rows that a dataset has already: goal images are added, and they are never replaced unasked."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.cli import fails, goalreel, invoke

from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.options import Options
from goalreel.datasets.records import FOLDER, Records
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.types import Verdict

PAD = "subgoal_is_pad"
LABELS = ((0, "grasp the block"), (5, "put the block in the bowl"))


@pytest.fixture(scope="module")
def labelled(video_dataset, tmp_path_factory) -> Path:
    """Three episodes; lerobot's own annotation writer has labelled the first two. Read only."""
    from lerobot.annotations.steerable_pipeline import LanguageColumnsWriter
    from lerobot.annotations.steerable_pipeline.reader import iter_episodes
    from lerobot.annotations.steerable_pipeline.staging import EpisodeStaging
    from lerobot.datasets.language import language_feature_info

    folder = tmp_path_factory.mktemp("labelled")
    root = Path(shutil.copytree(video_dataset, folder / "data"))
    records = list(iter_episodes(root))
    for record in records[:2]:
        plain = {"role": "assistant", "camera": None, "tool_calls": None, "style": "subtask"}
        said = [{**plain, "content": c, "timestamp": record.frame_timestamps[i]} for i, c in LABELS]
        plan = {**plain, "style": "plan", "content": "their plan", "timestamp": record.frame_timestamps[0]}
        EpisodeStaging(folder / "staging", record.episode_index).write("plan", [plan, *said])
    LanguageColumnsWriter().write_all(records, folder / "staging", root)
    info = json.loads((root / "meta/info.json").read_text())
    info["features"] |= language_feature_info()
    (root / "meta/info.json").write_text(json.dumps(info))
    return root


def language(root: Path) -> list[list[dict]]:
    (path,) = (root / "data").glob("*/*.parquet")
    frames = pq.read_table(path, columns=["language_persistent"]).to_pylist()
    return [
        [{k: row[k] for k in ("style", "content", "timestamp", "role")} for row in f["language_persistent"]]
        for f in frames
    ]


def test_goal_images_are_added_and_the_rows_stay(labelled, tmp_path):
    out = tmp_path / "out"
    result = invoke("annotate", labelled, "--out", out, "--planner", "rows", "--json")
    assert result.exit_code == 1
    summary = json.loads(result.stdout.splitlines()[-1])
    assert summary["annotated"] == 2
    assert summary["failures"] == {
        "2": "episode_000002: it has no subtask rows: use another --planner for it"
    }
    assert language(out) == language(labelled)
    (path,) = (out / "data").glob("*/*.parquet")
    assert not any(pq.read_table(path)[PAD].to_pylist()[:21])
    for index, end in ((0, 12), (1, 9)):
        board = Records(out / FOLDER, source="").outline(index)
        assert [s.step.name for s in board.steps] == [text for _, text in LABELS]
        assert [(s.segment.start, s.segment.end) for s in board.steps] == [(0, 5), (5, end)]
        assert board.steps[1].step.instruction == "the block is in the bowl"


class Refusal:
    def judge(self, candidates):
        return [Verdict(success=False, reasoning="cannot see it") for _ in candidates]


def test_the_row_of_a_rejected_picture_stays(labelled, tmp_path):
    source, options = open_dataset(labelled), Options()
    models = load(presets.load("hindsight", planner="rows"), recordings=options.recorded(source))
    annotate(source, tmp_path / "out", replace(models, critic=Refusal()), options, episodes=[0])
    (path,) = (tmp_path / "out/data").glob("*/*.parquet")
    assert all(pq.read_table(path)[PAD].to_pylist()[:12])
    assert language(tmp_path / "out") == language(labelled)


def test_rows_are_never_replaced_unasked(labelled, tmp_path):
    out = tmp_path / "out"
    line = fails("annotate", labelled, "--out", out)
    assert "episode 0 has subtask rows already: --planner rows keeps them" in line
    assert "--replace-rows" in line
    assert not out.exists()
    assert "leave --replace-rows out" in fails(
        "annotate", labelled, "--out", out, "--planner", "rows", "--replace-rows"
    )
    goalreel("annotate", labelled, "--out", tmp_path / "third", "--episodes", "2")
    goalreel("annotate", labelled, "--out", out, "--replace-rows")
    said = [r["content"] for r in language(out)[0] if r["style"] == "subtask"]
    assert said == ["grasp the red block", "put the red block in the blue bowl"]
