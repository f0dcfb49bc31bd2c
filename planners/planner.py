"""The Planner agent: a whole plan, made once, from an instruction and pictures, by a chat model.

InterleaveThinker (arXiv 2606.13679): the Planner never sees generated pictures; the reply format is that of
its published checkpoints. The prompts are in `prompts/planner/`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from goalreel.image import Image
from goalreel.planners.ask import Question, ask
from goalreel.planners.chat import Chat, Message
from goalreel.planners.interleave import MARK, interleave, plain
from goalreel.planners.parsing import MAX_STEPS, parse_plan, plan_schema
from goalreel.planners.prompts import render
from goalreel.planners.reply import Problem
from goalreel.types import Failure, Plan, Storyboard, Task


@dataclass(frozen=True)
class Underway:
    """A storyboard under way: its first `done` steps have been done, and `image` is the scene now.

    Raises:
        ValueError: there are fewer than `done` steps.
    """

    storyboard: Storyboard
    done: int
    image: Image | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.done <= len(self.storyboard.steps):
            raise ValueError(f"{self.done} steps done, but the storyboard has {len(self.storyboard.steps)}")


class ChatPlanner:
    """Plans with any chat model, asking at most `replies` times a task (see `goalreel.planners.ask`).

    Raises:
        ValueError: `replies` is less than 1.
    """

    def __init__(self, chat: Chat, *, replies: int = 3) -> None:
        if replies < 1:
            raise ValueError(f"replies must be at least 1, got {replies}")
        self._chat = chat
        self._replies = replies

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        """Answer i plans task i, from text alone where it has no image.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        return self._ask([question(task) for task in tasks])

    def plan_interleaved(self, inputs: Sequence[tuple[str, Sequence[Image]]]) -> list[Plan | Failure]:
        """Plan from instructions with their images, each image at its `<image>` mark.

        A single image without a mark comes first, as the scene as it is now. Any other number of images
        than of marks is that item's Failure.
        """
        return self._ask([_question(text, images) for text, images in inputs])

    def continue_plan(self, progress: Sequence[Underway]) -> list[Plan | Failure]:
        """Plan what remains of each storyboard, given what was done, its images and the scene as it is now.

        The model also reads the earlier plan for the rest, to keep or to change. Where nothing remains, it
        is asked for one step that states so and changes nothing.
        """
        return self._ask([_continuation(p) for p in progress])

    def _ask(self, questions: Sequence[Question[Plan] | Failure]) -> list[Plan | Failure]:
        return ask(self._chat, questions, stage="plan", replies=self._replies, schema=plan_schema())


def question(task: Task) -> Question[Plan] | Failure:
    """Write what a ChatPlanner asks about a task, which is also the text that a planner is trained on."""
    return _question(task.instruction, (task.image,) if task.image else ())


def _question(instruction: str, images: Sequence[Image]) -> Question[Plan] | Failure:
    image_first = len(images) == 1 and MARK not in instruction
    text = render("planner/plan", {"instruction": instruction, "image_first": image_first})
    return _build(text, images, first=1)


def _continuation(progress: Underway) -> Question[Plan] | Failure:
    task, steps = progress.storyboard.task, progress.storyboard.steps
    told = [
        {
            "name": plain(s.step.name),
            "instruction": plain(s.step.instruction),
            "has_image": bool(s.goal_image),
        }
        for s in steps
    ]
    values = {
        "instruction": task.instruction,
        "has_first": task.image is not None and MARK not in task.instruction,
        "done": told[: progress.done],
        "remaining": told[progress.done :],
        "has_now": progress.image is not None,
        "first": progress.done + 1,
    }
    pictures = (task.image, *(s.goal_image for s in steps[: progress.done]), progress.image)
    return _build(
        render("planner/continue", values), [p for p in pictures if p is not None], first=progress.done + 1
    )


def _build(text: str, images: Sequence[Image], *, first: int) -> Question[Plan] | Failure:
    try:
        parts = interleave(text, images)
    except ValueError as e:
        return Failure(stage="plan", message=str(e))

    def again(problem: Problem) -> str:
        return plain(render("planner/again", {"problem": problem.message, "first": first}))

    system = render("planner/system", {"max_steps": MAX_STEPS})
    conversation = Message("system", (system,)), Message("user", parts)
    return Question(conversation, partial(parse_plan, first=first), again)
