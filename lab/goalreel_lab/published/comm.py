"""The rows of CoMM, and the prompts that they are asked with.

The format is that of `datasets/download_images.py` and `models/SEED/scripts/eval_CoMM.py` in
github.com/HKUST-LongGroup/CoMM: a list of {data_id, title, step_info}. `step_info` has one list for each
step, of {type: text, content} and {type: image, image_path, url}.
"""

import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from goalreel.annotator.statistics import Measurement, share, with_interval
from goalreel.chat.conversation import Conversation, Message, MessagePart
from goalreel.errors import InputError, first_line
from goalreel.files import check_file, write_bytes
from goalreel.image import Image
from goalreel.types import DoneStep
from goalreel_lab.published.benchmark import (
    BenchAnswer,
    Clone,
    Inquiry,
    JudgeFacts,
    Marked,
    Sample,
    Unread,
    find_picture,
    fitted,
    jpeg,
)

FILE = "test_data.pth"
DATA = "https://huggingface.co/datasets/weisuxi/CoMM"
MAX_IMAGES = 10
"""Pictures of one sample that the judge is shown, given ones included."""
STORED_SIDE = 1024
"""Pixels; photographs from the web are many times larger than what any model here is given."""

type CommTask = Literal[3, 4]
type Found = list[list[str | Path]]
"""Steps, each of texts and pictures in order."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wording:
    """Words that ask about a topic (Task 4), and that introduce a beginning and hand it over (Task 3)."""

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
    import torch

    try:  # no object of a class is made, and no code in the file runs
        rows = torch.load(check_file(path), map_location="cpu", weights_only=True)
    except Exception as e:  # a damaged pickle may raise anything
        raise InputError(
            f"{path}: not a file of plain data ({first_line(e)[:200]}): download it again"
        ) from e
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


def _readable(path: Path) -> bool:
    """Tell whether a picture can be read: a dead link leaves a web page in its place."""
    try:
        Image.of(path)
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


MEASURES = ("sty", "enti", "tren", "comp", "imgq", "irs")
"""Style, entity and trend consistency, completeness, image quality, illustration relevance."""

MAX_REPLY = 100_000

_SCORES = {
    "sty": ("Image_Coherence", "overall_score", "style_consistency"),
    "enti": ("Image_Coherence", "overall_score", "entity_consistency"),
    "tren": ("Image_Coherence", "overall_score", "trend_consistency"),
    "comp": ("Completeness", "Score"),
    "imgq": ("Image_Quality", "Score"),
}
_ABSENT = ("NA", "N/A")


def read_document(reply: str) -> dict[str, float | None] | None:
    """Read the five scores of a document, 0-10, each None where it is no such number; None without any.

    What the judge calls not applicable, by null or "NA", is 0, as in their `cal_gpt4o_score.py`.
    """
    scores = _at(_json(reply), ("scores",))
    if not isinstance(scores, dict):
        return None
    read = {key: _score(scores, path) for key, path in _SCORES.items()}
    return read if any(value is not None for value in read.values()) else None


def read_descriptions(reply: str) -> list[str] | None:
    """Read what each hidden picture should show, in the order of the numbers; None for nothing."""
    tasks = _at(_json(reply), ("Tasks",))
    if not isinstance(tasks, dict):
        return None
    numbered = [
        (int(number[0]), text.strip())
        for contents in tasks.values()
        if isinstance(contents, dict)
        for key, text in contents.items()
        if isinstance(text, str) and (number := re.findall(r"\d{1,4}", key))
    ]
    return [text for _, text in sorted(numbered)] or None


def read_fidelity(reply: str) -> float | None:
    """Read how well pictures and descriptions agree, 0-10; None where it is no such number."""
    return _score(_json(reply), ("Consistency", "overall_score"))


def six(marks: Mapping[str, Any]) -> dict[str, float | None]:
    """Give the six measures of a sample, None where the judge gave none."""
    document = marks.get("document") or {}
    return {**{key: document.get(key) for key in _SCORES}, "irs": marks.get("irs")}


def _json(reply: str) -> Any:
    start, end = reply.find("{"), reply.rfind("}")
    if not 0 <= start < end or end - start > MAX_REPLY:
        return None
    try:
        return json.loads(reply[start : end + 1])
    except (ValueError, RecursionError):
        return None


def _at(value: Any, path: tuple[str, ...]) -> Any:
    """Look up the keys of `path`; an empty text where one of them is not there."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return ""
        value = value[key]
    return value


def _score(value: Any, path: tuple[str, ...]) -> float | None:
    score = _at(value, path)
    if score is None or score in _ABSENT:
        return 0.0
    if isinstance(score, str) and (number := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*10)?\s*", score)):
        score = float(number[1])
    if isinstance(score, bool) or not isinstance(score, int | float):
        return None
    return float(score) if math.isfinite(score) and 0 <= score <= 10 else None


REPOSITORY = "https://github.com/HKUST-LongGroup/CoMM"
PROMPTS = "eval/tot_metric/machine_evaluation_prompts"
JUDGE_SIDE = 512


