"""Critiques as GRPO reads them: from disk, one at a time; validation and test seeds are refused."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import datasets
import PIL.Image

from goalreel.chat.dialects import Dialect, Mode
from goalreel.critics.chat import question
from goalreel.datasets.corpora.critiques import CRITIQUES, CritiqueRow, candidate_of
from goalreel.errors import InputError
from goalreel.training.stored_rows import StoredRows

type HeldOut = Callable[[str], str | None]
"""The split of a task that results are measured on, by its id; None for a task to train on."""

_RECENT = 64
"""Rows kept decoded: a rollout asks for each several times."""


class Critiques:
    """The rows of some folders, by number.

    Raises:
        InputError: a folder holds no critiques, or a row is of a task that is held out.
    """

    def __init__(self, folders: Sequence[Path], held_out: HeldOut) -> None:
        shards = [shard for folder in folders for shard in shards_of(folder)]
        if not shards:
            raise InputError("no critiques to train on: give --corpus")
        self._rows = StoredRows(CRITIQUES, shards)
        _refuse_held_out(self._rows.column("task_id"), held_out)
        self.row = lru_cache(_RECENT)(self._rows.__getitem__)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def successes(self) -> list[bool]:
        """Tell for each row whether its picture is right."""
        return self._rows.column("success")

    def as_dataset(self, dialect: Dialect, mode: Mode) -> datasets.Dataset:
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
    row: CritiqueRow, dialect: Dialect, mode: Mode
) -> tuple[list[dict[str, Any]], list[PIL.Image.Image]]:
    """Make the conversation of the Critic agent about a row, and list its two pictures in order."""
    conversation = question(candidate_of(row), mode=mode, dialect=dialect).conversation
    pictures: list[PIL.Image.Image] = []
    messages = []
    for message in conversation:
        content: list[dict[str, str]] = []
        for part in message.parts:
            if isinstance(part, str):
                content.append({"type": "text", "text": part})
            else:
                content.append({"type": "image"})
                pictures.append(PIL.Image.fromarray(part.pixels))
        messages.append({"role": message.role, "content": content})
    return messages, pictures


def shards_of(folder: Path) -> list[Path]:
    """List the files of a corpus of critiques, in order.

    Raises:
        InputError: there are none.
    """
    shards = sorted((folder / "data").glob("[!.]*.parquet"))
    if not shards:
        raise InputError(f"{folder} holds no corpus: `goalreel corpus make --kind critiques` writes one")
    return shards


def _refuse_held_out(task_ids: Sequence[str], held_out: HeldOut) -> None:
    counts = Counter(split for task_id in task_ids if (split := held_out(task_id)) is not None)
    if counts:
        splits = ", ".join(f"{count} of {split}" for split, count in counts.items())
        raise InputError(f"the corpus has rows of held-out episodes ({splits}): make it of training seeds")
