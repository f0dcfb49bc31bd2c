"""The asynchronous driver: it runs one trajectory, can be cancelled and never blocks the event loop."""

from collections.abc import Awaitable, Callable
from typing import Unpack

from goalreel.batch import Observer
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
    try:
        request = next(trajectory)
        while True:
            answer = await ask(request)
            if observe is not None:
                observe(request, answer)
            request = trajectory.send(answer)
    except StopIteration as finished:
        return finished.value
