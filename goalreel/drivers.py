"""The batch driver: many trajectories at once, requests of one kind sent to the model together.

It knows nothing of files. A storyboard is yielded the moment it is finished, so that the caller can save it;
what was yielded before a KeyboardInterrupt stays saved.

A model that is free takes a batch of the waiting requests, those of the storyboards with the most remaining
steps first: so the last storyboards end together, in full batches. Models behind servers (`remote`) work at
the same time, each on at most one batch of requests, in one call or in several. A smaller batch is sent only
when all answers that came are processed. All other models may share a device: they are called one at a time,
in the caller's thread. Only that thread continues, observes and yields storyboards.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from threading import Thread
from typing import Any, Unpack, cast

from goalreel.errors import BackendError, InputError
from goalreel.image import Image
from goalreel.loop import LoopArguments, Trajectory, best_storyboard
from goalreel.middleware import ask_models
from goalreel.types import (
    ROLE_OF_STAGE,
    Answer,
    Ask,
    Critic,
    Editor,
    Failure,
    Plan,
    Planner,
    Request,
    Stage,
    Storyboard,
    Task,
    Verdict,
    stage_of,
)

log = logging.getLogger(__name__)

type Observer = Callable[[Request, Answer], None]


@dataclass(frozen=True)
class Limits:
    """Sizes of batches, and the number of storyboards under way at once.

    Raises:
        InputError: a number is below 1.
    """

    batch_size: int = 16
    """The most requests in one call of a model."""
    in_flight: int = 64
    """The most storyboards under way at once."""

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.in_flight < 1:
            raise InputError(f"batch_size and in_flight must be at least 1, got {self}")


def run(
    tasks: Iterable[Task],
    planner: Planner,
    editor: Editor,
    critic: Critic,
    *,
    limits: Limits | None = None,
    observe: Observer | None = None,
    remote: Collection[Stage] = (),
    num_draws: int = 1,
    **loop: Unpack[LoopArguments],
) -> Iterator[Storyboard]:
    """Make a storyboard for each task, and yield each one as soon as it is finished.

    `Storyboard.task` says which task it belongs to, since they finish in any order. If each answer depends on
    its own request alone, `limits` and `remote` do not change the results. The order of calls depends on how
    fast servers answer.

    Args:
        tasks: read one at a time, whenever `limits` leave room.
        planner: makes the plans.
        editor: draws the goal images.
        critic: judges them.
        limits: how many requests go into one call, and how many storyboards are under way at once.
        observe: called with every request and its answer, before the loop goes on.
        remote: stages whose models are called while other models work (`ModelSet.remote`). Closing the
            generator does not wait for those calls.
        num_draws: storyboards of a task, at most, until one is complete; the best one is yielded.
        loop: the keywords of `goalreel.storyboard`, such as `max_attempts`.

    Raises:
        ValueError: a model did not give exactly one answer for each request.
        TypeError: a model gave an answer of the wrong kind.
    """
    ask = ask_models(planner, editor, critic)
    trajectories = (best_storyboard(task, num_draws, **loop) for task in tasks)
    yield from _Driver(trajectories, ask, limits or Limits(), observe, remote).boards()


@dataclass(slots=True)
class _Run:
    """A trajectory and the request that it waits for."""

    trajectory: Trajectory[Storyboard]
    request: Request
    steps: int = 0
    """Number of steps of its plan; 0 before it has one."""

    @property
    def remaining(self) -> int:
        """Number of steps that are not done."""
        return 0 if isinstance(self.request, Task) else self.steps - self.request.step


type _Batch = tuple[Stage, list[_Run]]


class _Driver:
    """The state of `run`: which trajectories wait, which are with a model, and which are finished."""

    def __init__(
        self,
        trajectories: Iterator[Trajectory[Storyboard]],
        ask: Ask,
        limits: Limits,
        observe: Observer | None,
        remote: Collection[Stage],
    ) -> None:
        self._upcoming, self._ask_models, self._limits, self._observe = trajectories, ask, limits, observe
        self._waiting: dict[Stage, list[_Run]] = {stage: [] for stage in ROLE_OF_STAGE}
        self._finished: deque[Storyboard] = deque()
        self._running = 0
        self._answers: SimpleQueue[tuple[_Batch, Sequence[Answer] | BaseException]] = SimpleQueue()
        self._load: dict[Stage, int] = {stage: 0 for stage in ROLE_OF_STAGE if stage in remote}
        """Requests that each remote model has."""

    def boards(self) -> Iterator[Storyboard]:
        while self._running or self._finished or self._admit():
            if not self._answers.empty():
                yield from self._receive()
                continue
            self._send(minimum=1)
            if self._finished:
                yield self._finished.popleft()
            elif not self._admit() and not self._call_local():
                yield from self._receive()

    def _admit(self) -> bool:
        """Start as many trajectories as may run; return whether there was one."""
        count = self._running
        for trajectory in islice(self._upcoming, self._limits.in_flight - self._running):
            self._running += 1
            self._waiting["plan"].append(_Run(trajectory, next(trajectory)))
            self._send(minimum=self._limits.batch_size)
        return self._running > count

    def _send(self, *, minimum: int) -> None:
        """Send each remote model the waiting requests that it has room for, if they are `minimum` or more."""
        for stage, load in self._load.items():
            room = min(self._limits.batch_size - load, len(self._waiting[stage]))
            if room >= minimum:
                self._load[stage] += room
                batch = self._batch(stage, room)
                # A daemon: a call that hangs holds up nobody, not even the end of the program.
                Thread(target=self._ask_remote, args=[batch], name=f"goalreel-{stage}", daemon=True).start()

    def _ask_remote(self, batch: _Batch) -> None:
        try:
            self._answers.put((batch, self._ask(batch)))
        except BaseException as e:  # noqa: BLE001  (`_receive` raises it)
            self._answers.put((batch, e))

    def _receive(self) -> Iterator[Storyboard]:
        """Wait for a remote model and go on; before an error ends the run, yield what is finished."""
        batch, answers = self._answers.get()
        if isinstance(answers, BaseException):
            yield from self._finished
            raise answers
        stage, runs = batch
        self._load[stage] -= len(runs)
        self._go_on(batch, answers)

    def _call_local(self) -> bool:
        """Call one of the models that are not remote; return whether a request waited for one."""
        sizes: dict[Stage, int] = {
            stage: min(len(waiting), self._limits.batch_size)
            for stage, waiting in self._waiting.items()
            if waiting and stage not in self._load
        }
        if not sizes:
            return False
        # The fullest queue makes the fullest batch; on a tie the later stage goes first, to finish work.
        stage = max(reversed(sizes), key=sizes.__getitem__)
        batch = self._batch(stage, sizes[stage])
        self._go_on(batch, self._ask(batch))
        return True

    def _batch(self, stage: Stage, size: int) -> _Batch:
        waiting = self._waiting[stage]
        waiting.sort(key=lambda run: run.remaining, reverse=True)
        batch, waiting[:] = waiting[:size], waiting[size:]
        return stage, batch

    def _ask(self, batch: _Batch) -> Sequence[Answer]:
        stage, runs = batch
        try:
            answers = self._ask_models(stage, [run.request for run in runs])
        except BackendError as e:
            log.warning("%s failed for %d item(s): %s", stage, len(runs), e)
            return [as_failure(stage, e)] * len(runs)
        if len(answers) != len(runs):
            raise ValueError(f"{stage}: {len(runs)} requests but {len(answers)} answers")
        return answers

    def _go_on(self, batch: _Batch, answers: Sequence[Answer]) -> None:
        for run, answer in zip(batch[1], answers, strict=True):
            if self._observe:
                self._observe(run.request, answer)
            if isinstance(answer, Plan):
                run.steps = len(answer.steps)
            try:
                run.request = run.trajectory.send(answer)
            except StopIteration as finished:
                self._running -= 1
                self._finished.append(finished.value)
            else:
                self._waiting[stage_of(run.request)].append(run)


def as_failure(stage: Stage, error: BackendError) -> Failure:
    """Turn the error of a model that could not be called into the answer that its request gets."""
    return Failure(stage=stage, message=str(error) or type(error).__name__)


async def advance[Result](
    trajectory: Trajectory[Result], ask: Callable[[Request], Awaitable[Answer]]
) -> Result:
    """Run a trajectory of the loop to its end, and await `ask` for each of its requests.

    `ask` returns a Failure, rather than raise an error, where a model could not be called. Cancelling the
    asyncio task that runs this function abandons the trajectory.
    """
    import asyncio  # takes a while, and few commands need it

    request, result = _send(trajectory, None)
    while request is not None:
        answer = await ask(request)
        # The loop measures a background, or asks a server what its critic can judge: no event loop may wait.
        if isinstance(answer, Image | Verdict):
            request, result = await asyncio.to_thread(_send, trajectory, answer)
        else:
            request, result = _send(trajectory, answer)
    return cast("Result", result)


def _send[Result](
    trajectory: Trajectory[Result], answer: Answer | None
) -> tuple[Request, None] | tuple[None, Result]:
    """Let the trajectory go on; None starts it. Gives its next request, or at its end its result."""
    try:
        return cast("Any", trajectory).send(answer), None
    except StopIteration as end:  # which no thread can hand on
        return None, end.value
