"""Training rows as conversations: read from ShareGPT files, and made into tensors as `HfChat` makes them.

A file is a JSON list, or JSON Lines, of `{"messages": [{"role": ..., "content": ...}], "images": [...]}`,
as LLaMA-Factory reads them. Each `<image>` in a content stands for the next of `images`, which are paths
relative to the file. The last message is the assistant's reply, and the only text that is learned.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasets
import PIL.Image
import torch

from goalreel.chat.interleave import MARK, interleave
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.training.language_config import LongRows

if TYPE_CHECKING:
    from transformers import ProcessorMixin

log = logging.getLogger(__name__)

IGNORED = -100
"""Label of a token that is not learned."""

type TrainingRow = Mapping[str, Any]
"""A row as `read_rows` gives it: `messages` and, as absolute paths, `images`."""


def read_rows(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Read all rows of the files, their image paths made absolute.

    Raises:
        InputError: a file that is missing or no ShareGPT file, or a row that cannot be used; says which.
    """
    rows = [_checked(row, path, i) for path in paths for i, row in enumerate(_parse(path))]
    if not rows:
        raise InputError(f"no rows to train on in {', '.join(map(str, paths)) or 'no file: give --corpus'}")
    return rows


def as_dataset(rows: Sequence[dict[str, Any]]) -> datasets.Dataset:
    """Make of the rows what TRL takes."""
    return datasets.Dataset.from_list(list(rows))


def reply(row: TrainingRow) -> str:
    """Give what is to be learned of a row: the last message."""
    return row["messages"][-1]["content"]


def _parse(path: Path) -> list[Any]:
    try:
        text = path.read_text(encoding="utf-8")
        lines = path.suffix == ".jsonl"
        parsed = (
            [json.loads(line) for line in text.split("\n") if line.strip()] if lines else json.loads(text)
        )
    except (OSError, ValueError) as e:
        raise InputError(f"{path}: not a readable ShareGPT file: {e}") from e
    if not isinstance(parsed, list):
        raise InputError(f"{path}: a ShareGPT file is a list of rows")
    return parsed


def _checked(row: Any, path: Path, index: int) -> dict[str, Any]:
    try:
        messages = [{"role": str(m["role"]), "content": str(m["content"])} for m in row["messages"]]
        images = [str((path.parent / image).resolve()) for image in row.get("images") or ()]
    except (KeyError, TypeError, AttributeError) as e:
        raise InputError(f"{path}: row {index} has no messages with role and content") from e
    if len(messages) < 2 or messages[-1]["role"] != "assistant" or not messages[-1]["content"].strip():
        raise InputError(f"{path}: row {index} does not end with a reply of the assistant")
    marks = sum(m["content"].count(MARK) for m in messages[:-1])
    if marks != len(images):
        raise InputError(f"{path}: row {index} has {marks} {MARK} mark(s) for {len(images)} image(s)")
    return {"messages": messages, "images": images}


def prompt(row: TrainingRow) -> list[dict[str, Any]]:
    """Make what the model is asked, as `apply_chat_template` takes it, with its pictures read."""
    pictures = iter(row["images"])
    return [
        {"role": m["role"], "content": [_part(p) for p in _parts(m["content"], pictures)]}
        for m in row["messages"][:-1]
    ]


def _parts(text: str, pictures: Iterator[str]) -> tuple[str | Image, ...]:
    images = [Image.decode(Path(next(pictures)).read_bytes()) for _ in range(text.count(MARK))]
    return interleave(text, images)


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "image": PIL.Image.fromarray(part.pixels)}


