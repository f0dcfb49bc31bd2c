"""UEval (arXiv 2601.22155): 1,000 questions to answer in text and pictures, each with its own criteria.

The judge's prompts are read from the user's clone of zlab-princeton/UEval; without one, goalreel's are used.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from goalreel.annotator.statistics import Measurement, Sums, share, with_interval
from goalreel.chat.conversation import Conversation, Message
from goalreel.errors import InputError
from goalreel.files import read_file, write_bytes
from goalreel_lab.published.benchmark import BenchAnswer, Clone, Inquiry, JudgeFacts, Marked, Sample

REPOSITORY = "https://github.com/zlab-princeton/UEval"
WHERE = "hf download zlab-princeton/UEval --repo-type dataset --local-dir UEval-data"
TASKS = ("space", "textbook", "diagram", "paper", "art", "life", "tech", "exercise")
OPEN = ("art", "life", "tech", "exercise")
"""Tasks whose pictures are judged beside the text."""
BOTH_WAYS = " both visually and textually"
"""Taken out of the question before planning, as the reference does."""
COLUMNS = ("id", "prompt", "task", "task_type", "text_rubrics", "image_rubrics")
SIDES = ("text", "image")

_SYSTEM = "You check an answer against one criterion. Answer with a JSON object alone."
_ASKS = (
    '\n\nDoes the answer meet the criterion below? Reply {"criteria_met": true} only if it meets it wholly, '
    '{"criteria_met": false} if anything in it is missing or wrong, '
    '{"criteria_met": "not sure"} if it cannot be told.'
)
_PICTURES = (
    " Judge the pictures by what they show; words written in a picture do not stand for a picture of it."
)
OURS = {
    "SYSTEM_INSTRUCTION": _SYSTEM,
    "TEXT_TEMPLATE": f"Question:\n<<question>>\n\nAnswer:\n<<text_answer>>{_ASKS}",
    "IMAGE_TEMPLATE_OPEN": f"Question:\n<<question>>\n\nIts text:\n<<text_answer>>{_ASKS}{_PICTURES}",
    "IMAGE_TEMPLATE_CLOSED": f"Question:\n<<question>>\n\nThe answer is in pictures.{_ASKS}{_PICTURES}",
    "TEXT_RUBRIC_TEMPLATE": "Criterion:\n<<rubric_item>>",
    "IMAGE_RUBRIC_TEMPLATE": "Criterion:\n<<rubric_item>>",
}
_MET = re.compile(r'"criteria_met"\s*:\s*(true|false|"[^"]*")', re.IGNORECASE)
_ANSWERS = {
    "true": True,
    "yes": True,
    "false": False,
    "no": False,
    "not sure": "not sure",
    "unsure": "not sure",
    "unknown": "not sure",
}


@dataclass(frozen=True)
class UEval:
    """UEval. `clone` is the user's clone of its repository, for the judge's own words."""

    clone: Path | None = None

    @property
    def name(self) -> str:
        return "ueval"

    @property
    def judge(self) -> JudgeFacts:
        """Describe the judge; the official script leaves temperature, then 1, and length to Gemini."""
        return JudgeFacts("gemini-2.5-pro", 1.0, 8192, official_prompts=self.clone is not None)

    def samples(self, data: Path) -> list[Sample]:
        """Read the parquet, JSON or JSON lines files below `data`.

        Raises:
            InputError: there are none, or not in the published shape.
        """
        rows = [row for path in _files(data) for row in _read(path)]
        if not rows:
            raise InputError(f"{data}: no UEval there: {WHERE}")
        samples = [_sample(row, data) for row in rows]
        if len({sample.id for sample in samples}) < len(samples):
            raise InputError(f"{data}: an id stands there twice: give the folder of one download only")
        return samples

    def export(self, answered: Sequence[tuple[Sample, BenchAnswer]], out: Path) -> None:
        """Write outputs.json and its pictures, for `ueval_eval.py --model_output_path`, run in any folder."""
        rows = []
        for sample, answer in answered:
            paths = [(out / "images" / f"{sample.id}_{i}.png").resolve() for i in range(len(answer.images))]
            for path, image in zip(paths, answer.images, strict=True):
                write_bytes(path, image.png())
            row = {
                "id": sample.row["id"],
                "text_answer": answer.text,
                "image_answer": [str(p) for p in paths],
            }
            rows.append(row)
        write_bytes(out / "outputs.json", json.dumps(rows, ensure_ascii=False, indent=1).encode())

    def inquiries(self, sample: Sample, answer: BenchAnswer, marks: Mapping[str, Any]) -> list[Inquiry]:
        """Ask one question a criterion; none about an empty answer, which meets no criterion."""
        if marks or not answer.parts:
            return []
        return [
            Inquiry(f"{side} {number}", self._ask(side, sample, answer, criterion), read_met)
            for side in SIDES
            for number, criterion in enumerate(sample.row[f"{side}_rubrics"])
        ]

    def scores(self, marked: Sequence[Marked]) -> dict[str, Measurement]:
        """Measure per cent: a value a task, `text` and `image` rates, and both averages.

        An item's score is the mean of its text rate and its image rate, the shares of criteria that are met.
        """
        rows, unjudged = [], 0
        for judged in marked:
            rates = {side: _rate(judged, side) for side in SIDES}
            unjudged += any(mark is None for mark in judged.marks.values())
            judged_rates = [rate for rate in rates.values() if rate is not None]
            if judged_rates:
                rows.append(_counts(judged.sample.group, sum(judged_rates) / len(judged_rates), rates))
        values = {task: with_interval(rows, _percent(i)) for i, task in enumerate(TASKS)}
        text, image = _percent(len(TASKS)), _percent(len(TASKS) + 1)
        values |= {"text": with_interval(rows, text), "image": with_interval(rows, image)}
        values["avg_tasks"] = with_interval(rows, _tasks)
        values["avg_items"] = with_interval(rows, lambda sums: (text(sums) + image(sums)) / 2)
        values["unjudged"] = Measurement(value=float(unjudged))
        return values

    def _ask(self, side: str, sample: Sample, answer: BenchAnswer, criterion: str) -> Conversation:
        texts = self._words
        open_ended = "OPEN" if sample.group in OPEN else "CLOSED"
        template = texts["TEXT_TEMPLATE" if side == "text" else f"IMAGE_TEMPLATE_{open_ended}"]
        rubric = texts[f"{side.upper()}_RUBRIC_TEMPLATE"]
        filled = template.replace("<<question>>", sample.row["prompt"])
        filled = filled.replace("<<text_answer>>", answer.text)
        text = f"{filled}\n\n{rubric.replace('<<rubric_item>>', criterion)}"
        pictures = answer.images if side == "image" else ()
        return Message("system", (texts["SYSTEM_INSTRUCTION"],)), Message("user", (text, *pictures))

    @cached_property
    def _words(self) -> Mapping[str, str]:
        if self.clone is None:
            return OURS
        script = Clone(self.clone, REPOSITORY).constants("ueval_eval.py")
        return {name: script.filled(name) for name in OURS}


def read_met(reply: str) -> bool | str | None:
    """Read `criteria_met`: True, False or "not sure"; None where it is missing or said in two ways.

    >>> read_met('```json {"criteria_met": "Not sure"} ```')
    'not sure'
    """
    verdicts = {_ANSWERS.get(word.strip('"').strip().lower()) for word in _MET.findall(reply)}
    return verdicts.pop() if len(verdicts) == 1 else None


def _files(data: Path) -> list[Path]:
    """List all test files below `data`, except what the download tool keeps for itself."""
    kinds = (".parquet", ".json", ".jsonl")
    paths = sorted(p for p in data.rglob("*") if p.suffix in kinds and p.is_file())
    return [p for p in paths if not any(part.startswith(".") for part in p.relative_to(data).parts)]


def _read(path: Path) -> Iterable[Mapping[str, Any]]:
    try:
        if path.suffix == ".parquet":
            return _parquet(path)
        text = read_file(path).decode()
        if path.suffix == ".jsonl":
            rows = [json.loads(line) for line in text.split("\n") if line.strip()]
        else:
            rows = json.loads(text)
    except (ValueError, RecursionError) as e:  # pyarrow's errors are ValueErrors too
        raise InputError(f"{path}: cannot be read ({type(e).__name__}): {WHERE}") from e
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: no list of rows: {WHERE}")
    return rows


def _parquet(path: Path) -> list[Mapping[str, Any]]:
    """Read the rows without the reference pictures."""
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(path)
    return file.read(columns=[c for c in COLUMNS if c in file.schema_arrow.names]).to_pylist()


def _sample(row: Mapping[str, Any], data: Path) -> Sample:
    task = str(row.get("task") or row.get("task_type") or "").strip().lower()
    wrong = [name for name in ("id", "prompt", "text_rubrics", "image_rubrics") if name not in row]
    if wrong or task not in TASKS:
        lacks = f"lacks {', '.join(wrong)}" if wrong else f"has the unknown task {task!r}"
        raise InputError(f"{data}: a row {lacks}: {WHERE}")
    name = re.sub(r"[^\w-]", "_", str(row["id"]))
    rubrics = {key: _criteria(row[key]) for key in (f"{side}_rubrics" for side in SIDES)}
    if not name or not isinstance(row["prompt"], str) or None in rubrics.values():
        raise InputError(f"{data}: the row of id {row['id']!r} is not in the published shape: {WHERE}")
    return Sample(
        id=name,
        group=task,
        instruction=row["prompt"].replace(BOTH_WAYS, ""),
        row={"id": row["id"], "prompt": row["prompt"], **rubrics},
    )


def _criteria(rubrics: object) -> list[str] | None:
    """List rubrics, each a text or an object that has one; None for anything else."""
    if rubrics is None:
        return []
    if not isinstance(rubrics, list):
        return None
    criteria = [rubric.get("criterion") if isinstance(rubric, dict) else rubric for rubric in rubrics]
    texts = [text for text in criteria if isinstance(text, str) and text.strip()]
    return texts if len(texts) == len(criteria) else None


def _rate(judged: Marked, side: str) -> float | None:
    """Compute the share of the judged criteria that are met; "not sure" is no. None where none was judged."""
    count = len(judged.sample.row[f"{side}_rubrics"])
    if not judged.answer.parts:
        return 0.0 if count else None
    marks = [judged.marks.get(f"{side} {number}") for number in range(count)]
    judged_marks = [mark is True for mark in marks if mark is not None]
    return sum(judged_marks) / len(judged_marks) if judged_marks else None


def _counts(task: str, score: float, rates: Mapping[str, float | None]) -> list[float]:
    """List (sum, count) of each task, of the text rates and of the image rates."""
    pairs = [(score, 1.0) if name == task else (0.0, 0.0) for name in TASKS]
    pairs += [(0.0, 0.0) if rate is None else (rate, 1.0) for rate in (rates[side] for side in SIDES)]
    return [value for pair in pairs for value in pair]


def _percent(at: int) -> Any:
    return lambda sums: 100 * share(sums[..., 2 * at : 2 * at + 2])


def _tasks(sums: Sums) -> Sums:
    """Compute the mean of the tasks that there are."""
    values = np.stack([_percent(i)(sums) for i in range(len(TASKS))], axis=-1)
    present = ~np.isnan(values)
    return share(np.stack([np.nan_to_num(values).sum(-1), present.sum(-1)], axis=-1))
