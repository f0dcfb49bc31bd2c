"""The kinds of row as a corpus stores them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from goalreel.datasets.corpora.conversations import TALK, decode_lesson, encode_lesson
from goalreel.datasets.corpora.kind import PICTURE, Column, Lesson, RowKind
from goalreel.tabletop.lessons.conversations import plan_lesson, verdict_lesson
from goalreel.tabletop.lessons.rows import ContinuationRow, EditRow, Origin, PlanRow, VerdictRow
from goalreel.tabletop.sim.predicates import SubGoal
from goalreel.tabletop.sim.variety import View
from goalreel.types import Plan, Verdict

_GOAL: Column = {"kind": "string", "object": "string", "target": "string"}
_ORIGIN: dict[str, Column] = {
    "seed": "int64",
    "done": "int32",
    "held_out": ("string",),
    "look": "string",
    "camera": "string",
}


def _encode_origin(origin: Origin) -> dict[str, Any]:
    return {
        "seed": origin.seed,
        "done": origin.done,
        "held_out": list(origin.held_out),
        "look": origin.view.look,
        "camera": origin.view.camera,
    }


def _decode_origin(values: Mapping[str, Any]) -> Origin:
    view = View(values["look"], values["camera"])
    return Origin(values["seed"], values["done"], tuple(values["held_out"]), view)


def _encode_plan(row: PlanRow) -> dict[str, Any]:
    return {
        "image": row.image,
        "instruction": row.instruction,
        "plan": row.plan.model_dump_json(),
        "thinking": row.thinking,
        "goals": [vars(goal) for goal in row.goals],
        **_encode_origin(row.origin),
    }


def _decode_plan(values: Mapping[str, Any]) -> PlanRow:
    return PlanRow(
        image=values["image"],
        instruction=values["instruction"],
        plan=Plan.model_validate_json(values["plan"]),
        thinking=values["thinking"],
        goals=tuple(SubGoal(**goal) for goal in values["goals"]),
        origin=_decode_origin(values),
    )


def _encode_edit(row: EditRow) -> dict[str, Any]:
    columns = {name: getattr(row, name) for name in ("source", "target", "instruction", "prompt", "register")}
    return {**columns, "goal": vars(row.goal), **_encode_origin(row.origin)}


def _decode_edit(values: Mapping[str, Any]) -> EditRow:
    return EditRow(
        source=values["source"],
        prompt=values["prompt"],
        register=values["register"],
        instruction=values["instruction"],
        goal=SubGoal(**values["goal"]),
        target=values["target"],
        origin=_decode_origin(values),
    )


def _encode_verdict(row: VerdictRow) -> dict[str, Any]:
    columns = {
        name: getattr(row, name) for name in ("source", "candidate", "instruction", "prompt", "mistake")
    }
    verdict = {name: getattr(row.verdict, name) for name in ("success", "reasoning", "refined_prompt")}
    return {**columns, **verdict, "goal": vars(row.goal), **_encode_origin(row.origin)}


def _decode_verdict(values: Mapping[str, Any]) -> VerdictRow:
    verdict = {name: values[name] for name in ("success", "reasoning", "refined_prompt")}
    return VerdictRow(
        source=values["source"],
        candidate=values["candidate"],
        instruction=values["instruction"],
        prompt=values["prompt"],
        goal=SubGoal(**values["goal"]),
        verdict=Verdict(**verdict),
        mistake=values["mistake"],
        origin=_decode_origin(values),
    )


def _encode_continuation(row: ContinuationRow) -> dict[str, Any]:
    goals = [vars(goal) for goal in row.goals]
    return {**encode_lesson(row.lesson), "goals": goals, **_encode_origin(row.origin)}


def _decode_continuation(values: Mapping[str, Any]) -> ContinuationRow:
    goals = tuple(SubGoal(**goal) for goal in values["goals"])
    return ContinuationRow(decode_lesson(values), goals, _decode_origin(values))


def _continuation_lesson(row: ContinuationRow) -> Lesson:
    return row.lesson


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
    encode=_encode_plan,
    decode=_decode_plan,
    json_columns=tuple(_ORIGIN),
    lesson=plan_lesson,
)
CONTINUATIONS = RowKind(
    name="continuations",
    columns={**TALK, "goals": (_GOAL,), **_ORIGIN},
    encode=_encode_continuation,
    decode=_decode_continuation,
    json_columns=tuple(_ORIGIN),
    lesson=_continuation_lesson,
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
    encode=_encode_edit,
    decode=_decode_edit,
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
        "success": "bool",
        "reasoning": "string",
        "refined_prompt": "string",
        "mistake": "string",
        **_ORIGIN,
    },
    encode=_encode_verdict,
    decode=_decode_verdict,
    json_columns=tuple(_ORIGIN),
    lesson=verdict_lesson,
)
LIVE = replace(VERDICTS, name="live")
WHOLES = replace(VERDICTS, name="wholes")
