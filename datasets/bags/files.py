"""Where ROS 2 bags lie, and how to tell one from another, without rosbags."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from goalreel.errors import DatasetError

SUFFIXES = (".mcap", ".db3")
_ENDS = 65536


def find_bags(path: Path) -> list[Path]:
    """Find the bag at `path`, or the bags in that folder by name; empty where there is none."""
    if path.is_file():
        return [path] if path.suffix in SUFFIXES else []
    if (path / "metadata.yaml").is_file():
        return [path]
    if not path.is_dir():
        return []
    return sorted(
        p for p in path.iterdir() if p.suffix in SUFFIXES or (p.is_dir() and (p / "metadata.yaml").is_file())
    )


def require_bags(path: Path) -> list[Path]:
    """Find bags as `find_bags` does.

    Raises:
        DatasetError: there is none.
    """
    bags = find_bags(path)
    if not bags:
        raise DatasetError(f"{path}: no bag there: give a folder with metadata.yaml, .mcap or .db3")
    return bags


def fingerprint(bags: Iterable[Path]) -> str:
    """SHA-256 over every file's name, size and ends: to tell bags apart without reading all of them."""
    sha = hashlib.sha256()
    for bag in bags:
        for path in sorted(bag.iterdir()) if bag.is_dir() else [bag]:
            if path.is_file():
                size = path.stat().st_size
                sha.update(f"{path.name} {size}\n".encode())
                with path.open("rb") as file:
                    sha.update(file.read(_ENDS))
                    file.seek(max(size - _ENDS, 0))
                    sha.update(file.read())
    return sha.hexdigest()
