"""Rows of a corpus: each a question to an agent, with the true answer and where it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal

from goalreel.chat.dialects import OWN, Dialect
from goalreel.chat.plan import plan_reply
from goalreel.chat.verdict import verdict_reply
from goalreel.critics.chat import Mode, question as critic_question
from goalreel.datasets.corpora.rows import (
    PICTURE,
    TALK,
    Column,
    Lesson,
    RowKind,
    decode_lesson,
    encode_lesson,
)
from goalreel.image import Image
from goalreel.planners.chat import question as planner_question
from goalreel.tabletop.scene import SubGoal
from goalreel.types import Candidate, Failure, Plan, Task, Verdict
from goalreel_lab.variety import PLAIN, View

type Register = Literal["terse", "explicit"]
"""Register of a prompt: as a Planner first says it, or with colour, place and what must stay."""
type Mistake = Literal[
    "nothing_moved",
    "wrong_object",
    "wrong_place",
    "also_moved",
    "vanished",
    "deformed",
    "near_miss",
    "relabelled",
    "editor",
    "dropped",
    "waiting",
    "carrying",
    "hovering",
    "released",
    "undone",
]
"""Fault of a candidate; `relabelled`: it is the true target of another sub-goal than is asked for;
`editor`: a real mistake of a trained editor. The last six are a robot's: a block that it lost, what it was
about when it was not done yet, and a sub-goal that it undid again."""


@dataclass(frozen=True)
class Origin:
    """Enough to make the row's scene again, by `walk` as its maker calls it: the episode's seed, and how many
    of its sub-goals are done."""

    seed: int
    done: int
    held_out: tuple[str, ...] = ()
    """Names of the compositions in the row that training never shows; empty in a training row."""
    view: View = PLAIN
    """View of the episode."""


@dataclass(frozen=True)
class PlanRow:
    """A question to the Planner with its answer: (frame, instruction) -> plan."""

    image: Image
    instruction: str
    plan: Plan
    thinking: str
    """Reasoning before the plan."""
    goals: tuple[SubGoal, ...]
    origin: Origin


@dataclass(frozen=True)
class ContinuationRow:
    """A question to the Planner under way with its answer: what was done -> the plan for the rest.

    `origin.done` sub-goals are behind.
    """

    lesson: Lesson
    goals: tuple[SubGoal, ...]
    """Goals of the whole episode."""
    origin: Origin


@dataclass(frozen=True)
class EditRow:
    """A request to the editor with its answer: (source, prompt) -> goal image."""

    source: Image
    prompt: str
    register: Register
    instruction: str
    """State that must become true, as the step says it."""
    goal: SubGoal
    target: Image
    origin: Origin


@dataclass(frozen=True)
class VerdictRow:
    """A question to the Critic with its answer: (source, candidate, instruction, prompt) -> verdict.

    The verdict gives its reason and, where it rejects, a better prompt. Of a row about a whole task `goal` is
    the last one.
    """

    source: Image
    candidate: Image
    instruction: str
    prompt: str
    goal: SubGoal
    verdict: Verdict
    mistake: Mistake | None
    origin: Origin


def plan_lesson(row: PlanRow) -> Lesson:
    """Make the conversation of `ChatPlanner`; the reply first says where everything stands and goes.

    Raises:
        ValueError: the row is no question, such as an instruction with an image mark.
    """
    question = planner_question(task_of(row))
    if isinstance(question, Failure):
        raise ValueError(question.message)
    return question.conversation, plan_reply(row.plan, row.thinking)


def verdict_lesson(row: VerdictRow, mode: Mode = "strict", dialect: Dialect = OWN) -> Lesson:
    """Make the conversation of `ChatCritic` in a mode; the reply is the true verdict."""
    question = critic_question(candidate_of(row), mode=mode, dialect=dialect)
    return question.conversation, verdict_reply(row.verdict)


def task_of(row: PlanRow) -> Task:
    return Task(id=str(row.origin.seed), instruction=row.instruction, image=row.image)


def candidate_of(row: VerdictRow) -> Candidate:
    return Candidate(
        task_id=str(row.origin.seed),
        step=row.origin.done,
        source=row.source,
        image=row.candidate,
        instruction=row.instruction,
        prompt=row.prompt,
    )


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
