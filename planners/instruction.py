"""A planner without a model: the instruction is the editor's one prompt, as in the paper's base rows."""

from collections.abc import Sequence

from goalreel.chat.conversation import MARK
from goalreel.types import Plan, Step, Task


class InstructionPlanner:
    """Makes one step of a whole instruction."""

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        """Give each task one step, without the instruction's marks of pictures."""
        texts = (" ".join(task.instruction.replace(MARK, " ").split()) or task.instruction for task in tasks)
        return [Plan(steps=(Step(name=text, instruction=text, prompt=text),)) for text in texts]
