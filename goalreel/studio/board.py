"""One storyboard of a server: its log, its present state, and everybody who watches it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.serving.queues import Batcher
from goalreel.serving.storyboards import HEARTBEAT_SECONDS
from goalreel.studio.events import BoardEvent, BoardNews, BoardStatus, PersonsChange
from goalreel.studio.log import BoardFolder
from goalreel.studio.news import news
from goalreel.studio.replay import BoardReplay
from goalreel.studio.state import StudioState
from goalreel.terms import Role
from goalreel.types import DoneStep, Task

LOOK_SECONDS = 0.5
"""Between two looks of a stream whether the server ends."""
MAX_UNREAD = 2000
"""Events that may wait for a slow watcher, whose stream then ends; it comes back by `Last-Event-ID`."""


@dataclass(frozen=True)
class ModelWait:
    """What a storyboard waits for."""

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
        """As a client gets it."""
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
        board_id: str,
        folder: BoardFolder,
        replay: BoardReplay,
        on_event: "Callable[[StudioBoard], None]" = lambda board: None,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take what is read; `on_event` hears of every event, and `is_ending` says that streams must end."""
        self.id, self.folder, self.replay = board_id, folder, replay
        self._on_event, self._is_ending = on_event, is_ending
        self.waiting: ModelWait | None = None
        self.trouble = ""
        """Why its work ended without a line in the log, as with a full disk; empty if it did not."""
        self.forgotten = False
        """Whether its folder is removed, so that nothing can be written any more."""
        self.writing = ""
        """The reply of the Planner as far as it is written; empty while it writes none."""
        self._watchers: set[asyncio.Queue[bytes | None]] = set()

    @property
    def state(self) -> StudioState:
        """How it stands."""
        return self.replay.state

    @property
    def status(self) -> BoardStatus:
        """How it stands; work whose end could not be written down is interrupted."""
        return "interrupted" if self.trouble else self.state.status

    @property
    def said_trouble(self) -> str:
        """What ended the last work besides the models, in one line; empty: nothing did."""
        return self.trouble or self.state.trouble

    @property
    def is_watched(self) -> bool:
        """Whether somebody follows its events."""
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
        self.replay.add(event, lambda: self.folder.append(event))
        self.trouble = ""
        self._on_event(self)
        self._send(_message(event.number, *news(self.id, event, self.state)))
        return event

    def changed_since(self, number: int) -> list[BoardEvent]:
        """The changes of people after event `number`.

        Raises:
            InputError: there is no such event yet.
        """
        if number > self.state.number:
            raise InputError(f"event {number} is not there: the last one is {self.state.number}")
        return [e for e in self.replay.events[number:] if isinstance(e.what, PersonsChange)]

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
        """Server-sent events after event `number`; without `stay` until no model is at work any more."""
        watcher: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._watchers.add(watcher)
        try:
            for event in self.replay.events[number:]:
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
        """The task with its pictures, which are read from the disk."""
        task, load = self.state.task, self.folder.load

        def picture(image: Image | None) -> Image | None:
            return None if image is None else load(image.frame or "")

        done = tuple(DoneStep(instruction=d.instruction, image=picture(d.image)) for d in task.done)
        images = tuple(load(image.frame or "") for image in task.images)
        return task.model_copy(update={"image": picture(task.image), "images": images, "done": done})

    def _send(self, message: bytes) -> None:
        for watcher in self._watchers:
            if watcher.qsize() < MAX_UNREAD:
                watcher.put_nowait(message)
            elif watcher.qsize() == MAX_UNREAD:
                watcher.put_nowait(None)


def _message(number: int | None, event: str, data: Mapping[str, object] | None) -> bytes:
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode()
