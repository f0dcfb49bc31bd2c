"""A run in shards: disjoint records, one lock a shard, and in the end the bytes of one run."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.cli import fails, goalreel, invoke
from support.steady import contents

from goalreel.annotator.annotate import open_dataset
from goalreel.datasets.records import FOLDER, Records, Shard
from goalreel.errors import InputError


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
