"""The planner of lerobot's rollout (`--planner.api_base`, lerobot#4675): one chat request is one decision.

Such a request holds the instruction, the last observations with the commands that followed, and the present
one. The answer is JSON: how the last command went, and the next one. Here the Planner plans once, and a
command is repeated until the Critic sees that it is done.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from goalreel.chat.conversation import Message, TokenReply
from goalreel.image import Image
from goalreel.serving.errors import unanswered
from goalreel.serving.service import ServedModels, Service
from goalreel.types import Candidate, DoneStep, Failure, Plan, Step, Task, Verdict

STEER = "steer"
"""The name that `--planner.model_id` takes."""
LOOKS, REPLANS = 3, 3
"""Times that the Critic says no to a command before the rest is planned anew, and times that it is."""
MOST_TASKS = 64
_REQUEST = re.compile(r"^Request: (.+)$", re.MULTILINE)
_ALLOWED = re.compile(r"^Choose exactly one of these allowed instructions: (\[.*\])$", re.MULTILINE)


@dataclass(frozen=True)
class SteeringQuestion:
    """A question of lerobot: the next command for `request`, given what its first camera sees."""

    request: str
    image: Image
    begins: bool
    """No command was given yet."""
    allowed: str
    """The commands that the policy knows, as lerobot lists them; empty where any will do."""

    @classmethod
    def read(cls, conversation: Sequence[Message]) -> "SteeringQuestion | None":
        """Read a conversation; None where it is another question."""
        parts = conversation[-1].parts
        texts = [part for part in parts if isinstance(part, str)]
        request = _REQUEST.search(texts[0]) if texts and '"previous_command"' in texts[0] else None
        now = max((i for i, part in enumerate(parts) if part == "Current observation:"), default=0)
        images = [part for part in parts[now:] if isinstance(part, Image)]
        if request is None or not images:
            return None
        given = any(text.startswith("Command given after observation") for text in texts)
        allowed = _ALLOWED.search(texts[0])
        return cls(request[1].strip(), images[0], not given, allowed[1] if allowed else "")


@dataclass
class _Progress:
    steps: list[Step]
    source: Image
    """The scene when the present step began."""
    done: list[DoneStep]
    looks: int = 0
    replans: int = 0


class Steering:
    """Answers the questions of rollouts, each known by its client and its request."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tasks: OrderedDict[tuple[str, str], _Progress] = OrderedDict()

    async def answer(self, question: SteeringQuestion, client: str) -> TokenReply:
        """Decide; HTTPException 422 or 424 without a plan, and where the policy knows no such command."""
        said = await self._decide(question, client)
        command = said["instruction"]
        if question.allowed and command != "done" and repr(command) not in question.allowed:
            raise unanswered(f"the plan says {command!r}, which is not allowed", refused=True)
        return TokenReply(json.dumps(said))

    async def _decide(self, question: SteeringQuestion, client: str) -> dict[str, str]:
        key, image = (client, question.request), question.image
        models = ServedModels(self._service, None, client, draws=False)
        progress = None if question.begins else self._tasks.get(key)
        if progress is None:
            self._tasks[key] = progress = _Progress(await _plan(models, question, ()), image, [])
            while len(self._tasks) > MOST_TASKS:
                self._tasks.popitem(last=False)
            why = "planned" if question.begins else "this server knows of no earlier command: planned anew"
            return self._say(progress, why, "none")
        if not progress.steps:
            return self._say(progress, "every step is done", "completed")
        is_done, reason = await _judge(models, progress, image)
        progress.looks += 1
        if is_done:
            progress.done.append(DoneStep(instruction=progress.steps.pop(0).instruction, image=image))
            progress.source, progress.looks = image, 0
            return self._say(progress, reason, "completed")
        if progress.looks < LOOKS:
            return self._say(progress, reason, "in progress")
        progress.looks = 0
        if progress.replans < REPLANS:
            progress.replans += 1
            progress.steps, progress.source = await _plan(models, question, progress.done), image
        return self._say(progress, reason, "failed")

    @staticmethod
    def _say(progress: _Progress, scene: str, previous: str) -> dict[str, str]:
        command = progress.steps[0].name if progress.steps else "done"
        return {"scene": scene, "previous_command": previous, "instruction": command}


async def _plan(models: ServedModels, question: SteeringQuestion, done: Sequence[DoneStep]) -> list[Step]:
    task = Task(id=STEER, instruction=question.request, image=question.image, done=tuple(done))
    plan = await models.ask(task)
    if isinstance(plan, Plan):
        return [*plan.steps]
    raise unanswered(f"there is no plan: {plan.line if isinstance(plan, Failure) else ''}", refused=False)


async def _judge(models: ServedModels, progress: _Progress, image: Image) -> tuple[bool, str]:
    step = progress.steps[0]
    candidate = Candidate(
        task_id=STEER,
        step=len(progress.done),
        source=progress.source,
        image=image,
        instruction=step.instruction,
        prompt=step.prompt or step.instruction,
        first_prompt=step.prompt,
    )
    verdict = await models.ask(candidate)
    if isinstance(verdict, Verdict):
        return verdict.success, verdict.reasoning or ""
    return False, f"not known: {verdict.line if isinstance(verdict, Failure) else ''}"
