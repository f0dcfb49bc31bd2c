"""CoMM: illustrated instructions, continued (Task 3) or written from a topic (Task 4).

Chen et al., "CoMM", arXiv 2406.10462. Facts and formats come from `eval/` in github.com/HKUST-LongGroup/CoMM,
which has no licence: the judge's prompts and the questions are read from the user's clone.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from goalreel.annotator.statistics import Measurement, share, with_interval
from goalreel.chat.conversation import Conversation, Message, MessagePart
from goalreel.errors import InputError
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.types import DoneStep
from goalreel_lab.published.benchmark import BenchAnswer, Inquiry, JudgeFacts, Marked, Sample
from goalreel_lab.published.clone import Clone
from goalreel_lab.published.comm_data import (
    DATA,
    MAX_IMAGES,
    CommTask,
    Found,
    Wording,
    find_steps,
    read_given,
    read_rows,
)
from goalreel_lab.published.comm_marks import (
    MEASURES,
    read_descriptions,
    read_document,
    read_fidelity,
    six,
)
from goalreel_lab.published.pictures import Unread, fitted, jpeg

REPOSITORY = "https://github.com/HKUST-LongGroup/CoMM"
PROMPTS = "eval/tot_metric/machine_evaluation_prompts"
JUDGE_SIDE = 512

log = logging.getLogger(__name__)


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
    return DoneStep(instruction=instruction, image=None if path is None else read_given(path))


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
