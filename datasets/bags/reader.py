"""A ROS 2 bag on disk, MCAP or sqlite3, message by message; rosbags' many ways to fail become one.

Message definitions are the bag's own; without (sqlite3 before ROS 2 Iron) those of ROS 2 Kilted.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from rosbags.interfaces import Connection, MessageDefinitionFormat
from rosbags.rosbag2 import Reader, ReaderError
from rosbags.serde import SerdeError
from rosbags.typesys import Stores, TypesysError, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from goalreel.errors import DatasetError

SUFFIXES = (".mcap", ".db3")
_ENDS = 65536

_DAMAGE = (
    ReaderError,
    SerdeError,
    TypesysError,
    AssertionError,
    EOFError,
    LookupError,
    MemoryError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)


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


# rosbags checks little of what it reads: a damaged file ends in whatever the parser stumbles over. Its
# decompressors and SQLite raise classes of their own, direct children of Exception or RuntimeError.


@dataclass(frozen=True)
class Topic:
    """A topic as the bag describes it: name, message type and number of messages."""

    name: str
    type: str
    """Such as `sensor_msgs/msg/Image`."""
    count: int

    def __str__(self) -> str:
        return f"{self.name} ({self.type})"


class Bag:
    """An open bag. Made by `Bag.open`."""

    def __init__(self, path: Path, reader: Reader) -> None:
        self.path = path
        self._reader = reader
        self._stores: dict[str, Typestore] = {}
        self.topics: dict[str, Topic] = {}
        for c in reader.connections:
            count = c.msgcount + (self.topics[c.topic].count if c.topic in self.topics else 0)
            self.topics[c.topic] = Topic(c.topic, c.msgtype, count)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Self]:
        """Open a bag folder (with metadata.yaml) or a bare .mcap or .db3 file.

        Raises:
            DatasetError: missing, truncated, or no ROS 2 bag.
        """
        with ExitStack() as stack:
            with _one_line(path):
                reader = stack.enter_context(Reader(path))
            yield cls(path, reader)

    def messages(self, topics: Iterable[str]) -> Iterator[tuple[str, int, Any]]:
        """(topic, time it was recorded in ns, message) in the bag's order.

        Raises:
            DatasetError: the bag is damaged, or holds a type it does not define.
        """
        names = set(topics)
        connections = [c for c in self._reader.connections if c.topic in names]
        if not connections:
            return
        with _one_line(self.path):
            for connection, stamp, data in self._reader.messages(connections):
                yield (
                    connection.topic,
                    stamp,
                    self._store(connection).deserialize_cdr(data, connection.msgtype),
                )

    def _store(self, connection: Connection) -> Typestore:
        if connection.msgtype not in self._stores:
            self._stores[connection.msgtype] = _typestore(self.path, connection)
        return self._stores[connection.msgtype]


def _typestore(path: Path, connection: Connection) -> Typestore:
    if connection.msgdef.format is MessageDefinitionFormat.MSG:
        store = get_typestore(Stores.EMPTY)
        store.register(get_types_from_msg(connection.msgdef.data, connection.msgtype))
        return store
    store = get_typestore(Stores.ROS2_KILTED)
    if connection.msgtype not in store.fielddefs:
        raise DatasetError(
            f"{path}: {connection.topic} is of type {connection.msgtype}, which the bag does not define: "
            "record it to MCAP"
        )
    return store


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    import apsw
    from backports.zstd import ZstdError

    try:
        yield
    except FileNotFoundError as e:
        raise DatasetError(f"{path}: no bag there: give a folder with metadata.yaml, .mcap or .db3") from e
    except (*_DAMAGE, OSError, apsw.Error, ZstdError) as e:
        raise DatasetError(
            f"{path}: not readable as a ROS 2 bag ({_line(e)}): truncated? `mcap recover` or "
            "`ros2 bag reindex` saves what a killed recorder left"
        ) from e


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0] or type(error).__name__
