"""Pictures of a benchmark: read from files, and scaled to the size that a judge is shown."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import overload

from goalreel.errors import InputError
from goalreel.image import Image


class Unread[T](Sequence[T]):
    """Items made anew each time they are asked for: the pictures of a benchmark fit into no memory."""

    def __init__(self, makers: Sequence[Callable[[], T]]) -> None:
        self._makers = makers

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        """Make one item, or several when these are asked for."""
        if isinstance(index, slice):
            return Unread(self._makers[index])
        return self._makers[index]()


def find_picture(name: object, folders: tuple[Path, ...]) -> Path | None:
    """Find the file that a row names, in the first of `folders` that has it; it cannot lead out of them."""
    if not isinstance(name, str) or not name:
        return None
    inside = PurePosixPath(name)
    if inside.is_absolute() or ".." in inside.parts:
        return None
    return next((folder / inside for folder in folders if (folder / inside).is_file()), None)


def read_picture(path: Path) -> Image:
    """Read a picture.

    Raises:
        InputError: it cannot be read; says which.
    """
    try:
        return Image.decode(path.read_bytes())
    except (OSError, ValueError) as e:
        raise InputError(f"{path}: {e}") from e


def fitted(image: Image, side: int) -> Image:
    """Shrink to at most `side` pixels in width and height, with the aspect kept; never enlarge."""
    longest = max(image.size)
    if longest <= side:
        return image
    width, height = (max(1, n * side // longest) for n in image.size)
    return image.resized((width, height))


def jpeg(image: Image) -> bytes:
    """Encode as JPEG, of quality 95."""
    import PIL.Image

    buffer = io.BytesIO()
    PIL.Image.fromarray(image.pixels).save(buffer, format="JPEG", quality=95)
    return buffer.getvalue()
