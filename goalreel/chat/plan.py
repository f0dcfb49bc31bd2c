"""The form of a plan in a Planner's reply: its schema, how it is read, and how it is written.

The numbers of steps may start anywhere and occur twice. A gap or a step backwards is a Problem, for a step
may be missing. A step may be words alone: no prompt, but an auxiliary text. Its first words name it.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from goalreel.chat.json_reply import NullableText, OptionalText, Problem, ReplyModel, read_model, tagged_reply
from goalreel.types import Plan, Step

MAX_STEPS = 40
"""The default limit of a plan."""
FAULTS = 3
"""The most faults of an object that a model is told at once."""
_NAME_WORDS, _NAME_LENGTH = 5, 60
_NEXT_STEP = re.compile(r"""\}\s*,\s*\{\s*\\*["']?step_number""")


def _number(value: object) -> object:
    """1, 1.0, "1", "Step 1": the integer; anything else as it is."""
    if isinstance(value, str):
        digits = value.casefold().removeprefix("step").strip(" #.:")
        return int(digits) if digits.isdecimal() and len(digits) < 7 else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _Step(ReplyModel):
    step_number: Annotated[int | None, Field(ge=0, lt=10**6), BeforeValidator(_number)] = None
    step_name: OptionalText = None
    instruction: NullableText
    prompt: NullableText
    auxiliary_text: OptionalText = None


class _Plan(ReplyModel):
    execution_plan: Annotated[list[_Step], Field(min_length=1)]


def plan_schema(max_steps: int = MAX_STEPS) -> dict[str, Any]:
    """The JSON schema of a Planner's answer, for back ends that can enforce one."""
    schema = _Plan.model_json_schema(mode="serialization")
    schema["properties"]["execution_plan"]["maxItems"] = max_steps
    return schema


def plan_example(first: int) -> str:
    """Return the form of a plan whose steps are counted from `first`, as a model is reminded of it."""
    return (
        f'{{"execution_plan": [{{"step_number": {first}, "step_name": "...", "instruction": "...", '
        '"prompt": "...", "auxiliary_text": null}]}'
    )


def parse_plan(reply: str, *, max_steps: int = MAX_STEPS) -> Plan | Problem:
    """Read a Planner's reply."""
    answer = read_model(_Plan, reply, "execution_plan", faults=FAULTS)
    if isinstance(answer, Problem):
        return answer
    read, parsed = answer
    if len(read.execution_plan) > max_steps:
        return Problem(f"it has {len(read.execution_plan)} steps: give at most {max_steps}")
    if gap := _missing_step([s.step_number for s in read.execution_plan]):
        return Problem(gap)
    steps = [_plan_step(step) for step in read.execution_plan]
    for place, step in enumerate(steps):
        if isinstance(step, Problem):
            return Problem(f"execution_plan.{place}.{step.message}")
    return Plan(steps=tuple(s for s in steps if isinstance(s, Step)), reasoning=parsed.thinking)


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


def _missing_step(numbers: Sequence[int | None]) -> str | None:
    """The sign that a step may be missing; None without one. A step without a number is the next one."""
    last: int | None = None
    for number in numbers:
        if number is None:
            last = None if last is None else last + 1
            continue
        if last is not None and number not in (last, last + 1):
            return f"step {number} follows step {last}: give every step, counted up by one"
        last = number
    return None


def plan_reply(plan: Plan, thinking: str, first: int = 1) -> str:
    """A Planner's reply, its steps counted from `first`; `parse_plan` reads them back, without segments."""
    fields = {"instruction", "prompt", "auxiliary_text"}
    steps = [
        {"step_number": number, "step_name": step.name, **step.model_dump(include=fields)}
        for number, step in enumerate(plan.steps, first)
    ]
    return tagged_reply(thinking, {"execution_plan": steps})
