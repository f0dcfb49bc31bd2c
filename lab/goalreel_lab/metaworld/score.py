"""Score the result of `annotate` on recorded tasks against the simulator's truth."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict

from goalreel.annotator.segmentation import boundary_counts
from goalreel.annotator.statistics import Measurement, share, with_interval
from goalreel.types import Segment
from goalreel_lab.metaworld.tasks import TaskSpec
from goalreel_lab.metaworld.truth import RecordingTruth, contact_cuts, contacts
from goalreel_lab.metaworld.written_names import NamedStep, can_read, judge
from goalreel_lab.written_names import Contact

TOLERANCE_S = 0.5


@dataclass(frozen=True, slots=True)
class Annotation:
    """What `annotate` made of one recording."""

    cuts: tuple[int, ...]
    """The frames at which another step begins, without the first."""
    names: tuple[NamedStep, ...]
    """The sub-task rows that say something else than the instruction."""
    failed: bool = False
    """There is no plan."""
    observed: tuple[NamedStep, ...] = ()
    """The steps whose goal image is *observed*, up to the frame of that image, whether named or in doubt."""


class ScoreDetail(BaseModel):
    """A name that the simulator contradicts, or a contact that no name covers."""

    model_config = ConfigDict(frozen=True)

    task: str
    episode: int
    instruction: str
    what: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EpisodeScore:
    """The counts of one episode."""

    kind: str
    boundary: tuple[int, int, int]
    """Matched, predicted and true cuts."""
    names: int
    false: tuple[ScoreDetail, ...]
    contacts: int
    missed: tuple[ScoreDetail, ...]
    failed: bool = False
    observed: int = 0
    """Steps with an observed goal image whose words the benchmark reads."""
    observed_untrue: int = 0
    observed_early: int = 0
    asked: bool = False
    """The run stopped to ask which end of the gripper is closed, and was told."""
    inverted: bool = False
    """It took the open end of the gripper for the closed one."""


class MetaWorldReport(BaseModel):
    """What `goalreel eval metaworld` prints."""

    model_config = ConfigDict(frozen=True)

    split: str
    tasks: int
    episodes: int
    tolerance_s: float
    cut_f1: Measurement
    """Cuts within the tolerance of where contact begins or ends; the last retreat is no cut."""
    cut_precision: Measurement
    cut_recall: Measurement
    false_claims: Measurement
    """Share of the names that the simulator contradicts."""
    observed_untrue: Measurement
    """Share of the observed goal images at whose frame the simulator contradicts the step's words."""
    observed_early: Measurement
    """Share of those at which it does so, and does not within the tolerance."""
    coverage: Measurement
    """Share of the contacts during which a name is true of the body that is touched."""
    cuts: int
    true_cuts: int
    names: int
    false_names: int
    observed: int
    """Steps with an observed goal image whose words the benchmark reads."""
    contacts: int
    contacts_named: int
    asked: int
    """Recordings of runs that stopped to ask which end of the gripper is closed, and were told."""
    inverted: int
    """Recordings whose open end of the gripper was taken for the closed one."""
    failures: int
    """Recordings without a plan."""
    untrue: tuple[ScoreDetail, ...]
    unnamed: tuple[ScoreDetail, ...]


