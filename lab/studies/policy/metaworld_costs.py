"""Costs of each kind of piece, and of a whole study: processor seconds, kept beside the pieces."""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from goalreel.files import write_bytes

_FOLDER = "costs"


@dataclass
class PieceCost:
    """Size of a piece of a stage: episodes, steps, tries."""

    units: int = 0


@contextmanager
def note_cost(out: Path, stage: str, name: str) -> Iterator[PieceCost]:
    """Note the seconds that this process computes for a piece; the caller counts its units."""
    cost, started = PieceCost(), time.process_time()
    yield cost
    seconds = {"units": cost.units, "seconds": time.process_time() - started}
    write_bytes(out / _FOLDER / stage / f"{name}.json", json.dumps(seconds).encode())


def seconds_each(out: Path) -> dict[str, float]:
    """Average the seconds of a unit over the pieces that were made in `out`, by stage."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for path in (out / _FOLDER).glob("*/*.json"):
        piece = json.loads(path.read_text())
        sums[path.parent.name][0] += piece["seconds"]
        sums[path.parent.name][1] += piece["units"]
    return {stage: seconds / units for stage, (seconds, units) in sums.items() if units}


def hours_of(each: Mapping[str, float], units: Mapping[str, int]) -> dict[str, float]:
    """Compute the processor hours of a study with so many units of each stage."""
    return {stage: units[stage] * each[stage] / 3600 for stage in units if stage in each}
