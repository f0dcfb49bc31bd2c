"""Run RoboRewardBench: a Critic compares the last frame of each rollout with the first, and the task.

OUT/answers/    the Critic's verdicts: a run that was killed goes on, and a second one asks nobody
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from goalreel.annotator.guards import CircuitBreaker, rule_roles
from goalreel.files import exclusive
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.models.registry import RecordingContext
from goalreel.progress import OnProgress
from goalreel.types import Candidate
from goalreel_lab.videos.recording import CAMERA
from goalreel_lab.videos.report import VideoBenchReport
from goalreel_lab.videos.roboreward_data import RewardRollout, read_roboreward
from goalreel_lab.videos.roboreward_scores import JudgedRollout, judged_rollout, roboreward_values

ROLLOUTS, SUBSETS = 2831, 23
"""Of the whole benchmark."""
BATCH = 8
"""Rollouts that are judged at once."""


@dataclass(frozen=True)
class RoboRewardOrder:
    """What is to be run."""

    data: Path
    out: Path
    preset: Preset
    """Its critic judges, as it judges frames of a recording."""
    limit: int | None = None


def run_roboreward(order: RoboRewardOrder, progress: OnProgress = lambda *_: None) -> VideoBenchReport:
    """Measure a Critic on the rollouts that the user has.

    Raises:
        InputError: the data are not there or not as published, or the model does not fit.
        DatasetError: another run works in the same folder, or a video cannot be decoded.
        UserError: the Critic cannot be called; what it said is kept.
    """
    rollouts = read_roboreward(order.data, order.limit)
    journal = Journal(order.out / "answers")
    with exclusive(journal.folder, order.out):
        judged = _judge(order, rollouts, journal, progress)
    subsets = len({r.subset for r in rollouts})
    unanswered = sum(j.certainty is None for j in judged)
    return VideoBenchReport(
        benchmark="roboreward",
        models={"critic": ModelName.parse(order.preset.critic).public()},
        counts={"rollouts": len(rollouts), "subsets": subsets, "unanswered": unanswered},
        values=roboreward_values(judged),
        notes=tuple(_notes(judged, subsets, unanswered)),
    )


def _judge(
    order: RoboRewardOrder, rollouts: Sequence[RewardRollout], journal: Journal, progress: OnProgress
) -> list[JudgedRollout]:
    context = RecordingContext({r.recording.id: r.recording for r in rollouts}, CAMERA, cameras=(CAMERA,))
    models = load(order.preset, recordings=context, roles=("critic",))
    breaker = CircuitBreaker(rule_roles(models), strict=True)
    critic = models.with_middleware(breaker).with_journal(journal).critic
    judged: list[JudgedRollout] = []
    for start in range(0, len(rollouts), BATCH):
        some = rollouts[start : start + BATCH]
        verdicts = critic.judge([_candidate(r) for r in some])
        judged += [judged_rollout(r, v) for r, v in zip(some, verdicts, strict=True)]
        progress("rollouts", len(judged), len(rollouts))
    return judged


def _candidate(rollout: RewardRollout) -> Candidate:
    recording = rollout.recording
    first, last = recording.frames(CAMERA, (0, len(recording.timestamps) - 1))
    task = recording.instruction
    return Candidate(task_id=recording.id, step=0, source=first, image=last, instruction=task, prompt=task)


def _notes(judged: Sequence[JudgedRollout], subsets: int, unanswered: int) -> list[str]:
    rollouts = len(judged)
    notes = [
        "The Critic sees the first and the last frame; the published models see the video.",
        "Preferences are over all pairs of one task; the published ones over 500 pairs that are not known.",
    ]
    if (rollouts, subsets) != (ROLLOUTS, SUBSETS):
        notes.append(
            f"The data have {rollouts} rollouts of {subsets} subsets, the benchmark {ROLLOUTS} of {SUBSETS}."
        )
    if all(j.certainty in (None, 0.0, 1.0) for j in judged):
        notes.append("The Critic only says yes or no: its rewards are 1 or 5, and many pairs tie.")
    if unanswered:
        notes.append(f"{unanswered} rollouts have no answer: each has the largest error that it can have.")
    return notes
