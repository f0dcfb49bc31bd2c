"""WGO-Bench as published: one Parquet file, a row an episode, with the bytes of its MP4 file.

huggingface.co/datasets/macrodata/WGO-Bench, CC-BY-NC-SA-4.0: `data/annotations.parquet` has the columns `id`,
`video` (MP4 bytes), `instruction` (may be empty), `segments` (a list of `start_sec`, `end_sec` and `subtask`)
and `metadata` (JSON). Read from the dataset's card and viewer, not from the file itself. So a video may also
be a struct with `bytes`, and segments a JSON string, as other tools hand them out.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as pq
from pydantic import BaseModel, TypeAdapter, ValidationError

from goalreel.annotator.guards import CircuitBreaker, rule_roles
from goalreel.annotator.statistics import Measurement, share, with_interval
from goalreel.chat.conversation import Message
from goalreel.errors import InputError
from goalreel.files import digest, exclusive, write_bytes
from goalreel.models.journal import Journal
from goalreel.models.load import kinds_of, load
from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.models.registry import RecordingContext
from goalreel.planners.watch.reply import TILES, contact_sheet
from goalreel.progress import OnProgress
from goalreel.types import Failure, Plan, Task
from goalreel_lab.published.benchmark import Inquiry, JudgeFacts
from goalreel_lab.published.judging import Asker, BenchJudge
from goalreel_lab.videos.report import CAMERA, VideoBenchReport, VideoRecording

FILE = "annotations.parquet"
WHERE = "hf download macrodata/WGO-Bench --repo-type dataset --local-dir DIR"
COLUMNS = ("id", "video", "instruction", "segments")
NO_INSTRUCTION = "The task is not known: say what is seen."
"""Stands for an empty instruction."""


class WgoSegment(BaseModel):
    """A sub-task that people marked: from `start_sec` to `end_sec` s, and in words."""

    start_sec: float
    end_sec: float
    subtask: str


@dataclass(frozen=True)
class WgoEpisode:
    """One episode with its gold segments, in order of time."""

    recording: VideoRecording
    segments: tuple[WgoSegment, ...]
    digest: str
    """Digest of the video's bytes."""


