"""Models at work on one storyboard: the plan, and the pictures of the steps that are still to be drawn.

What people change meanwhile is looked at before each step. A step whose words, prompt or source have changed
while it is drawn is drawn anew. After a kill, answers that are in the log are not asked for again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from goalreel.errors import UserError, first_line
from goalreel.progress import OnText
from goalreel.serving.loading import is_loaded
from goalreel.serving.service import ServedModels, Service
from goalreel.studio.board import ModelWait, StudioBoard
from goalreel.studio.events import (
    BoardStatus,
    PlanFailed,
    PlanMade,
    WorkBegun,
    WorkEnded,
)
from goalreel.studio.record import recorded_step, storyboard_of
from goalreel.studio.step_drawing import StepDrawing
from goalreel.types import (
    ROLE_OF_STAGE,
    Answer,
    Failure,
    Plan,
    Request,
    Role,
    stage_of,
)


class BoardWork:
    """One run of the models on a storyboard. Used from the event loop only."""

    def __init__(
        self,
        board: StudioBoard,
        service: Service,
        threads: ThreadPoolExecutor,
        until_free: Callable[[], Awaitable[None]],
    ) -> None:
        """Take a storyboard and the models; `until_free` waits until there is memory for them."""
        self.service = service
        self._board, self._until_free = board, until_free
        self._loop = asyncio.get_running_loop()
        self._threads = threads
        self._current: tuple[object, asyncio.Task[None]] | None = None
        self._ending: BoardStatus = "interrupted"

    async def run(self, *, reopen: bool = False) -> None:
        """Plan if need be, and draw what is open; the log says how it ended."""
        board = self._board
        status: BoardStatus = "failed"
        trouble = "a fault in goalreel: the server's log says more"
        try:
            board.append(WorkBegun(models=dict(self._new_models().makers), reopen=reopen))
            await self._until_free()
            while (key := self._next()) is not None:
                await self._do(key)
            record = storyboard_of(board.state)
            status = "done" if record is not None and not record.degraded else "failed"
            trouble = ""
        except asyncio.CancelledError:
            status, trouble = self._ending, ""
            raise
        except (UserError, OSError) as e:
            trouble = first_line(e)
            raise
        finally:
            board.append(WorkEnded(status=status, trouble=trouble))

    def end_as(self, status: BoardStatus) -> None:
        """Say how the storyboard has ended if the run is cancelled."""
        self._ending = status

    def check(self) -> None:
        """Leave what is under way, if nobody wants it any more after a change."""
        if self._current is not None and self._current[0] != self._next():
            self._current[1].cancel()

    def _next(self) -> object | None:
        """What is to be done next, and all that it depends on; None: nothing."""
        state = self._board.state
        if state.needs_plan:
            return ("plan", state.plan_round)
        place = state.next_open()
        if place is None or (place and self._stops(place)):
            return None
        step = state.steps[place]
        words = (step.step.name, step.step.instruction, step.step.prompt)
        return ("step", place, step.id, step.round, step.todo, words, state.source(place))

    def _stops(self, place: int) -> bool:
        """Whether nothing is drawn after a step without an accepted picture."""
        state = self._board.state
        return state.on_unverified == "stop" and not recorded_step(state, place - 1).usable

    async def _do(self, key: object) -> None:
        """Do one thing; a change that makes it useless ends it."""
        state = self._board.state
        place = state.next_open()
        models = self._new_models()
        work = self._plan(models) if state.needs_plan or place is None else self._draw(place, models)
        task = asyncio.ensure_future(work)
        self._current = (key, task)
        try:
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()
        finally:
            self._current = None
            task.cancel()
            models.cancel()
            self._board.wait_for(None)

    async def _plan(self, models: ServedModels) -> None:
        board, plan_round = self._board, self._board.state.plan_round
        task = await asyncio.to_thread(board.task)
        with self._waiting("planner", None, None):
            answer = await models.ask(task)
        if isinstance(answer, Plan):
            board.append(PlanMade(round=plan_round, steps=answer.steps))
        elif isinstance(answer, Failure):
            board.append(PlanFailed(round=plan_round, failure=answer))

    async def _draw(self, place: int, models: ServedModels) -> None:
        step = self._board.state.steps[place].id

        async def ask(request: Request, number: int) -> Answer:
            with self._waiting(ROLE_OF_STAGE[stage_of(request)], step, number):
                return await models.ask(request)

        await StepDrawing(self._board, place, models.loop, ask).run()

    @contextmanager
    def _waiting(self, role: Role, step: str | None, attempt: int | None) -> Iterator[None]:
        models, model = self.service.models, self.service.batchers[role]
        model_of_role = {"planner": models.planner, "editor": models.editor, "critic": models.critic}[role]
        self._board.wait_for(
            ModelWait(
                role,
                step,
                attempt,
                model,
                lambda: is_loaded(model_of_role),
                time.monotonic(),
                ahead=model.waiting,
            )
        )
        try:
            yield
        finally:
            self._board.wait_for(None)

    def _new_models(self) -> ServedModels:
        return ServedModels(self.service, self._threads, self._board.id, self._begin_reply)

    def _begin_reply(self) -> OnText:
        is_first = True

        def tell(piece: str) -> None:
            nonlocal is_first
            write = partial(self._board.write, piece, first=is_first)
            is_first = False
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(write)

        return tell