@dataclass(frozen=True)
class Collator:
    """Rows to a batch: prompts padded on the left as HfChat does, replies and their end on the right.

    Beside the model's own inputs: `labels` (batch, length), and `weights` (batch, length) float, which is
    the largest of `phrase_weights` whose regular expression finds a token, and 1 elsewhere.

    Raises (when called):
        InputError: a row of more than `max_length` tokens, unless `cut` says to cut it.
    """

    processor: "ProcessorMixin"
    max_length: int | None = None
    cut: bool = False
    """Cut the end of the reply of a row of more than `max_length` tokens."""
    phrase_weights: Mapping[re.Pattern[str], float] = field(default_factory=dict)

    def __call__(self, rows: Sequence[TrainingRow]) -> dict[str, torch.Tensor]:
        batch = self._questions(rows)
        answers = [self._answer(reply(row)) for row in rows]
        if self.cut and self.max_length is not None:
            rooms = [max(0, self.max_length - n) for n in batch["attention_mask"].sum(1).tolist()]
            answers = [(a[:room], w[:room]) for (a, w), room in zip(answers, rooms, strict=True)]
        length = max(len(ids) for ids, _ in answers)
        pad = self.processor.tokenizer.pad_token_id
        ids = torch.tensor([a + [pad] * (length - len(a)) for a, _ in answers])
        weights = torch.tensor([w + [0.0] * (length - len(w)) for _, w in answers])
        prompt_zeros = torch.zeros_like(batch["input_ids"])
        learned = (weights > 0).long()
        if "mm_token_type_ids" in batch:
            batch["mm_token_type_ids"] = torch.cat([batch["mm_token_type_ids"], torch.zeros_like(ids)], 1)
        batch["input_ids"] = torch.cat([batch["input_ids"], ids], 1)
        batch["attention_mask"] = torch.cat([batch["attention_mask"], learned], 1)
        batch["labels"] = torch.cat([prompt_zeros + IGNORED, ids.masked_fill(learned == 0, IGNORED)], 1)
        batch["weights"] = torch.cat([prompt_zeros.float(), weights], 1)
        longest = int(batch["attention_mask"].sum(1).max())
        if self.max_length is not None and longest > self.max_length:
            raise InputError(f"a row has {longest} tokens, but max_length is {self.max_length}")
        return batch

    def tokens(self, row: TrainingRow) -> tuple[int, int]:
        """Count the tokens of a row's question, pictures included, and of its reply."""
        return self._questions([row])["input_ids"].shape[1], len(self._answer(reply(row))[0])

    def _questions(self, rows: Sequence[TrainingRow]) -> dict[str, torch.Tensor]:
        """Turn what the model is asked into its inputs, padded on the left."""
        inputs = self.processor.apply_chat_template(
            [prompt(row) for row in rows],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            processor_kwargs={"padding": True, "padding_side": "left", "return_tensors": "pt"},
        )
        return {**inputs}  # pyrefly: ignore[invalid-argument]  (typed as str, a mapping with return_dict)

    def _answer(self, text: str) -> tuple[list[int], list[float]]:
        """Tokenize a reply with its end, and weigh each token."""
        tokenizer = self.processor.tokenizer
        encoded = tokenizer(text + tokenizer.eos_token, add_special_tokens=False, return_offsets_mapping=True)
        spans = [
            (*match.span(), weight)
            for phrase, weight in self.phrase_weights.items()
            for match in phrase.finditer(text)
        ]
        weights = [
            max((weight for a, b, weight in spans if a < end and start < b), default=1.0)
            for start, end in encoded["offset_mapping"]
        ]
        return encoded["input_ids"], weights


def short_enough(
    rows: Sequence[dict[str, Any]], collator: Collator, long_rows: LongRows
) -> list[dict[str, Any]]:
    """Leave out the rows that are too long for the collator's `max_length`, and log how many.

    `cut` leaves out only those whose question alone is too long; `refuse` leaves out none.

    Raises:
        InputError: none is left.
    """
    if collator.max_length is None or long_rows == "refuse":
        return list(rows)
    counts = [collator.tokens(row) for row in rows]
    needs = [question + (1 if long_rows == "cut" else answer) for question, answer in counts]
    fitting = [row for row, need in zip(rows, needs, strict=True) if need <= collator.max_length]
    if not fitting:
        raise InputError(f"every row is longer than max_length, {collator.max_length} tokens")
    if len(fitting) < len(rows):
        log.warning("%d of %d rows are longer than max_length: left out", len(rows) - len(fitting), len(rows))
    return fitting
