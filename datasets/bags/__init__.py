"""Turn ROS 2 bags, which are recordings of topics, into LeRobot datasets. Needs rosbags, and no ROS."""

from pathlib import Path

from goalreel.errors import DatasetError
from goalreel.files import find

SUFFIXES = (".mcap", ".db3")


def find_bags(path: Path) -> list[Path]:
    """Find the bag at `path`, or the bags in that folder by name; empty where there is none."""
    if path.is_file():
        return [path] if path.suffix in SUFFIXES else []
    if (path / "metadata.yaml").is_file():
        return [path]
    if not path.is_dir():
        return []
    return [p for p in find(path) if p.suffix in SUFFIXES or (p.is_dir() and (p / "metadata.yaml").is_file())]


def require_bags(path: Path) -> list[Path]:
    """Find bags as `find_bags` does.

    Raises:
        DatasetError: there is none.
    """
    bags = find_bags(path)
    if not bags:
        raise DatasetError(f"{path}: no bag there: give a folder with metadata.yaml, .mcap or .db3")
    return bags
