"""Which pictures of a task a planner is shown, and which of them have a place of their own."""

from goalreel.image import Image
from goalreel.planners.chat.interleave import MARK
from goalreel.types import Task


def shown(task: Task) -> tuple[Image | None, tuple[Image, ...]]:
    """(the scene, where neither a mark nor a done step shows it; the pictures at the instruction's marks)."""
    if task.image is None:
        return None, task.images
    if not task.images and MARK in task.instruction:
        return None, (task.image,)
    seen = (*task.images, *(step.image for step in task.done))
    return (None if task.image in seen else task.image), task.images
