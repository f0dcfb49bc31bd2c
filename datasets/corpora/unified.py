"""Whole storyboards for models that plan, draw and judge in one reply: one turn of the assistant.

The reply holds the plan's reasoning, each step's prompt, its pictures as outputs, the Critic's words and the
words for a reader, in the markup that InterleaveThinker's `data_gen/README.md` gives. The columns hold the
same in parts. `easy` and `reflection` differ as in `sequences`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goalreel.chat.dialects.task_images import task_images
from goalreel.chat.interleave import MARK, plain
from goalreel.datasets.corpora.rows import PICTURE, RowKind, said_in_short
from goalreel.datasets.corrections.board import critic_words
from goalreel.image import Image
from goalreel.types import Storyboard

OUTPUT = "<image><img_token></image>"
"""The place of a picture that the model draws."""


@dataclass(frozen=True)
class UnifiedStep:
    """What the plan says of one step."""

    name: str
    instruction: str
    prompt: str | None
    auxiliary_text: str | None


@dataclass(frozen=True)
class UnifiedAttempt:
    """A picture that is drawn for step `step` (from 0), and what the Critic says of it."""

    step: int
    prompt: str
    success: bool
    reasoning: str
    refined_prompt: str | None


@dataclass(frozen=True)
class UnifiedRow:
    """A task and the whole reply; `outputs` has the picture of each attempt."""

    task_id: str
    instruction: str
    inputs: tuple[Image, ...]
    thinking: str
    steps: tuple[UnifiedStep, ...]
    attempts: tuple[UnifiedAttempt, ...]
    outputs: tuple[Image, ...]
    judged: bool
    """The reply has the Critic's words."""


def unified_row(board: Storyboard, task_id: str, *, rejected: bool) -> UnifiedRow:
    """Make the row of a storyboard, with or without its `rejected` attempts and the Critic's words."""
    steps = [s.step for s in board.steps]
    attempts = list(_attempts(board, rejected))
    scene, pictures = task_images(board.task)
    return UnifiedRow(
        task_id=task_id,
        instruction=f"{'' if scene is None else MARK}{board.task.instruction}",
        inputs=pictures if scene is None else (scene, *pictures),
        thinking=said_in_short([step.name for step in steps], len(board.task.done)),
        steps=tuple(UnifiedStep(s.name, s.instruction, s.prompt, s.auxiliary_text) for s in steps),
        attempts=tuple(attempt for attempt, _ in attempts),
        outputs=tuple(image for _, image in attempts),
        judged=rejected,
    )


def _attempts(board: Storyboard, rejected: bool) -> Iterator[tuple[UnifiedAttempt, Image]]:
    for number, step in enumerate(board.steps):
        for i, attempt in enumerate(step.attempts):
            if attempt.image is None or attempt.verdict is None or not (rejected or i == step.chosen):
                continue
            verdict = attempt.verdict
            words = critic_words(verdict)
            yield (
                UnifiedAttempt(number, attempt.prompt, verdict.success, words, verdict.refined_prompt),
                attempt.image,
            )


def markup(row: UnifiedRow) -> str:
    """Write the reply as text, with OUTPUT at the place of each picture."""
    parts = [f"<gthink>\n{plain(row.thinking)}\n</gthink>"]
    for number, step in enumerate(row.steps):
        if step.prompt is not None:
            parts.append(f"<plan>\n{plain(step.prompt)}\n</plan>")
        for attempt in row.attempts:
            if attempt.step == number:
                parts.append(OUTPUT)
                parts += [_critic(attempt)] if row.judged else []
        if step.auxiliary_text:
            parts.append(f"<info>\n{plain(step.auxiliary_text)}\n</info>")
    return "\n".join(parts) + "\n"


def _critic(attempt: UnifiedAttempt) -> str:
    answer = json.dumps(
        {"success": attempt.success, "refine_prompt": attempt.refined_prompt}, ensure_ascii=False
    )
    return f"<critic>\n<think>\n{plain(attempt.reasoning)}\n</think>\n{plain(answer)}\n</critic>"


def messages(row: UnifiedRow) -> tuple[list[dict[str, str]], list[Image]]:
    """The two turns, and the pictures in order: those of the task, then those that are drawn."""
    turns = [
        {"role": "user", "content": row.instruction},
        {"role": "assistant", "content": markup(row)},
    ]
    return turns, [*row.inputs, *row.outputs]


def _encode(row: UnifiedRow) -> dict[str, Any]:
    parts = {
        "steps": [vars(step) for step in row.steps],
        "attempts": [vars(attempt) for attempt in row.attempts],
    }
    return {**vars(row), **parts, "markup": markup(row)}


def _decode(values: Mapping[str, Any]) -> UnifiedRow:
    def made[T](kind: type[T], parts: Sequence[Mapping[str, Any]]) -> tuple[T, ...]:
        return tuple(kind(**part) for part in parts)

    return UnifiedRow(
        task_id=values["task_id"],
        instruction=values["instruction"],
        inputs=tuple(values["inputs"]),
        thinking=values["thinking"],
        steps=made(UnifiedStep, values["steps"]),
        attempts=made(UnifiedAttempt, values["attempts"]),
        outputs=tuple(values["outputs"]),
        judged=values["judged"],
    )


def _kind(name: str) -> RowKind[UnifiedRow]:
    return RowKind(
        name=name,
        columns={
            "task_id": "string",
            "instruction": "string",
            "inputs": (PICTURE,),
            "thinking": "string",
            "steps": (dict.fromkeys(UnifiedStep.__annotations__, "string"),),
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
        },
        encode=_encode,
        decode=_decode,
        json_columns=("task_id",),
        messages=messages,
    )


UNIFIED_EASY, UNIFIED_REFLECTION = _kind("easy"), _kind("reflection")
