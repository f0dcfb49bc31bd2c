"""Where corrections lie, and how they refer to pictures: all that a run needs which finds none."""

from pathlib import Path

import numpy as np

from goalreel.image import Image

FRAME = "frame:"
"""What a reference to a frame of the recording begins with: `frame:CAMERA#INDEX`."""


def corrections_path(folder: Path, episode: int) -> Path:
    """The log of an episode below OUT/meta/goalreel."""
    return folder / "corrections" / f"chunk-{episode // 1000:03d}" / f"episode_{episode:06d}.jsonl"


def log_episode(path: Path) -> int | None:
    """The episode that a log is of; None for a file that is no log."""
    number = path.stem.removeprefix("episode_")
    return int(number) if number.isdecimal() and path.suffix == ".jsonl" else None


def has_corrections(path: Path) -> bool:
    """Tell whether there is a log with a whole line."""
    try:
        with path.open("rb") as file:
            return file.readline().endswith(b"\n")
    except FileNotFoundError:
        return False


def stand_in(reference: str) -> Image:
    """A picture that only says which one it is."""
    return Image(np.zeros((1, 1, 3), np.uint8), frame=reference)


def reference_of(image: Image) -> str:
    """Which picture a stand-in stands for.

    Raises:
        ValueError: it stands for none.
    """
    if image.frame is None:
        raise ValueError("a picture that is not stored")
    return image.frame
