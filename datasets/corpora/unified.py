"""Whole storyboards for models that plan, draw and judge in one reply: one turn of the assistant.

The reply holds the plan's reasoning, each step's prompt, its pictures as outputs, the Critic's words and the
words for a reader, in the markup that InterleaveThinker's `data_gen/README.md` gives. The columns hold the
same in parts. `easy` and `reflection` differ as in `planner_rows`.
"""

import json
from collections.abc import Mapping
from typing import Any

from goalreel.chat.dialects.own import task_images
from goalreel.chat.interleave import MARK, plain
from goalreel.datasets.corpora.planner_rows import brief_reasoning
from goalreel.datasets.corpora.rows import PICTURE, Column, RowKind
from goalreel.datasets.corrections.board import critic_words
from goalreel.image import Image
from goalreel.types import Storyboard

type UnifiedRow = Mapping[str, Any]
"""A row as its columns: a task and the whole reply; `outputs` has the picture of each attempt."""

OUTPUT = "<image><img_token></image>"
"""The place of a picture that the model draws."""
_COLUMNS: Mapping[str, Column] = {
    "task_id": "string",
    "instruction": "string",
    "inputs": (PICTURE,),
    "thinking": "string",
    "steps": ({"name": "string", "instruction": "string", "prompt": "string", "auxiliary_text": "string"},),
    "attempts": (
        {
            "step": "int32",
            "prompt": "string",
            "success": "bool",
            "reasoning": "string",
            "refined_prompt": "string",
        },
    ),
    "outputs": (PICTURE,),
    "judged": "bool",
    "markup": "string",
}


def unified_row(board: Storyboard, task_id: str, *, rejected: bool) -> UnifiedRow:
    """Make the row of a storyboard, with or without its `rejected` attempts and the Critic's words."""
    scene, pictures = task_images(board.task)
    attempts, outputs = [], []
    for number, step in enumerate(board.steps):
        for i, attempt in enumerate(step.attempts):
            verdict = attempt.verdict
            if attempt.image is None or verdict is None or not (rejected or i == step.chosen):
                continue
            outputs.append(attempt.image)
            answer = {"success": verdict.success, "reasoning": critic_words(verdict)}
            more = {"refined_prompt": verdict.refined_prompt}
            attempts.append({"step": number, "prompt": attempt.prompt, **answer, **more})
    names = [step.step.name for step in board.steps]
    fields = ("name", "instruction", "prompt", "auxiliary_text")
    row = {
        "task_id": task_id,
        "instruction": f"{'' if scene is None else MARK}{board.task.instruction}",
        "inputs": list(pictures if scene is None else (scene, *pictures)),
        "thinking": brief_reasoning(names, len(board.task.done)),
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
    answer = {"success": attempt["success"], "refine_prompt": attempt["refined_prompt"]}
    reply = plain(json.dumps(answer, ensure_ascii=False))
    return f"<critic>\n<think>\n{plain(attempt['reasoning'])}\n</think>\n{reply}\n</critic>"


def _messages(row: UnifiedRow) -> tuple[list[dict[str, str]], list[Image]]:
    """Give the two turns, and the pictures in order: those of the task, then those that are drawn."""
    turns = [
        {"role": "user", "content": row["instruction"]},
        {"role": "assistant", "content": row["markup"]},
    ]
    return turns, [*row["inputs"], *row["outputs"]]


UNIFIED_EASY, UNIFIED_REFLECTION = (
    RowKind(name, _COLUMNS, dict, dict, ("task_id",), messages=_messages) for name in ("easy", "reflection")
)
