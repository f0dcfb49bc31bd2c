"""`goalreel check`: what is understood of a dataset before it is annotated."""

import json
import shutil
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from support.cli import fails, goalreel, invoke, results
from support.faults import DATA, EPISODES, TASKS, WRIST, column, info, table, video

import goalreel as public
from goalreel.errors import DatasetError, InputError


def test_a_healthy_dataset(video_dataset):
    report = results("check", video_dataset, "--layout", "gripper=3,closed=low")
    assert (report["broken"], report["warnings"], report["episodes"], report["fps"]) == (0, 0, 3, 10)
    assert report["camera"] == "observation.images.front"
    assert {f["field"]: f["value"] for f in report["robot"]}["gripper"] == "3"
    assert report["sampled"] == report["named"] + report["silent"] == 3
    assert public.check(video_dataset).count("broken") == 0


def test_the_table_says_the_same(video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    column(EPISODES, "length", lambda _: [12, 8, 15])(root)
    text = " ".join(goalreel("check", root).split())
    for title in ("Robot", "Dataset", "Episodes", "Instructions"):
        assert title in text
    assert "gripper 3: named gripper" in text
    assert "warning episode 1: meta/episodes says 8 frames, and there are 9" in text
    assert text.endswith("nothing is broken; warnings: 1")


def test_what_is_broken_gives_status_1_and_json_all_the_same(video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    (root / video(WRIST)).unlink()
    result = invoke("check", root, "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert (report["broken"], report["issues"][0]["kind"]) == (1, "video_file")
    assert report["sampled"] == 3, "the motion is there all the same"
    for i in range(9):
        (root / f"data/chunk-000/stray-{i}.parquet").write_text("none")
    table = invoke("check", root)
    assert table.exit_code == 1
    assert "broken: " in table.stdout
    assert "6 more like the last one" in " ".join(table.stdout.split()), "many alike are shown once"


@pytest.mark.parametrize("fault", ["nothing there", "metadata", "data"])
def test_datasets_that_cannot_be_opened(fault, video_dataset, tmp_path):
    root = tmp_path / "data"
    if fault != "nothing there":
        shutil.copytree(video_dataset, root)
        (root / {"metadata": "meta/info.json", "data": DATA}[fault]).unlink()
    result = invoke("check", root, "--json")
    assert result.exit_code == 1
    issue = json.loads(result.stdout)["issues"][0]
    assert (issue["kind"], issue["level"]) == ("data_file" if fault == "data" else "metadata", "broken")


def test_a_state_of_rows_and_columns_is_read_as_one_vector(video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    info(lambda i: i["features"]["observation.state"].update(shape=[2, 2], names=None))(root)

    def change(rows):
        name, kind = "observation.state", pa.list_(pa.list_(pa.float32()))
        cells = pa.array([[cell[:2], cell[2:]] for cell in rows[name].to_pylist()], kind)
        return rows.set_column(rows.column_names.index(name), name, cells)

    table(DATA, change)(root)
    report = public.check(root, layout="closed=low")
    assert report.count("broken") == 0
    assert {f.field: f.value for f in report.robot}["gripper"] == "3"


def test_hands_that_start_closed(video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    lengths = np.cumsum([12, 9, 15])

    def change(states: list) -> list:
        """Closed, which is low, in the first half of episode 1 and in the second of the others."""
        changed = []
        for episode, (start, end) in enumerate(pairwise([0, *lengths])):
            halves = [(i < (end - start) // 2) == (episode == 1) for i in range(end - start)]
            changed += [[*s[:3], 1.0 - closed] for s, closed in zip(states[start:end], halves, strict=True)]
        return changed

    column(DATA, "observation.state", change)(root)
    report = public.check(root, layout="gripper=3,closed=low")
    (issue,) = (i for i in report.issues if i.kind == "starts_closed")
    assert (issue.episodes, issue.level) == ((1,), "note")


def test_words_without_a_motion(video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    task = "put the red block in the bowl, then put the cup on the plate"
    column(TASKS, "task", lambda _: [task])(root)
    report = public.check(root, layout="gripper=3,closed=low")
    assert (report.named, report.silent) == (0, 3)
    assert any("the words say 2 times" in reason for reason in report.reasons)
    (issue,) = (i for i in report.issues if i.kind == "silent")
    assert issue.group == "Instructions"
    assert "the words say 2 times" in issue.text
    some = public.check(root, episodes=[2], layout="gripper=3,closed=low")
    assert (some.episodes, some.sampled) == (1, 1)


def test_an_end_of_the_gripper_that_nothing_tells(video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    info(lambda i: i.update(robot_type=None))(root)
    for name in ("observation.state", "action"):
        column(DATA, name, lambda old: [[0.0, 0.0, 0.0, float(i % 20 < 10)] for i in range(len(old))])(root)
    report = public.check(root)
    issues = [i for i in report.issues if i.kind == "robot"]
    asks = any(f.confidence == "unknown" for f in report.robot)
    assert [i.level for i in issues] == ["warning"] * asks
    assert public.check(root, layout="gripper=3,closed=low").robot != report.robot


def test_what_a_person_says_is_checked(video_dataset):
    assert "no camera 'top'" in fails("check", video_dataset, "--camera", "top")
    assert "no episode 9" in fails("check", video_dataset, "--episodes", "9")
    with pytest.raises(InputError, match="gripper"):
        public.check(video_dataset, layout="gripper=40")
    with pytest.raises(DatasetError, match="no camera"):
        public.check(video_dataset, camera="top")


@pytest.mark.parametrize("name", ["droid_new_setup", "g1_inspire", "gr1_sim"])
def test_real_datasets(name):
    from support.places import SHARED

    if not (SHARED / name).is_dir():
        pytest.skip(f"no real episodes at {SHARED / name}")
    report = results("check", SHARED / name)
    assert (report["broken"], report["warnings"]) == (0, 0)
    assert report["robot"]
    assert report["sampled"] == report["episodes"]
    assert set(report["reasons"]) or report["named"] == report["episodes"]
