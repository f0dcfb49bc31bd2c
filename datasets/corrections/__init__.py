"""Corrections of people in an annotated dataset: an append-only log an episode, and what is made of it."""

from pathlib import Path

from goalreel.files import check_file, find


def corrections_path(folder: Path, episode: int) -> Path:
    """Path of an episode's log below OUT/meta/goalreel."""
    return folder / "corrections" / f"chunk-{episode // 1000:03d}" / f"episode_{episode:06d}.jsonl"


def has_corrections(path: Path) -> bool:
    """Tell whether a log is there with a whole line."""
    try:
        with check_file(path).open("rb") as file:
            return file.readline().endswith(b"\n")
    except FileNotFoundError:
        return False


def logged_episodes(folder: Path) -> list[int]:
    """The episodes that have a log below OUT/meta/goalreel, in order."""
    names = (path.stem.removeprefix("episode_") for path in find(folder / "corrections", "chunk-*/*.jsonl"))
    return sorted(int(name) for name in names if name.isdecimal())
