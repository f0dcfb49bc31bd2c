"""A download of a part of an annotated dataset: each export has the episodes that are whole, and says so."""

import json
import logging
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from goalreel.annotator.exports.groot import export_groot
from goalreel.annotator.exports.sarm import export_sarm
from goalreel.annotator.exports.table import export_table
from goalreel.errors import DatasetError

FRONT = "observation.images.front"


@pytest.fixture(scope="module")
def part(sharded_dataset, annotated, tmp_path_factory) -> Path:
    """Of four episodes the last has no data, and the one before no picture of the front camera."""
    out = annotated(sharded_dataset, tmp_path_factory.mktemp("part") / "out", {e: {} for e in range(4)})
    for row, prefix, suffix in (
        (episodes(out)[3], "data", "parquet"),
        (episodes(out)[2], f"videos/{FRONT}", "mp4"),
    ):
        file(out, row, prefix, suffix).unlink()
    return out


def episodes(root: Path) -> list[dict]:
    files = sorted((root / "meta" / "episodes").glob("*/*.parquet"))
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def file(root: Path, row: dict, prefix: str, suffix: str) -> Path:
    place = f"chunk-{row[f'{prefix}/chunk_index']:03d}/file-{row[f'{prefix}/file_index']:03d}.{suffix}"
    return root / prefix / place


def whole(root: Path) -> list[int]:
    """The episodes of which every file is there."""

    kinds = (("data", "parquet"), (f"videos/{FRONT}", "mp4"))
    rows = episodes(root)
    return [row["episode_index"] for row in rows if all(file(root, row, *kind).is_file() for kind in kinds)]


def test_groot_has_the_whole_episodes(part, tmp_path, caplog):
    there = whole(part)
    assert 0 < len(there) < 4
    with caplog.at_level(logging.WARNING):
        exported = export_groot(part, tmp_path / "groot")
    lines = (tmp_path / "groot" / "meta" / "episodes.jsonl").read_text().splitlines()
    assert [json.loads(line)["episode_index"] for line in lines] == there
    assert json.loads((tmp_path / "groot" / "meta" / "info.json").read_text())["total_episodes"] == len(there)
    assert exported.episodes == exported.named == len(there)
    assert f"{len(there)} of 4 episodes are whole; {part}" in caplog.text
    assert "is missing: only the complete episodes are exported" in caplog.text


def test_sarm_is_a_copy_of_that_part(part, tmp_path, caplog):
    there = whole(part)
    with caplog.at_level(logging.WARNING):
        exported = export_sarm(part, tmp_path / "sarm")
    named = [row["episode_index"] for row in episodes(tmp_path / "sarm") if row["dense_subtask_names"]]
    assert named == there
    assert exported.episodes == len(there)
    assert f"{len(there)} of 4 episodes are whole" in caplog.text
    assert "have no stages" not in caplog.text


def test_the_table_needs_the_records_alone(part, tmp_path):
    export_table(part, tmp_path / "steps.parquet")
    assert set(pq.read_table(tmp_path / "steps.parquet")["episode"].to_pylist()) == {0, 1, 2, 3}


def test_a_dataset_without_a_whole_episode_is_refused(sharded_dataset, annotated, tmp_path):
    out = annotated(sharded_dataset, tmp_path / "out", {0: {}})
    for path in (out / "data").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(
        DatasetError, match=r"0 of 4 episodes are whole; .* is missing: copy the dataset again"
    ):
        export_groot(out, tmp_path / "groot")
    assert not (tmp_path / "groot").exists()
