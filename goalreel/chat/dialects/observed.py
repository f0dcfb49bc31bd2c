"""The dialect for goal images that are frames of a camera: does the state hold, and can it be seen?

Nothing was edited, so there is no prompt to rewrite. What cannot be told is a rejection that says so.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from goalreel.chat.conversation import Conversation, Message
from goalreel.chat.dialects.own import OwnDialect
from goalreel.chat.dialects.protocol import DialectName, Mode
from goalreel.chat.interleave import interleave, plain
from goalreel.chat.json_reply import Problem, read_model
from goalreel.chat.prompts import render
from goalreel.chat.verdict_format import VerdictFormat
from goalreel.types import Candidate, Verdict

_EXAMPLE = '{"holds": "yes, no or cannot tell", "reason": "what shows it, or what hides it"}'
_OPENINGS = {"yes": "", "no": "The state does not hold: ", "cannot tell": "Cannot see: "}


def _normalized(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        " ".join(value.casefold().replace("_", " ").split()).strip(" .") if isinstance(value, str) else value
    )


class _Observation(BaseModel):
    model_config = ConfigDict(strict=True, json_schema_extra={"additionalProperties": False})

    holds: Annotated[Literal["yes", "no", "cannot tell"], BeforeValidator(_normalized)]
    reason: Annotated[str, Field(min_length=1, pattern=r"\S")]


def parse_observation(reply: str) -> Verdict | Problem:
    """Read the reply. Only a plain yes accepts."""
    answer = read_model(_Observation, reply, "holds", frozenset(_Observation.model_fields))
    if isinstance(answer, Problem):
        return answer
    observation, _ = answer
    reasoning = f"{_OPENINGS[observation.holds]}{observation.reason.strip()}"
    return Verdict(success=observation.holds == "yes", reasoning=reasoning)


class ObservedDialect(OwnDialect):
    """`own`, with a question of its own for a Critic, who answers yes, no or cannot tell."""

    name: DialectName | Literal["observed"] = "observed"
    scored = False
    verdict_format = VerdictFormat(
        lambda scores: _Observation.model_json_schema(), lambda scores: _EXAMPLE, parse_observation, None
    )

    def judge(self, candidate: Candidate, *, mode: Mode, scores: bool) -> Conversation:
        values = {"has_source": candidate.source is not None, "instruction": plain(candidate.instruction)}
        pictures = [p for p in (candidate.source, candidate.image) if p is not None]
        system = render("critic/observed_system", {"example": _EXAMPLE})
        user = interleave(render("critic/observed", values), pictures)
        return Message("system", (system,)), Message("user", user)
