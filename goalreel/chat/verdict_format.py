"""The form of a Critic's reply: what it is asked to hold, and how it is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from goalreel.chat.conversation import TokenReply
from goalreel.chat.json_reply import Problem
from goalreel.chat.parsing import FORM_PROMPT, parse_verdict, verdict_schema
from goalreel.chat.token_probability import probability_of_yes
from goalreel.types import Verdict

DECIMALS = 3
"""Of a probability. What lies behind them is a model's rounding, which another batch size changes."""

_VERDICT = f'{{"previous_step_success": false, "refine_prompt": "{FORM_PROMPT}"%s}}'
_SCORES = ', "scores": {"success": 0, "over_editing": 0, "naturalness": 0, "artefacts": 0}'


@dataclass(frozen=True)
class VerdictFormat:
    """How a verdict is written. `schema` and `example` take whether scores are asked for."""

    schema: Callable[[bool], Mapping[str, Any]]
    """The JSON schema, for back ends that can enforce one."""
    example: Callable[[bool], str]
    """What a model is shown."""
    parse: Callable[[str], Verdict | Problem]
    with_probability: Callable[[Verdict, TokenReply], Verdict] | None
    """Adds the probability of success from the tokens of the reply; None where the form has none."""


def verdict_example(scores: bool) -> str:
    """Return the form of a verdict, as a model is shown it."""
    return _VERDICT % (_SCORES if scores else "")


def _with_probability(verdict: Verdict, reply: TokenReply) -> Verdict:
    probability = probability_of_yes(reply, "previous_step_success", value=verdict.success)
    if probability is None:
        return verdict
    return verdict.model_copy(update={"probability": round(probability, DECIMALS)})


PUBLISHED_FORMAT = VerdictFormat(
    lambda scores: verdict_schema(scores=scores), verdict_example, parse_verdict, _with_probability
)
"""The keys of InterleaveThinker's published checkpoints."""
