"""The Planner agent: a chat model makes a whole plan, once, from an instruction and pictures.

InterleaveThinker (arXiv 2606.13679): the Planner never sees generated pictures, and replies with the keys of
its published checkpoints. The dialect words the question (`goalreel.chat.dialects`).
"""

from collections.abc import Callable, Sequence
from functools import partial

from goalreel.chat.conversation import MARK, THOUGHTFUL, Chat, Conversation, Question, ask
from goalreel.chat.dialects import OWN, Dialect
from goalreel.chat.plan import MAX_STEPS, parse_plan, plan_example, plan_schema
from goalreel.http.calls import probe
from goalreel.planners.kinematic.naming import unmentioned
from goalreel.types import Failure, Plan, ReplanContext, Step, Task


class ChatPlanner:
    """Plans with any chat model, which gives at most `replies` replies to a task (`chat.conversation.ask`).

    A reply with more than `max_steps` steps is rejected.
    """

    def __init__(
        self, chat: Chat, *, replies: int = 3, dialect: Dialect = OWN, max_steps: int = MAX_STEPS
    ) -> None:
        self._chat = chat
        self._replies = replies
        self._dialect = dialect
        self._max_steps = max_steps

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        """Answer i plans task i: after its done steps, and from text alone where it has no picture.

        A task whose pictures do not fit the instruction's `<image>` marks gets a Failure.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        plans = self._ask([question(t, dialect=self._dialect, max_steps=self._max_steps) for t in tasks])
        return [_compared(task, plan) for task, plan in zip(tasks, plans, strict=True)]

    def continue_plan(self, progress: Sequence[ReplanContext]) -> list[Plan | Failure]:
        """Plan the rest of each storyboard from its done steps, its images and the present scene.

        In the dialect `own` the model also reads the remaining steps of the earlier plan, which it may
        change. Where nothing remains, it is asked for one step that states so and changes nothing.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        return self._ask(
            [rest_question(p, dialect=self._dialect, max_steps=self._max_steps) for p in progress]
        )

    def probe(self) -> str | None:
        """Ask the chat model's server whether it is there, as `goalreel.http.calls.probe` says."""
        return probe(self._chat)

    def _ask(self, questions: Sequence[Question[Plan] | Failure]) -> list[Plan | Failure]:
        schema = plan_schema(self._max_steps)
        return ask(self._chat, questions, stage="plan", replies=self._replies, schema=schema)


def _compared(task: Task, plan: Plan | Failure) -> Plan | Failure:
    """Add the things of the instruction that no step mentions."""
    if isinstance(plan, Failure):
        return plan
    missing = unmentioned(task.instruction, plan.steps, task.done)
    return plan.model_copy(update={"missing": missing}) if missing else plan


def question(task: Task, *, dialect: Dialect = OWN, max_steps: int = MAX_STEPS) -> Question[Plan] | Failure:
    """Write a ChatPlanner's question about a task; planners are trained on the same text."""
    return _question(lambda: dialect.plan(task, max_steps), len(task.done) + 1, max_steps)


def rest_question(
    progress: ReplanContext, *, dialect: Dialect = OWN, max_steps: int = MAX_STEPS
) -> Question[Plan] | Failure:
    """Write a ChatPlanner's question about the remaining steps; planners are trained on the same text."""
    first = len(progress.storyboard.task.done) + progress.done + 1
    return _question(lambda: dialect.replan(progress, max_steps), first, max_steps)


def _question(write: Callable[[], Conversation], first: int, max_steps: int) -> Question[Plan] | Failure:
    try:
        conversation = write()
    except ValueError as e:
        return Failure(stage="plan", message=str(e))
    return Question(conversation, partial(parse_plan, max_steps=max_steps), THOUGHTFUL % plan_example(first))


class InstructionPlanner:
    """Makes one step of a whole instruction."""

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        """Give each task one step, without the instruction's marks of pictures."""
        texts = (" ".join(task.instruction.replace(MARK, " ").split()) or task.instruction for task in tasks)
        return [Plan(steps=(Step(name=text, instruction=text, prompt=text),)) for text in texts]
