"""Run a published benchmark: answers, export, judging, scores. The same call resumes after a kill.

OUT/settings.json     what decided the answers; a second run must have the same
OUT/samples/ID/       the storyboard of each sample
OUT/answers/          replies of the models, for samples that are not finished
OUT/export/           the answers in the benchmark's own form
OUT/judge/            every reply of the judge
OUT/report.md         the scores beside the paper's
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from goalreel import __version__
from goalreel.annotator.statistics import Measurement
from goalreel.datasets.records import Shard
from goalreel.errors import DatasetError, InputError
from goalreel.files import digest, exclusive, read_file, write_bytes
from goalreel.image import Image
from goalreel.models.load import check_first
from goalreel.models.model_set import ModelSet
from goalreel.models.names import ModelName
from goalreel.progress import OnProgress
from goalreel.types import ROLES
from goalreel_lab.published.answers import FOLDER, Answers, generate
from goalreel_lab.published.benchmark import AnswerPart, BenchAnswer, Benchmark, Sample
from goalreel_lab.published.comm import Comm
from goalreel_lab.published.judging import Asker, BenchJudge, Estimate, estimate, judge_all
from goalreel_lab.published.report import (
    KLEIN,
    QWEN,
    WARNINGS,
    PublishedReport,
    check_row,
    row_for,
    tables_of,
)
from goalreel_lab.published.rise import Rise
from goalreel_lab.published.ueval import UEval
from goalreel_lab.published.wise import Wise

type Only = Literal["generate", "judge"]
type Confirm = Callable[[Estimate], bool]

_DESCRIPTIONS = {"data": "data, or questions from another --clone"}
_PROBE = BenchAnswer((AnswerPart("text", Image(np.zeros((8, 8, 3), np.uint8))),))


@dataclass(frozen=True)
class PublishedConfig:
    """Settings of a run: a benchmark on the data that the user has in `data`, with all results in `out`."""

    benchmark: Benchmark
    data: Path
    out: Path
    limit: int | None = None
    """Take this many samples, drawn by their ids: a larger limit adds to a smaller one. None is all."""
    seed: int = 0
    only: Only | None = None
    """Stop before judging, or judge what is there."""
    task: int | None = None
    """CoMM's task: the half of the paper's table."""
    paper_row: str | None = None
    """None is the row of the paper's system with the same editor."""
    concurrency: int = 16
    retry: bool = False
    """Try samples again of which a model refused something."""
    shard: Shard | None = None
    """Only make the answers of a part; a run without a part exports and judges those of all."""


def run_benchmark(
    order: PublishedConfig,
    models: ModelSet | None,
    judge: BenchJudge | None = None,
    *,
    confirm: Confirm = lambda _: True,
    progress: OnProgress = lambda stage, done, total: None,
) -> PublishedReport:
    """Make the answers that are missing, write them out, and judge them if there is a judge.

    Args:
        models: None with `only="judge"`.
        confirm: asked before the first call of the judge; False leaves the answers unjudged.

    Raises:
        InputError: the data or the judge's prompts are not there, or `out` was made with other settings.
        DatasetError: another run works in the same folder, or the disk is full.
        UserError: a model cannot be loaded or called; what is finished is kept.
    """
    benchmark, out = order.benchmark, order.out
    if order.paper_row is not None:
        check_row(benchmark.name, order.task, order.paper_row)
    every = benchmark.samples(order.data)
    samples, shard = _drawn(every, order.limit), order.shard
    samples = shard.of(samples) if shard else samples
    if judge is not None:  # without its prompts, now rather than when all answers are made
        benchmark.inquiries(every[0], _PROBE, {})
    if models is not None:
        check_first(models, (bool(s.images or s.done) for s in samples))
    with shard.lock(out / "answers", out) if shard else exclusive(out / "answers", out):
        settings = _settle(order, models, every)
        if order.only != "judge":
            if models is None:
                raise ValueError("answers need models")
            how = {"seed": order.seed, "concurrency": order.concurrency, "retry": order.retry}
            generate(samples, models, out, progress=progress, **how)
        answers = Answers(samples, out)
        if not answers:
            raise InputError(f"{out / FOLDER}: no answers there: run it without --only judge first")
        values = {}
        if shard is not None:
            return _report(order, settings, len(every), answers, None, values)
        benchmark.export(answers, out / "export")
        if judge is not None and order.only != "generate":
            values = _judged(order, judge, answers, confirm, progress)
        report = _report(order, settings, len(every), answers, judge if values else None, values)
        write_bytes(out / "report.md", report.markdown().encode())
    return report


def _judged(
    order: PublishedConfig, judge: BenchJudge, answers: Answers, confirm: Confirm, progress: OnProgress
) -> dict[str, Measurement]:
    folder = order.out / "judge"
    cost = estimate(order.benchmark, answers, Asker(judge, folder))
    if cost.calls and not confirm(cost):
        return {}
    return order.benchmark.scores(judge_all(order.benchmark, answers, judge, folder, progress))


def _drawn(every: Sequence[Sample], limit: int | None) -> list[Sample]:
    """Take `limit` samples from all over the benchmark, in its order."""
    first = {sample.id for sample in sorted(every, key=lambda sample: digest(sample.id))[:limit]}
    return [sample for sample in every if sample.id in first]


