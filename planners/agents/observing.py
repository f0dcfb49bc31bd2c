"""The Critic for goal images that are frames of a recording: does the state hold, and can it be seen?

Nothing was edited, so there is no prompt to rewrite. What cannot be told is a rejection that says so.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from goalreel.errors import InputError
from goalreel.planners.agents.ask import Question, ask
from goalreel.planners.agents.json_reply import Problem, read_answer
from goalreel.planners.agents.prompts import render
from goalreel.planners.chat.conversation import Chat, Message
from goalreel.planners.chat.interleave import interleave, plain
from goalreel.types import Candidate, Failure, Verdict

EXAMPLE = '{"holds": "yes, no or cannot tell", "reason": "what shows it, or what hides it"}'


def _word(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        " ".join(value.casefold().replace("_", " ").split()).strip(" .") if isinstance(value, str) else value
    )


class _Observation(BaseModel):
    model_config = ConfigDict(strict=True, json_schema_extra={"additionalProperties": False})

    holds: Annotated[Literal["yes", "no", "cannot tell"], BeforeValidator(_word)]
    reason: Annotated[str, Field(min_length=1, pattern=r"\S")]


class ObservingCritic:
    """Judges frames of recordings with any chat model, asking at most `replies` times a candidate.

    Raises:
        ValueError: `replies` is less than 1.
        InputError: a `threshold` is given, and this critic tells no probability.
    """

    def __init__(self, chat: Chat, *, replies: int = 3, threshold: float | None = None) -> None:
        if replies < 1:
            raise ValueError(f"replies must be at least 1, got {replies}")
        if threshold is not None:
            raise InputError(
                "a critic of recorded frames says yes, no or cannot tell: leave the critic's threshold out"
            )
        self._chat = chat
        self._replies = replies

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict | Failure]:
        """Answer i judges candidate i; never with a refined prompt.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        questions = [Question(_asked(c), read_observation, _again) for c in candidates]
        schema: Mapping[str, Any] = _Observation.model_json_schema()
        return ask(self._chat, questions, stage="judge", replies=self._replies, schema=schema)


def read_observation(reply: str) -> Verdict | Problem:
    """Read the reply. Only a plain yes accepts."""
    answer = read_answer(reply, "holds", frozenset(_Observation.model_fields))
    if isinstance(answer, Problem):
        return answer
    try:
        said = _Observation.model_validate(answer.value)
    except ValidationError as e:
        fault = e.errors(include_input=False, include_url=False, include_context=False)[0]
        return Problem(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}")
    opening = {"yes": "", "no": "The state does not hold: ", "cannot tell": "Cannot see: "}[said.holds]
    return Verdict(success=said.holds == "yes", reasoning=f"{opening}{said.reason.strip()}")


def _asked(candidate: Candidate) -> tuple[Message, ...]:
    values = {"has_source": candidate.source is not None, "instruction": plain(candidate.instruction)}
    pictures = [p for p in (candidate.source, candidate.image) if p is not None]
    system = render("critic/observed_system", {"example": EXAMPLE})
    user = interleave(render("critic/observed", values), pictures)
    return Message("system", (system,)), Message("user", user)


def _again(problem: Problem) -> str:
    return plain(render("critic/again", {"problem": problem.message, "example": EXAMPLE}))
