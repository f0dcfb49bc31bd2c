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
from typing import Any

from goalreel.boards.words import stand_in
from goalreel.drivers import advance
from goalreel.errors import UserError, first_line
from goalreel.image import Image
from goalreel.loop import LoopArguments, Trajectory, attempt, attempt_seed, choose_references, render_step
from goalreel.progress import OnText
from goalreel.serving.loading import is_loaded
from goalreel.serving.service import ServedModels, Service
from goalreel.studio.board import ModelWait, StudioBoard
from goalreel.studio.events import (
    AttemptEnded,
    BoardStatus,
    DrawnPicture,
    PlanFailed,
    PlanMade,
    StepEnded,
    WorkBegun,
    WorkEnded,
)
from goalreel.studio.record import recorded_step, storyboard_of
from goalreel.studio.state import DrawnAttempt
from goalreel.types import (
    ROLE_OF_STAGE,
    Answer,
    Attempt,
    Candidate,
    Edit,
    Failure,
    Plan,
    Request,
    Role,
    Task,
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
        """Find the next thing to do, and all that it depends on; None: nothing."""
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
        """Tell if nothing is drawn after the step before, as it has no accepted picture."""
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


class StepDrawing:
    """The loop on one step, with what is known of it already."""

    def __init__(
        self,
        board: StudioBoard,
        place: int,
        loop: LoopArguments,
        ask: Callable[[Request, int], Awaitable[Answer]],
    ) -> None:
        state = board.state
        self._board, self._place, self._arguments, self._ask_model = board, place, loop, ask
        self._step = state.steps[place]
        self._source = state.source(place)
        self._ended: list[tuple[int, Attempt]] = []
        self._number = 0
        self._raw: str | None = None

    async def run(self) -> None:
        step, state = self._step, self._board.state
        if step.todo == "variants":
            of_round = [a for a in step.attempts if a.round == step.round]
            number = sum(a.result is not None for a in of_round)
            trajectory = await self._variant(number)
            result = await advance(trajectory, self._ask)
            self._ended.append((number, result))
            await self._flush()
            return
        task, source, references = await self._pictures()
        rendered = await advance(
            render_step(
                task,
                self._place,
                step.step,
                None,
                source,
                state.max_attempts,
                self._arguments.get("keep", "best"),
                references=references,
                background=self._arguments.get("background", "correct"),
                editors=self._arguments.get("editors", ()),
                on_attempt=self._end_attempt,
            ),
            self._ask,
        )
        await self._flush()
        self._board.append(StepEnded(step=step.id, round=step.round, attempt=rendered.chosen))

    async def _variant(self, number: int) -> Trajectory[Attempt]:
        task, source, references = await self._pictures()
        editors = self._arguments.get("editors", ())
        prompt = self._step.step.prompt or self._step.step.instruction
        return attempt(
            task,
            self._place,
            self._step.step,
            None,
            source,
            prompt,
            number,
            references=references,
            background=self._arguments.get("background", "correct"),
            by=editors[0] if editors else None,
        )

    async def _pictures(self) -> tuple[Task, Image | None, tuple[Image, ...]]:
        """The task with the seed of this round, the step's source, and the editor's references."""
        board, step = self._board, self._step
        state = board.state
        task = await asyncio.to_thread(board.task)
        if step.round != step.rounds[0]:
            task = task.model_copy(update={"seed": attempt_seed(task.seed, step.round, 0)})
        goals = [s.goal for s in state.steps[: self._place] if s.goal is not None]

        def load() -> tuple[Image | None, list[Image]]:
            source = None if self._source is None else board.folder.load(self._source)
            earlier = [*task.images, *([task.image] if task.image else []), *map(board.folder.load, goals)]
            return source, earlier

        if self._arguments.get("references", "none") == "none":
            goals = []
        source, earlier = await asyncio.to_thread(load)
        return task, source, choose_references(self._arguments.get("references", "none"), earlier, source)

    def _end_attempt(self, result: Attempt) -> None:
        # Perhaps in another thread: it is told when the loop goes on.
        self._ended.append((self._number, result))

    async def _flush(self) -> None:
        """Write down the attempts that have ended."""
        board = self._board
        ended, self._ended = self._ended, []
        for number, result in ended:
            attempt = self._earlier_attempt(number)
            if attempt is not None and attempt.result is not None:
                continue
            if result.image is not None:
                name = await asyncio.to_thread(board.folder.store, result.image)
                result = result.model_copy(update={"image": stand_in(name)})
            board.append(AttemptEnded(**self._about(number), result=result))

    async def _ask(self, request: Request) -> Answer:
        await self._flush()
        if isinstance(request, Edit):
            return await self._edit(request)
        assert isinstance(request, Candidate)
        attempt = self._earlier_attempt(self._number)
        if attempt is not None and attempt.result is not None and attempt.raw is not None:
            answer = attempt.result.verdict or attempt.result.failure
            if answer is not None:
                return answer
        self._tell("judging", attempt=self._number)
        return await self._ask_model(request, self._number)

    async def _edit(self, request: Edit) -> Answer:
        board, self._number = self._board, request.attempt
        attempt = self._earlier_attempt(request.attempt)
        if attempt is not None and (attempt.prompt, attempt.seed) == (request.prompt, request.seed):
            if attempt.raw is not None:
                return await asyncio.to_thread(board.folder.load, attempt.raw)
            if attempt.result is not None and attempt.result.failure is not None:
                return attempt.result.failure
        self._tell("drawing", attempt=request.attempt, prompt=request.prompt, seed=request.seed)
        answer = await self._ask_model(request, request.attempt)
        if isinstance(answer, Image):
            name = await asyncio.to_thread(board.folder.store, answer)
            about = self._about(request.attempt)
            board.append(DrawnPicture(**about, prompt=request.prompt, seed=request.seed, picture=name))
        return answer

    def _about(self, number: int) -> dict[str, Any]:
        """Describe an attempt of this round, as an `AttemptEvent` does."""
        step, words = self._step, self._step.step
        about = {"step": step.id, "round": step.round, "attempt": number, "source": self._source}
        return about | {"name": words.name, "instruction": words.instruction}

    def _earlier_attempt(self, number: int) -> DrawnAttempt | None:
        """Find an attempt of this round in the log."""
        step = next((s for s in self._board.state.steps if s.id == self._step.id), self._step)
        place = step.place(self._step.round, number)
        attempt = None if place is None else step.attempts[place]
        return attempt if attempt is not None and attempt.basis.source == self._source else None

    def _tell(self, event: str, **data: object) -> None:
        self._board.tell(event, {"step": self._place, "id": self._step.id, **data})