def read_wgo(data: Path, videos: Path, limit: int | None = None) -> list[WgoEpisode]:
    """Read the benchmark; its videos are written to `videos`, once.

    Args:
        data: the folder of the download, or the file itself.
        limit: only the first so many episodes.

    Raises:
        InputError: it is not there, or not in the published shape.
    """
    path = next((p for p in (data, data / "data" / FILE, data / FILE) if p.is_file()), None)
    if path is None:
        raise InputError(f"{data}: no {FILE}: {WHERE}")
    episodes: list[WgoEpisode] = []
    for row in _rows(path):
        if limit is not None and len(episodes) == limit:
            break
        episodes.append(_episode(row, path, videos))
    if not episodes:
        raise InputError(f"{path}: holds no episode: {WHERE}")
    if len({episode.recording.id for episode in episodes}) < len(episodes):
        raise InputError(f"{path}: two episodes of one id: {WHERE}")
    return episodes


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Read a row at a time: all videos together are more than a gigabyte."""
    try:
        with pq.ParquetFile(path) as file:
            if missing := [name for name in COLUMNS if name not in file.schema_arrow.names]:
                raise InputError(f"{path}: no column {missing[0]}: not WGO-Bench as published: {WHERE}")
            for batch in file.iter_batches(batch_size=1, columns=list(COLUMNS)):
                yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as e:
        raise InputError(f"{path}: cannot be read as Parquet ({e}): {WHERE}") from e


def _episode(row: Mapping[str, Any], path: Path, videos: Path) -> WgoEpisode:
    name, video = row["id"], row["video"]
    if not isinstance(name, str) or re.fullmatch(r"\w[\w.-]*", name) is None:
        raise InputError(f"{path}: id {name!r} is none of WGO-Bench: {WHERE}")
    video = video.get("bytes") if isinstance(video, dict) else video
    if not isinstance(video, bytes) or b"ftyp" not in video[:64]:
        raise InputError(f"{path}: {name}: its video is no MP4 file: {WHERE}")
    try:
        raw = json.loads(row["segments"]) if isinstance(row["segments"], str) else row["segments"]
        segments = TypeAdapter(tuple[WgoSegment, ...]).validate_python(raw)
    except ValueError as e:
        problem = "not as published" if isinstance(e, ValidationError) else str(e)
        raise InputError(f"{path}: {name}: its segments cannot be read ({problem}): {WHERE}") from e
    if not segments or any(s.end_sec <= s.start_sec for s in segments):
        raise InputError(f"{path}: {name}: it has no segments, or one that ends before it begins: {WHERE}")
    file, key = videos / f"{name}.mp4", digest(video)
    if not file.is_file() or file.stat().st_size != len(video):
        write_bytes(file, video)
    instruction = str(row["instruction"] or "").strip() or NO_INSTRUCTION
    ordered = tuple(sorted(segments, key=lambda s: s.start_sec))
    return WgoEpisode(VideoRecording(name, file, instruction), ordered, key)


JUDGE = JudgeFacts("a language model", temperature=0.0, max_tokens=1024, official_prompts=False)
LABELLER = JudgeFacts("the model that labels", temperature=0.0, max_tokens=1024, official_prompts=False)
LONGEST = 200
"""Letters of a label."""
_LABEL = (
    "The pictures are frames of one segment of a longer video, in order, each under its number and its time. "
    "The task of the whole video: {instruction}\n"
    "Say which one manipulation was completed in this segment. Name the thing that was handled and, if it "
    "was brought somewhere, where to. Answer with one short imperative sentence, such as: put the red cup on "
    "the tray."
)
_JUDGE = (
    "Two people described the same moment of a video of a robot or of hands at work.\n"
    "A: {gold}\nB: {label}\n"
    "Do both describe the same completed manipulation: the same action on the same thing, with the same "
    "result? Other words, more or less detail and small differences of colour names do not matter. Answer "
    "with one word, SAME or DIFFERENT."
)


def label_inquiry(recording: VideoRecording, start_s: float, end_s: float) -> Inquiry:
    """Ask what a segment of a video shows, on a sheet of at most TILES frames.

    Raises:
        DatasetError: a frame cannot be decoded.
    """
    first, last = np.searchsorted(recording.timestamps, (start_s, end_s))
    last = max(int(last) - 1, int(first))
    count = len(recording.timestamps)
    frames = np.linspace(min(first, count - 1), min(last, count - 1), TILES).round().astype(int)
    sheet = contact_sheet(recording, (CAMERA,), sorted(set(frames.tolist())))
    text = _LABEL.format(instruction=recording.instruction)
    return Inquiry("label", (Message("user", (text, sheet)),), read_label)


def read_label(reply: str) -> str | None:
    """Read the sentence of a reply: its last line with words; None where there is none, or a long one.

    >>> read_label("I see a cup.\\n\\n**Put the cup on the tray.**")
    'Put the cup on the tray'
    """
    lines = [line.strip(" \t*`\"'.-") for line in reply.splitlines()]
    words = next((line for line in reversed(lines) if re.search(r"\w", line)), "")
    return words if 0 < len(words) <= LONGEST else None


def read_same(reply: str) -> bool | None:
    """Read the last of the two words that a reply says; None where it says none.

    >>> read_same("Not quite the same thing.\\nDIFFERENT")
    False
    """
    words = re.findall(r"\b(SAME|DIFFERENT)\b", reply)
    return words[-1] == "SAME" if words else None


OVERLAP = 0.75
type Span = tuple[float, float]
"""Begin and end in s."""


@dataclass(frozen=True)
class WgoScore:
    """One episode: how many segments there are, and which match."""

    predicted: int
    gold: int
    matches: tuple[tuple[int, int], ...]
    """(Predicted, gold) of each match."""
    right: int | None = None
    """Matches with a right label; None where no judge was asked."""
    labelled: tuple[int, int] | None = None
    """Right labels of given gold segments, and how many there are."""
    even: int = 0
    """Matches of as many segments of equal length."""


def span_overlap(a: Span, b: Span) -> float:
    """Divide the seconds in both spans by those in either, 0-1."""
    both = max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
    return both / (a[1] - a[0] + b[1] - b[0] - both)


def match_spans(predicted: Sequence[Span], gold: Sequence[Span]) -> tuple[tuple[int, int], ...]:
    """Find the pairs that overlap by OVERLAP, the nearest first; each span is in one pair at most.

    >>> match_spans([(0, 4), (4, 10)], [(0, 4.5), (4.5, 6), (6, 10)])
    ((0, 0),)
    """
    pairs = [(span_overlap(p, g), i, j) for i, p in enumerate(predicted) for j, g in enumerate(gold)]
    free_rows, free_columns, matches = set(range(len(predicted))), set(range(len(gold))), []
    for overlap, i, j in sorted(pairs, reverse=True):
        if overlap >= OVERLAP and i in free_rows and j in free_columns:
            free_rows.remove(i)
            free_columns.remove(j)
            matches.append((i, j))
    return tuple(sorted(matches))


def wgo_values(scores: Sequence[WgoScore]) -> dict[str, Measurement]:
    """Compute the benchmark's measures, 0-1, with intervals over episodes."""
    counts = [(len(s.matches), s.predicted, s.gold) for s in scores]
    values = _three("segment", counts)
    values["even_segment_f1"] = with_interval([(2 * s.even, 2 * s.gold) for s in scores], share)
    labelled = [s.labelled for s in scores if s.labelled is not None]
    if labelled:
        values["label_accuracy"] = with_interval(labelled, share)
    judged = [(s.right, s.predicted, s.gold) for s in scores if s.right is not None]
    return values | (_three("end_to_end", judged) if judged else {})


