"""The batch driver: many trajectories at once, requests of one kind sent to the model together.

It knows nothing of files. A storyboard is handed over the moment it is finished, so that whoever
consumes the stream can save it; what was handed over before a KeyboardInterrupt stays saved.

A batch is what waits when its model is free, of the storyboards with the most steps left first: so the last
ones end together, in full batches. Models behind servers (`remote`) work all at once, each on at most a batch
of requests: in one call or in several, since what has an answer makes room for what waits. What is less than
a batch goes out when all answers that came are dealt with. All other models may share a device: they are
asked one at a time, in the caller's thread. That is also the only one that goes on with storyboards, observes
and hands over.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue

from goalreel.concurrency import aside
from goalreel.errors import BackendError, InputError
from goalreel.loop import Answer, Keep, OnUnverified, Request, Trajectory, stage_of, storyboard
from goalreel.types import Critic, Editor, Failure, Plan, Planner, Stage, Storyboard, Task

log = logging.getLogger(__name__)

type Observer = Callable[[Request, Answer], None]
type _Models = Mapping[Stage, Callable[[Sequence], Sequence]]


@dataclass(frozen=True)
class Limits:
    """How many requests go into one call, and how many trajectories are under way at once."""

    batch_size: int = 16
    in_flight: int = 64

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.in_flight < 1:
            raise InputError(f"batch_size and in_flight must be at least 1, got {self}")


def run(
    tasks: Iterable[Task],
    planner: Planner,
    editor: Editor,
    critic: Critic,
    *,
    max_attempts: int,
    on_unverified: OnUnverified = "continue",
    keep: Keep = "best",
    limits: Limits | None = None,
    observe: Observer | None = None,
    remote: Collection[Stage] = (),
) -> Iterator[Storyboard]:
    """Yield one storyboard a task, as they finish; `Storyboard.task` says whose it is.

    `observe` is told every request with its answer before the loop goes on. The result does not depend on
    `limits` or `remote` as long as each answer depends on its own request alone; the order of calls depends
    on how fast servers are. `remote` names the stages that are asked while the others are at work
    (`Trio.remote`). Who stops early does not wait for a call to one of them.

    Raises:
        ValueError: a back end broke its contract (not one answer a request, or of the wrong kind).
    """
    models: _Models = {"plan": planner.plan, "edit": editor.edit, "judge": critic.judge}
    start = partial(storyboard, max_attempts=max_attempts, on_unverified=on_unverified, keep=keep)
    yield from _Driver((start(task) for task in tasks), models, limits or Limits(), observe, remote).boards()


@dataclass(slots=True)
class _Underway:
    """A trajectory, and what it waits for."""

    trajectory: Trajectory[Storyboard]
    request: Request
    steps: int = 0
    """Of its plan; 0 before it has one."""

    @property
    def left(self) -> int:
        """How many steps are not behind it."""
        return 0 if isinstance(self.request, Task) else self.steps - self.request.step


@dataclass(frozen=True, slots=True)
class _Batch:
    stage: Stage
    underway: list[_Underway]


class _Driver:
    """One run: what waits, what is with a model, and what is finished."""

    def __init__(
        self,
        trajectories: Iterator[Trajectory[Storyboard]],
        models: _Models,
        limits: Limits,
        observe: Observer | None,
        remote: Collection[Stage],
    ) -> None:
        self._upcoming, self._models, self._limits, self._observe = trajectories, models, limits, observe
        self._waiting: dict[Stage, list[_Underway]] = {stage: [] for stage in models}
        self._finished: deque[Storyboard] = deque()
        self._live = 0
        self._back: SimpleQueue[tuple[_Batch, Sequence[Answer] | BaseException]] = SimpleQueue()
        self._asked: dict[Stage, int] = {stage: 0 for stage in models if stage in remote}
        """How many requests each remote model has."""

    def boards(self) -> Iterator[Storyboard]:
        while self._live or self._finished or self._admit():
            if not self._back.empty():
                yield from self._receive()
                continue
            self._send(least=1)
            if self._finished:
                yield self._finished.popleft()
            elif not self._admit() and not self._ask_here():
                yield from self._receive()

    def _admit(self) -> bool:
        """Begin with as many as may be under way; tells whether there was one."""
        before = self._live
        while self._live < self._limits.in_flight and (begun := next(self._upcoming, None)) is not None:
            self._live += 1
            self._waiting["plan"].append(_Underway(begun, next(begun)))
            self._send(least=self._limits.batch_size)
        return self._live > before

    def _send(self, *, least: int) -> None:
        """Give each remote model what waits and has room there, where that is `least` requests or more."""
        for stage, asked in self._asked.items():
            room = min(self._limits.batch_size - asked, len(self._waiting[stage]))
            if room >= least:
                self._asked[stage] += room
                aside(f"goalreel-{stage}", self._ask, self._batch(stage, room), self._back)

    def _receive(self) -> Iterator[Storyboard]:
        """Wait for a remote model and go on; before an error ends the run, hand over what is finished."""
        batch, answers = self._back.get()
        if isinstance(answers, BaseException):
            yield from self._finished
            raise answers
        self._asked[batch.stage] -= len(batch.underway)
        self._go_on(batch, answers)

    def _ask_here(self) -> bool:
        """Ask one of the models that are not remote; tells whether there was anything to ask."""
        most = self._limits.batch_size
        sizes: dict[Stage, int] = {
            stage: min(len(waiting), most)
            for stage, waiting in self._waiting.items()
            if waiting and stage not in self._asked
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
        waiting.sort(key=lambda one: one.left, reverse=True)
        batch, waiting[:] = waiting[:size], waiting[size:]
        return _Batch(stage, batch)

    def _ask(self, batch: _Batch) -> Sequence[Answer]:
        return _call(batch.stage, self._models[batch.stage], [one.request for one in batch.underway])

    def _go_on(self, batch: _Batch, answers: Sequence[Answer]) -> None:
        for one, answer in zip(batch.underway, answers, strict=True):
            if self._observe:
                self._observe(one.request, answer)
            if isinstance(answer, Plan):
                one.steps = len(answer.steps)
            try:
                one.request = one.trajectory.send(answer)
            except StopIteration as finished:
                self._live -= 1
                self._finished.append(finished.value)
            else:
                self._waiting[stage_of(one.request)].append(one)


def _call(stage: Stage, model: Callable[[Sequence], Sequence], requests: list[Request]) -> Sequence[Answer]:
    try:
        answers = model(requests)
    except BackendError as e:
        log.warning("%s failed for %d item(s): %s", stage, len(requests), e)
        return [as_failure(stage, e)] * len(requests)
    if len(answers) != len(requests):
        raise ValueError(f"{stage}: {len(requests)} requests but {len(answers)} answers")
    return answers


def as_failure(stage: Stage, error: BackendError) -> Failure:
    """Turn the error of a model that could not be called into the answer that its request gets."""
    return Failure(stage=stage, message=str(error) or type(error).__name__)
