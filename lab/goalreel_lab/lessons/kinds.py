"""The kinds of row as a corpus stores them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from goalreel.datasets.corpora.rows import PICTURE, TALK, Column, RowKind, decode_lesson, encode_lesson
from goalreel.tabletop.scene import SubGoal
from goalreel.tabletop.variety import View
from goalreel.types import Plan, Verdict
from goalreel_lab.lessons.conversations import plan_lesson, verdict_lesson
from goalreel_lab.lessons.rows import ContinuationRow, EditRow, Origin, PlanRow, VerdictRow

_GOAL: Column = {"kind": "string", "object": "string", "target": "string"}
_VERDICT: dict[str, Column] = {"success": "bool", "reasoning": "string", "refined_prompt": "string"}
_ORIGIN: dict[str, Column] = {
    "seed": "int64",
    "done": "int32",
    "held_out": ("string",),
    "look": "string",
    "camera": "string",
}


type CorpusRow = PlanRow | ContinuationRow | EditRow | VerdictRow


def _encode(row: CorpusRow) -> dict[str, Any]:
    """Store each field in the column of its name, but the verdict, the lesson and the origin in several."""
    return {k: v for field, value in vars(row).items() for k, v in _columns(field, value).items()}


def _columns(field: str, value: Any) -> dict[str, Any]:
    match field:
        case "origin":
            view = {"look": value.view.look, "camera": value.view.camera}
            return {"seed": value.seed, "done": value.done, "held_out": list(value.held_out), **view}
        case "verdict":
            return {name: getattr(value, name) for name in _VERDICT}
        case "lesson":
            return encode_lesson(value)
        case "plan":
            return {field: value.model_dump_json()}
        case "goal":
            return {field: vars(value)}
        case "goals":
            return {field: [vars(goal) for goal in value]}
    return {field: value}


def _decode[R](row: type[R], values: Mapping[str, Any]) -> R:
    return row(**{field: _field(field, values) for field in row.__annotations__})


def _field(field: str, values: Mapping[str, Any]) -> Any:
    match field:
        case "origin":
            view = View(values["look"], values["camera"])
            return Origin(values["seed"], values["done"], tuple(values["held_out"]), view)
        case "verdict":
            return Verdict(**{name: values[name] for name in _VERDICT})
        case "lesson":
            return decode_lesson(values)
        case "plan":
            return Plan.model_validate_json(values[field])
        case "goal":
            return SubGoal(**values[field])
        case "goals":
            return tuple(SubGoal(**goal) for goal in values[field])
    return values[field]


PLANS = RowKind(
    name="plans",
    columns={
        "image": PICTURE,
        "instruction": "string",
        "plan": "string",
        "thinking": "string",
        "goals": (_GOAL,),
        **_ORIGIN,
    },
    encode=_encode,
    decode=partial(_decode, PlanRow),
    json_columns=tuple(_ORIGIN),
    lesson=plan_lesson,
)
CONTINUATIONS = RowKind(
    name="continuations",
    columns={**TALK, "goals": (_GOAL,), **_ORIGIN},
    encode=_encode,
    decode=partial(_decode, ContinuationRow),
    json_columns=tuple(_ORIGIN),
    lesson=attrgetter("lesson"),
)
EDITS = RowKind(
    name="edits",
    columns={
        "source": PICTURE,
        "target": PICTURE,
        "instruction": "string",
        "prompt": "string",
        "register": "string",
        "goal": _GOAL,
        **_ORIGIN,
    },
    encode=_encode,
    decode=partial(_decode, EditRow),
    json_columns=("source", "target", "prompt", "register", *_ORIGIN),
)
VERDICTS = RowKind(
    name="verdicts",
    columns={
        "source": PICTURE,
        "candidate": PICTURE,
        "instruction": "string",
        "prompt": "string",
        "goal": _GOAL,
        **_VERDICT,
        "mistake": "string",
        **_ORIGIN,
    },
    encode=_encode,
    decode=partial(_decode, VerdictRow),
    json_columns=tuple(_ORIGIN),
    lesson=verdict_lesson,
)
LIVE = replace(VERDICTS, name="live")
WHOLES = replace(VERDICTS, name="wholes")
