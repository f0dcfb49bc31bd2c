"""The rows of CoMM, and the prompts that they are asked with.

The format is that of `datasets/download_images.py` and `models/SEED/scripts/eval_CoMM.py` in
github.com/HKUST-LongGroup/CoMM: a list of {data_id, title, step_info}. `step_info` has one list for each
step, of {type: text, content} and {type: image, image_path, url}.
"""

import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.torch_support import read_plain_data
from goalreel_lab.published.clone import Clone
from goalreel_lab.published.pictures import find_picture, fitted, read_picture

FILE = "test_data.pth"
DATA = "https://huggingface.co/datasets/weisuxi/CoMM"
MAX_IMAGES = 10
"""What the judge is shown of one sample, given pictures included."""
STORED_SIDE = 1024
"""Pixels; photographs from the web are many times larger than what any model here is given."""

type CommTask = Literal[3, 4]
type Found = list[list[str | Path]]
"""Steps, each of texts and pictures in order."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wording:
    """How a topic is asked about (Task 4), and how a beginning is introduced and handed over (Task 3)."""

    question: tuple[str, str] = ("Write step-by-step instructions, with pictures, about ", ".")
    start: tuple[str, str] = ("The first steps of illustrated instructions about ", ": ")
    rest: str = "Write the steps that are left."

    @classmethod
    def of(cls, clone: Clone) -> "Wording":
        """Read CoMM's own words from the examples in its repository; without a clone, use ours.

        Raises:
            InputError: the clone lacks the examples, or they have another shape.
        """
        if clone.folder is None:
            log.warning(
                "CoMM's questions are in words of ours: its own are read from its repository (--clone)"
            )
            return cls()
        question = _example(clone, 4, r"(.* about ).+(\?)\s*")
        beginning = _example(clone, 3, r"(.*? about )[^:]+(:\s*)\(1\) .*<IMAGE>\s*(.+)")
        return cls((question[0], question[1]), (beginning[0], beginning[1]), beginning[2])


def read_rows(data: Path) -> list[dict[str, Any]]:
    """Read `test_data.pth`, as plain data only.

    Raises:
        InputError: it is not there, holds more than plain data, or has another shape.
    """
    path = data / FILE
    if not path.is_file():
        raise InputError(
            f"{data}: no {FILE}: download it from {DATA} to there, and its pictures with download_images.py "
            "of CoMM's repository into images/"
        )
    rows = read_plain_data(path)
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path}: is not a list of rows: download it again from {DATA}")
    for number, row in enumerate(rows):
        if (problem := _problem(row)) is not None:
            raise InputError(f"{path}: row {number} has {problem}: not the shape that CoMM published")
    return rows


def find_steps(steps: list[list[dict[str, Any]]], data: Path) -> Found | None:
    """Collect the texts and pictures of some steps; None where a picture is not in `data`/images."""
    result: Found = []
    for step in steps:
        result.append([])
        for item in step:
            if item["type"] == "text":
                if text := item["content"].strip():
                    result[-1].append(text)
                continue
            path = find_picture(item.get("image_path"), (data / "images",))
            if path is None or not _readable(path):
                return None
            result[-1].append(path)
    return result


def read_given(path: Path) -> Image:
    """Read a given picture, of at most STORED_SIDE pixels a side.

    Raises:
        InputError: it cannot be read.
    """
    return fitted(read_picture(path), STORED_SIDE)


def _readable(path: Path) -> bool:
    """Tell whether a picture can be read: a dead link leaves a web page in its place."""
    try:
        read_picture(path)
    except InputError:
        return False
    return True


def _problem(row: object) -> str | None:
    if not isinstance(row, dict) or not isinstance(row.get("data_id"), str) or not row["data_id"]:
        return "no data_id"
    if not isinstance(row.get("title"), str | None):
        return "a title that is no text"
    steps = row.get("step_info")
    if not isinstance(steps, list) or not all(isinstance(step, list) for step in steps):
        return "no list of steps in step_info"
    for item in (item for step in steps for item in step):
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "text" and isinstance(item.get("content"), str):
            continue
        if kind != "image":
            return "a step with something other than texts and images"
    return None


def _example(clone: Clone, task: CommTask, shape: str) -> tuple[str, ...]:
    name = f"eval/example/data_id_task{task}/results.json"
    try:
        example = json.loads(clone.text(name))
    except ValueError as e:
        raise InputError(f"{clone.file(name)}: is no JSON ({e})") from e
    text = example.get("model_input") if isinstance(example, dict) else None
    match = re.fullmatch(shape, text, re.DOTALL) if isinstance(text, str) else None
    if match is None:
        raise InputError(f"{clone.file(name)}: its model_input is not as expected: another version of CoMM?")
    return match.groups()
