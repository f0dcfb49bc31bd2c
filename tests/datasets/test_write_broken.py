"""Kills and full disks: the work is resumed and ends with the same bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.places import SUPPORT

from goalreel.datasets.records import LOCAL
from goalreel.errors import DatasetError

pytestmark = pytest.mark.process

SCRIPT = SUPPORT / "kill_write.py"


def killed(source: Path, folder: Path, kills: int) -> dict:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), str(source), str(folder), str(kills), "7"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def check(report: dict, kills: int) -> None:
    assert report["wrong"] == []
    assert report["half_datasets"] == 0
    assert report["source_untouched"]
    assert report["before_done"] >= kills // 2, report  # else the kills came too late to prove anything
    assert len(set(report["stages"])) >= min(kills // 4, 8), report


def test_twenty_kills(sharded_dataset, tmp_path):
    check(killed(sharded_dataset, tmp_path, 20), 20)


@pytest.mark.slow
def test_a_hundred_kills(sharded_dataset, image_dataset, tmp_path):
    for name, source in (("sharded", sharded_dataset), ("image", image_dataset)):
        (tmp_path / name).mkdir()
        check(killed(source, tmp_path / name, 100), 100)


@pytest.fixture
def small_disk(tmp_path):
    """Mount a tmpfs: small_disk(bytes) -> folder."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs takes root")
    folder = tmp_path / "disk"
    folder.mkdir()

    def resize(size: int) -> Path:
        option = "remount," if os.path.ismount(folder) else ""
        command = ["mount", "-t", "tmpfs", "-o", f"{option}size={size}", "tmpfs", str(folder)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("no tmpfs can be mounted here")
        return folder

    yield resize
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_a_full_disk_is_one_clear_line_and_is_resumed(sharded_dataset, annotated, small_disk, tmp_path):
    """The disk grows page by page, so it fills up at every stage: records, copies, shards, videos, meta."""
    episodes = {e: {"drawn": (e % 3,)} for e in range(4)}
    want = tree(annotated(sharded_dataset, tmp_path / "want", episodes))
    where, messages, size = set(), [], 4096
    while True:
        disk = small_disk(size)
        try:
            annotated(sharded_dataset, disk / "out", episodes)
            break
        except DatasetError as e:
            messages.append(str(e))
            where.add(Path(messages[-1].split(": ")[0]).relative_to(disk / "out").parts[:2])
            marked_last = disk / "out" / LOCAL / "build/meta/info.json.json"
            assert not (disk / "out/meta/info.json").exists() or str(marked_last) in messages[-1]
            assert not list(disk.rglob(".goalreel-tmp-*"))
        size += 3 * 4096
        assert size < 2**22
    assert tree(disk / "out") == want
    assert all("the disk is full" in m and "\n" not in m for m in messages)
    assert {("data", "chunk-000"), ("videos", "observation.images.subgoal"), ("meta", "goalreel")} <= where
    assert any(parts[0] == "videos" for parts in where)
