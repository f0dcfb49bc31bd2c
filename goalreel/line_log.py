"""Files of lines that only grow.

A line is on the disk, with its newline, before anybody hears that it is saved. What a killed write left of a
line is no line, and the next one takes its place.
"""

import os
from pathlib import Path

from goalreel.files import disk


def whole_lines(data: bytes) -> list[bytes]:
    """The lines of a file that end, each with its newline.

    >>> whole_lines(b"one\\ntw")
    [b'one\\n']
    """
    return [line for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


def append_lines(path: Path, data: bytes, size: int) -> None:
    """Write lines at once behind the `size` bytes of whole lines of a file, and onto the disk.

    The file and its folder are made if need be. A write that fails leaves the file as it was.

    Raises:
        DatasetError: the disk is full.
    """
    with disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(handle, size)
            try:
                _write(handle, data, size)
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)
        if new:
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _write(handle: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(handle, data, offset)
        data, offset = data[written:], offset + written
