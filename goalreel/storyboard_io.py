"""A storyboard as a folder: `storyboard.json`, and `images/` with all its pictures."""

import re
from pathlib import Path

from pydantic import ValidationError

from goalreel.errors import InputError
from goalreel.files import find, read_file, write_bytes
from goalreel.image import Image
from goalreel.types import Storyboard

_PICTURE = re.compile(r"first\.png|(given|done)_\d+\.png|step_\d+_attempt_\d+\.png")


def save_storyboard(board: Storyboard, folder: Path | str) -> None:
    """Write a storyboard into a folder, in place of one that was there before.

    Raises:
        DatasetError: the disk is full.
    """
    folder, names = Path(folder), _names(board)
    for picture, name in names.items():  # first, so that `storyboard.json` names no missing picture
        write_bytes(folder / name, picture.png())
    text = board.model_dump_json(indent=1, context={"put_image": names.__getitem__})
    write_bytes(folder / "storyboard.json", text.encode())
    kept = set(names.values())
    for path in find(folder / "images", "*.png"):
        if _PICTURE.fullmatch(path.name) and f"images/{path.name}" not in kept:
            path.unlink()


def load_storyboard(folder: Path | str) -> Storyboard:
    """Read a storyboard from a folder that `save_storyboard` or `goalreel plan --out` wrote.

    Raises:
        InputError: the folder holds no storyboard, or a picture of it is missing or outside the folder.
    """
    folder = Path(folder)

    def get(name: str) -> Image:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()) or not path.is_file():
            raise ValueError(f"no picture {name!r} in {folder}")
        return Image.decode(read_file(path))

    try:
        data = read_file(folder / "storyboard.json")
        return Storyboard.model_validate_json(data, context={"get_image": get})
    except (FileNotFoundError, NotADirectoryError) as e:
        raise InputError(f"{folder}: holds no storyboard.json: goalreel plan --out writes one") from e
    except OSError as e:
        raise InputError(f"{folder / 'storyboard.json'}: cannot be read ({e.strerror})") from e
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{folder / 'storyboard.json'}: {where or 'file'}: {first['msg']}") from e


def _names(board: Storyboard) -> dict[Image, str]:
    """Name a file for each different picture, after its first place in the storyboard."""
    task = board.task
    places = [(task.image, "first")]
    places += [(image, f"given_{i:02d}") for i, image in enumerate(task.images, start=1)]
    places += [(done.image, f"done_{i:02d}") for i, done in enumerate(task.done, start=1)]
    for i, step in enumerate(board.steps, start=1):
        places += [(a.image, f"step_{i:02d}_attempt_{j}") for j, a in enumerate(step.attempts, start=1)]
    names: dict[Image, str] = {}
    for image, name in places:
        if image is not None:
            names.setdefault(image, f"images/{name}.png")
    return names
