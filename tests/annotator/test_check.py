"""`goalreel check`: what is understood of a dataset before it is annotated, and of what is none."""

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from support.cli import fails, goalreel, invoke, results
from support.faults import DATA, EPISODES, TASKS, WRIST, column, info, table, video
from support.recordings import make_dataset

import goalreel as public
from goalreel import check
from goalreel.annotator.readings import Reading, read_steps, write_steps
from goalreel.errors import DatasetError, InputError


def test_the_table_says_the_same(root):
    column(EPISODES, "length", lambda _: [12, 8, 15])(root)
    text = " ".join(goalreel("check", root).split())
    for title in ("Robot", "Dataset", "Episodes", "Instructions"):
        assert title in text
    assert "gripper=3: named gripper" in text
    assert "warning episode 1: meta/episodes says 8 frames, and there are 9" in text
    assert text.endswith("nothing is broken; warnings: 1")


def test_what_is_broken_gives_status_1_and_json_all_the_same(root):
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


@pytest.mark.parametrize(
    ("lost", "kind"), [("", "metadata"), ("meta/info.json", "metadata"), (DATA, "data_file")]
)
def test_datasets_that_cannot_be_opened(lost, kind, root):
    if lost:
        (root / lost).unlink()
    result = invoke("check", root if lost else root / "nothing", "--json")
    assert result.exit_code == 1
    issue = json.loads(result.stdout)["issues"][0]
    assert (issue["kind"], issue["level"]) == (kind, "broken")


def test_a_state_of_rows_and_columns_is_read_as_one_vector(root):
    info(lambda i: i["features"]["observation.state"].update(shape=[2, 2], names=None))(root)

    def change(rows):
        name, kind = "observation.state", pa.list_(pa.list_(pa.float32()))
        cells = pa.array([[cell[:2], cell[2:]] for cell in rows[name].to_pylist()], kind)
        return rows.set_column(rows.column_names.index(name), name, cells)

    table(DATA, change)(root)
    report = public.check(root, layout="closed=low")
    assert report.count("broken") == 0
    assert {f.field: f.value for f in report.robot}["gripper"] == "3"


def test_hands_that_start_closed(root):
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


def test_words_without_a_motion(root):
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


def test_what_a_person_says_is_checked(video_dataset):
    assert "no camera 'top'" in fails("check", video_dataset, "--camera", "top")
    assert "no episode 9" in fails("check", video_dataset, "--episodes", "9")
    for wrong in ("5-3", "0-9999999999"):
        assert "--episodes takes numbers and ranges" in fails("check", video_dataset, "--episodes", wrong)
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


def test_each_instruction_is_shown_as_it_is_read_and_its_owner_may_give_its_steps(root, tmp_path):
    (first, *_) = results("check", root)["readings"]
    assert first["is_read"]
    assert first["clauses"]
    column(TASKS, "task", lambda _: ["grasp_cube"])(root)
    column(EPISODES, "tasks", lambda cells: [["grasp_cube"] for _ in cells])(root)
    report = results("check", root, "--write-steps", tmp_path / "steps.yaml")
    assert report["readings"] == [
        {"instruction": "grasp_cube", "episodes": [0, 1, 2], "clauses": ["grasp_cube"], "is_read": False}
    ]
    assert [i["episodes"] for i in report["issues"] if i["kind"] == "identifier"] == [[0, 1, 2]]
    text = " ".join(goalreel("check", root).split())
    assert '"grasp_cube" (3 episodes): not read: give its steps with --steps' in text
    template = tmp_path / "steps.yaml"
    assert template.read_text().endswith("# 3 episodes\ngrasp_cube: []\n")
    assert results("check", root, "--steps", template)["readings"] == report["readings"]
    template.write_text("grasp_cube:\n- pick up the cube\n- put it in the box\n")
    report = results("check", root, "--steps", template)
    assert report["readings"][0]["clauses"] == ["put the cube in the box"]
    assert not [i for i in report["issues"] if i["kind"] == "identifier"]
    assert "no rule reads the whole instruction" not in report["reasons"]
    out = tmp_path / "out"
    other = ("--planner", "openai:m@http://127.0.0.1:9/v1")
    assert "with --planner kinematic" in fails("annotate", root, "--out", out, "--steps", template, *other)
    goalreel("annotate", root, "--out", out, "--steps", template, "--layout", "closed=low")
    settings = json.loads((out / "meta/goalreel/settings.json").read_text())["settings"]
    assert settings["steps"] == {"grasp_cube": ["pick up the cube", "put it in the box"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grasp_cube: [frobnicate the cube]", 'grasp_cube: no rule reads "frobnicate the cube"'),
        ("put it: 3", "put it: write an instruction and its steps"),
        ("grasp_cube: [pick up the cube]\ngrasp_cube: []", "'grasp_cube' is there twice"),
        ("- pick up the cube", "write an instruction and its steps"),
        ("grasp_cube: [1]", "grasp_cube: write an instruction and its steps"),
        ("grasp_cube: [put the cup and the spoon in the box]", "no rule reads"),
        ("grasp_cube: [pick up the cube", "no YAML"),
        ("another: [pick up the cube]", 'no episode has the instruction "another"'),
    ],
)
def test_wrong_steps_are_told_in_one_line(text, message, video_dataset, tmp_path):
    path = tmp_path / "steps.yaml"
    path.write_text(text)
    for command in (["check", video_dataset], ["annotate", video_dataset, "--out", tmp_path / "out"]):
        assert message in fails(*command, "--steps", path)


