"""A run says how it read the robot, and does not begin where it cannot."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goalreel.annotator.annotate import annotate
from goalreel.annotator.options import Options
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError, InputError
from goalreel.models.load import load
from goalreel.models.presets import load as preset


def run(root: Path, out: Path, options: Options | None = None, **models: str):
    source, options = Source.open(root), options or Options()
    names = preset("hindsight", **models)
    return annotate(source, out, load(names, recordings=options.recorded(source)), options)


def of_type(root: Path, out: Path, robot_type: str | None) -> Path:
    shutil.copytree(root, out)
    path = out / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"robot_type": robot_type}))
    return out


@pytest.fixture
def vague(video_dataset, tmp_path) -> Path:
    """A dataset of which nothing tells the closed end: 0 or 1, one episode of each rest."""
    root = of_type(video_dataset, tmp_path / "vague", None)
    for path in root.glob("data/**/*.parquet"):
        table = pq.read_table(path)
        for name in ("observation.state", "action"):
            rows = zip(table[name].to_pylist(), table["episode_index"].to_pylist(), strict=True)
            turned = [[*row[:3], 1 - row[3] if episode == 1 else row[3]] for row, episode in rows]
            at = table.column_names.index(name)
            table = table.set_column(at, table.field(at), pa.array(turned, table.field(at).type))
        pq.write_table(table, path)
    return root


def test_what_was_understood_is_in_summary_settings_and_card(video_dataset, tmp_path):
    out = tmp_path / "out"
    summary = run(video_dataset, out)
    told = json.loads(summary.as_json())["robot"]
    assert told["layout"] == "gripper=3,position=0:3,vertical=2,closed=low"
    assert {f["field"] for f in told["findings"]} == {"gripper", "closed", "position", "vertical", "camera"}
    assert Records(out / FOLDER, source="").settings()["robot"] == told
    card = (out / "README.md").read_text()
    assert "- closed: `low` (likely: lerobot's 0-100 grippers close at 0" in card
    given = run(video_dataset, tmp_path / "given", Options(layout="closed=low"))
    assert "- closed: `low` (given: by --layout)" in (given.out / "README.md").read_text()


def test_a_run_that_does_not_know_the_closed_end_asks_for_it_where_motion_is_read(vague, tmp_path):
    with pytest.raises(InputError, match="say --layout closed=low or --layout closed=high") as refused:
        run(vague, tmp_path / "out")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()
    assert run(vague, tmp_path / "out", Options(layout="closed=low")).annotated == 3
    summary = run(vague, tmp_path / "rows", planner="rows")
    assert summary.robot is not None
    assert summary.robot.unknown


def test_a_second_run_reads_the_robot_as_the_first(video_dataset, tmp_path):
    root, out = of_type(video_dataset, tmp_path / "in", "koch_follower"), tmp_path / "out"
    run(root, out)
    assert run(root, out).resumed == 3
    path = root / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"robot_type": "robotiq"}))
    with pytest.raises((DatasetError, InputError)):
        run(root, out)
