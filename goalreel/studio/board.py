"""One storyboard of a server: its folder, its present state, who watches it, and what they are told.

DIR/ID/log.jsonl              one event a line, numbered
DIR/ID/pictures/DIGEST.png    every picture, named after its bytes, never changed
"""

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from goalreel.annotator.report.cards import claim_lines, display_name
from goalreel.boards.log import EventLog, Replay
from goalreel.claims import NOBODY
from goalreel.critics.examination import Examination, word, worst_word
from goalreel.errors import DatasetError, InputError
from goalreel.files import is_linked, read_file, write_bytes
from goalreel.image import Image
from goalreel.planners.kinematic.naming import asked
from goalreel.serving.service import Service
from goalreel.studio import events
from goalreel.studio.events import BoardEvent, BoardNews, BoardStatus
from goalreel.studio.state import StudioState, after, recorded_step, storyboard_of, with_pictures
from goalreel.types import Failure, Role, StoryboardStep, Task, Verdict
from goalreel.wording import background_note, reader_text, status_counts

type Json = dict[str, Any]
type Url = Callable[[str | None], str | None]


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


# -- as the HTTP interface tells of it (docs/reference/http-api.md)


def picture_url(board: str) -> Url:
    """Make what gives the address of a storyboard's picture by its name."""
    return lambda name: None if name is None else f"/v1/storyboards/{board}/pictures/{name}"


def board_view(board: StudioBoard, by: str = "person") -> Json:
    """Describe the state of a storyboard, without the record; undo and redo are those of the person `by`."""
    state, task, url = board.state, board.state.task, picture_url(board.id)
    record, examination, waiting = storyboard_of(state), board.examination, board.waiting

    def picture(image: Image | None) -> str | None:
        return url(None if image is None else image.frame)

    return {
        "id": board.id,
        "status": board.status,
        "number": len(board.replay.lines),
        "created": state.created,
        "instruction": task.instruction,
        "image": picture(task.image),
        "images": [picture(image) for image in task.images],
        "done": [{"instruction": done.instruction, "image": picture(done.image)} for done in task.done],
        "seed": task.seed,
        "max_attempts": state.max_attempts,
        "on_rejected": state.on_rejected,
        "models": model_names(state.models),
        "waiting": waiting,
        "failure": _failure(state.failure),
        "degraded": board.trouble or state.trouble or ("" if record is None else record.degraded),
        "complete": record is not None and record.complete,
        "end_checked": NOBODY if record is None else record.end_checked,
        "end_doubt": "" if record is None else reader_text(record.end_doubt),
        "asked": asked(task.instruction, [step.step for step in state.steps], task.done)
        if state.steps
        else [],
        **board.replay.steps_back(by, events.describe),
        "history": board.replay.history(events.describe),
        "examination": None if examination is None else examination.summary(),
        "steps": [_step(state, place, url, waiting or {}, examination) for place in range(len(state.steps))],
        "storyboard": None,
    }


def summary_row(board: StudioBoard) -> Json:
    """Summarize a storyboard in a line of the history."""
    state, record, url = board.state, storyboard_of(board.state), picture_url(board.id)
    goals, examination = [state.image, *(step.goal for step in state.steps)], board.examination
    counts = Counter(word(step, examination) for step in (record.steps if record else ()))
    return {
        "id": board.id,
        "instruction": state.task.instruction,
        "status": board.status,
        "created": state.created,
        "steps": [step.step.name for step in state.steps],
        "pictures": [url(goal) for goal in goals if goal is not None],
        "words": status_counts(counts.elements()),
        "in_doubt": counts["in doubt"] > 0 or bool(record and record.end_doubt),
        "word": "skipped" if record is None else worst_word(record, examination),
        "complete": record is not None and record.complete,
        "degraded": board.trouble or state.trouble or ("" if record is None else record.degraded),
    }


def model_names(models: Mapping[Role, str]) -> dict[Role, str]:
    """Name models for a reader."""
    return {role: _name(name) or "" for role, name in models.items()}


