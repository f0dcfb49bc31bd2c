"""The rows of a JSONL file of prompts: what `goalreel corpus prompts` writes, or a person."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalreel.annotator.task_input import make_task
from goalreel.errors import InputError
from goalreel.files import digest
from goalreel.image import Image
from goalreel.types import Task

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")


@dataclass(frozen=True)
class PromptRow:
    """One prompt to plan."""

    number: int
    """Of its line, from 0."""
    id: str
    prompt: str
    picture: Path | None
    values: Mapping[str, Any]
    """The row as it was read."""

    def task(self, seed: int) -> Task:
        """What is asked of the models.

        Raises:
            InputError: the picture cannot be read, or does not fit the marks in the prompt.
        """
        image = None if self.picture is None else Image.of(self.picture)
        task = make_task(self.prompt, image, seed=seed + self.number)
        return task.model_copy(update={"id": self.id})


def read_rows(path: Path, images: Path | None = None) -> tuple[list[PromptRow], dict[int, str]]:
    """Read prompts; returns also why lines were left out, by their numbers from 1.

    A row has `prompt` and maybe `id` and `image`, a file in the folder `images`.

    Raises:
        InputError: the file cannot be read, or no line of it can be used.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from e
    rows: dict[str, PromptRow] = {}
    faults: dict[int, str] = {}
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            row = _read(number, line, images)
            if row.id in rows:
                raise ValueError(f"the id {row.id} is that of line {rows[row.id].number + 1} too")
            rows[row.id] = row
        except ValueError as e:
            faults[number + 1] = str(e)
    if not rows:
        first = next(iter(faults.items()), None)
        reason = f"line {first[0]}: {first[1]}" if first else "it is empty"
        raise InputError(f'{path}: holds no prompt ({reason}): write one {{"prompt": "..."}} a line')
    return list(rows.values()), faults


def _read(number: int, line: bytes, images: Path | None) -> PromptRow:
    try:
        values = json.loads(line)
    except ValueError:
        raise ValueError("it is no JSON") from None
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    prompt, name = values.get("prompt"), values.get("image")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError("it has no prompt")
    id = values.get("id", digest(prompt, str(name))[:12])
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise ValueError("its id can be no folder's name: use letters, digits, - and _")
    return PromptRow(number, id, prompt, _picture(name, images), values)


def _picture(name: object, images: Path | None) -> Path | None:
    if name is None:
        return None
    if images is None or not isinstance(name, str):
        raise ValueError("it names an image: give their folder with --images")
    path = (images / name).resolve()
    if not path.is_relative_to(images.resolve()) or not path.is_file():
        raise ValueError(f"there is no image {name} in {images}")
    return path