def _three(name: str, counts: Sequence[tuple[int, int, int]]) -> dict[str, Measurement]:
    return {
        f"{name}_f1": with_interval([(2 * hits, p + g) for hits, p, g in counts], share),
        f"{name}_precision": with_interval([(hits, p) for hits, p, _ in counts], share),
        f"{name}_recall": with_interval([(hits, g) for hits, _, g in counts], share),
    }


EPISODES, SEGMENTS = 100, 743
"""Counts of the whole benchmark."""
BATCH = 4
"""Episodes that are planned at once."""
BLIND = ("kinematic", "rows")
"""Planners that read what a video has not: the robot's numbers, or labels."""


@dataclass(frozen=True)
class WgoConfig:
    """Settings of a run."""

    data: Path
    out: Path
    preset: Preset
    """Its planner looks at recordings."""
    labeller: BenchJudge | None = None
    judge: BenchJudge | None = None
    limit: int | None = None


def run_wgo(order: WgoConfig, progress: OnProgress = lambda *_: None) -> VideoBenchReport:
    """Measure a planner, and a model that labels, on the episodes that the user has.

    Raises:
        InputError: the data are not there or not as published, or the planner looks at no recordings.
        DatasetError: another run works in the same folder, or a video cannot be decoded.
        UserError: a model cannot be called; what it said is kept.
    """
    if order.labeller is not None and order.judge is None:
        raise InputError("--labeller needs a --judge: labels are compared by a model")
    with exclusive(order.out / "answers", order.out):
        episodes = read_wgo(order.data, order.out / "videos", order.limit)
        plans = _plans(order, episodes, progress)
        scores = [_segment_score(e, p) for e, p in zip(episodes, plans, strict=True)]
        unjudged = unlabelled = 0
        if order.judge is not None:
            asker = Asker(order.judge, order.out / "judge")
            scores, unjudged = _judge_matches(episodes, plans, scores, asker)
            if order.labeller is not None:
                labels = _labels(episodes, Asker(order.labeller, order.out / "labels"), progress)
                unlabelled = sum(label is None for row in labels for label in row)
                scores, unread = _judge_labels(episodes, labels, scores, asker)
                unjudged += unread
    gold = sum(len(e.segments) for e in episodes)
    failures = sum(isinstance(p, Failure) for p in plans)
    counts = {"episodes": len(episodes), "segments": gold, "failures": failures}
    counts |= {"unlabelled": unlabelled, "unjudged": unjudged}
    models = {"planner": ModelName.parse(order.preset.planner).public()}
    models |= {"labeller": order.labeller.name} if order.labeller else {}
    models |= {"judge": order.judge.name} if order.judge else {}
    return VideoBenchReport(
        benchmark="wgo",
        models=models,
        counts=counts,
        values=wgo_values(scores),
        notes=tuple(_notes(order, counts)),
    )


def _plans(order: WgoConfig, episodes: Sequence[WgoEpisode], progress: OnProgress) -> list[Plan | Failure]:
    kind = kinds_of(order.preset)["planner"]
    if not kind.needs_recording or kind.name in BLIND:
        name = ModelName.parse(order.preset.planner).public()
        raise InputError(
            f"--planner {name} looks at no video: name a model that watches, such as "
            "--planner watch:openai:MODEL@URL"
        )
    recordings = {e.recording.id: e.recording for e in episodes}
    digests = {e.recording.id: e.digest for e in episodes}
    context = RecordingContext(recordings, CAMERA, cameras=(CAMERA,))
    models = load(order.preset, recordings=context, roles=("planner",))
    breaker = CircuitBreaker(rule_roles(models), strict=True)
    journal = Journal(order.out / "answers", digests.__getitem__)
    planner = models.with_middleware(breaker).with_journal(journal).planner
    plans: list[Plan | Failure] = []
    for start in range(0, len(episodes), BATCH):
        some = episodes[start : start + BATCH]
        tasks = [Task(id=e.recording.id, instruction=e.recording.instruction) for e in some]
        plans += planner.plan(tasks)
        progress("episodes", len(plans), len(episodes))
    return plans


