"""The batch driver: many trajectories at once, requests of one kind sent to the model together.

It knows nothing of files. A storyboard is handed over the moment it is finished, so that whoever
consumes the stream can save it; what was handed over before a KeyboardInterrupt stays saved.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from goalreel.errors import BackendError, InputError
from goalreel.loop import Answer, Keep, OnUnverified, Request, Trajectory, stage_of, storyboard
from goalreel.types import Critic, Editor, Failure, Planner, Stage, Storyboard, Task

log = logging.getLogger(__name__)

type Observer = Callable[[Request, Answer], None]


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
) -> Iterator[Storyboard]:
    """Yield one storyboard a task, as they finish; `Storyboard.task` says whose it is.

    `observe` is told every request with its answer before the loop goes on. The result does not depend on
    `limits` as long as each answer depends on its own request alone.

    Raises:
        ValueError: a back end broke its contract (not one answer a request, or of the wrong kind).
    """
    limits = limits or Limits()
    calls: dict[Stage, Callable[[Sequence], Sequence]] = {
        "plan": planner.plan,
        "edit": editor.edit,
        "judge": critic.judge,
    }
    queues: dict[Stage, deque[tuple[Trajectory[Storyboard], Request]]] = {k: deque() for k in calls}
    upcoming = iter(tasks)

    def waiting() -> int:
        return sum(map(len, queues.values()))

    def admit() -> None:
        while waiting() < limits.in_flight and (task := next(upcoming, None)) is not None:
            trajectory = storyboard(task, max_attempts=max_attempts, on_unverified=on_unverified, keep=keep)
            queues["plan"].append((trajectory, next(trajectory)))

    admit()
    while waiting():
        # The fullest queue makes the fullest batch; on a tie the later stage goes first, to finish work.
        stage = max(reversed(queues), key=lambda k: min(len(queues[k]), limits.batch_size))
        batch = [queues[stage].popleft() for _ in range(min(len(queues[stage]), limits.batch_size))]
        answers = _call(stage, calls[stage], [request for _, request in batch])
        for (trajectory, request), answer in zip(batch, answers, strict=True):
            if observe:
                observe(request, answer)
            try:
                request = trajectory.send(answer)
            except StopIteration as finished:
                yield finished.value
            else:
                queues[stage_of(request)].append((trajectory, request))
        admit()


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
