"""Datasets by their names on the Hub, with a stand-in of its HTTP interface behind HF_ENDPOINT."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.hub import Hub, commit
from support.recordings import make_dataset

from goalreel.datasets.source import Source
from goalreel.datasets.writing.video import cut_video

pytestmark = pytest.mark.process
NAME = "lab/pick"
TOKEN = "hf_stand_in_token"


@pytest.fixture
def hub(video_dataset, tmp_path) -> Iterator[Hub]:
    shutil.copytree(video_dataset, tmp_path / "hub" / NAME)
    with Hub(tmp_path / "hub") as served:
        served.tags[NAME] = {"v3.0"}
        yield served


FORKED = """
import functools, json, os, ssl, sys, tqdm, yaml
import av, cv2, filelock, fsspec, httpcore, httpx, numpy, pydantic, pyarrow.compute, pyarrow.parquet
import goalreel.annotator.annotate, goalreel.cli.annotate, goalreel.cli.check, goalreel.cli.main
assert "huggingface_hub" not in sys.modules, "it reads its variables when it is imported"
ssl.create_default_context = functools.cache(ssl.create_default_context)
httpx.create_ssl_context()  # it reads the machine's certificates
for line in sys.stdin:
    words, environment, folder, said = json.loads(line)
    if not (child := os.fork()):
        os.chdir(folder)
        os.environ.update(environment)
        for number, name in enumerate(("/dev/null", f"{said}.out", f"{said}.err")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
        sys.argv = ["goalreel", *words]
        sys.exit(exec(words[1]) if words[0] == "-c" else goalreel.cli.main.app())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs a command a line, or Python after -c, in a fork of a process that has imported what takes long."""


@pytest.fixture(scope="module")
def forked() -> Iterator[subprocess.Popen[str]]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", FORKED], env=environment, **pipes) as process:
        yield process


@pytest.fixture
def run(forked, hub, tmp_path):
    """Run goalreel in an empty folder, with an empty cache."""
    work, said = tmp_path / "work", tmp_path / "said"
    work.mkdir()
    always = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}
    always["HF_HUB_ETAG_TIMEOUT"] = "300"  # a busy machine answers late

    def goalreel(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
        texts = [Path(f"{said}.{end}") for end in ("out", "err")]
        for text in texts:
            text.write_text("")
        forked.stdin.write(json.dumps([[*map(str, words)], always | more, str(work), str(said)]) + "\n")
        forked.stdin.flush()
        code = int(forked.stdout.readline())
        return subprocess.CompletedProcess(words, code, *(text.read_text() for text in texts))

    return goalreel


def line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stderr
    (said,) = (text for text in done.stderr.splitlines() if text.startswith("goalreel: "))
    assert "Traceback" not in done.stderr
    return said.removeprefix("goalreel: ")


def test_check_needs_no_videos_and_nothing_twice(hub, run):
    for name in (NAME, f"https://huggingface.co/datasets/{NAME}", f"{hub.url}/datasets/{NAME}/tree/v3.0"):
        done = run("check", name, "--layout", "gripper=3,closed=low", "--json")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert (report["broken"], report["episodes"], report["sampled"]) == (0, 3, 3)
        assert "not downloaded" in " ".join(i["text"] for i in report["issues"] if i["kind"] == "video_file")
        assert {re.split("[/@]", file)[0] for file in hub.sent} <= {"meta", "data", "README.md"}
    assert len(hub.sent) == len(set(hub.sent)), "the cache is used"
    offline = run("check", NAME, "--layout", "gripper=3,closed=low", HF_HUB_OFFLINE="1")
    assert offline.returncode == 0, offline.stderr
    assert "cache" not in offline.stderr, "which was asked for"
    said = line(run("annotate", NAME, "--out", "o", HF_HUB_OFFLINE="1"))
    assert "not in the cache of the Hugging Face Hub" in said


IN_PYTHON = """
import goalreel
options = goalreel.Options(layout="gripper=3,closed=low")
summary = goalreel.annotate("lab/pick", "part", options=options, episodes=[1])
report, source = goalreel.check("lab/pick"), goalreel.open_dataset("lab/pick")
boards = [episode for episode, _ in goalreel.read_storyboards("lab/goals")]
print(summary.annotated, report.episodes, len(source.indices), boards)
"""


def test_annotate_resumes_a_download_and_uploads(hub, run, tmp_path):
    hub.cut_after = 400
    words = ("annotate", NAME, "--out", "goals", "--layout", "gripper=3,closed=low")
    done = run(*words, "--push-to-hub", "lab/goals", HF_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert len(hub.sent) == len(set(hub.sent)) + 1, "the file that broke off is asked for again, and no other"
    assert TOKEN not in done.stdout + done.stderr
    assert hub.tokens == {f"Bearer {TOKEN}"}
    assert hub.tags["lab/goals"] == {"v3.0"}
    assert f"Uploaded to {hub.url}/datasets/lab/goals" in done.stderr
    sent = tmp_path / "hub/lab/goals"
    assert "goalreel" in (sent / "README.md").read_text()
    assert not any((sent / ".cache").glob("*")), "nothing of this machine alone"
    for more in (
        ("show", "lab/goals", "--episodes", "0"),
        ("export", "lab/goals", "--out", "steps.csv"),
        ("build", "goals", "--source", NAME),
        ("-c", IN_PYTHON),
    ):
        done = run(*more)
        assert done.returncode == 0, done.stderr
    assert "<title>goals" in (tmp_path / "work/goals-report/index.html").read_text()
    assert done.stdout == "1 3 3 [0, 1, 2]\n"
    assert "nobody" in line(run(*words[:2], "--out", "more", *words[4:], "--examples", "lab/goals"))
    assert "nobody has accepted or rejected" in line(run("eval", "review", "lab/goals"))


def test_annotate_needs_the_files_of_its_episodes_alone(hub, run, tmp_path):
    sizes = {"data_files_size_in_mb": 0.001, "video_files_size_in_mb": 0.005}
    source = make_dataset(tmp_path / "hub/lab/parts", cameras=["front"], **sizes)
    assert len([*source.rglob("*.mp4")]) == len([*source.rglob("data/**/*.parquet")]) == 3
    words = ("annotate", "lab/parts", "--out", "goals", "--layout", "gripper=3,closed=low")
    done = run(*words, "--episodes", "1", "--json")
    assert done.returncode == 0, done.stderr
    large = sorted(file for file in hub.sent if not file.startswith("meta/"))
    video = "videos/observation.images.front/chunk-000/file-001.mp4"
    assert large == ["data/chunk-000/file-001.parquet", video]
    assert json.loads(done.stdout)["annotated"] == 1, done.stdout
    (gone := source / "data/chunk-000/file-002.parquet").unlink()
    said = line(run(words[0], source, *words[2:], "--episodes", "1", "--push-to-hub", "lab/part"))
    assert said == f"--push-to-hub uploads a whole dataset, and {gone} is missing"


def test_review_has_a_folder_of_its_own(hub, run, tmp_path):
    for _ in range(2):  # it cannot listen there, and ends
        assert run("review", NAME, "--host", "192.0.2.1", GOALREEL_TOKEN="x" * 32).returncode == 1
    assert (tmp_path / "work/pick/meta/info.json").is_file()
    assert len(hub.sent) == len(set(hub.sent)), "what is there may be corrected, and stays"
    assert not (tmp_path / "work/pick.part").exists()


def test_what_is_not_to_be_read_is_one_line(hub, run, tmp_path):
    shutil.copytree(tmp_path / "hub" / NAME, tmp_path / "hub/lab/secret")
    hub.private.add("lab/secret")
    for name in ("lab/absent", "lab/secret"):
        said = line(run("annotate", name, "--out", "o"))
        text = "no such folder, and nothing on the Hugging Face Hub that you may read"
        assert said == f"{name}: {text} (if private: hf auth login)"
        assert json.loads(run("check", name, "--json").stdout)["issues"][0]["text"] == said
    hub.gated.add(NAME)
    consent = "its owner asks for consent: accept the terms on its page"
    assert consent in line(run("annotate", NAME, "--out", "o"))
    hub.gated.clear()
    assert "the Hugging Face Hub says: " in line(run("show", f"hf://datasets/{NAME}@v9"))
    assert "is not reached" in line(run("show", NAME, HF_ENDPOINT="http://127.0.0.1:9"))
    (tmp_path / "work/lab").mkdir()  # so it is a folder's name, mistyped
    assert "lab/pick: no such folder" in " ".join(run("check", NAME).stdout.split())


def test_large_files_are_stored_elsewhere(hub, run, tmp_path):
    """As all videos on the Hub are: behind a redirect that lives for an hour, or in pieces, Xet."""
    words = ("annotate", NAME, "--layout", "gripper=3,closed=low", "--out")
    hub.stored = "lfs"
    hub.storage = 403
    assert line(run(*words, "a")).startswith(f"{NAME}: the Hugging Face Hub says: 403 Forbidden")
    hub.storage = 200
    done = run(*words, "a")
    assert done.returncode == 0, done.stderr
    hub.stored = "xet"
    shutil.rmtree(tmp_path / "home")
    assert "Xet, fails: set HF_HUB_DISABLE_XET=1 (" in line(run(*words, "b", HF_HUB_DISABLE_XET="0"))
    done = run(*words, "b")
    assert done.returncode == 0, done.stderr


NO_DNS = """
import socket, threading
socket.getaddrinfo = lambda *args, **more: threading.Event().wait(60)
del sys.argv[1:3]
goalreel.cli.main.app()
"""


def test_a_hub_that_gives_no_answer(hub, run):
    words = ("check", NAME, "--layout", "gripper=3,closed=low")
    hub.silent = True
    soon = {"HF_HUB_ETAG_TIMEOUT": "1"}
    assert "not in the cache of the Hugging Face Hub, which is not reached" in line(run("show", NAME, **soon))
    assert "is not reached" in line(run("-c", NO_DNS, "show", NAME, **soon))
    hub.silent = False
    assert run(*words).returncode == 0
    hub.silent = True
    done = run(*words, **soon)
    assert done.returncode == 0, done.stderr
    assert "the copy in the cache is used" in " ".join(done.stderr.split())


def in_v21(dataset: Path, out: Path) -> None:
    """Write a dataset as LeRobot v2.1 has it: a parquet, and of each camera an mp4, an episode."""
    source, lines = Source.open(dataset), {"tasks": [], "episodes": [], "episodes_stats": []}
    cameras = source.cameras
    for row in pq.read_table(dataset / "meta/episodes").to_pylist():
        e, stats = row["episode_index"], {}
        path = out / f"data/chunk-000/episode_{e:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pq.read_table(source.data_path(e))
        pq.write_table(table.filter(pc.field("episode_index") == e), path)
        for camera in cameras:
            cut_video(source.episode(e), camera, out / f"videos/chunk-000/{camera}/episode_{e:06d}.mp4")
        for name, value in row.items():
            if name.startswith("stats/"):
                stats.setdefault(name.split("/")[1], {})[name.rpartition("/")[2]] = value
        lines["episodes"].append({"episode_index": e, "tasks": row["tasks"], "length": row["length"]})
        lines["episodes_stats"].append({"episode_index": e, "stats": stats})
    lines["tasks"] = [{"task_index": index, "task": text} for index, text in source.tasks.items()]
    (out / "meta").mkdir()
    for name, content in lines.items():
        (out / f"meta/{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in content))
    info = source.info | {
        "codebase_version": "v2.1",
        "total_chunks": 1,
        "total_videos": 3 * len(cameras),
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    }
    (out / "meta/info.json").write_text(json.dumps(info))


@pytest.mark.lab
def test_a_dataset_of_v21_is_converted_once(hub, run, video_dataset, tmp_path):
    pytest.importorskip("lerobot")
    in_v21(video_dataset, tmp_path / "hub/lab/old")
    hub.tags["lab/old"] = {"v2.1"}
    for _ in range(2):
        done = run("check", "lab/old", "--layout", "gripper=3,closed=low", "--json")
        assert json.loads(done.stdout)["episodes"] == 3, done.stderr
    assert (tmp_path / "home/goalreel" / f"lab--old-{commit('lab/old')[:12]}" / "videos").is_dir()
    assert sum(file.endswith(".mp4") for file in hub.sent) == 6, "three episodes of two cameras, once"
