"""One storyboard of a server: its folder, its present state, and everybody who watches it.

DIR/ID/log.jsonl              one event a line, numbered
DIR/ID/pictures/DIGEST.png    every picture, named after its bytes, never changed
"""

import asyncio
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from goalreel.boards.log import EventLog, ReadLog
from goalreel.boards.replay import Replay
from goalreel.errors import DatasetError, InputError
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.serving.queues import Batcher
from goalreel.serving.storyboards import HEARTBEAT_SECONDS
from goalreel.studio.events import BoardEvent, BoardNews, BoardStatus
from goalreel.studio.news import news
from goalreel.studio.replay import RULES
from goalreel.studio.state import StudioState
from goalreel.terms import Role
from goalreel.types import DoneStep, Task

LOOK_SECONDS = 0.5
"""Time between two looks of a stream whether the server ends."""
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
        return EventLog(self.path / "log.jsonl", BoardEvent, RULES)

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
        if _PICTURE.fullmatch(name) is None or not path.is_file():
            raise InputError("this storyboard has no such picture")
        return path

    def load(self, name: str) -> Image:
        """Read a picture.

        Raises:
            InputError: there is none of that name, or it is damaged.
        """
        return Image.decode(self.picture(name).read_bytes())

    def task(self, task: Task) -> Task:
        """Read the pictures of a task with stand-ins."""

        def read(image: Image | None) -> Image | None:
            return None if image is None else self.load(image.frame or "")

        done = tuple(DoneStep(instruction=d.instruction, image=read(d.image)) for d in task.done)
        images = tuple(self.load(image.frame or "") for image in task.images)
        return task.model_copy(update={"image": read(task.image), "images": images, "done": done})


@dataclass(frozen=True)
class ModelWait:
    """A question that a storyboard has put to a model."""

    role: Role
    step: str | None
    attempt: int | None
    model: Batcher
    is_loaded: Callable[[], bool]
    since: float
    """By `time.monotonic`."""
    ahead: int
    """Requests that waited for the model already."""

    def data(self) -> dict[str, object]:
        """Describe the wait to a client."""
        return {
            "role": self.role,
            "step": self.step,
            "attempt": self.attempt,
            "seconds": round(time.monotonic() - self.since, 1),
            "alive": self.model.alive,
            "loading": not self.is_loaded(),
            "queue": min(self.ahead, self.model.waiting),
        }


class StudioBoard:
    """A storyboard in memory. Used from the event loop only, but for `task`."""

    def __init__(
        self,
        folder: BoardFolder,
        on_event: "Callable[[StudioBoard], None]",
        is_ending: Callable[[], bool],
        submitted: BoardEvent | None = None,
    ) -> None:
        """Read a storyboard, or begin its log with `submitted`.

        Args:
            folder: where it lies.
            on_event: hears of every event.
            is_ending: says that streams must end.
            submitted: the first line of a new storyboard.

        Raises:
            DatasetError: the log is damaged or empty, or the disk is full.
        """
        self.id, self.folder = folder.path.name, folder
        self._log = folder.log.read() if submitted is None else self._begun(submitted)
        if not self.replay.lines:
            raise DatasetError(f"{folder.log.path}: holds no line")
        self._on_event, self._is_ending = on_event, is_ending
        self.waiting: ModelWait | None = None
        self.trouble = ""
        """The reason why its work ended without a line in the log, as with a full disk; empty: it did not."""
        self.forgotten = False
        """Its folder is removed, so that nothing can be written any more."""
        self.writing = ""
        """The reply of the Planner as far as it is written; empty while it writes none."""
        self._watchers: set[asyncio.Queue[bytes | None]] = set()

    def _begun(self, submitted: BoardEvent) -> ReadLog[BoardEvent, StudioState]:
        return self.folder.log.append(ReadLog(Replay(RULES)), [submitted])

    @property
    def replay(self) -> Replay[BoardEvent, StudioState]:
        """Its events, and what they come to."""
        return self._log.replay

    @property
    def state(self) -> StudioState:
        """Its present state."""
        return self.replay.state

    @property
    def status(self) -> BoardStatus:
        """Its status; work whose end could not be written down is interrupted."""
        return "interrupted" if self.trouble else self.state.status

    @property
    def said_trouble(self) -> str:
        """The cause of the last end of work besides the models, in one line; empty: there is none."""
        return self.trouble or self.state.trouble

    @property
    def is_watched(self) -> bool:
        """Somebody follows its events."""
        return bool(self._watchers)

    def append(self, what: BoardNews) -> BoardEvent:
        """Write an event onto the disk, and tell everybody.

        Raises:
            InputError: a change does not fit, or the storyboard was forgotten; nothing is written.
            DatasetError: the disk is full.
        """
        if self.forgotten:
            raise InputError("this storyboard was forgotten")
        event = BoardEvent(number=self.state.number + 1, at=datetime.now(UTC), what=what)
        self._log = self.folder.log.append(self._log, [event])
        self.trouble = ""
        self._on_event(self)
        self._send(_message(event.number, *news(self.id, event, self.state)))
        return event

    def tell(self, event: str, data: Mapping[str, object] | None) -> None:
        """Tell those who watch now; it is not stored."""
        self._send(_message(None, event, data))

    def write(self, piece: str, *, first: bool) -> None:
        """Take a piece of the Planner's reply; the `first` one begins a new reply."""
        self.writing = piece if first else self.writing + piece
        self.tell("text", {"role": "planner", "piece": piece, "first": first})

    def wait_for(self, waiting: ModelWait | None) -> None:
        """Note which model is asked; None: it has answered."""
        if waiting is None and self.waiting is None:
            return
        self.writing = ""
        self.waiting = waiting
        self.tell("waiting", None if waiting is None else waiting.data())

    def end_in_trouble(self, line: str) -> None:
        """Tell everybody that the work has ended, which could not be written down."""
        self.trouble, self.waiting = line, None
        self.tell("finished", {"status": self.status, "message": line})
        self._on_event(self)

    def close(self, *, forgotten: bool = False) -> None:
        """End all streams."""
        if forgotten:
            self.forgotten = True
            self.tell("forgotten", {})
        for watcher in self._watchers:
            watcher.put_nowait(None)

    async def follow(self, number: int, *, stay: bool) -> AsyncIterator[bytes]:
        """Stream server-sent events after event `number`; without `stay` until no model is at work."""
        watcher: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._watchers.add(watcher)
        try:
            for event in self.replay.lines[number:]:
                yield _message(event.number, *news(self.id, event, self.state))
            if self.waiting is not None:
                yield _message(None, "waiting", self.waiting.data())
            if self.writing:
                yield _message(None, "text", {"role": "planner", "piece": self.writing, "first": True})
            silent = 0.0
            while stay or self.status == "running" or not watcher.empty():
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        message = await watcher.get()
                except TimeoutError:
                    silent += LOOK_SECONDS
                    if self._is_ending():
                        return
                    if silent >= HEARTBEAT_SECONDS:
                        silent = 0.0
                        yield b": still here\n\n"
                    continue
                if message is None:
                    return
                yield message
        finally:
            self._watchers.discard(watcher)

    def task(self) -> Task:
        """Read the task with its pictures from the disk."""
        return self.folder.task(self.state.task)

    def _send(self, message: bytes) -> None:
        for watcher in self._watchers:
            if watcher.qsize() < MAX_UNREAD:
                watcher.put_nowait(message)
            elif watcher.qsize() == MAX_UNREAD:
                watcher.put_nowait(None)


def _message(number: int | None, event: str, data: Mapping[str, object] | None) -> bytes:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode()