def _settle(order: PublishedConfig, models: ModelSet | None, every: Sequence[Sample]) -> dict[str, Any]:
    """Compare what decides the answers with what `out` was made with, or write it down.

    Raises:
        InputError: they differ, or there is nothing to judge.
        DatasetError: the settings in `out` are damaged.
    """
    path = order.out / "settings.json"
    data = {"benchmark": order.benchmark.name, "task": order.task, "data": digest(*map(_digest, every))[:16]}
    facts = data | (_facts(models, order.seed) if models is not None else {})
    if not path.is_file():
        if models is None:
            raise InputError(f"{order.out}: nothing to judge there: run it without --only judge first")
        write_bytes(path, json.dumps(facts, indent=1).encode())
        return facts
    try:
        stored_facts: dict[str, Any] = {**json.loads(read_file(path))}
    except (ValueError, TypeError) as e:
        raise DatasetError(f"{path}: damaged: choose another --out") from e
    for key, value in facts.items():
        if stored_facts.get(key) != value:
            change = f"{_DESCRIPTIONS.get(key, key)} ({stored_facts.get(key)}, now {value})"
            raise InputError(f"{order.out} was made with another {change}: choose another --out")
    return stored_facts


def _facts(models: ModelSet, seed: int) -> dict[str, Any]:
    provenance = models.provenance
    public = {role: provenance.preset.model_name(role).public() for role in ROLES}
    facts = provenance.settings() | public | {"notes": dict(provenance.notes)}
    return facts | {"seed": seed, "goalreel": __version__}


def _digest(sample: Sample) -> str:
    row = json.dumps(dict(sample.row), sort_keys=True, default=repr)
    pictures = [*sample.images, *(s.image for s in sample.done if s.image is not None)]
    return digest(sample.id, sample.group, sample.instruction, row, *(p.pixels.tobytes() for p in pictures))


def _report(
    order: PublishedConfig,
    settings: dict[str, Any],
    every: int,
    answers: Answers,
    judge: BenchJudge | None,
    values: dict[str, Measurement],
) -> PublishedReport:
    unplanned = answers.unplanned()
    row = order.paper_row or row_for(settings.get("editor", ""), settings.get("planner", ""))
    return PublishedReport(
        benchmark=order.benchmark.name,
        task=order.task,
        settings=settings,
        samples=every,
        answered=len(answers),
        unplanned=unplanned,
        judge=judge.name if judge else None,
        values=values,
        row=row,
        notes=tuple(_notes(order, settings, every, answers, judge, unplanned, row)),
    )


def _notes(
    order: PublishedConfig,
    settings: dict[str, Any],
    every: int,
    answers: Answers,
    judge: BenchJudge | None,
    unplanned: dict[str, str],
    row: str | None,
) -> list[str]:
    """Say what differs from the paper, then what must be known of the benchmark."""
    notes = [f"The {role}: {note}." for role, note in settings.get("notes", {}).items()]
    facts = order.benchmark.judge
    paper_samples = next((t.samples for t in tables_of(order.benchmark.name, order.task)), None)
    # A dated snapshot is the same model.
    same = rf"{re.escape(facts.model)}(-\d{{4}}-\d\d-\d\d)?"
    if judge is not None and not re.fullmatch(same, ModelName.parse(judge.name).brief()):
        notes.append(f"Another judge: the paper's was {facts.model}, this one is {judge.name}.")
    if judge is not None and judge.temperature != facts.temperature:
        temperature = (
            "its own temperature" if judge.temperature is None else f"temperature {judge.temperature:g}"
        )
        notes.append(f"The judge was asked at {temperature}, not {facts.temperature:g}.")
    if judge is not None and not facts.official_prompts:
        notes.append("The judge was asked in goalreel's words: --clone gives it the benchmark's own.")
    if paper_samples is not None and every != paper_samples:
        notes.append(f"The data have {every} samples, the published ones {paper_samples}.")
    if len(answers) < every:
        notes.append(f"Only {len(answers)} of {every} samples are in these numbers.")
    if unplanned:
        notes.append(f"{len(unplanned)} samples have no plan: lab/docs/benchmarks.md says how they count.")
    if refused := answers.refused():
        notes.append(
            f"{len(refused)} samples lack what a model refused, first: {refused[0]}. --retry asks again."
        )
    if row is None:
        notes.append("The paper's tables have no such editor: --paper-row names a row to compare with.")
    elif KLEIN.endswith(row) and "klein-9b" not in (editor := settings.get("editor", "")).lower():
        notes.append(f"The row's editor is FLUX.2-klein-9B, this one is {editor}.")
    if (background := settings.get("background")) != "ignore":
        notes.append(f"The paper has no check of the background; here it is {background or 'correct'}.")
    if row in (KLEIN, QWEN) and settings.get("max_attempts") != 5:
        notes.append(f"The paper's T is 5; here it is {settings.get('max_attempts')}.")
    return notes + list(WARNINGS.get(order.benchmark.name, ()))


type Opener = Callable[[Path | None, int], Benchmark]
"""Makes a benchmark from the clone of its repository, if any, and the task of one that has two."""

BENCHMARKS: Mapping[str, Opener] = {
    "ueval": lambda clone, _: UEval(clone),
    "wise": lambda clone, _: Wise(clone),
    "comm": lambda clone, task: Comm(clone, task=4 if task == 4 else 3),
    "rise": lambda clone, _: Rise(clone),
}


def open_benchmark(name: str, clone: Path | None = None, task: int = 3) -> Benchmark:
    """Make the benchmark `name`.

    Args:
        clone: the user's clone of its repository, which the judge's prompts are read from.
        task: of CoMM, 3 (continue a sequence) or 4 (answer a question).

    Raises:
        InputError: there is no such benchmark, or no such clone.
    """
    if name not in BENCHMARKS:
        raise InputError(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    if clone is not None and not clone.is_dir():
        raise InputError(f"{clone}: no such folder: --clone is where you cloned the benchmark's repository")
    return BENCHMARKS[name](clone, task)
