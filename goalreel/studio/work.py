"""Models at work on one storyboard: the plan, and the pictures of the steps that are still to be drawn.

What people change meanwhile is looked at before each step. A step whose words, prompt or source have changed
while it is drawn is drawn anew. After a kill, answers that are in the log are not asked for again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from goalreel.claims import UNKNOWN
from goalreel.drivers import advance
from goalreel.errors import UserError, first_line
from goalreel.image import Image, stand_in
from goalreel.loop import (
    LoopArguments,
    StepDrawing,
    attempt_seed,
    choose_references,
    end_question,
    render_step,
)
from goalreel.serving.loading import is_loaded
from goalreel.serving.service import ServedModels, Service
from goalreel.studio import events
from goalreel.studio.board import Json, StudioBoard
from goalreel.studio.state import DrawnAttempt, end_key, recorded_step, storyboard_of
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
    Verdict,
    stage_of,
)


class BoardWork:
    """One run of the models on a storyboard. Used from the event loop only."""

    def __init__(self, board: StudioBoard, service: Service, threads: ThreadPoolExecutor) -> None:
        self.ending: events.BoardStatus = "interrupted"
        """The status of the storyboard if the run is cancelled."""
        self._board, self._service, self._threads = board, service, threads
        self._current: tuple[object, asyncio.Task[None]] | None = None

    async def run(self, *, reopen: bool = False) -> None:
        """Plan if need be, and draw what is open; the log says how it ended."""
        board = self._board
        status: events.BoardStatus = "failed"
        trouble = "a fault in goalreel: the server's log says more"
        try:
            board.append(events.WorkBegun(models=dict(self._new_models().makers), reopen=reopen))
            while (key := self._next()) is not None:
                await self._do(key)
            record = storyboard_of(board.state)
            status = "done" if record is not None and not record.degraded else "failed"
            trouble = ""
        except asyncio.CancelledError:
            status, trouble = self.ending, ""
            raise
        except (UserError, OSError) as e:
            trouble = first_line(e)
            raise
        finally:
            board.append(events.WorkEnded(status=status, trouble=trouble))

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
        if place is None:
            end = end_key(state)
            return None if end is None or (state.end is not None and state.end.key == end) else ("end", end)
        if place and state.on_rejected == "stop" and not recorded_step(state, place - 1).usable:
            return None
        step = state.steps[place]
        words = (step.step.name, step.step.instruction, step.step.prompt)
        return ("step", place, step.id, step.round, words, state.source(place))

    async def _do(self, key: object) -> None:
        """Do one thing; a change that makes it useless ends it."""
        board, models = self._board, self._new_models()
        place = board.state.next_open()
        if place is not None:
            work = self._draw(place, models)
        else:
            work = self._plan(models) if board.state.needs_plan else self._judge_end(models)
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
            board.wait_for(None)

    async def _plan(self, models: ServedModels) -> None:
        board, plan_round = self._board, self._board.state.plan_round
        task = await asyncio.to_thread(board.task)
        with self._waiting("planner"):
            answer = await models.ask(task)
        if isinstance(answer, Plan):
            board.append(events.PlanMade(round=plan_round, steps=answer.steps))
        elif isinstance(answer, Failure):
            board.append(events.PlanFailed(round=plan_round, failure=answer))

    async def _draw(self, place: int, models: ServedModels) -> None:
        step = self._board.state.steps[place].id

        async def ask(request: Request, number: int) -> Answer:
            with self._waiting(ROLE_OF_STAGE[stage_of(request)], step, number):
                return await models.ask(request)

        await StepWork(self._board, place, models.loop, ask).run()

    async def _judge_end(self, models: ServedModels) -> None:
        board, key = self._board, end_key(self._board.state)
        record = await asyncio.to_thread(storyboard_of, board.state, board.folder.load)
        question = None if record is None else end_question(record.task, record.steps)
        answer: Answer | None = None
        if question is not None and await asyncio.to_thread(models.loop["confirms"], question.step):
            with self._waiting("critic"):
                answer = await models.ask(question)
        if isinstance(answer, Verdict) and answer.pictures_only:
            answer = None
        assert answer is None or isinstance(answer, Verdict | Failure)
        by = board.state.models.get("critic", UNKNOWN)
        board.append(events.EndJudged(key=key or "", answer=answer, by=by))

    @contextmanager
    def _waiting(self, role: Role, step: str | None = None, attempt: int | None = None) -> Iterator[None]:
        model, since = self._service.batchers[role], time.monotonic()
        ahead = model.waiting  # requests that waited for the model already

        def told() -> Json:
            return {
                "role": role,
                "step": step,
                "attempt": attempt,
                "seconds": round(time.monotonic() - since, 1),
                "alive": model.alive,
                "loading": not is_loaded(getattr(self._service.models, role)),
                "queue": min(ahead, model.waiting),
            }

        self._board.wait_for(told)
        try:
            yield
        finally:
            self._board.wait_for(None)

    def _new_models(self) -> ServedModels:
        return ServedModels(self._service, self._threads, self._board.id)


class StepWork:
    """The loop on one step, with what is known of it already."""

    def __init__(
        self,
        board: StudioBoard,
        place: int,
        loop: LoopArguments,
        ask: Callable[[Request, int], Awaitable[Answer]],
    ) -> None:
        self._board, self._place, self._loop, self._ask_model = board, place, loop, ask
        self._step = board.state.steps[place]
        self._source = board.state.source(place)
        self._ended: list[tuple[int, Attempt]] = []
        """Attempts that are not written down yet."""
        self._number = 0

    async def run(self) -> None:
        """Draw and judge until the loop is done with the step."""
        step, loop, board = self._step, self._loop, self._board
        task, source, references = await asyncio.to_thread(self._pictures)
        background = loop.get("background", "correct")
        rendering = render_step(
            StepDrawing(task, self._place, step.step, source, None, references, background),
            board.state.max_attempts,
            loop.get("keep", "best"),
            # Perhaps in another thread: it is told when the loop goes on.
            on_attempt=lambda result: self._ended.append((self._number, result)),
        )
        rendered = await advance(rendering, self._ask)
        await self._flush()
        board.append(events.StepEnded(step=step.id, round=step.round, attempt=rendered.chosen))

    def _pictures(self) -> tuple[Task, Image | None, tuple[Image, ...]]:
        """The task with the seed of this round, the step's source, and the editor's references. It blocks."""
        board, step, kind = self._board, self._step, self._loop.get("references", "none")
        goals = [s.goal for s in board.state.steps[: self._place] if s.goal is not None]
        task = board.task()
        if step.round != step.rounds[0]:
            task = task.model_copy(update={"seed": attempt_seed(task.seed, step.round, 0)})
        source = None if self._source is None else board.folder.load(self._source)
        earlier = [*task.images, *([task.image] if task.image else [])]
        earlier += map(board.folder.load, goals if kind != "none" else [])
        return task, source, choose_references(kind, earlier, source)

    async def _flush(self) -> None:
        """Write down the attempts that have ended."""
        board = self._board
        ended, self._ended = self._ended, []
        for number, result in ended:
            known = self._known(number)
            if known is not None and known.result is not None:
                continue
            if result.image is not None:
                name = await asyncio.to_thread(board.folder.store, result.image)
                result = result.model_copy(update={"image": stand_in(name)})
            board.append(events.AttemptEnded(**self._about(number), result=result))

    async def _ask(self, request: Request) -> Answer:
        await self._flush()
        if isinstance(request, Edit):
            return await self._edit(request)
        assert isinstance(request, Candidate)
        known = self._known(self._number)
        if known is not None and known.result is not None and known.raw is not None:
            answer = known.result.verdict or known.result.failure
            if answer is not None:
                return answer
        return await self._ask_model(request, self._number)

    async def _edit(self, request: Edit) -> Answer:
        board, number = self._board, request.attempt
        self._number = number
        known = self._known(number)
        if known is not None and (known.prompt, known.seed) == (request.prompt, request.seed):
            if known.raw is not None:
                return await asyncio.to_thread(board.folder.load, known.raw)
            if known.result is not None and known.result.failure is not None:
                return known.result.failure
        asked = {"prompt": request.prompt, "seed": request.seed}
        answer = await self._ask_model(request, number)
        if isinstance(answer, Image):
            name = await asyncio.to_thread(board.folder.store, answer)
            board.append(events.DrawnPicture(**self._about(number), **asked, picture=name))
        return answer

    def _about(self, number: int) -> dict[str, Any]:
        """Describe an attempt of this round, as an `AttemptEvent` does."""
        step, words = self._step, self._step.step
        about = {"step": step.id, "round": step.round, "attempt": number, "source": self._source}
        return about | {"name": words.name, "instruction": words.instruction}

    def _known(self, number: int) -> DrawnAttempt | None:
        """Find an attempt of this round in the log."""
        step = next((s for s in self._board.state.steps if s.id == self._step.id), self._step)
        place = step.place(self._step.round, number)
        attempt = None if place is None else step.attempts[place]
        return attempt if attempt is not None and attempt.basis.source == self._source else None
