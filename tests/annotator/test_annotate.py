"""The main job and its command line, whole and in shards, on real lerobot datasets."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.cli import fails, goalreel, invoke, results
from support.faults import EPISODES, FRONT, WRIST, column
from support.recordings import make_dataset
from support.review import change, review_page
from support.steady import contents
from support.studio import finished, studio, submit

from goalreel.annotator.annotate import annotate as annotate_with, open_dataset
from goalreel.annotator.job import Summary
from goalreel.annotator.options import Options
from goalreel.annotator.show import show
from goalreel.datasets.records import FOLDER, LOCAL, Records, Shard
from goalreel.datasets.source import Source
from goalreel.errors import InputError
from goalreel.models.load import load
from goalreel.subgoal_camera import DEFAULT_FORM, in_form

KEY = "observation.images.subgoal"
SOURCE = ".cache/huggingface/goalreel/source"
STOPS = (signal.SIGKILL, signal.SIGINT)


def annotate(root: Path, out: Path, options: Options | None = None, **chosen: object) -> Summary:
    """In hindsight, from Python."""
    source, options = open_dataset(root), options or Options()
    models = load("hindsight", recordings=options.recorded(source))
    return annotate_with(source, out, models, options, **chosen)


def test_what_is_not_uploaded(tmp_path):
    """A name without an owner is refused before the work; a dataset with a failure stays here."""
    root = make_dataset(tmp_path / "in", (12,), cameras=("front",), task="...")
    words = ("annotate", root, "--out", tmp_path / "out", "--push-to-hub")
    assert "--push-to-hub goals: is not OWNER/NAME" in fails(*words, "goals")
    assert not (tmp_path / "out").exists()
    result = invoke(*words, "lab/goals")
    assert result.exit_code == 1
    assert "Not uploaded to lab/goals: a step failed, or is left to do" in result.stderr


def test_the_main_job(video_dataset, tmp_path):
    before = contents(video_dataset)
    out = tmp_path / "out"
    summary = results("annotate", video_dataset, "--out", out)
    assert summary["annotated"] == 3
    assert summary["failures"] == {}
    assert contents(video_dataset) == before

    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/out", root=out)
    assert len(dataset) == 36
    item = dataset[5]
    assert item[KEY].shape == item["observation.images.front"].shape
    rows = [r for r in item["language_persistent"] if r["style"] == "subtask"]
    assert [row["content"] for row in rows] == ["grasp the red block", "put the red block in the blue bowl"]
    unexplained = dataset[20]["language_persistent"]
    assert not unexplained, "its hand is never seen to carry anything: the task itself says what is known"

    assert Records(out / FOLDER, source="").done() == {0, 1, 2}
    report = goalreel("show", out).strip()
    assert Path(report.removeprefix("Look at ")).is_file()


def test_what_was_understood_of_the_robot_is_in_summary_settings_and_card(video_dataset, tmp_path):
    out = tmp_path / "out"
    told = json.loads(annotate(video_dataset, out).as_json())["robot"]
    assert told["layout"] == "gripper=3,position=0:3,vertical=2,closed=low"
    assert {f["field"] for f in told["findings"]} == {"gripper", "closed", "position", "vertical", "camera"}
    assert Records(out / FOLDER, source="").settings()["robot"] == told
    assert "- closed: `low` (likely: lerobot's 0-100 grippers close at 0" in (out / "README.md").read_text()
    given = annotate(video_dataset, tmp_path / "given", Options(layout="closed=low"))
    assert "- closed: `low` (given: by --layout)" in (given.out / "README.md").read_text()


def test_the_goal_images_are_the_accepted_frames(in_hindsight):
    source = Source.open(in_hindsight)
    records = Records(in_hindsight / FOLDER, source="")
    for episode in map(source.episode, source.indices):
        for step in records.outline(episode.index).steps:
            assert step.status == "observed"
            camera, _, number = step.goal_image.frame.removeprefix("frame:").rpartition("#")
            first, end = step.segment.goal or (step.segment.start, step.segment.end)
            assert first <= int(number) < end
            goal = in_form(DEFAULT_FORM, episode.frames(camera, [int(number)])[0].pixels).astype(int)
            for frame in (step.segment.start, step.segment.end - 1):
                shown = episode.frames(KEY, [frame])[0].pixels.astype(int)
                assert np.abs(shown - goal).mean() < 6


def test_files_that_are_being_written_are_not_there_yet(video_dataset, in_hindsight, tmp_path):
    """In both folders, a half of each file as a kill leaves it."""
    root, out = (
        shutil.copytree(video_dataset, tmp_path / "in"),
        shutil.copytree(in_hindsight, tmp_path / "out"),
    )
    before = contents(out)
    for path in [p for folder in (root, out) for p in folder.rglob("*.*") if p.is_file()]:
        data = path.read_bytes()
        path.with_name(f".goalreel-tmp-8dd27238-{path.name}").write_bytes(data[: len(data) // 2])
    show(out, tmp_path / "report")
    goalreel("check", root)
    goalreel("export", out, "--out", tmp_path / "steps.csv")
    goalreel("corpus", "from-storyboards", out, "--out", tmp_path / "corpus")
    assert annotate(root, out).resumed == 3
    assert contents(out) | {SOURCE: b""} == before | {SOURCE: b""}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("fcntl.flock", errno.ENOLCK),
        ("os.link", errno.ENOSYS),
        ("os.fsync", errno.EINVAL),
        ("os.chmod", errno.EPERM),
        ("os.utime", errno.ENOTSUP),
    ],
)
def test_file_systems_without_a_call(name, code, video_dataset, in_hindsight, tmp_path, monkeypatch):
    """As Lustre, NFS, SMB, vfat and FUSE are mounted in laboratories."""

    def refuse(*args: object, **options: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(name, refuse)
    annotate(video_dataset, tmp_path / "out")
    page = review_page(tmp_path / "out", video_dataset)
    change(page, 0, kind="blank", step=page.get("/api/episodes/0").json()["steps"][0]["id"])
    show(tmp_path / "out", tmp_path / "report")
    goalreel("export", tmp_path / "out", "--out", tmp_path / "steps.csv")
    goalreel("corpus", "from-storyboards", tmp_path / "out", "--out", tmp_path / "corpus")
    with studio(tmp_path / "studio") as client:
        finished(client, submit(client))
    monkeypatch.undo()
    shutil.rmtree(tmp_path / "out" / FOLDER / "corrections")
    assert contents(tmp_path / "out") == contents(in_hindsight)


def test_a_broken_episode_is_left_out_and_named(sharded_dataset, tmp_path, caplog):
    root, out = shutil.copytree(sharded_dataset, tmp_path / "in"), tmp_path / "out"
    column(EPISODES, "length", lambda old: [old[0], old[1] - 1, *old[2:]])(root)
    result = invoke("annotate", root, "--out", out, "--json")
    assert result.exit_code == 1
    summary = json.loads(result.stdout.splitlines()[-1])
    assert summary["annotated"] == 3
    assert list(summary["failures"]) == ["1"]
    assert "holds 9 frames but meta/episodes says 8" in summary["failures"]["1"]
    assert Records(out / FOLDER, source="").done() == {0, 2, 3}
    assert "a warning: episode 1: meta/episodes says 8 frames" in caplog.text


@pytest.mark.parametrize("missing", [FRONT, WRIST, "data"])
def test_what_lerobot_could_not_read_is_refused_before_anything_is_written(
    missing, sharded_dataset, tmp_path
):
    root, out = shutil.copytree(sharded_dataset, tmp_path / "in"), tmp_path / "out"
    kind, suffix = ("data", "parquet") if missing == "data" else (f"videos/{missing}", "mp4")
    path = root / kind / f"chunk-000/file-001.{suffix}"
    path.unlink()
    line = fails("annotate", root, "--out", out)
    if missing == "data":
        assert f"{path} is missing: copy the dataset again" in line
    else:
        assert f"{missing}/chunk-000/file-001.mp4: the video file is missing (episode 1)" in line
    assert not out.exists()


@pytest.fixture(scope="module")
def stopped(video_dataset, tmp_path_factory) -> dict[int, dict]:
    """What became of runs that got a signal as soon as an episode was written, by the signal."""
    folder = tmp_path_factory.mktemp("stopped")
    words = ["-m", "support.forked_runs", "stops", video_dataset, folder, *map(str, STOPS)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {run["signal"]: run for run in map(json.loads, done.stdout.splitlines())}


@pytest.mark.process
@pytest.mark.parametrize("stop", STOPS)
def test_stopped_and_resumed_ends_with_the_same_bytes(stop, stopped, video_dataset, in_hindsight):
    run = stopped[stop]
    if stop == signal.SIGINT and run["status"]:
        assert run["status"] == 130
        assert "run the same command again" in run["errors"]
        assert "Traceback" not in run["errors"]
    out = Path(run["out"])
    annotate(video_dataset, out)
    assert contents(out) == contents(in_hindsight)


@pytest.mark.parametrize("robot", ["x", {"layout": "gripper=3"}, {"layout": "gripper=3", "findings": "x"}])
def test_damaged_settings_are_one_line(robot, video_dataset, in_hindsight, tmp_path):
    out = shutil.copytree(in_hindsight, tmp_path / "out")
    settings = json.loads((out / FOLDER / "settings.json").read_text())
    settings["settings"]["robot"] = robot
    (out / FOLDER / "settings.json").write_text(json.dumps(settings))
    assert "settings.json: damaged: remove" in fails("annotate", video_dataset, "--out", out)
    assert "were not written by goalreel annotate" in fails("build", out)
    show(out, tmp_path / "report")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--camera", "top"), "no camera 'top'"),
        (("--episodes", "0-7"), "no episode 3; it has 3 from 0 to 2"),
        (("--episodes", "first"), "such as 0-4,7"),
        (("--preset", "magic"), "no preset 'magic'"),
        (("--planner", "openai:m@http://127.0.0.1:9/v1"), "use --planner kinematic"),
        (("--no-language", "--task-aug"), "leave out --no-language"),
        (("--motion-rows", "--planner", "openai:m@http://127.0.0.1:9/v1"), "with --planner kinematic"),
    ],
    ids=" ".join,
)
def test_options_that_do_not_fit_are_one_line(words, said, video_dataset, tmp_path):
    assert said in fails("annotate", video_dataset, "--out", tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


def test_folders_that_do_not_fit_are_one_line(video_dataset, in_hindsight, tmp_path):
    assert "the folder is empty" in fails("annotate", tmp_path, "--out", tmp_path / "out")
    assert "never" in fails("annotate", video_dataset, "--out", video_dataset / "inside")
    assert "no annotated episode" in fails("show", video_dataset)
    assert "episode 9 is not annotated" in fails("show", in_hindsight, "--episodes", "9")
    message = fails("annotate", video_dataset, "--out", in_hindsight, "--granularity", "phase")
    assert "granularity was 'event' and is now 'phase'" in message
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def whole(sharded_dataset, tmp_path_factory) -> Path:
    """Annotated in one run."""
    out = tmp_path_factory.mktemp("whole") / "out"
    goalreel("annotate", sharded_dataset, "--out", out)
    return out


@pytest.mark.parametrize("text", ["0/3", "4/3", "2", "1/0", "a/b", "-1/3"])
def test_a_part_that_there_is_not(text):
    with pytest.raises(InputError, match="as 2/3, not"):
        Shard.parse(text)


@pytest.mark.process
@pytest.mark.long
def test_processes_at_once_one_of_them_killed_give_the_bytes_of_one_run(sharded_dataset, whole, tmp_path):
    command = [sys.executable, "-m", "support.forked_runs", "shards", sharded_dataset, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "goalreel build" in done.stdout, "a shard says what comes next"
    assert contents(tmp_path / "out") == contents(whole)


def test_what_runs_beside_a_shard(sharded_dataset, whole, tmp_path):
    out = tmp_path / "out"
    kept = json.loads((whole / FOLDER / "settings.json").read_text())
    work = ("annotate", sharded_dataset, "--out", out)
    assert "no records there" in fails("build", out)
    assert not out.exists()
    source = open_dataset(sharded_dataset).fingerprint()
    with Records.open(out, kept["settings"], source, Shard(1, 2)):
        assert f"{out}: shard 1/2 is running" in fails(*work, "--shard", "1/2")
        assert "a shard of 2, not 3, is running" in fails(*work, "--shard", "1/3")
        assert "another goalreel run is writing there" in fails(*work)
        assert "another goalreel run is writing there" in fails("build", out, "--source", sharded_dataset)
        assert "granularity was" in fails(*work, "--shard", "2/2", "--granularity", "phase")
        goalreel(*work, "--shard", "2/2")
    with Records.open(out, kept["settings"], source):
        assert "a run without --shard" in fails(*work, "--shard", "1/2")
        assert "another goalreel run is writing there" in fails(*work)
    result = invoke("build", out, "--json")
    assert (result.exit_code, json.loads(result.stdout)["missing"]) == (1, [0, 1])
    assert "episodes 0-1" in result.stderr
    assert (out / "meta/info.json").is_file(), "what there is can be looked at"
    goalreel(*work, "--shard", "1/3")
    start = out / LOCAL / "starts-1-of-3/episode_000000"
    start.parent.mkdir()
    start.write_bytes(b".")  # as a kill after the last record leaves it
    goalreel(*work, "--shard", "1/3")
    goalreel(*work, "--shard", "2/3")
    goalreel("build", out)
    assert contents(out) == contents(whole)


def test_shards_on_machines_that_share_no_files(sharded_dataset, tmp_path):
    words = ("--task-aug", "--task-per-frame", "--subgoal-key", "observation.images.goal")
    nodes = [tmp_path / "node1", tmp_path / "node2"]
    for number, node in enumerate(nodes, start=1):
        goalreel("annotate", sharded_dataset, "--out", node, "--shard", f"{number}/2", *words)
    out = tmp_path / "out"
    goalreel("build", out, "--source", sharded_dataset, "--records", nodes[0], "--records", nodes[1])
    goalreel("annotate", sharded_dataset, "--out", tmp_path / "once", *words)
    assert contents(out) == contents(tmp_path / "once")


def test_a_shard_looks_at_no_file_of_another(sharded_dataset, whole, tmp_path):
    out, root = shutil.copytree(whole, tmp_path / "out"), shutil.copytree(sharded_dataset, tmp_path / "in")
    last = sorted((root / "data").rglob("*.parquet"))[-1]
    last.write_bytes(b"not read by the first shard")
    goalreel("annotate", root, "--out", out, "--shard", "1/4")
    assert f"{last}: not readable" in fails("build", out, "--source", root)
