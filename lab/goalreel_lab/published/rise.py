"""Ask RISE's judge about a row, and read its replies, by the rules of `gpt_eval.py`."""

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from goalreel.annotator.statistics import Measurement, share, with_interval
from goalreel.chat.conversation import Message, MessagePart
from goalreel.errors import InputError
from goalreel.files import read_file, write_bytes
from goalreel.image import Image
from goalreel_lab.published.benchmark import (
    BenchAnswer,
    Clone,
    Constants,
    Inquiry,
    JudgeFacts,
    Marked,
    Sample,
    Unread,
    find_picture,
    fitted,
)

type Dimension = Literal["consistency", "reasoning", "quality"]

_SCORE = re.compile(r"final scores?(?:\W{0,8}|\s+is\W{1,8})(\d+)", re.IGNORECASE)


def asked(row: Mapping[str, Any]) -> tuple[Dimension, ...]:
    """List the dimensions that a row is marked in."""
    if row["category"] == "logical_reasoning":
        return ("consistency", "reasoning")
    free = given(row.get("consistency_free"))
    return ("reasoning", "quality") if free else ("consistency", "reasoning", "quality")


def read_score(reply: str) -> int | None:
    """Read the first "Final Score: n", 1-5; None where there is none.

    >>> read_score("It fits. **Final Score:** **4**")
    4
    """
    match = _SCORE.search(reply)
    score = int(match[1]) if match and len(match[1]) < 3 else 0
    return score if 1 <= score <= 5 else None


def read_binary(reply: str) -> int | None:
    """Read the first "Final Score: 0" as 1, and any higher as 5: how RISE marks logical reasoning."""
    match = _SCORE.search(reply)
    return None if match is None else 5 if match[1].strip("0") else 1


def given(value: object) -> bool:
    """Tell whether pandas has a value there; NaN is none."""
    return value is not None and value == value


def has_reference(row: Mapping[str, Any]) -> bool:
    """Tell whether a reference picture stands in for the input before the judge."""
    match row["category"]:
        case "spatial_reasoning":
            return given(row.get("reference_img"))
        case "logical_reasoning":
            return not given(row.get("reference_txt"))
    return False


def sees_first(row: Mapping[str, Any]) -> bool:
    """Tell whether the judge of reasoning is shown the input, or the reference picture, too."""
    if has_reference(row):
        return True
    return row["category"] != "logical_reasoning" and given(row.get("reasoning_img"))


def prompt_name(dimension: Dimension, row: Mapping[str, Any]) -> str:
    """Name the judge's prompt in `utils.py`."""
    picture = has_reference(row)
    with_input = sees_first(row)
    match row["category"], dimension:
        case "logical_reasoning", "consistency":
            return "prompt_logical_cons" if picture else "prompt_logical_cons_ans"
        case "logical_reasoning", _:
            if not picture:
                return "prompt_logical_txt"
            return "prompt_logical_img_wo_q" if "reasoning_wo_ins" in row else "prompt_logical_img"
        case "spatial_reasoning", "consistency":
            return "prompt_spatial_cons"
        case "spatial_reasoning", "quality":
            return "prompt_spatial_qual"
        case "spatial_reasoning", _:
            if picture:
                return "prompt_spatial_ref_img"
            return "prompt_spatial_ref_w_input" if with_input else "prompt_spatial_ref"
        case _, "consistency":
            return "prompt_consist"
        case _, "quality":
            return "prompt_generation"
    return "prompt_reasoning_w_input" if with_input else "prompt_reasoning"


FILE = "datav2_total_w_subtask.json"
DATA = "https://huggingface.co/datasets/PhoenixZ/RISEBench"
REPOSITORY = "https://github.com/PhoenixZ810/RISEBench"
GROUPS = ("temporal", "causal", "spatial", "logical")
JUDGE_SIDE = 768

log = logging.getLogger(__name__)


