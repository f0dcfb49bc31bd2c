"""How much of a prompt an editor reads; the rest is cut off without a message."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from goalreel.editors.diffusers import DiffusersEditor
from goalreel.types import Editor

if TYPE_CHECKING:
    from transformers import ProcessorMixin


def fits_in(editor: Editor, processor: "ProcessorMixin", tokens: int) -> Callable[[str], bool]:
    """Make a function that tells whether the editor reads all of a prompt.

    An editor in this process counts with its own tokenizer and limit. Of any other, `tokens` is the limit,
    and the Critic's tokenizer counts.
    """
    if isinstance(editor, DiffusersEditor):
        tokenizer, limit = getattr(editor.pipeline, "tokenizer", None), _limit(editor)
        if tokenizer is None or limit is None:
            return lambda prompt: True
        return lambda prompt: _count(tokenizer, prompt) <= limit
    return lambda prompt: len(processor.tokenizer(prompt)["input_ids"]) <= tokens


def _limit(editor: DiffusersEditor) -> int | None:
    limit = editor.entry.arguments.get("max_sequence_length")
    if limit is None:
        parameter = inspect.signature(type(editor.pipeline).__call__).parameters.get("max_sequence_length")
        limit = None if parameter is None else parameter.default
    return int(limit) if isinstance(limit, int) else None


def _count(tokenizer: Any, prompt: str) -> int:
    """Count the tokens of a prompt as a pipeline with a chat model for its text encoder writes it."""
    if not tokenizer.chat_template:
        return len(tokenizer(prompt)["input_ids"])
    turn = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(
        turn, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    return len(tokenizer(text)["input_ids"])
