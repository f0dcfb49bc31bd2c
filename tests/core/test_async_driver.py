"""The asynchronous driver: what takes long runs beside the event loop, not in it."""

import asyncio
import threading

import numpy as np
import pytest

from goalreel.drivers import advance
from goalreel.image import Image
from goalreel.types import Edit, Failure, Task

PICTURE = Image(np.zeros((4, 4, 3), np.uint8))


def test_a_picture_is_taken_in_beside_the_event_loop():
    threads = []
    edit = Edit(task_id="t", step=0, attempt=0, image=None, prompt="p", seed=0)

    def trajectory():
        for request in (Task(id="t", instruction="i"), edit, edit):
            yield request
            threads.append(threading.current_thread() is threading.main_thread())
        return "the end"

    async def ask(request):
        return PICTURE if isinstance(request, Edit) else Failure(stage="plan", message="no")

    assert asyncio.run(advance(trajectory(), ask)) == "the end"
    assert threads == [True, False, False]


def test_what_a_trajectory_raises_is_raised():
    def trajectory():
        yield Edit(task_id="t", step=0, attempt=0, image=None, prompt="p", seed=0)
        raise TypeError("of the wrong kind")

    async def ask(request):
        return PICTURE

    with pytest.raises(TypeError, match="of the wrong kind"):
        asyncio.run(advance(trajectory(), ask))
