"""Checkpoints that come with goalreel: a folder each under `nano/`, with its model card."""

from pathlib import Path

NANO = Path(__file__).parent / "nano"


def names() -> list[str]:
    """`nano-planner`, `nano-editor`, `nano-critic`: what `located` knows."""
    return sorted(f"nano-{f.name}" for f in NANO.iterdir() if f.is_dir()) if NANO.is_dir() else []


def located(name: str) -> str:
    """The folder of a shipped checkpoint, by its name; any other name as it is.

    A folder of that name in the working directory comes first, as with every other name.
    """
    if name in names() and not Path(name).is_dir():
        return str(NANO / name.removeprefix("nano-"))
    return name
