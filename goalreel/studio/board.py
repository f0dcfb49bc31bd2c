"""One storyboard of a server: its folder, its present state, and everybody who watches it.

DIR/ID/log.jsonl              one event a line, numbered
DIR/ID/pictures/DIGEST.png    every picture, named after its bytes, never changed
"""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from goalreel.boards.log import EventLog, Replay
from goalreel.critics.examiner import Examination
from goalreel.errors import DatasetError, InputError
from goalreel.files import is_linked, read_file, write_bytes
from goalreel.image import Image
from goalreel.serving.service import Service
from goalreel.studio.events import BoardEvent, BoardNews, BoardStatus
from goalreel.studio.state import StudioState, after, with_pictures
from goalreel.studio.views import news
from goalreel.types import Task

HEARTBEAT_SECONDS = 15
LOOK_SECONDS = 0.5
"""A stream looks this often whether it is to end."""
MAX_UNREAD = 2000
"""Events that may wait for a slow watcher, whose stream then ends; it comes back by `Last-Event-ID`."""
_PICTURE = re.compile(r"[0-9a-f]{64}\.png")


@dataclass(frozen=True)
class BoardFolder:
    """One storyboard on disk."""

    path: Path

    @property
    def log(self) -> EventLog[BoardEvent, StudioState]:
        """The log of its events."""
        return EventLog(self.path / "log.jsonl", BoardEvent, after)

    def store(self, image: Image) -> str:
        """Write a picture, and return its name.

        Raises:
            DatasetError: the disk is full.
        """
        data = image.png()
        name = f"{hashlib.sha256(data).hexdigest()}.png"
        write_bytes(self.path / "pictures" / name, data)
        return name

    def picture(self, name: str) -> Path:
        """Find the file of a picture.

        Raises:
            InputError: there is none of that name.
        """
        path = self.path / "pictures" / name
        if _PICTURE.fullmatch(name) is None or not path.is_file() or is_linked(path, self.path.parent):
            raise InputError("this storyboard has no such picture")
        return path

    def load(self, name: str) -> Image:
        """Read a picture.

        Raises:
            InputError: there is none of that name, or it is damaged.
        """
        return Image.decode(read_file(self.picture(name)))


class StudioBoard:
    """A storyboard in memory. Used from the event loop only, but for `task`."""

    def __init__(
        self,
        folder: BoardFolder,
        service: Service,
        on_event: "Callable[[StudioBoard], None]",
        submitted: BoardEvent | None = None,
    ) -> None:
        """Read a storyboard, or begin its log with `submitted`; streams end with the server of `service`.

        Raises:
            DatasetError: the log is damaged or empty, or the disk is full.
        """
        self.id, self.folder = folder.path.name, folder
        log = folder.log
        self._log = log.read() if submitted is None else log.append(log.empty, [submitted])
        if not self.replay.lines:
            raise DatasetError(f"{log.path}: holds no line")
        self._service, self._on_event = service, on_event
        self._waiting: Callable[[], dict[str, Any]] | None = None
        self.trouble = ""
        """The reason why its work ended without a line in the log, as with a full disk; empty: it did not."""
        self.forgotten = False
        """Its folder is removed, so that nothing can be written any more."""
        self._watchers: set[asyncio.Queue[bytes]] = set()

    @property
    def replay(self) -> Replay[BoardEvent, StudioState]:
        """Its events, and what they come to."""
        return self._log.replay

    @property
    def state(self) -> StudioState:
        """Its present state."""
        return self.replay.state

    @property
    def examination(self) -> Examination | None:
        """The examination of its critic so far; None before a model has worked on it."""
        critic = self.state.models.get("critic")
        return None if critic is None else self._service.examiner_of(critic).examination

    @property
    def status(self) -> BoardStatus:
        """Its status; work whose end could not be written down is interrupted."""
        return "interrupted" if self.trouble else self.state.status

    @property
    def waiting(self) -> dict[str, Any] | None:
        """The model that is asked now, for a client."""
        return None if self._waiting is None else self._waiting()

    def append(self, what: BoardNews) -> None:
        """Write an event onto the disk, and tell everybody.

        Raises:
            InputError: a change does not fit, or the storyboard was forgotten; nothing is written.
            DatasetError: the disk is full.
        """
        if self.forgotten:
            raise InputError("this storyboard was forgotten")
        event = BoardEvent(number=len(self.replay.lines) + 1, at=datetime.now(UTC), what=what)
        self._log = self.folder.log.append(self._log, [event])
        self.trouble = ""
        self._on_event(self)
        self._send(self._message(event))

    def tell(self, event: str, data: Mapping[str, object] | None) -> None:
        """Tell those who watch now; it is not stored."""
        self._send(_message(event, data))

    def wait_for(self, waiting: Callable[[], dict[str, Any]] | None) -> None:
        """Note that a model is asked, as `waiting` tells; None: it has answered."""
        if waiting is not self._waiting:
            self._waiting = waiting
            self.tell("waiting", self.waiting)

    def end_in_trouble(self, line: str) -> None:
        """Tell everybody that the work has ended, which could not be written down."""
        self.trouble, self._waiting = line, None
        self.tell("finished", {"status": self.status, "message": line})
        self._on_event(self)

    def close(self) -> None:
        """End all streams."""
        self._watchers.clear()

    async def follow(self, number: int, *, stay: bool) -> AsyncIterator[bytes]:
        """Stream server-sent events after event `number`; without `stay` until no model is at work."""
        watcher: asyncio.Queue[bytes] = asyncio.Queue(MAX_UNREAD)
        self._watchers.add(watcher)
        try:
            for event in self.replay.lines[number:]:
                yield self._message(event)
            if self._waiting is not None:
                yield _message("waiting", self.waiting)
            silent = 0.0
            while not watcher.empty() or (
                watcher in self._watchers
                and not self._service.draining
                and (stay or self.status == "running")
            ):
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        message = await watcher.get()
                except TimeoutError:
                    silent += LOOK_SECONDS
                    if silent < HEARTBEAT_SECONDS:
                        continue
                    message, silent = b": still here\n\n", 0.0
                yield message
        finally:
            self._watchers.discard(watcher)

    def task(self) -> Task:
        """Read the task with its pictures from the disk."""
        return with_pictures(self.state.task, lambda image: self.folder.load(image.frame or ""))

    def _message(self, event: BoardEvent) -> bytes:
        return b"id: %d\n%s" % (event.number, _message(*news(self.id, event, self.state)))

    def _send(self, message: bytes) -> None:
        for watcher in [*self._watchers]:
            if watcher.full():
                self._watchers.remove(watcher)
            else:
                watcher.put_nowait(message)


def _message(event: str, data: Mapping[str, object] | None) -> bytes:
    return f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()