def test_the_readings_written_as_steps_read_the_same(tmp_path):
    texts = ("pick up the cup and put it in the box", "wipe the table with the sponge", "put A in B")
    path, readings = tmp_path / "steps.yaml", [Reading.of(t, [0], {}) for t in texts]
    write_steps(path, readings, "data")
    steps = read_steps(path)
    assert steps == {texts[0]: ("pick up the cup", "put the cup in the box"), texts[1]: (texts[1],)}
    assert [Reading.of(t, [0], steps) for t in texts] == readings


def test_a_handover_is_read_for_a_robot_with_two_hands():
    text = "pick up the cup with the right arm, pass it to the left arm and put it on the table"
    reading = Reading.of(text, [0], {}, hands=True)
    assert reading.clauses == ("hand over the cup to the left hand", "put the cup on the table")
    assert reading.is_read
    assert not Reading.of(text, [0], {}).is_read


FOLDERS = {
    "": "the folder is empty",
    "demo_0.hdf5": "a folder of HDF5: any4lerobot converts LIBERO's",
    "1.0.0/droid-train.tfrecord-00000-of-00031": "a folder of RLDS: any4lerobot's",
    "data/chunk-000/file-000.parquet": "copy the dataset again, with its folder meta",
    "cam0/episode_0.MP4": "a folder of videos or pictures: states and actions are needed",
    "run/run_0.mcap": "goalreel bag2lerobot",
    "notes.txt": "no meta/info.json there",
}


@pytest.mark.parametrize(("file", "line"), FOLDERS.items())
def test_a_folder_of_something_else(file, line, tmp_path):
    if file:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(b"x")
    said = fails("show", tmp_path)
    assert said.startswith(f"goalreel: {tmp_path}: ")
    assert line in said
    (issue,) = check(tmp_path).issues
    assert issue.text == said.removeprefix("goalreel: ")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("nowhere", "nowhere: no such folder"),
        ("lerobot/pusht", "lerobot/pusht: no such folder, not in the cache of the Hugging Face Hub"),
        ("https://example.com/x.zip", "https://example.com/x.zip: an address of no dataset on the Hub"),
    ],
)
def test_what_is_not_there(path, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert line in fails("annotate", path, "--out", "out")
    said = invoke("check", path)
    assert line in " ".join((said.stdout + said.stderr).split())


def test_a_folder_of_datasets_and_a_file(tmp_path):
    make_dataset(tmp_path / "one", (6,))
    said = fails("show", tmp_path)
    assert f"holds datasets, and is none itself: name one, such as {tmp_path / 'one'}" in said
    (tmp_path / "demo.hdf5").write_bytes(b"x")
    for words in (("show",), ("annotate", "--out", tmp_path / "out")):
        said = fails(*words, tmp_path / "demo.hdf5")
        assert "demo.hdf5: is a file, and a LeRobot dataset is a folder" in said
        assert "any4lerobot" in said
