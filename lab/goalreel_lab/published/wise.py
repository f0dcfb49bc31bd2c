"""WISE as the paper ran it (arXiv 2503.07265, WISE_legacy): 1,000 prompts, one picture for each, WiScore.

The repository has no licence: its prompts are read from the user's clone, and goalreel contains none.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from goalreel.annotator.statistics import Measurement, Sums, share, with_interval
from goalreel.chat.conversation import Message
from goalreel.chat.dialects.interleavethinker import Named, named_strings
from goalreel.errors import InputError
from goalreel.files import read_file, write_bytes
from goalreel_lab.published.benchmark import BenchAnswer, Clone, Inquiry, JudgeFacts, Marked, Sample

REPOSITORY = "https://github.com/PKU-YuanGroup/WISE"
WHERE = (
    f"git clone {REPOSITORY} and give its WISE_legacy/data "
    "(cultural_common_sense.json, spatio-temporal_reasoning.json, natural_science.json)"
)
COLUMNS = {
    "cultural": range(1, 401),
    "time": range(401, 568),
    "space": range(568, 701),
    "biology": range(701, 801),
    "physics": range(801, 901),
    "chemistry": range(901, 1001),
}
"""The prompts of each column, by their numbers."""
WEIGHTS = {"cultural": 0.4, "time": 0.167, "space": 0.133, "biology": 0.1, "physics": 0.1, "chemistry": 0.1}
SCORES = {"consistency": 0.7, "realism": 0.2, "aesthetic quality": 0.1}
"""The judge's three marks, 0-2, and what each weighs in WiScore."""
_LINE = re.compile(rf"({'|'.join(SCORES)})\W{{0,6}}([0-2])(?![\d.])", re.IGNORECASE)
_PLACE = re.compile(r"\{\w+\[['\"](Prompt|Explanation)['\"]\]\}")


class _Row(BaseModel):
    prompt_id: int
    Prompt: str
    Explanation: str
    Category: str = ""
    Subcategory: str = ""


@dataclass(frozen=True)
class Wise:
    """WISE. `clone` is the user's clone of its repository; judging needs it."""

    clone: Path | None = None

    @property
    def name(self) -> str:
        return "wise"

    @property
    def judge(self) -> JudgeFacts:
        return JudgeFacts("gpt-4o-2024-05-13", 0.0, 2000)

    def samples(self, data: Path) -> list[Sample]:
        """Read the three JSON files.

        Raises:
            InputError: they are not there, or not in the published shape.
        """
        samples: dict[int, Sample] = {}
        for path in sorted(data.glob("*.json")):
            for row in _rows(path):
                samples[row.prompt_id] = Sample(
                    id=str(row.prompt_id),
                    group=_column(row.prompt_id, path),
                    instruction=row.Prompt,
                    row=row.model_dump(),
                )
        if not samples:
            raise InputError(f"{data}: no WISE there: {WHERE}")
        return [samples[number] for number in sorted(samples)]

    def export(self, answered: Sequence[tuple[Sample, BenchAnswer]], out: Path) -> None:
        """Write {prompt_id}.png, the last picture of each answer that has one."""
        for sample, answer in answered:
            if answer.images:
                write_bytes(out / f"{sample.id}.png", answer.images[-1].png())

    def inquiries(self, sample: Sample, answer: BenchAnswer, marks: Mapping[str, Any]) -> list[Inquiry]:
        """Ask one question on the last picture; none where there is no picture.

        Raises:
            InputError: there is no clone, or its prompt is not where it was.
        """
        if marks or not answer.images:
            return []
        system, user = self._prompts
        text = _PLACE.sub(lambda place: str(sample.row[place[1]]), user)
        turns = (Message("system", (system,)), Message("user", (text, answer.images[-1])))
        return [Inquiry("scores", turns, read_scores)]

    def scores(self, marked: Sequence[Marked]) -> dict[str, Measurement]:
        """Measure WiScore, 0-1, by column and overall. An answer without a picture scores 0."""
        rows, unjudged = [], 0
        for judged in marked:
            score = _wiscore(judged)
            unjudged += score is None
            if score is not None:
                at = list(COLUMNS).index(judged.sample.group)
                rows.append(
                    [v for i in range(len(COLUMNS)) for v in ((score, 1.0) if i == at else (0.0, 0.0))]
                )
        values = {name: with_interval(rows, _only(i)) for i, name in enumerate(COLUMNS)}
        values["overall"] = with_interval(rows, _overall)
        values["unjudged"] = Measurement(value=float(unjudged))
        return values

    @cached_property
    def _prompts(self) -> tuple[str, str]:
        """Read the judge's system turn, and its user turn with places for prompt and explanation."""
        path = Clone(self.clone, REPOSITORY).file("WISE_legacy/gpt_eval.py")
        texts = [text for name, text in named_strings(path, _entries) if name == "text"]
        at = next((i for i, t in enumerate(texts) if len(set(_PLACE.findall(t))) == 2), 0)
        if at == 0:
            raise InputError(f"{path}: the judge's prompt is not where it was in WISE_legacy")
        return texts[at - 1], texts[at]


def read_scores(reply: str) -> dict[str, int] | None:
    """Read the three marks, 0-2; None where one is missing or said twice in two ways.

    >>> read_scores("**Consistency**: 2\\nRealism: 1\\nAesthetic Quality: 0")
    {'consistency': 2, 'realism': 1, 'aesthetic quality': 0}
    """
    marks: dict[str, set[int]] = {name: set() for name in SCORES}
    for name, number in _LINE.findall(reply):
        marks[name.lower()].add(int(number))
    if any(len(numbers) != 1 for numbers in marks.values()):
        return None
    return {name: next(iter(numbers)) for name, numbers in marks.items()}


def _rows(path: Path) -> list[_Row]:
    try:
        return TypeAdapter(list[_Row]).validate_python(json.loads(read_file(path)))
    except (ValidationError, ValueError) as e:
        raise InputError(f"{path}: not in the shape of WISE_legacy/data: {WHERE}") from e


def _entries(node: ast.AST) -> Named:
    if isinstance(node, ast.Dict):
        yield from ((getattr(k, "value", None), v) for k, v in zip(node.keys, node.values, strict=True))


def _column(number: int, path: Path) -> str:
    column = next((name for name, numbers in COLUMNS.items() if number in numbers), None)
    if column is None:
        raise InputError(f"{path}: prompt_id {number} is not in 1-1000: not WISE_legacy/data")
    return column


def _wiscore(judged: Marked) -> float | None:
    if not judged.answer.images:
        return 0.0
    marks = judged.marks.get("scores")
    return None if marks is None else sum(weight * marks[name] for name, weight in SCORES.items()) / 2


def _only(column: int) -> Any:
    return lambda sums: share(sums[..., 2 * column : 2 * column + 2])


def _overall(sums: Sums) -> Sums:
    """Weigh the columns that there are."""
    values = np.stack([_only(i)(sums) for i in range(len(COLUMNS))], axis=-1)
    weights = np.where(np.isnan(values), 0.0, np.array(list(WEIGHTS.values())))
    return share(np.stack([(np.nan_to_num(values) * weights).sum(-1), weights.sum(-1)], axis=-1))