class Rise:
    """The benchmark; the last picture of an answer is the one that is judged.

    Args:
        clone: the user's clone of REPOSITORY, for the judge's prompts in its `utils.py`.
    """

    name = "rise"
    judge = JudgeFacts("gpt-4.1-2025-04-14", temperature=0.0, max_tokens=4096)

    def __init__(self, clone: Path | None = None) -> None:
        self._clone = Clone(clone, REPOSITORY)

    def samples(self, data: Path) -> list[Sample]:
        """Read `datav2_total_w_subtask.json` and the unpacked `data.zip` in `data`.

        Raises:
            InputError: one of them is not there, or not in the published shape.
        """
        rows = _rows(data)
        # Their pandas table has every column in every row, and one rule asks for a column, not for a value.
        columns = {key: None for row in rows for key in row}
        samples = [_sample({**columns, **row}, number, data) for number, row in enumerate(rows)]
        if len({sample.id for sample in samples}) < len(samples):
            raise InputError(f"{data / FILE}: two rows of one index: download it again from {DATA}")
        return [*samples]

    def export(self, answered: Sequence[tuple[Sample, BenchAnswer]], out: Path) -> None:
        """Write `images/CATEGORY/INDEX.png`; a sample without a picture has none."""
        missing = 0
        for sample, answer in answered:
            if not answer.images:
                missing += 1
                continue
            path = out / "images" / sample.row["category"] / f"{sample.id}.png"
            write_bytes(path, answer.images[-1].png())
        if missing:
            log.warning(
                "%s: %d answers have no picture; gpt_eval.py stops at the first of them", out, missing
            )

    def inquiries(self, sample: Sample, answer: BenchAnswer, marks: Mapping[str, Any]) -> list[Inquiry]:
        """Ask for what is not marked yet; of an answer without a picture, nothing.

        Raises:
            InputError: no clone, or it lacks a prompt.
        """
        if not answer.images:
            return []
        return [
            self._inquiry(dimension, sample, answer)
            for dimension in asked(sample.row)
            if dimension not in marks
        ]

    def scores(self, marked: Sequence[Marked]) -> dict[str, Measurement]:
        """Measure the per cent complete by category and `overall`, under both rules, and means.

        `_prefix`: the rule before commit ce8cba3 of 2026-04-13, that of the paper's table. By it an item
        whose consistency is not asked for cannot be complete. `reasoning`, `consistency`, `plausibility`:
        0-100, as RISE's README prints them. An answer without a picture has failed, as in their results, and
        is counted as `unanswered`.
        """
        judged = [
            _Judged.of(m)
            for m in marked
            if not m.answer.images or all(m.marks.get(d) is not None for d in asked(m.sample.row))
        ]
        measures: dict[str, Measurement] = {}
        for group in (*GROUPS, "overall"):
            chosen = [j for j in judged if group in (j.group, "overall")]
            measures[group] = _percent(j.complete for j in chosen)
            measures[f"{group}_prefix"] = _percent(j.complete_before_the_fix for j in chosen)
        for key, dimension in _MEANS.items():
            scores = (j.scores.get(dimension) for j in judged)
            measures[key] = _percent((score - 1) / 4 for score in scores if score is not None)
        measures["unjudged"] = Measurement(value=len(marked) - len(judged))
        measures["unanswered"] = Measurement(value=sum(not m.answer.images for m in marked))
        return measures

    def _inquiry(self, dimension: Dimension, sample: Sample, answer: BenchAnswer) -> Inquiry:
        if not isinstance(sample, RiseSample):
            raise TypeError("not a sample of RISE")
        row = sample.row
        text = self._prompt(dimension, row)
        pictures = [answer.images[-1]]
        if dimension == "consistency" or (dimension == "reasoning" and sees_first(row)):
            instead = sample.reference if has_reference(row) else None
            pictures.insert(0, Image.of(instead) if instead else sample.images[0])
        parts: tuple[MessagePart, ...] = (text, *(fitted(p, JUDGE_SIDE) for p in pictures))
        logical = row["category"] == "logical_reasoning"
        return Inquiry(dimension, (Message("user", parts),), read_binary if logical else read_score)

    def _prompt(self, dimension: Dimension, row: Mapping[str, Any]) -> str:
        values = {"instruct": str(row["instruction"])}
        reference = row.get("reference_txt" if row["category"] == "logical_reasoning" else "reference")
        if given(reference):
            values["reference"] = str(reference)
        return self._prompts.filled(prompt_name(dimension, row), **values)

    @cached_property
    def _prompts(self) -> Constants:
        return self._clone.constants("utils.py")


