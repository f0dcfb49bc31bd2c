"""What Rerun's own reader finds in a .rrd: it is imported where it is needed, for it takes a second."""

import importlib
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any


def reader_of(path: Path) -> Any:
    return importlib.import_module("rerun.experimental").RrdReader(path)


def name_of(path: Path) -> str:
    """What the viewer lists the one recording as."""
    [(_, name)] = values(path, "__properties", "RecordingInfo:name")
    return name


def values(path: Path, entity: str, component: str, timeline: str = "") -> list[tuple[Any, Any]]:
    """(time, value) of a component in order of time; None as the time of what is static."""
    reader, found = reader_of(path), []
    [recording] = reader.recordings()
    for chunk in reader.stream(store=recording):
        batch = chunk.to_record_batch()
        if chunk.entity_path == f"/{entity}" and component in batch.column_names:
            times = [None] * len(batch)
            if timeline in batch.column_names:
                times = batch[timeline].cast("int64").to_pylist()
            found += zip(times, (v[0] if v else None for v in batch[component].to_pylist()), strict=True)
    return sorted(found, key=lambda pair: pair[0] or 0)


def entities(path: Path) -> dict[str, set[str]]:
    """Entity -> its components."""
    reader, found = reader_of(path), defaultdict(set)
    [recording] = reader.recordings()
    for chunk in reader.stream(store=recording):
        found[chunk.entity_path.removeprefix("/")] |= set(chunk.to_record_batch().column_names)
    return found


def verify(*paths: Path) -> None:
    """Every message of the files decodes, and each has a blueprint."""
    command = [sys.executable, "-m", "rerun_cli", "rrd", "verify", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(len(reader_of(path).blueprints()) == 1 for path in paths)
