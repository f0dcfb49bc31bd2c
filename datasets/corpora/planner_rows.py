"""Rows for the Planner (InterleaveThinker, section 3.2): plans, storyboards cut at a random step, whole ones.

A cut storyboard is asked about as `ChatPlanner.continue_plan` asks, but without the earlier plan for the
rest, which would give the answer away. Of whole storyboards, `easy` has the accepted attempts alone;
`reflection` has the rejected ones too, with the Critic's words. A model that learns them plans and judges.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goalreel.chat.conversation import MARK, Message, plain
from goalreel.chat.dialects import OWN, Dialect, own
from goalreel.chat.plan import plan_reply
from goalreel.chat.verdict import verdict_reply
from goalreel.datasets.corpora.rows import PICTURE, Column, Lesson, RowKind, TalkRow, talks
from goalreel.datasets.corrections.board import critic_words
from goalreel.image import Image
from goalreel.planners.chat import question, rest_question
from goalreel.types import Failure, Plan, ReplanContext, Storyboard, Verdict

PLANS, CONTINUATIONS, EASY, REFLECTION = map(talks, ("plans", "continuations", "easy", "reflection"))


def brief_reasoning(names: Sequence[str], done: int) -> str:
    """Write the reasoning of a plan without any: the steps done, and those that remain."""
    steps = "1 step remains" if len(names) == 1 else f"{len(names)} steps remain"
    return f"{f'{done} done, ' if done else ''}{steps}: {'; '.join(names)}."


def plan_row(board: Storyboard, task_id: str, dialect: Dialect = OWN) -> TalkRow:
    """Make the row of a whole plan; raises ValueError where the task's pictures do not fit its marks."""
    request = question(board.task, dialect=dialect)
    if isinstance(request, Failure):
        raise ValueError(request.message)
    plan, done = Plan(steps=tuple(step.step for step in board.steps)), len(board.task.done)
    return TalkRow(task_id, done, (request.conversation, plan_reply(plan, _reasoning(board), done + 1)))


def _reasoning(board: Storyboard) -> str:
    """Take the Planner's own thoughts, if the record has them."""
    return board.reasoning or brief_reasoning([s.step.name for s in board.steps], len(board.task.done))


def continuation_row(board: Storyboard, task_id: str, done: int, dialect: Dialect = OWN) -> TalkRow:
    """Make the row of a storyboard cut after `done` steps."""
    past = board.model_copy(update={"steps": board.steps[:done], "phases": ()})
    now = next((s.goal_image for s in reversed(past.steps) if s.goal_image is not None), board.task.image)
    rest = Plan(steps=tuple(s.step for s in board.steps[done:]))
    names = [step.name for step in rest.steps]
    progress, thinking = ReplanContext(past, done, now), brief_reasoning(names, done)
    return TalkRow(task_id, done, rest_lesson(progress, rest, thinking, dialect))


def rest_lesson(progress: ReplanContext, rest: Plan, thinking: str, dialect: Dialect = OWN) -> Lesson:
    """Make the conversation of `ChatPlanner.continue_plan`, with the plan for the rest as the reply.

    Raises:
        ValueError: the task's pictures do not fit its marks.
    """
    request = rest_question(progress, dialect=dialect)
    if isinstance(request, Failure):
        raise ValueError(request.message)
    first = len(progress.storyboard.task.done) + progress.done + 1
    return request.conversation, plan_reply(rest, thinking, first)


def sequence_row(board: Storyboard, task_id: str, *, rejected: bool, dialect: Dialect = OWN) -> TalkRow:
    """Make the row of a storyboard as a conversation, with or without its `rejected` attempts.

    Raises:
        ValueError: it has no plan, or no accepted picture.
    """
    first = plan_row(board, task_id, dialect)
    conversation, reply = first.lesson
    turns = [*conversation, Message("assistant", (reply,))]
    for number, picture, prompt, verdict in _attempts(board, rejected):
        state = plain(board.steps[number].step.instruction)
        text = f"Step {first.done + number + 1}: {state}\nOrder: {plain(prompt)}\nPicture: "
        reply = verdict_reply(verdict, prompt if dialect.repeats else None)
        turns += [Message("user", (text, picture)), Message("assistant", (reply,))]
    *conversation, last = turns
    return TalkRow(task_id, first.done, (tuple(conversation), str(last.parts[0])))


