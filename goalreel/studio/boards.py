"""All storyboards in a folder: listed, submitted, worked on and forgotten.

DIR/ID/        a storyboard (`goalreel.studio.board`)
DIR/.lock      held by the server that serves the folder
"""

import asyncio
import errno
import logging
import secrets
import shutil
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from weakref import WeakValueDictionary

from starlette.exceptions import HTTPException

from goalreel.critics.examination import FOLDER as EXAMINATION
from goalreel.critics.examiner import Examiner
from goalreel.critics.known_true import accepted_by_people
from goalreel.errors import DatasetError, UserError, first_line
from goalreel.files import TMP, file_lock, is_linked
from goalreel.image import stand_in
from goalreel.serving.service import Service
from goalreel.studio.board import BoardFolder, Json, StudioBoard, summary_row
from goalreel.studio.events import BoardEvent, BoardStatus, Submitted, WorkEnded
from goalreel.studio.state import storyboard_of, with_pictures
from goalreel.studio.work import BoardWork
from goalreel.types import ROLES, Candidate, Plan, Task

log = logging.getLogger(__name__)

RETRY_SECONDS = 10
RECENT = 64
"""Storyboards that stay in memory though nobody works on them or watches them."""


class StudioBoards:
    """The storyboards of one folder. Used from the event loop only.

    Raises:
        DatasetError: another server serves the folder.
    """

    def __init__(self, service: Service, folder: Path) -> None:
        self.folder, self.service = folder, service
        service.examiner_of = cache(
            partial(Examiner, folder=folder / EXAMINATION, known_true=self._accepted_by_people)
        )
        self._lock = ExitStack()
        busy = f"{folder}: another goalreel server serves this folder: end it, or name another folder"
        try:
            self._lock.enter_context(file_lock(folder / ".lock", busy))
        except OSError as e:
            if e.errno not in (errno.EROFS, errno.EACCES) or not folder.is_dir():
                raise
            log.warning("%s: you can look at it, but nothing can be saved: %s", folder, e.strerror)
        self._threads = ThreadPoolExecutor(service.settings.max_running, thread_name_prefix="goalreel-agent")
        self._found: dict[str, Json] = {}
        """By id, the line of each storyboard in the history."""
        self._alive: WeakValueDictionary[str, StudioBoard] = WeakValueDictionary()
        self._recent: deque[StudioBoard] = deque(maxlen=RECENT)
        self._work: dict[str, tuple[BoardWork, asyncio.Task[None]]] = {}
        self.damaged: list[str] = []
        """The fault of each storyboard that cannot be read, a line each."""
        for path in sorted(folder.iterdir()):
            self._open(path)

    @property
    def busy(self) -> bool:
        """Models are at work; what they did is stored, so nobody is owed anything else."""
        return bool(self._work)

    def check_free(self) -> None:
        """Check that the models may begin another storyboard.

        Raises:
            HTTPException: 404, a model is missing; 429, too much under way.
        """
        for role in ROLES:
            if role not in self.service.batchers:
                raise HTTPException(404, f"storyboards need all three models, and this server has no {role}")
        if len(self._work) >= self.service.settings.max_running:
            raise HTTPException(
                429,
                f"too many storyboards under way: try again in {RETRY_SECONDS} s",
                {"Retry-After": str(RETRY_SECONDS)},
            )

    def history(self, *, in_doubt: bool = False) -> list[Json]:
        """List the storyboards, the newest first: all, or those in doubt."""
        rows = (self._found[id] for id in sorted(self._found, reverse=True))
        return [row for row in rows if row["in_doubt"] or not in_doubt]

    def find(self, board_id: str) -> StudioBoard:
        """Find a storyboard.

        Raises:
            HTTPException: 404, there is none of that id.
            DatasetError: its log is damaged.
        """
        if board_id not in self._found:
            raise _unknown()
        # Who still holds one that is no longer among the recent must not be joined by a second of it.
        board = self._alive.get(board_id) or self._board(board_id)
        if board in self._recent:
            self._recent.remove(board)
        self._recent.append(board)
        return board

    async def submit(self, task: Task, submitted: Submitted) -> StudioBoard:
        """Make a storyboard of a task, whose pictures are in memory; `submitted` has all but the task.

        Raises:
            HTTPException: as `check_free`.
            DatasetError: the disk is full.
        """
        self.check_free()
        at = datetime.now(UTC)
        board_id = f"{at:%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"
        folder = BoardFolder(self.folder / board_id)
        stored = await asyncio.to_thread(with_pictures, task, lambda image: stand_in(folder.store(image)))
        event = BoardEvent(number=1, at=at, what=submitted.model_copy(update={"task": stored}))
        board = self._board(board_id, event)
        self._recent.append(board)
        self._note(board)
        self.begin(board)
        return board

    def begin(self, board: StudioBoard, *, reopen: bool = False) -> None:
        """Let models work on a storyboard, unless they do.

        Raises:
            HTTPException: as `check_free`; 404, it was forgotten.
        """
        if board.forgotten:
            raise _unknown()
        if board.id in self._work and not self._work[board.id][1].done():
            return
        self.check_free()
        work = BoardWork(board, self.service, self._threads)
        task = asyncio.create_task(work.run(reopen=reopen), name=f"storyboard-{board.id}")
        self._work[board.id] = (work, task)
        task.add_done_callback(partial(self._end, board))

    def look_again(self, board: StudioBoard) -> None:
        """Let the work on a storyboard look at what people have changed."""
        if board.id in self._work:
            self._work[board.id][0].check()

    async def stop(self, board_id: str, status: BoardStatus = "cancelled") -> None:
        """Stop the work on a storyboard, and keep what is there."""
        if board_id in self._work:
            work, task = self._work[board_id]
            work.ending = status
            task.cancel()
            await asyncio.wait({task})

    async def forget(self, board: StudioBoard) -> None:
        """Stop the work on a storyboard, and remove its folder.

        Raises:
            OSError: the folder cannot be removed.
        """
        while board.id in self._work:  # somebody may let it go on meanwhile
            await self.stop(board.id)
        if board.forgotten:
            return
        board.forgotten = True
        del self._found[board.id]
        if board in self._recent:
            self._recent.remove(board)
        board.tell("forgotten", {})
        board.close()
        gone = self.folder / f"{TMP}{board.id}"
        board.folder.path.rename(gone)
        await asyncio.to_thread(shutil.rmtree, gone, ignore_errors=True)

    async def close(self) -> None:
        """Interrupt all work, and let go of the folder."""
        await asyncio.gather(*(self.stop(board_id, "interrupted") for board_id in list(self._work)))
        for board in self._alive.values():
            board.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._lock.close()

    def _note(self, board: StudioBoard) -> None:
        self._found[board.id] = summary_row(board)

    def _end(self, board: StudioBoard, task: asyncio.Task[None]) -> None:
        if self._work[board.id][1] is task:
            del self._work[board.id]
        if not task.cancelled() and (error := task.exception()) is not None:
            is_user_error = isinstance(error, UserError)
            log.error("%s failed: %s", task.get_name(), error, exc_info=None if is_user_error else error)
            if board.state.status == "running":
                board.end_in_trouble(first_line(error))

    def _open(self, path: Path) -> None:
        """Take a folder into the history. What a kill ended is interrupted; a damaged log stays as it is."""
        if path.name.startswith(TMP):
            shutil.rmtree(path, ignore_errors=True)
        file = path / "log.jsonl"
        if not file.is_file() or is_linked(file, self.folder):
            return
        try:
            board = self._board(path.name)
            if board.state.status == "running":
                with suppress(OSError):  # of a folder that can only be read
                    board.append(WorkEnded(status="interrupted"))
        except (DatasetError, OSError) as e:
            log.warning("left out: %s", first_line(e))
            self.damaged.append(first_line(e))
            return
        self._note(board)

    def _board(self, board_id: str, submitted: BoardEvent | None = None) -> StudioBoard:
        board = StudioBoard(BoardFolder(self.folder / board_id), self.service, self._note, submitted)
        self._alive[board_id] = board
        return board

    def _accepted_by_people(self, candidate: Candidate, plan: Plan | None) -> Iterator[Candidate]:
        """Yield the goal images that people accepted on the storyboards in memory; called in a thread."""
        for board in list(self._recent):
            outline = storyboard_of(board.state)  # without its pictures, which take time to read
            if outline is None or not any(accepted_by_people(outline)):
                continue
            if (record := storyboard_of(board.state, board.folder.load)) is not None:
                yield from accepted_by_people(record)


def _unknown() -> HTTPException:
    return HTTPException(404, "no such storyboard: it was never here, or was forgotten")