def _spans(episode: WgoEpisode, plan: Plan | Failure) -> list[Span]:
    """Give a plan's segments in seconds; none where there is no plan."""
    if isinstance(plan, Failure):
        return []
    seconds = [*episode.recording.timestamps.tolist(), episode.recording.length_s]
    return [(seconds[s.start], seconds[min(s.end, len(seconds) - 1)]) for s in plan.segments or ()]


def _segment_score(episode: WgoEpisode, plan: Plan | Failure) -> WgoScore:
    predicted, gold = _spans(episode, plan), [(s.start_sec, s.end_sec) for s in episode.segments]
    # Spans of equal length are the blind baseline.
    edges = np.linspace(0, episode.recording.length_s, len(gold) + 1).tolist()
    even = match_spans(list(itertools.pairwise(edges)), gold)
    return WgoScore(len(predicted), len(gold), match_spans(predicted, gold), even=len(even))


def _judge_matches(
    episodes: Sequence[WgoEpisode], plans: Sequence[Plan | Failure], scores: Sequence[WgoScore], asker: Asker
) -> tuple[list[WgoScore], int]:
    """Count the matches whose labels are right, and the replies of the judge that cannot be read."""
    judged, unjudged = [], 0
    for episode, plan, score in zip(episodes, plans, scores, strict=True):
        steps = plan.steps if isinstance(plan, Plan) else ()
        pairs = [(episode.segments[j].subtask, steps[i].name) for i, j in score.matches]
        marks = _same(episode, pairs, asker)
        unjudged += marks.count(None)
        judged.append(replace(score, right=marks.count(True)))
    return judged, unjudged


def _labels(episodes: Sequence[WgoEpisode], asker: Asker, progress: OnProgress) -> list[list[str | None]]:
    """Ask what each gold segment shows."""
    labels: list[list[str | None]] = []
    for episode in episodes:
        name = episode.recording.id
        inquiries = [
            (name, label_inquiry(episode.recording, s.start_sec, s.end_sec)) for s in episode.segments
        ]
        labels.append(asker.ask(inquiries))
        progress("labels", len(labels), len(episodes))
    return labels


def _judge_labels(
    episodes: Sequence[WgoEpisode],
    labels: Sequence[Sequence[str | None]],
    scores: Sequence[WgoScore],
    asker: Asker,
) -> tuple[list[WgoScore], int]:
    """Count the right labels of gold segments; a missing one is wrong."""
    judged, unjudged = [], 0
    for episode, texts, score in zip(episodes, labels, scores, strict=True):
        pairs = [(s.subtask, label) for s, label in zip(episode.segments, texts, strict=True) if label]
        marks = _same(episode, pairs, asker)
        unjudged += marks.count(None)
        judged.append(replace(score, labelled=(marks.count(True), len(episode.segments))))
    return judged, unjudged


def _same(episode: WgoEpisode, pairs: Sequence[tuple[str, str]], asker: Asker) -> list[bool | None]:
    """Tell of each (gold label, label) whether they agree; nobody is asked about the same words."""
    marks: list[Any] = [True if a.casefold() == b.casefold() else None for a, b in pairs]
    open_pairs = [i for i, mark in enumerate(marks) if mark is None]
    inquiries = list[tuple[str, Inquiry]]()
    for gold, label in (pairs[i] for i in open_pairs):
        message = Message("user", (_JUDGE.format(gold=gold, label=label),))
        inquiries.append((episode.recording.id, Inquiry("same", (message,), read_same)))
    for i, mark in zip(open_pairs, asker.ask(inquiries), strict=True):
        marks[i] = mark
    return marks


def _notes(order: WgoConfig, counts: Mapping[str, int]) -> list[str]:
    episodes, segments = counts["episodes"], counts["segments"]
    notes = []
    if counts["failures"]:
        notes.append(f"{counts['failures']} episodes have no plan: none of their segments is found.")
    if counts["unlabelled"]:
        notes.append(f"{counts['unlabelled']} segments have no label that can be read: they count as wrong.")
    if counts["unjudged"]:
        notes.append(f"{counts['unjudged']} labels have no verdict of the judge: they count as wrong.")
    if (episodes, segments) != (EPISODES, SEGMENTS):
        notes.append(
            f"The data have {episodes} episodes and {segments} segments, "
            f"the benchmark {EPISODES} and {SEGMENTS}."
        )
    if order.judge is not None:
        notes.append("The judge was asked in goalreel's words: the benchmark's prompt is not published.")
    else:
        notes.append("Without --judge there are no figures of labels, and none end to end.")
    notes.append("The published figures are the best of each track, and not of one run.")
    return notes
