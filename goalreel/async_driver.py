"""The asynchronous driver: it runs one trajectory, can be cancelled and never blocks the event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Unpack

from goalreel.batch import Observer
from goalreel.image import Image
from goalreel.loop import LoopArguments, Trajectory, storyboard
from goalreel.types import Answer, Request, Storyboard, Task

type AsyncAsk = Callable[[Request], Awaitable[Answer]]


async def drive(
    task: Task,
    ask: AsyncAsk,
    *,
    observe: Observer | None = None,
    **loop: Unpack[LoopArguments],
) -> Storyboard:
    """Run one storyboard, with the keywords of `storyboard`, and await `ask` for each request of the loop.

    `ask` returns a Failure, rather than raise an error, where a model could not be called. Cancelling the
    asyncio task that runs this function abandons the trajectory.

    Raises:
        ValueError: `max_attempts` is less than 1.
        TypeError: `ask` gave an answer of the wrong kind.
    """
    return await advance(storyboard(task, **loop), ask, observe)


async def advance[Result](
    trajectory: Trajectory[Result], ask: AsyncAsk, observe: Observer | None = None
) -> Result:
    """Run any trajectory of the loop to its end, as `drive` does."""
    step = _send(trajectory, None)
    while not isinstance(step, _End):
        answer = await ask(step)
        if observe is not None:
            observe(step, answer)
        # The loop measures a picture's background, for which an event loop must not stand still.
        is_picture = isinstance(answer, Image)
        step = await asyncio.to_thread(_send, trajectory, answer) if is_picture else _send(trajectory, answer)
    return step.result


@dataclass(frozen=True)
class _End[Result]:
    result: Result


def _send[Result](trajectory: Trajectory[Result], answer: Answer | None) -> Request | _End[Result]:
    """Let the trajectory go on; None starts it. No thread can hand on a StopIteration."""
    try:
        return next(trajectory) if answer is None else trajectory.send(answer)
    except StopIteration as end:
        return _End(end.value)