class Comm:
    """The benchmark, one of its two tasks for generation.

    Args:
        clone: the user's clone of REPOSITORY, for the questions and the judge's prompts.
        task: 3 goes on with the first half of the steps, 4 begins from the title.
    """

    name = "comm"
    judge = JudgeFacts("gpt-4o", temperature=1.0, max_tokens=4096)
    """Their script sets no limit of tokens; this is the most that every gpt-4o gives."""

    def __init__(self, clone: Path | None = None, *, task: CommTask = 3) -> None:
        self.task: CommTask = task
        self._clone = Clone(clone, REPOSITORY)

    def samples(self, data: Path) -> list[Sample]:
        """Read `test_data.pth` and, for Task 3, the pictures in `images/` of `data`.

        Left out, and said so: rows without pictures, rows whose given pictures are not there, and for Task 3
        rows of one step or of ten given pictures and more, which their script does not judge either.

        Raises:
            InputError: there is no data, it is in another shape, or no row can be used.
        """
        rows = read_rows(data)
        wording = Wording.of(self._clone)
        samples: dict[str, Sample] = {}
        reasons: list[str] = []
        for row in rows:
            sample = self._sample(row, wording, data)
            if isinstance(sample, str):
                reasons.append(sample)
            elif sample.id in samples:
                reasons.append("with the data_id of a row before")
            else:
                samples[sample.id] = sample
        for reason in sorted(set(reasons)):
            log.warning("CoMM: %d of %d rows left out: %s", reasons.count(reason), len(rows), reason)
        if not samples:
            raise InputError(
                f"{data}: no row can be used for Task {self.task} ({sorted(set(reasons))[0]}): download the "
                f"pictures of {DATA} with download_images.py of {REPOSITORY} into images/"
            )
        return list(samples.values())

    def export(self, answered: Sequence[tuple[Sample, BenchAnswer]], out: Path) -> None:
        """Write `ID_taskN/results.json`, with `predict_K.jpg`, and `origin/input_K.jpg` as given."""
        for sample, answer in answered:
            folder = out / f"{sample.id}_task{self.task}"
            pictures = _pictures(_given(sample))
            inputs = {f"input_{n}.jpg": image for n, image in enumerate(pictures, 1)}
            outputs = {f"predict_{n}.jpg": image for n, image in enumerate(answer.images, len(pictures) + 1)}
            for name, image in inputs.items():
                write_bytes(folder / "origin" / name, jpeg(image))
            for name, image in outputs.items():
                write_bytes(folder / name, jpeg(image))
            results = {
                "model_input": sample.row["model_input"],
                "model_output": _written(_steps(answer), len(_given(sample)) + 1),
                "input_image_list": list(inputs),
                "prediction_image_list": list(outputs),
            }
            write_bytes(folder / "results.json", json.dumps(results, indent=4, ensure_ascii=False).encode())

    def inquiries(self, sample: Sample, answer: BenchAnswer, marks: Mapping[str, Any]) -> list[Inquiry]:
        """Ask for the document's scores and for descriptions of its pictures; then whether these fit.

        Raises:
            InputError: no clone, or it lacks a prompt.
        """
        if not answer.parts:
            return []
        input_steps = _given(sample)
        output_steps = _cut(_steps(answer), MAX_IMAGES - len(_pictures(input_steps)))
        inquiries: list[Inquiry] = []
        if "document" not in marks:
            user = _document(sample, input_steps, output_steps, hide=False)
            inquiries.append(self._inquiry("document", user, read_document))
        if "descriptions" not in marks and _pictures(output_steps):
            user = _document(sample, input_steps, output_steps, hide=True)
            inquiries.append(self._inquiry("descriptions", user, read_descriptions))
        if "irs" not in marks and marks.get("descriptions"):
            user = _pairs(marks["descriptions"], _pictures(output_steps))
            inquiries.append(self._inquiry("irs", user, read_fidelity))
        return inquiries

    def scores(self, marked: Sequence[Marked]) -> dict[str, Measurement]:
        """Measure `sty`, `enti`, `tren`, `comp`, `imgq` and `irs`, means 0-10, and two counts.

        A mean is of what is marked in it. `unjudged`: answers without one of the six. `unanswered`: samples
        without any answer, in no mean, as their script leaves out what it cannot judge.
        """
        answered = [m for m in marked if m.answer.parts]
        tables = [six(m.marks) for m in answered]
        measures: dict[str, Measurement] = {}
        for key in MEASURES:
            values = (table[key] for table in tables)
            measures[key] = with_interval([(value, 1.0) for value in values if value is not None], share)
        measures["unjudged"] = Measurement(value=sum(None in t.values() for t in tables))
        measures["unanswered"] = Measurement(value=len(marked) - len(answered))
        return measures

    def _sample(self, row: Mapping[str, Any], wording: Wording, data: Path) -> Sample | str:
        """Make the sample of a row, or say why there is none."""
        steps, title = row["step_info"], (row.get("title") or "").strip()
        if not any(item["type"] == "image" for step in steps for item in step):
            return "without pictures"
        question = title.join(wording.question)
        if self.task == 4:
            return Sample(
                _file_name(row), "task4", question, row={**row, "model_input": question, "given": 0}
            )
        if len(steps) < 2:
            return "of one step"
        half = len(steps) // 2
        input_steps = find_steps(steps[:half], data)
        if input_steps is None:
            return "with given pictures that are not in images/"
        if sum(isinstance(item, Path) for step in input_steps for item in step) >= MAX_IMAGES:
            return f"with {MAX_IMAGES} given pictures or more"
        text = f"{title.join(wording.start)}{_written(input_steps, 1)} {wording.rest}"
        extra = {"model_input": text, "given": half, "rest": wording.rest}
        return Sample(_file_name(row), "task3", question, done=_done(input_steps), row={**row, **extra})

    def _inquiry(self, name: str, user: Sequence[MessagePart], read: Callable[[str], Any]) -> Inquiry:
        system = self._clone.text(f"{PROMPTS}/{_PROMPTS[name]}.json")
        conversation: Conversation = (Message("system", (system,)), Message("user", tuple(user)))
        return Inquiry(name, conversation, read)


