"""Training rows: conversations from ShareGPT files, as tensors as `HfChat` makes them; critiques for GRPO.

A file is a JSON list, or JSON Lines, of `{"messages": [{"role": ..., "content": ...}], "images": [...]}`,
as LLaMA-Factory reads them. Each `<image>` in a content stands for the next of `images`, which are paths
relative to the file. The last message is the assistant's reply, and the only text that is learned. Critiques
are read from disk one at a time; validation and test seeds are refused.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import batched
from pathlib import Path
from typing import Any

import datasets
import PIL.Image
import torch
from torch.utils.data import Sampler
from transformers import ProcessorMixin

from goalreel import files, terms
from goalreel.chat.conversation import MARK, interleave
from goalreel.chat.dialects import Dialect
from goalreel.critics.chat import question
from goalreel.datasets.corpora.critic_rows import CRITIQUES, CritiqueRow, candidate_of
from goalreel.datasets.corpora.rows import StoredRows, shards_of
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.training.config import LongRows

log = logging.getLogger(__name__)

IGNORED = -100
"""Label of a token that is not learned."""

type TrainingRow = Mapping[str, Any]
"""A row as `read_rows` gives it: `messages` and, as absolute paths, `images`."""
_RECENT = 64
"""Rows kept decoded: a rollout asks for each several times."""
POOL = 8
"""Steps whose rows are sorted among themselves: enough to pad little, few enough to stay a random order."""


def read_rows(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Read all rows of the files, their image paths made absolute.

    Raises:
        InputError: a file that is missing or no ShareGPT file, or a row that cannot be used.
    """
    rows = [_checked(row, path, i) for path in paths for i, row in enumerate(_parse(path))]
    if not rows:
        raise InputError(f"no rows to train on in {', '.join(map(str, paths)) or 'no file: give --corpus'}")
    return rows


def reply(row: TrainingRow) -> str:
    """Give what is to be learned of a row: the last message."""
    return row["messages"][-1]["content"]


def _parse(path: Path) -> list[Any]:
    try:
        text = files.read_file(path).decode()
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in text.split("\n") if line.strip()]
        parsed = json.loads(text)
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
    pictures, asked = iter(row["images"]), []
    for message in row["messages"][:-1]:
        text = message["content"]
        images = [Image.decode(files.read_file(Path(next(pictures)))) for _ in range(text.count(MARK))]
        asked.append({"role": message["role"], "content": list(map(_part, interleave(text, images)))})
    return asked


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "image": PIL.Image.fromarray(part.pixels)}


@dataclass(frozen=True)
class Collator:
    """Rows to a batch: prompts padded on the left as HfChat does, replies and their end on the right.

    Beside the model's own inputs: `labels` (batch, length).

    Raises (when called):
        InputError: a row of more than `max_length` tokens, unless `cut` says to cut it.
    """

    processor: ProcessorMixin
    max_length: int | None = None
    cut: bool = False
    """Cut the end of the reply of a row of more than `max_length` tokens."""

    def __call__(self, rows: Sequence[TrainingRow]) -> dict[str, torch.Tensor]:
        batch = self._questions(rows)
        answers = [self._answer(row) for row in rows]
        if self.cut and self.max_length is not None:
            rooms = [max(0, self.max_length - n) for n in batch["attention_mask"].sum(1).tolist()]
            answers = [answer[:room] for answer, room in zip(answers, rooms, strict=True)]
        length = max(map(len, answers))
        pad = self.processor.tokenizer.pad_token_id
        ids = torch.tensor([a + [pad] * (length - len(a)) for a in answers])
        learned = torch.tensor([[1] * len(a) + [0] * (length - len(a)) for a in answers])
        prompt_zeros = torch.zeros_like(batch["input_ids"])
        if "mm_token_type_ids" in batch:
            batch["mm_token_type_ids"] = torch.cat([batch["mm_token_type_ids"], torch.zeros_like(ids)], 1)
        batch["input_ids"] = torch.cat([batch["input_ids"], ids], 1)
        batch["attention_mask"] = torch.cat([batch["attention_mask"], learned], 1)
        batch["labels"] = torch.cat([prompt_zeros + IGNORED, ids.masked_fill(learned == 0, IGNORED)], 1)
        longest = int(batch["attention_mask"].sum(1).max())
        if self.max_length is not None and longest > self.max_length:
            raise InputError(f"a row has {longest} tokens, but max_length is {self.max_length}")
        return batch

    def tokens(self, row: TrainingRow) -> tuple[int, int]:
        """Count the tokens of a row's question, pictures included, and of its reply."""
        return self._questions([row])["input_ids"].shape[1], len(self._answer(row))

    def _questions(self, rows: Sequence[TrainingRow]) -> dict[str, torch.Tensor]:
        inputs = self.processor.apply_chat_template(
            [prompt(row) for row in rows],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            processor_kwargs={"padding": True, "padding_side": "left", "return_tensors": "pt"},
        )
        return {**inputs}  # pyrefly: ignore[invalid-argument]  (typed as str, a mapping with return_dict)

    def _answer(self, row: TrainingRow) -> list[int]:
        tokenizer = self.processor.tokenizer
        return tokenizer(reply(row) + tokenizer.eos_token, add_special_tokens=False)["input_ids"]


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


