"""The pictures of a task that a planner sees, and their places."""

from goalreel.chat.interleave import MARK
from goalreel.image import Image
from goalreel.types import Task


def task_images(task: Task) -> tuple[Image | None, tuple[Image, ...]]:
    """(the scene, or None where a mark or a done step has it; the pictures at the instruction's marks)."""
    if task.image is None:
        return None, task.images
    if not task.images and MARK in task.instruction:
        return None, (task.image,)
    places = (*task.images, *(step.image for step in task.done))
    return (None if task.image in places else task.image), task.images
