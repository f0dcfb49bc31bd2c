"""What is asked of a run, put together: an instruction with its pictures, or a storyboard to go on from."""

from collections.abc import Sequence
from pathlib import Path

from goalreel.chat.interleave import MARK
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.types import DoneStep, Storyboard, Task

PICTURES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
"""How the names of pictures end."""


def check_instruction(instruction: object) -> None:
    """Refuse what can be no instruction, before any model is loaded.

    Raises:
        InputError: it is missing or empty, or it is the name of a file.
        TypeError: it is no text.
    """
    if instruction is None:
        raise InputError("there is no instruction: say what the robot should do")
    if not isinstance(instruction, str):
        raise TypeError(f"an instruction is a str, not {type(instruction).__name__}")
    if not instruction.strip():
        raise InputError("the instruction is empty: say what the robot should do")
    name = Path(instruction)
    if _is_file(name) or (" " not in instruction.strip() and name.suffix.lower() in PICTURES):
        raise InputError(
            f"{instruction} is a file, and there is no instruction: say what the robot should do"
        )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return False


def make_task(
    instruction: str,
    image: Image | None = None,
    *,
    images: Sequence[Image] = (),
    done: Sequence[DoneStep] = (),
    seed: int = 0,
) -> Task:
    """Make a task of an instruction, the scene as it is now, and pictures for the instruction's marks.

    Without `image` the scene is the last picture there is; one scene alone stands for one mark.

    Raises:
        InputError: an empty instruction, or not one picture a mark.
    """
    if not instruction.strip():
        raise InputError("the instruction is empty: say what the robot should do")
    marks = instruction.count(MARK)
    if not images and image is not None and marks == 1:
        images = (image,)
    if len(images) != marks:
        raise InputError(
            f"{_counted(len(images), 'picture')} for {_counted(marks, f'{MARK} mark')} in the instruction: "
            "write one mark where each picture belongs"
        )
    pictures = [*images, *(step.image for step in done if step.image is not None)]
    scene = image or (pictures[-1] if pictures else None)
    return Task(
        id="task", instruction=instruction, image=scene, images=tuple(images), done=tuple(done), seed=seed
    )


def continue_task(
    board: Storyboard, image: Image | None = None, *, done: int | None = None, seed: int = 0
) -> Task:
    """Make the task of what remains of a storyboard after its first `done` steps; `image` is the scene now.

    None takes the steps that were accepted from the start, and the goal image of the last of them. Goal
    images are taken as they were handed out: what is planned next has the camera's size too.

    Raises:
        InputError: the storyboard has no plan, or fewer steps than are said to be done.
    """
    if not board.steps:
        raise InputError("this storyboard has no plan to continue: plan the task again")
    done_count = accepted(board) if done is None else done
    if not 0 <= done_count <= len(board.steps):
        raise InputError(f"{done_count} steps done, but the plan has {len(board.steps)}")
    goals = zip(board.steps[:done_count], board.goal_images(), strict=False)
    steps = [DoneStep(instruction=s.step.instruction, image=goal) for s, goal in goals]
    task = board.task
    return Task(
        id="task",
        instruction=task.instruction,
        image=image or next((s.image for s in reversed(steps) if s.image is not None), task.image),
        images=task.images,
        done=(*task.done, *steps),
        seed=seed,
    )


def accepted(board: Storyboard) -> int:
    """How many steps from the start need nothing more: their picture is accepted, or they are words alone."""
    open_steps = (i for i, step in enumerate(board.steps) if not step.usable)
    return next(open_steps, len(board.steps))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