type HeldOut = Callable[[str], str | None]
"""The split of a task that results are measured on, by its id; None for a task to train on."""


class Critiques:
    """The rows of some folders, by number.

    Raises:
        InputError: a folder holds no critiques, or a row is of a task that is held out.
    """

    def __init__(self, folders: Sequence[Path], held_out: HeldOut) -> None:
        shards = [shard for folder in folders for shard in critique_shards(folder)]
        if not shards:
            raise InputError("no critiques to train on: give --corpus")
        self._rows = StoredRows(CRITIQUES, shards)
        counts = Counter(split for name in self._rows.column("task_id") if (split := held_out(name)))
        if counts:
            splits = ", ".join(f"{count} of {split}" for split, count in counts.items())
            raise InputError(f"the corpus has rows of held-out episodes ({splits}): use training seeds")
        self.row = lru_cache(_RECENT)(self._rows.__getitem__)

    def __len__(self) -> int:
        return len(self._rows)

    def as_dataset(self, dialect: Dialect, mode: terms.Mode) -> datasets.Dataset:
        """Make what TRL takes: `prompt` with places for two images, `images`, and the row's number."""

        def asked(batch: Mapping[str, list[int]]) -> dict[str, list[Any]]:
            conversations = [asked_of(self.row(number), dialect, mode) for number in batch["number"]]
            return {
                "number": batch["number"],
                "prompt": [prompt for prompt, _ in conversations],
                "images": [images for _, images in conversations],
            }

        return datasets.Dataset.from_dict({"number": range(len(self))}).with_transform(asked)


def asked_of(
    row: CritiqueRow, dialect: Dialect, mode: terms.Mode
) -> tuple[list[dict[str, Any]], list[PIL.Image.Image]]:
    """Make the conversation of the Critic agent about a row, and list its two pictures in order."""
    conversation = question(candidate_of(row), mode=mode, dialect=dialect).conversation
    messages = [{"role": m.role, "content": list(map(_part, m.parts))} for m in conversation]
    parts = [part for message in messages for part in message["content"]]
    return messages, [part.pop("image") for part in parts if "image" in part]


def critique_shards(folder: Path) -> list[Path]:
    """List the files of a corpus of critiques, in order; raise an InputError if there are none."""
    return shards_of(folder, "make --kind critiques")


type Length = tuple[int, int]
"""Pictures and characters: what decides how many tokens a row has."""


def length(row: Mapping[str, Any]) -> Length:
    """Tell about how long a row of `read_rows` is, without reading its pictures."""
    return len(row["images"]), sum(len(message["content"]) for message in row["messages"])


class LengthSampler(Sampler[int]):
    """Indices of rows for steps of `size` rows each, which follow from the seed and the epoch alone.

    As transformers' `group_by_length`, but for the order of the steps, which are mixed: there fifty at a time
    get shorter and shorter.
    """

    def __init__(self, lengths: Sequence[Length], size: int, seed: int) -> None:
        self._lengths, self._size, self._seed = lengths, size, seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by accelerate's loader before it asks for the indices of an epoch."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + self._epoch)
        order = torch.randperm(len(self), generator=generator).tolist()
        pools = (sorted(pool, key=self._lengths.__getitem__) for pool in batched(order, POOL * self._size))
        steps = [step for pool in pools for step in batched(pool, self._size)]
        short = [steps.pop()] if len(self) % self._size else []  # what is left over stays the last step
        mixed = [steps[i] for i in torch.randperm(len(steps), generator=generator).tolist()]
        return (index for step in mixed + short for index in step)
