"""The loop on one step of a storyboard, which writes down what the models answer.

What the log knows of the step's round already is not asked for again.
"""

import asyncio
from collections.abc import Awaitable, Callable

from goalreel.boards.words import stand_in
from goalreel.drivers import advance
from goalreel.image import Image
from goalreel.loop import LoopArguments, Trajectory, attempt, attempt_seed, choose_references, render_step
from goalreel.studio.board import StudioBoard
from goalreel.studio.events import AttemptEnded, DrawnPicture, StepEnded
from goalreel.studio.state import DrawnAttempt
from goalreel.types import Answer, Attempt, Candidate, Edit, Request, Task


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
        board, step = self._board, self._step
        ended, self._ended = self._ended, []
        for number, result in ended:
            attempt = self._earlier_attempt(number)
            if attempt is not None and attempt.result is not None:
                continue
            if result.image is not None:
                name = await asyncio.to_thread(board.folder.store, result.image)
                result = result.model_copy(update={"image": stand_in(name)})
            board.append(
                AttemptEnded(
                    step=step.id,
                    round=step.round,
                    attempt=number,
                    source=self._source,
                    name=step.step.name,
                    instruction=step.step.instruction,
                    result=result,
                )
            )

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
        board, step, self._number = self._board, self._step, request.attempt
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
            board.append(
                DrawnPicture(
                    step=step.id,
                    round=step.round,
                    attempt=request.attempt,
                    prompt=request.prompt,
                    seed=request.seed,
                    source=self._source,
                    picture=name,
                    name=step.step.name,
                    instruction=step.step.instruction,
                )
            )
        return answer

    def _earlier_attempt(self, number: int) -> DrawnAttempt | None:
        """What the log says of an attempt of this round."""
        step = next((s for s in self._board.state.steps if s.id == self._step.id), self._step)
        place = step.place(self._step.round, number)
        attempt = None if place is None else step.attempts[place]
        return attempt if attempt is not None and attempt.source == self._source else None

    def _tell(self, event: str, **data: object) -> None:
        self._board.tell(event, {"step": self._place, "id": self._step.id, **data})