def _attempts(board: Storyboard, rejected: bool) -> Iterator[tuple[int, Image, str, Verdict]]:
    """Yield each step's place, and of each of its judged attempts the picture, the prompt and the verdict."""
    for number, step in enumerate(board.steps):
        for i, attempt in enumerate(step.attempts):
            if attempt.image is not None and attempt.verdict is not None and (rejected or i == step.chosen):
                verdict = attempt.verdict.model_copy(update={"reasoning": critic_words(attempt.verdict)})
                yield number, attempt.image, attempt.prompt, verdict


type UnifiedRow = Mapping[str, Any]
"""A row as its columns: a task and the whole reply; `outputs` has the picture of each attempt."""

OUTPUT = "<image><img_token></image>"
"""The place of a picture that the model draws."""
_VERDICT = {"success": "bool", "reasoning": "string", "refined_prompt": "string"}
_COLUMNS: Mapping[str, Column] = {
    "task_id": "string",
    "instruction": "string",
    "inputs": (PICTURE,),
    "thinking": "string",
    "steps": ({"name": "string", "instruction": "string", "prompt": "string", "auxiliary_text": "string"},),
    "attempts": ({"step": "int32", "prompt": "string", **_VERDICT},),
    "outputs": (PICTURE,),
    "judged": "bool",
    "markup": "string",
}


def unified_row(board: Storyboard, task_id: str, *, rejected: bool) -> UnifiedRow:
    """Make the row of a storyboard, with or without its `rejected` attempts and the Critic's words."""
    scene, pictures = own.task_images(board.task)
    attempts, outputs = [], []
    for number, picture, prompt, verdict in _attempts(board, rejected):
        outputs.append(picture)
        answer = {name: getattr(verdict, name) for name in _VERDICT}
        attempts.append({"step": number, "prompt": prompt, **answer})
    fields = ("name", "instruction", "prompt", "auxiliary_text")
    row = {
        "task_id": task_id,
        "instruction": f"{'' if scene is None else MARK}{board.task.instruction}",
        "inputs": list(pictures if scene is None else (scene, *pictures)),
        "thinking": _reasoning(board),
        "steps": [{name: getattr(step.step, name) for name in fields} for step in board.steps],
        "attempts": attempts,
        "outputs": outputs,
        "judged": rejected,
    }
    return {**row, "markup": markup(row)}


def markup(row: UnifiedRow) -> str:
    """Write the reply as text, with OUTPUT at the place of each picture."""
    parts = [f"<gthink>\n{plain(row['thinking'])}\n</gthink>"]
    for number, step in enumerate(row["steps"]):
        if step["prompt"] is not None:
            parts.append(f"<plan>\n{plain(step['prompt'])}\n</plan>")
        for attempt in row["attempts"]:
            if attempt["step"] == number:
                parts += [OUTPUT, _critic(attempt)] if row["judged"] else [OUTPUT]
        if step["auxiliary_text"]:
            parts.append(f"<info>\n{plain(step['auxiliary_text'])}\n</info>")
    return "\n".join(parts) + "\n"


def _critic(attempt: Mapping[str, Any]) -> str:
    answer = {"success": attempt["success"], "refine_prompt": attempt["refined_prompt"] or ""}
    reply = plain(json.dumps(answer, ensure_ascii=False))
    return f"<critic>\n<think>\n{plain(attempt['reasoning'])}\n</think>\n{reply}\n</critic>"


def _messages(row: UnifiedRow) -> tuple[list[dict[str, str]], list[Image]]:
    """Give the two turns, and the pictures in order: those of the task, then those that are drawn."""
    said = {"user": row["instruction"], "assistant": row["markup"]}
    turns = [{"role": role, "content": content} for role, content in said.items()]
    return turns, [*row["inputs"], *row["outputs"]]


UNIFIED_EASY, UNIFIED_REFLECTION = (
    RowKind(name, _COLUMNS, dict, dict, ("task_id",), messages=_messages) for name in ("easy", "reflection")
)
