"""Parse a model's reply to a Plan or a Verdict, or to a Problem that the model can correct.

The parser tolerates missing tags, code fences, prose around the JSON, single quotes, None and True, trailing
commas, unescaped quotes and a missing bracket before `</answer>`. It never guesses a meaning:

- A text with unescaped quotes whose words cannot all be read is a Problem, never a shorter text.
- A reply cut off by its length limit is a Problem, never a shorter plan.
- Steps keep their order and get new numbers, wherever they start. A number may occur twice; a gap or a step
  backwards is a Problem, for a step may be missing.
- A step may be words alone: no prompt, but an auxiliary text. Its first words replace a missing name.
- A verdict is one `true` or `false`. Anything else, or two that differ, is a Problem.
- A reply that repeats the form, as small models do, is a Problem, never the verdict in the form.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from goalreel.chat.json_reply import Problem, clean, read_model
from goalreel.types import Plan, Score, Step, Text, Verdict

MAX_STEPS = 40
"""The default limit of a plan."""
PASSING = 5
"""The lowest score that an accepted picture may have."""
FORM_PROMPT = "the whole prompt anew, or null"
"""Stands for the prompt in the form that a Critic is shown."""
_FORM_PROMPTS = (FORM_PROMPT, "the whole prompt anew, or the present one")
"""And in that of the dialect `interleavethinker`."""

_NOTHING = ("none", "null", "n/a")
_NAME_WORDS, _NAME_LENGTH = 5, 60
_NEXT_STEP = re.compile(r"""\}\s*,\s*\{\s*\\*["']?step_number""")
_FAULTS = 3
"""Of an object, that a model is told at once."""
_YES, _NO = ("true", "yes"), ("false", "no")


def _text(value: object) -> object:
    """Clean a text; a placeholder such as "..." becomes empty."""
    if not isinstance(value, str):
        return value
    text = clean(value).strip()
    return text if text.strip(" .…") else ""


def _nullable(value: object) -> object:
    """As `_text`, but None for a word such as "none" or "n/a"."""
    value = _text(value)
    return None if isinstance(value, str) and value.casefold() in _NOTHING else value


def _optional(value: object) -> object:
    return _nullable(value) or None if isinstance(value, str) else value


def _number(value: object) -> object:
    """1, 1.0, "1", "Step 1": the integer; anything else as it is."""
    if isinstance(value, str):
        digits = value.casefold().removeprefix("step").strip(" #.:")
        return int(digits) if digits.isdecimal() and len(digits) < 7 else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _truth(value: object) -> object:
    if not isinstance(value, str):
        return value
    word = value.strip().casefold()
    return True if word in _YES else False if word in _NO else value


_Words = Annotated[Text | None, BeforeValidator(_nullable)]
_Maybe = Annotated[Text | None, BeforeValidator(_optional)]


def _closed(schema: dict[str, Any]) -> None:
    """Adapt a schema to endpoints that enforce one: every key is required, no other, no default."""
    schema["additionalProperties"] = False
    for value in schema["properties"].values():
        value.pop("default", None)


class _Reply(BaseModel):
    model_config = ConfigDict(
        strict=True, json_schema_extra=_closed, json_schema_serialization_defaults_required=True
    )


class _Step(_Reply):
    step_number: Annotated[int | None, Field(ge=0, lt=10**6), BeforeValidator(_number)] = None
    step_name: _Maybe = None
    instruction: _Words
    prompt: _Words
    auxiliary_text: _Maybe = None


class _Plan(_Reply):
    execution_plan: Annotated[list[_Step], Field(min_length=1)]


class _Verdict(_Reply):
    previous_step_success: Annotated[bool, BeforeValidator(_truth)]
    refine_prompt: _Maybe = None


class _Scores(_Reply):
    success: Score
    over_editing: Score
    naturalness: Score
    artefacts: Score


class _ScoredVerdict(_Verdict):
    scores: _Scores | None = None


_PLAN_FIELDS = frozenset({*_Plan.model_fields, *_Step.model_fields})
_VERDICT_FIELDS = frozenset({*_ScoredVerdict.model_fields, *_Scores.model_fields})


def plan_schema(max_steps: int = MAX_STEPS) -> dict[str, Any]:
    """The JSON schema of a Planner's answer, for back ends that can enforce one."""
    schema = _Plan.model_json_schema(mode="serialization")
    schema["properties"]["execution_plan"]["maxItems"] = max_steps
    return schema


def verdict_schema(*, scores: bool) -> dict[str, Any]:
    """The JSON schema of a Critic's answer."""
    return (_ScoredVerdict if scores else _Verdict).model_json_schema(mode="serialization")


def parse_plan(reply: str, *, max_steps: int = MAX_STEPS) -> Plan | Problem:
    """Read a Planner's reply. Its steps may be numbered from anywhere, or not at all."""
    answer = read_model(_Plan, reply, "execution_plan", _PLAN_FIELDS, faults=_FAULTS)
    if isinstance(answer, Problem):
        return answer
    steps = answer[0].execution_plan
    if len(steps) > max_steps:
        return Problem(f"it has {len(steps)} steps: give at most {max_steps}")
    if gap := _missing_step([s.step_number for s in steps]):
        return Problem(gap)
    plan: list[Step] = []
    for place, reply_step in enumerate(steps):
        step = _plan_step(reply_step)
        if isinstance(step, Problem):
            return Problem(f"execution_plan.{place}.{step.message}")
        plan.append(step)
    return Plan(steps=tuple(plan))


def _plan_step(reply: _Step) -> Step | Problem:
    """Convert a step of a reply; a Problem's message begins with the field."""
    caption = reply.auxiliary_text
    instruction = reply.instruction or caption
    if instruction is None:
        return Problem("instruction: it is null, and so is auxiliary_text")
    if reply.prompt is None and caption is None:
        return Problem("prompt: it is null, and so is auxiliary_text")
    texts = (reply.step_name, reply.instruction, reply.prompt, caption)
    if any(_NEXT_STEP.search(text) for text in texts if text):
        return Problem("auxiliary_text: a text holds the next steps: close it before them")
    name = reply.step_name or " ".join(instruction.split()[:_NAME_WORDS])[:_NAME_LENGTH].rstrip()
    return Step(name=name, instruction=instruction, prompt=reply.prompt, auxiliary_text=caption)


def parse_verdict(reply: str) -> Verdict | Problem:
    """Read a Critic's reply. A rejection may lack `refine_prompt`, and any verdict its scores.

    Semantics and quality are each the lower of two sub-scores, as in VIEScore (arXiv 2312.14867), so that
    `Verdict.score` is the root of their product. Scores that contradict an acceptance are a Problem.
    """
    answer = read_model(_ScoredVerdict, reply, "previous_step_success", _VERDICT_FIELDS, faults=_FAULTS)
    if isinstance(answer, Problem):
        return answer
    read, thinking = answer
    if read.refine_prompt in _FORM_PROMPTS:
        return Problem("it repeats the form: write the prompt itself, or null")
    success, scores = read.previous_step_success, read.scores
    semantics = min(scores.success, scores.over_editing) if scores else None
    quality = min(scores.naturalness, scores.artefacts) if scores else None
    if success and any(s is not None and s < PASSING for s in (semantics, quality)):
        return Problem(f"it accepts the picture but gives it a score below {PASSING}")
    return Verdict(
        success=success,
        reasoning=thinking,
        refined_prompt=None if success else read.refine_prompt,
        semantics=semantics,
        quality=quality,
    )


def _missing_step(numbers: Sequence[int | None]) -> str | None:
    """The sign that a step may be missing; None without one. A step without a number is the next one."""
    last: int | None = None
    for number in numbers:
        if number is not None:
            if last is not None and number not in (last, last + 1):
                return f"step {number} follows step {last}: give every step, counted up by one"
            last = number
        elif last is not None:
            last += 1
    return None
