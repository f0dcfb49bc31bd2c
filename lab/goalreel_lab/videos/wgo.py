"""Run WGO-Bench: a planner that watches cuts and names, a model labels gold segments, a judge compares.

OUT/videos/     the episodes' videos
OUT/answers/    the planner's plans
OUT/labels/     every reply of the model that labels
OUT/judge/      every reply of the judge

All replies are kept: a run that was killed goes on, and a second one asks nobody.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goalreel.annotator.guards import CircuitBreaker, rule_roles
from goalreel.errors import InputError
from goalreel.files import exclusive
from goalreel.models.journal import Journal
from goalreel.models.load import kinds_of, load
from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.models.registry import RecordingContext
from goalreel.progress import OnProgress
from goalreel.types import Failure, Plan, Task
from goalreel_lab.published.benchmark import Inquiry
from goalreel_lab.published.judging import Asker, BenchJudge
from goalreel_lab.videos.recording import CAMERA
from goalreel_lab.videos.report import VideoBenchReport
from goalreel_lab.videos.wgo_data import WgoEpisode, read_wgo
from goalreel_lab.videos.wgo_labels import judge_inquiry, label_inquiry
from goalreel_lab.videos.wgo_scores import Span, WgoScore, even_spans, match_spans, wgo_values

EPISODES, SEGMENTS = 100, 743
"""Of the whole benchmark."""
BATCH = 4
"""Episodes that are planned at once."""
BLIND = ("kinematic", "rows")
"""Planners that read what a video has not: the robot's numbers, or labels."""


@dataclass(frozen=True)
class WgoOrder:
    """What is to be run."""

    data: Path
    out: Path
    preset: Preset
    """Its planner looks at recordings."""
    labeller: BenchJudge | None = None
    judge: BenchJudge | None = None
    limit: int | None = None


def run_wgo(order: WgoOrder, progress: OnProgress = lambda *_: None) -> VideoBenchReport:
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


def _plans(order: WgoOrder, episodes: Sequence[WgoEpisode], progress: OnProgress) -> list[Plan | Failure]:
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
    even = match_spans(even_spans(episode.recording.length_s, len(gold)), gold)
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
    inquiries: list[tuple[str, Inquiry]] = [
        (episode.recording.id, judge_inquiry(*pairs[i])) for i in open_pairs
    ]
    for i, mark in zip(open_pairs, asker.ask(inquiries), strict=True):
        marks[i] = mark
    return marks


def _notes(order: WgoOrder, counts: Mapping[str, int]) -> list[str]:
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