def _step(state: StudioState, place: int, url: Url, waiting: Json, examination: Examination | None) -> Json:
    step, recorded = state.steps[place], recorded_step(state, place)
    activity = None
    if waiting.get("step") == step.id:
        activity = "drawing" if waiting["role"] == "editor" else "judging"
    return {
        "id": step.id,
        **step.step.model_dump(include={"name", "instruction", "prompt", "auxiliary_text"}),
        "status": recorded.status,
        "word": word(recorded, examination),
        "reasons": _reasons(recorded),
        "stale": state.stale_goal(place),
        "open": step.todo,
        "activity": activity,
        "claims": recorded.claims,
        "claim_lines": claim_lines(recorded.claims),
        "edited": sorted(step.edited),
        "chosen": step.chosen,
        "attempts": [_attempt(state, place, number, url) for number in range(len(step.attempts))],
    }


def _reasons(recorded: StoryboardStep) -> list[str]:
    """List why a step is not accepted, and why its words may be untrue."""
    lines = [reader_text(doubt) for _, claim in recorded.claims.items() for doubt in claim.doubts]
    if recorded.failure is not None:
        lines.append(f"{recorded.failure.stage}: {recorded.failure.line}")
    return list(dict.fromkeys(lines))


def _attempt(state: StudioState, place: int, number: int, url: Url) -> Json:
    drawn = state.steps[place].attempts[number]
    result, opinion = drawn.result, state.opinion(place, drawn)
    verdict, failure = (None, None) if result is None else (result.verdict, result.failure)
    outcome = "drawn" if result is None else result.outcome
    if opinion is not None:
        outcome = "person_accepted" if opinion else "person_refused"
    return {
        "number": number,
        "picture": url(drawn.picture),
        "prompt": drawn.prompt,
        "seed": drawn.seed,
        "by": _name(drawn.models.get("editor")),
        "critic": _name(drawn.models.get("critic")) if verdict or failure else None,
        "outcome": outcome,
        "stale": state.stale(place, drawn),
        # A nano Critic lists places by cell: for the record alone.
        "verdict": verdict and verdict.model_copy(update=_said(verdict)),
        "failure": _failure(failure),
        "background": background_note(None if result is None else result.registration) or None,
    }


def _said(verdict: Verdict, *names: str) -> Json:
    """Fields of a verdict, with its reasoning for a reader."""
    return {name: getattr(verdict, name) for name in names} | {"reasoning": reader_text(verdict.reasoning)}


def _failure(failure: Failure | None) -> Json | None:
    return None if failure is None else {"stage": failure.stage, "message": failure.message}


def _name(model: str | None) -> str | None:
    return display_name(model.removeprefix("model ")) if model else None


def news(board: str, event: events.BoardEvent, state: StudioState) -> tuple[str, Json]:
    """Name an event, and collect its data; places are those of the present `state`."""
    what, url = event.what, picture_url(board)
    match what:
        case events.Submitted():
            return "submitted", {"instruction": what.task.instruction}
        case events.WorkBegun():
            return "begun", {"models": dict(what.models)}
        case events.PlanMade():
            return "planned", {"steps": [step.name for step in what.steps]}
        case events.PlanFailed():
            return "failure", {"stage": "plan", "message": what.failure.message}
        case events.PersonsChange():
            edit = what.edit.model_dump(mode="json", exclude_none=True)
            return "changed", {"by": what.by, "words": events.describe(what.edit), "edit": edit}
        case events.WorkEnded():
            return "finished", {"status": what.status} | ({"message": what.trouble} if what.trouble else {})
        case events.EndJudged(answer=answer):
            if isinstance(answer, Failure):
                return "failure", {"step": None, "stage": "judge", "message": answer.message}
            return "end", {} if answer is None else _said(answer, "success", "probability")
    place = state.find(what.step)
    at: Json = {"step": place, "id": what.step}
    if isinstance(what, events.StepEnded):
        ended = {"status": None, "chosen": None}
        if place is not None:
            ended = {"status": recorded_step(state, place).status, "chosen": state.steps[place].chosen}
        return "step", at | ended
    at["attempt"] = None if place is None else state.steps[place].place(what.round, what.attempt)
    if isinstance(what, events.DrawnPicture):
        return "edited", at | {"prompt": what.prompt, "seed": what.seed, "picture": url(what.picture)}
    verdict, image = what.result.verdict, what.result.image
    if verdict is None:
        return "failure", at | (_failure(what.result.failure) or {})
    said = _said(verdict, "success", "probability", "pictures_only")
    return "judged", at | said | {"picture": url(None if image is None else image.frame)}
