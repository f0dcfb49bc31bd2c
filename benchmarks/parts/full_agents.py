"""goalreel's agents on models of random weights: timed, and with replies of a script."""

import time
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from goalreel.chat.conversation import Conversation, NoReply, TokenReply
from goalreel.chat.hf import HfChat
from goalreel.chat.reply_format import plan_reply, verdict_reply
from goalreel.middleware import AskAdapter
from goalreel.types import Answer, Failure, Plan, Planner, Request, Stage, Step, Task, Verdict


def whole[T](answers: Sequence[T | Failure]) -> list[T]:
    """The answers; a failed one ends the part."""
    for answer in answers:
        if isinstance(answer, Failure):
            raise RuntimeError(f"{answer.stage} failed: {answer.message}")
    return [answer for answer in answers if not isinstance(answer, Failure)]


class Stages(AskAdapter):
    """Three models that are timed by stage."""

    def __init__(self, models: AskAdapter) -> None:
        super().__init__(self._ask)
        self._models = models
        self.seconds: defaultdict[Stage, float] = defaultdict(float)
        self.calls: defaultdict[Stage, int] = defaultdict(int)
        self.requests: defaultdict[Stage, int] = defaultdict(int)

    def _ask(self, stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
        start = time.perf_counter()
        answers = whole(self._models.ask(stage, requests))
        self.seconds[stage] += time.perf_counter() - start
        self.calls[stage] += 1
        self.requests[stage] += len(requests)
        return answers


class Plans:
    """Plans that were all made before the loop began."""

    def __init__(self, planner: Planner, tasks: Sequence[Task], batch: int) -> None:
        batches = [planner.plan(tasks[i : i + batch]) for i in range(0, len(tasks), batch)]
        self._plans = dict(zip((t.id for t in tasks), (p for b in batches for p in b), strict=True))

    def plan(self, tasks: Sequence[Task]) -> list[Any]:
        """Answer from memory."""
        return [self._plans[task.id] for task in tasks]


class ScriptedReplies:
    """A chat whose random replies are replaced by plans or verdicts, after the model has written them.

    The replacement depends on the conversation's text alone, so both ways to run the loop do the same work.
    """

    def __init__(self, chat: HfChat, role: Literal["planner", "critic"]) -> None:
        self._chat = chat
        self._reply = _plan if role == "planner" else _verdict

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[str]:
        """Let the model write, and return a reply of the form that the role needs."""
        _check(self._chat.complete(conversations, schema=schema))
        return [self._reply(c) for c in conversations]

    def complete_tokens(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[TokenReply]:
        """Do the same with the probabilities of the model's tokens."""
        _check(self._chat.complete_tokens(conversations, schema=schema))
        return [TokenReply(self._reply(c)) for c in conversations]


def _check(replies: Sequence[object]) -> None:
    """End the benchmark where a model wrote fewer tokens than it was to."""
    for reply in replies:
        if not (isinstance(reply, NoReply) and reply.cut_off is not None):
            raise RuntimeError(f"a reply of another length: {reply}")


def _number(conversation: Conversation) -> int:
    """A number from the conversation's text, the same in every process."""
    text = "".join(p for message in conversation for p in message.parts if isinstance(p, str))
    return zlib.crc32(text.encode())


def _plan(conversation: Conversation) -> str:
    number = _number(conversation)
    steps = (
        Step(name=f"step {k}", instruction=f"state {k} of {number}", prompt=f"edit {k} of {number}")
        for k in range(2 + number % 3)
    )
    return plan_reply(Plan(steps=tuple(steps)), "short")


def _verdict(conversation: Conversation) -> str:
    number = _number(conversation)
    return verdict_reply(Verdict(success=number % 5 > 1, reasoning="short", refined_prompt=f"edit {number}"))