@dataclass(frozen=True)
class RiseSample(Sample):
    """A sample, and where the picture lies that its row gives as a reference."""

    reference: Path | None = None


_MEANS: dict[str, Dimension] = {
    "reasoning": "reasoning",
    "consistency": "consistency",
    "plausibility": "quality",
}


@dataclass(frozen=True)
class _Judged:
    group: str
    scores: Mapping[Dimension, int]
    needed: tuple[Dimension, ...]

    @classmethod
    def of(cls, marked: Marked) -> "_Judged":
        needed = asked(marked.sample.row)
        failed = not marked.answer.images
        scores: dict[Dimension, int] = {d: 1 if failed else marked.marks[d] for d in needed}
        return cls(marked.sample.group, scores, needed)

    @property
    def complete(self) -> bool:
        return all(self.scores[d] == 5 for d in self.needed)

    @property
    def complete_before_the_fix(self) -> bool:
        return self.complete and "consistency" in self.needed


def _percent(shares: Iterable[float]) -> Measurement:
    return with_interval([(100.0 * value, 1.0) for value in shares], share)


def _rows(data: Path) -> list[dict[str, Any]]:
    path = data / FILE
    if not path.is_file():
        raise InputError(
            f"{data}: no {FILE}: download it and data.zip from {DATA} to there, and unpack the zip"
        )
    try:
        rows = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError) as e:
        raise InputError(f"{path}: cannot be read as JSON ({e}): download it again from {DATA}") from e
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: is not a list of rows: download it again from {DATA}")
    return rows


def _sample(row: dict[str, Any], number: int, data: Path) -> RiseSample:
    where = f"{data / FILE}: row {number}"
    for key in ("index", "category", "instruction", "image"):
        if not isinstance(row.get(key), str) or not row[key].strip():
            raise InputError(f"{where} has no {key}: it is not in the shape that RISE published on {DATA}")
    group = row["category"].removesuffix("_reasoning")
    if group not in GROUPS or not re.fullmatch(r"\w[\w.-]*", row["index"]):
        raise InputError(f"{where}: index {row['index']!r}, category {row['category']!r}: not those of RISE")
    if not any(given(row.get(key)) for key in _references(group)):
        raise InputError(f"{where} has none of {', '.join(_references(group))} to judge by")
    paths = {key: _path(row, key, data) for key in ("image", "reference_img") if given(row.get(key))}
    Image.of(paths["image"])
    return RiseSample(
        id=row["index"],
        group=group,
        instruction=f"<image>\n{row['instruction']}",
        images=Unread([partial(Image.of, paths["image"])]),
        row=row,
        reference=paths.get("reference_img"),
    )


def _path(row: Mapping[str, Any], key: str, data: Path) -> Path:
    path = find_picture(row[key], (data / "data", data))
    if path is None:
        raise InputError(
            f"{data}: no picture {row[key]} (of {row['index']}): unpack data.zip of {DATA} there"
        )
    return path


def _references(group: str) -> tuple[str, ...]:
    match group:
        case "logical":
            return ("reference_txt", "reference_img")
        case "spatial":
            return ("reference", "reference_img")
    return ("reference",)