def score_episode(
    annotation: Annotation, spec: TaskSpec, episode: RecordingTruth, fps: float
) -> EpisodeScore:
    """Compare one annotated recording with its truth."""
    touches = contacts(episode, fps)
    counts = boundary_counts(
        _segments(annotation.cuts, len(episode)),
        _segments(contact_cuts(touches, len(episode)), len(episode)),
        TOLERANCE_S,
        fps,
    )
    verdicts = [(step, judge(step, spec, episode, fps)) for step in annotation.names]
    true = [(step, verdict.bodies) for step, verdict in verdicts if not verdict.contradiction]

    observed, observed_untrue, observed_early = _count_observed(annotation.observed, spec, episode, fps)

    def detail(what: str, start: int, end: int) -> ScoreDetail:
        return ScoreDetail(
            task=episode.task,
            episode=episode.seed,
            instruction=episode.instruction,
            what=what,
            start=start,
            end=end,
        )

    return EpisodeScore(
        kind=spec.kind,
        boundary=(counts.matched, counts.predicted, counts.true),
        names=len(verdicts),
        false=tuple(
            detail(f"{step.name!r}: {verdict.contradiction}", step.start, step.end)
            for step, verdict in verdicts
            if verdict.contradiction
        ),
        contacts=len(touches),
        missed=tuple(
            detail(touch.object, touch.start, touch.end)
            for touch in touches
            if not _is_named(touch, true, TOLERANCE_S * fps)
        ),
        failed=annotation.failed,
        observed=observed,
        observed_untrue=observed_untrue,
        observed_early=observed_early,
    )


def _count_observed(
    steps: Sequence[NamedStep], spec: TaskSpec, episode: RecordingTruth, fps: float
) -> tuple[int, int, int]:
    """Count observed goal images, those that the simulator contradicts at their frame, and early ones."""

    def is_true(step: NamedStep, later: int) -> bool:
        end = min(max(step.start + 1, step.end + later), len(episode))
        return not judge(replace(step, end=end), spec, episode, fps, slack_s=0.0).contradiction

    readable = [step for step in steps if can_read(step.name, spec)]
    contradicted = [step for step in readable if not is_true(step, 0)]
    slack = round(TOLERANCE_S * fps)
    early = [step for step in contradicted if any(is_true(step, d) for d in range(-slack, slack + 1))]
    return len(readable), len(contradicted) - len(early), len(early)


def _is_named(touch: Contact, true: Sequence[tuple[NamedStep, frozenset[str]]], slack: float) -> bool:
    """Whether a true name speaks of the body, on frames that overlap the contact or lead to it."""
    return any(
        touch.object in bodies and step.start < touch.end and touch.start < step.end + slack
        for step, bodies in true
    )


def _segments(cuts: Sequence[int], frames: int) -> list[Segment]:
    return [Segment(start=a, end=b) for a, b in itertools.pairwise([0, *cuts, frames])]


def make_report(split: str, tasks: int, scores: Sequence[EpisodeScore]) -> MetaWorldReport:
    """Add up the episodes, with 95 % intervals over them."""
    predicted, true = (sum(score.boundary[i] for score in scores) for i in (1, 2))
    false = sum(len(score.false) for score in scores)
    missed = sum(len(score.missed) for score in scores)
    names, touches = sum(score.names for score in scores), sum(score.contacts for score in scores)
    cuts = [score.boundary for score in scores]
    return MetaWorldReport(
        split=split,
        tasks=tasks,
        episodes=len(scores),
        tolerance_s=TOLERANCE_S,
        cut_f1=with_interval([(2 * m, p + t) for m, p, t in cuts], share),
        cut_precision=with_interval([(m, p) for m, p, _ in cuts], share),
        cut_recall=with_interval([(m, t) for m, _, t in cuts], share),
        false_claims=with_interval([(len(score.false), score.names) for score in scores], share),
        observed_untrue=with_interval([(s.observed_untrue, s.observed) for s in scores], share),
        observed_early=with_interval([(s.observed_early, s.observed) for s in scores], share),
        coverage=with_interval(
            [(score.contacts - len(score.missed), score.contacts) for score in scores], share
        ),
        cuts=predicted,
        true_cuts=true,
        names=names,
        false_names=false,
        observed=sum(score.observed for score in scores),
        contacts=touches,
        contacts_named=touches - missed,
        asked=sum(score.asked for score in scores),
        inverted=sum(score.inverted for score in scores),
        failures=sum(score.failed for score in scores),
        untrue=tuple(detail for score in scores for detail in score.false),
        unnamed=tuple(detail for score in scores for detail in score.missed),
    )