_PROMPTS = {
    "document": "document_completeness_image_coherence",
    "descriptions": "texts_to_image_descriptions",
    "irs": "descriptions_gt_images_consistency",
}


type Sequel = list[list[str | Image]]
"""Steps, each of texts and pictures in order."""


def _pictures(steps: Sequel) -> list[Image]:
    return [item for step in steps for item in step if isinstance(item, Image)]


def _steps(answer: BenchAnswer) -> Sequel:
    return [[part.text, part.image] if part.image is not None else [part.text] for part in answer.parts]


def _given(sample: Sample) -> Sequel:
    """List the given steps, whose pictures lie in `sample.done`."""
    images = iter([step.image for step in sample.done if step.image is not None])
    return [
        [
            next(images) if item["type"] == "image" else item["content"].strip()
            for item in step
            if item["type"] == "image" or item["content"].strip()
        ]
        for step in sample.row["step_info"][: sample.row["given"]]
    ]


def _done(input_steps: Found) -> Unread[DoneStep]:
    """Make a DoneStep for each picture, with the text before it.

    Text that follows the last picture makes one more.
    """
    done: list[Callable[[], DoneStep]] = []
    for number, step in enumerate(input_steps, 1):
        texts: list[str] = []
        for item in step:
            if isinstance(item, str):
                texts.append(item)
                continue
            done.append(partial(_done_step, " ".join(texts) or f"Step {number}", item))
            texts = []
        if texts:
            done.append(partial(_done_step, " ".join(texts)))
    return Unread(done)


def _done_step(instruction: str, path: Path | None = None) -> DoneStep:
    return DoneStep(
        instruction=instruction, image=None if path is None else fitted(Image.of(path), STORED_SIDE)
    )


def _cut(steps: Sequel, limit: int) -> Sequel:
    """Keep the steps up to picture number `limit`, which ends them, as in their `data_format`."""
    cut_steps: Sequel = []
    room = limit
    for step in steps:
        cut_steps.append([])
        for item in step:
            cut_steps[-1].append(item)
            room -= isinstance(item, Image)
            if not room:
                return cut_steps
    return cut_steps


def _written(steps: Sequel | Found, first: int) -> str:
    """Write steps as one text: `(1) text <IMAGE> (2) ...`."""
    texts = [" ".join(item if isinstance(item, str) else "<IMAGE>" for item in step) for step in steps]
    return " ".join(f"({number}) {text}" for number, text in enumerate(texts, first))


def _document(sample: Sample, input_steps: Sequel, output_steps: Sequel, *, hide: bool) -> list[MessagePart]:
    """Show input and output to the judge; `hide` leaves the output's pictures out, but not their marks."""
    input_parts = _shown(input_steps, 0, hide=False) if input_steps else [sample.row["model_input"]]
    rest = [sample.row["rest"]] if input_steps else []
    output_parts = _shown(output_steps, len(_pictures(input_steps)), hide=hide)
    return ["INPUT:", *input_parts, *rest, "OUTPUT:", *output_parts]


def _shown(steps: Sequel, number: int, *, hide: bool) -> list[MessagePart]:
    parts: list[MessagePart] = []
    for count, step in enumerate(steps, 1):
        parts.append(f"({count})")
        for item in step:
            if isinstance(item, Image):
                picture = [] if hide else [fitted(item, JUDGE_SIDE)]
                parts += [f"<Img_{number}>", *picture, f"</Img_{number}>"]
                number += 1
            else:
                parts.append(item)
    return parts


def _pairs(descriptions: Sequence[str], images: Sequence[Image]) -> list[MessagePart]:
    """Show description and picture in turn, from 0; the prompt tells the judge that either may be missing."""
    parts: list[MessagePart] = []
    for number, (text, image) in enumerate(zip_longest(descriptions, images)):
        if text is not None:
            parts.append(f"<Description_{number}> {text} </Description_{number}>")
        if image is not None:
            parts += [f"<Img_{number}>", fitted(image, JUDGE_SIDE), f"</Img_{number}>"]
    return parts


def _file_name(row: Mapping[str, Any]) -> str:
    return re.sub(r"[^\w-]+", "_", row["data_id"])[:100]
