"""Kills and full disks: the work is resumed and ends with the same bytes."""

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import bags
from support.cli import fails
from support.killing import tree
from support.recordings import storyboard

from goalreel.annotator.show import show
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import build
from goalreel.errors import DatasetError

pytestmark = pytest.mark.process


def killed(source: Path, folder: Path, kills: int) -> dict:
    command = [sys.executable, "-m", "support.killing", "write", source, folder, str(kills), "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def check(report: dict, kills: int) -> None:
    assert (report["wrong"], report["half"]) == ([], 0)
    assert report["before_done"] >= kills // 2, report  # else the kills came too late to prove anything
    assert len(set(report["stages"])) >= min(kills // 4, 8), report


def test_four_kills(sharded_dataset, tmp_path):
    check(killed(sharded_dataset, tmp_path, 4), 4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sharded_dataset", "image_dataset"])  # both together may exceed the timeout
def test_a_hundred_kills(kind, tmp_path, request):
    check(killed(request.getfixturevalue(kind), tmp_path, 100), 100)


SIZE, PAGE = 2**22, 4096


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Path]:
    """A file system of SIZE bytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs takes root")
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


def fill(disk: Path, pages: int) -> None:
    """Fill a disk with one file until so many pages are left."""
    with (disk / "filler").open("wb", buffering=0) as file:
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            while True:
                file.write(bytes(PAGE))
        file.truncate(file.tell() - pages * PAGE)


def annotate(source: Path, out: Path, fill_at: Callable[[str | int], None]) -> int:
    """Annotate a dataset, and call `fill_at` before each stage; returns the number of steps of the build.

    The stages are `records`, `copies`, and the number of each step of the build.
    """
    dataset, total = Source.open(source), 0

    def progress(done: int, steps: int) -> None:
        nonlocal total
        total = steps
        if done < steps:
            fill_at(done)

    fill_at("records")
    with Records.open(out, {"test": 1}, dataset.fingerprint()) as records:
        for episode in dataset.indices:
            length = len(dataset.episode(episode))
            records.commit(episode, storyboard(length, camera=dataset.camera(None), drawn=(episode % 3,)))
        fill_at("copies")
        build(dataset, out, records, form="plain", progress=progress)
    return total


def test_a_full_disk_is_one_clear_line_and_is_resumed(sharded_dataset, small_disk, tmp_path):
    """The disk is filled before each stage in turn, and emptied before the run goes on from there."""
    steps = annotate(sharded_dataset, tmp_path / "want", lambda stage: None)
    out, places = small_disk / "out", set()
    for full in ("records", "copies", *range(1, steps)):
        for pages in (0, 1):  # in the second attempt, small files still fit
            place = attempt(sharded_dataset, out, full, pages)
            assert place is not None or pages
            places.add(place)
            assert not (out / "meta/info.json").exists() or place in (
                None,
                out / FOLDER / "files/meta/info.json.json",
            )
            assert not list(small_disk.rglob(".goalreel-tmp-*"))
            (small_disk / "filler").unlink()
    annotate(sharded_dataset, out, lambda stage: None)
    assert tree(out) == tree(tmp_path / "want")
    stages = {place.relative_to(out).parts[:2] for place in places if place}
    assert {("meta", "goalreel"), ("data", "chunk-000"), ("videos", "observation.images.subgoal")} <= stages
    assert {("meta", "episodes"), ("meta", "stats.json"), ("meta", "info.json")} <= stages
    fill(small_disk, 0)
    with pytest.raises(DatasetError, match=r"index\.html: the disk is full"):
        show(out, small_disk / "report")


def test_a_full_disk_names_the_dataset_of_a_bag(small_disk, tmp_path):
    bags.write_bag(tmp_path / "bag", [*bags.robot(12)])
    fill(small_disk, 0)
    words = ("--task", "t", "--state-topic", "/joint_states", "--out", small_disk / "out")
    assert "/out: the disk is full: free some space" in fails("bag2lerobot", tmp_path / "bag", *words)


def attempt(source: Path, out: Path, full: str | int, pages: int) -> Path | None:
    """Run with the disk filled before one stage; the file that does not fit, None where all do."""
    try:
        annotate(source, out, lambda stage: stage == full and fill(out.parent, pages))
    except DatasetError as e:
        message = str(e)
        assert "the disk is full" in message
        assert "\n" not in message
        assert not [t for t in threading.enumerate() if t.name.startswith("goalreel-prefetch")], "all ended"
        return Path(message.split(": ")[0])
    return None
