"""RoboRewardBench as published: the folder `test` of huggingface.co/datasets/teetone/RoboReward, CC-BY-4.0.

`test/metadata.jsonl` has a row for each of 2,831 rollouts: `file_name` (SUBSET/....mp4, below `test`), `task`
and `reward`, a whole number from 1 to 5. Read from the dataset's card and from another project's loader
(aliang8/reward_fm, roboreward_loader.py), not from the file itself.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from goalreel.annotator.guards import CircuitBreaker, rule_roles
from goalreel.annotator.statistics import Measurement, Sums, share, with_interval
from goalreel.errors import InputError
from goalreel.files import exclusive, read_file
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.models.registry import RecordingContext
from goalreel.progress import OnProgress
from goalreel.types import Candidate, Failure, Verdict
from goalreel_lab.published.benchmark import find_picture
from goalreel_lab.statistics import balanced_accuracy_with_interval
from goalreel_lab.videos.report import CAMERA, VideoBenchReport, VideoRecording

FILE = "metadata.jsonl"
WHERE = "hf download teetone/RoboReward --repo-type dataset --include 'test/*' --local-dir DIR"
LOWEST, HIGHEST = 1, 5


@dataclass(frozen=True)
class RewardRollout:
    """A rollout with the reward, 1-5, that people gave it for how it ended."""

    recording: VideoRecording
    subset: str
    """The dataset that it is from."""
    reward: int


def read_roboreward(data: Path, limit: int | None = None) -> list[RewardRollout]:
    """Read the rollouts.

    Args:
        data: the folder of the download, or its folder `test`.
        limit: only so many, evenly spread over all.

    Raises:
        InputError: they are not there, or not in the published shape.
    """
    folder = next((f for f in (data / "test", data) if (f / FILE).is_file()), None)
    if folder is None:
        raise InputError(f"{data}: no test/{FILE}: {WHERE}")
    rows = [_rollout(row, number, folder) for number, row in _rows(folder / FILE)]
    if not rows:
        raise InputError(f"{folder / FILE}: holds no rollout: {WHERE}")
    if limit is None or limit >= len(rows):
        return rows
    return [rows[i * len(rows) // limit] for i in range(limit)]


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        for number, line in enumerate(read_file(path).decode().splitlines(), 1):
            if line.strip():
                yield number, json.loads(line)
    except (OSError, ValueError) as e:
        raise InputError(f"{path}: cannot be read as lines of JSON ({e}): {WHERE}") from e


def _rollout(row: Mapping[str, Any], number: int, folder: Path) -> RewardRollout:
    where = f"{folder / FILE}: line {number}"
    name, task, reward = (
        row.get(k) if isinstance(row, dict) else None for k in ("file_name", "task", "reward")
    )
    if not isinstance(name, str) or not isinstance(task, str) or not task.strip():
        raise InputError(f"{where} has no file_name or no task: {WHERE}")
    if not isinstance(reward, int) or isinstance(reward, bool) or not LOWEST <= reward <= HIGHEST:
        raise InputError(f"{where}: its reward is {reward!r}, and not a whole number from 1 to 5: {WHERE}")
    path = find_picture(name, (folder,))
    if path is None:
        raise InputError(f"{where}: no video {name} in {folder}: {WHERE}")
    subset = name.split("/")[0] if "/" in name else ""
    return RewardRollout(VideoRecording(f"{number}", path, task), subset, reward)


ROBOARENA = "robo_arena"


@dataclass(frozen=True)
class JudgedRollout:
    """A rollout, and how sure the Critic is that it succeeded, 0-1; None where it gave no answer."""

    rollout: RewardRollout
    certainty: float | None
    success: bool = False

    @property
    def error(self) -> int:
        """Give the distance to the reward; without an answer the largest that there can be."""
        reward = self.rollout.reward
        if self.certainty is None:
            return max(reward - LOWEST, HIGHEST - reward)
        return abs(reward_of(self.certainty) - reward)


def reward_of(certainty: float) -> int:
    """Make a reward, 1-5, of a number in 0-1.

    >>> [reward_of(p) for p in (0, 0.12, 0.13, 0.5, 0.87, 0.88, 1)]
    [1, 1, 2, 3, 4, 5, 5]
    """
    return LOWEST + int(4 * certainty + 0.5)


def judged_rollout(rollout: RewardRollout, verdict: Verdict | Failure) -> JudgedRollout:
    """Read a verdict: its probability, else its score for what is shown, else yes or no."""
    if isinstance(verdict, Failure):
        return JudgedRollout(rollout, None)
    if verdict.probability is not None:
        certainty = verdict.probability
    elif verdict.semantics is not None:
        certainty = verdict.semantics / 10
    else:
        certainty = float(verdict.success)
    return JudgedRollout(rollout, certainty, verdict.success)


def roboreward_values(judged: Sequence[JudgedRollout]) -> dict[str, Measurement]:
    """Compute `mae` (the mean over subsets), its parts, `success` (balanced, 5 or less) and `preference`."""
    others = [j for j in judged if j.rollout.subset != ROBOARENA]
    arena = [j for j in judged if j.rollout.subset == ROBOARENA]
    return {
        "mae": _mean_over_subsets(judged),
        "mae_oxe": _mean_over_subsets(others),
        "mae_roboarena": _mean_over_subsets(arena),
        "mae_rollouts": with_interval([(j.error, 1) for j in judged], share),
        "success": balanced_accuracy_with_interval(
            (
                i,
                j.rollout.reward == HIGHEST,
                j.certainty is not None and j.success == (j.rollout.reward == HIGHEST),
            )
            for i, j in enumerate(judged)
        ),
        "preference": _preference(judged),
    }


def _mean_over_subsets(judged: Sequence[JudgedRollout]) -> Measurement:
    subsets = sorted({j.rollout.subset for j in judged})
    rows = np.zeros((len(judged), 2 * len(subsets)))
    for row, j in zip(rows, judged, strict=True):
        at = subsets.index(j.rollout.subset)
        row[2 * at : 2 * at + 2] = j.error, 1

    def mean(sums: Sums) -> Sums:
        means = np.stack([share(sums[..., 2 * i : 2 * i + 2]) for i in range(len(subsets))], axis=-1)
        return share(np.stack([np.nansum(means, -1), (~np.isnan(means)).sum(-1)], axis=-1))

    return with_interval(rows, mean)


def _preference(judged: Sequence[JudgedRollout]) -> Measurement:
    groups: dict[tuple[str, str], list[JudgedRollout]] = defaultdict(list)
    for j in judged:
        groups[j.rollout.subset, j.rollout.recording.instruction].append(j)
    rows = []
    for group in groups.values():
        pairs = [(a, b) for a, b in itertools.combinations(group, 2) if a.rollout.reward != b.rollout.reward]
        if pairs:
            rows.append((sum(_won(a, b) for a, b in pairs), len(pairs)))
    return with_interval(rows, share)


def _won(a: JudgedRollout, b: JudgedRollout) -> float:
    """Say whether the better rollout is preferred: 1, or 0.5 for a tie; a missing answer prefers none."""
    better, worse = (a, b) if a.rollout.reward > b.rollout.reward else (b, a)
    if better.certainty is None or worse.certainty is None:
        return 0.0
    return 0.5 if better.certainty == worse.certainty else float(better.certainty > worse.certainty)


ROLLOUTS, SUBSETS = 2831, 23
"""Counts of the whole benchmark."""
BATCH = 8
"""Rollouts that are judged at once."""


@dataclass(frozen=True)
class RoboRewardConfig:
    """Settings of a run."""

    data: Path
    out: Path
    preset: Preset
    """Its critic judges, as it judges frames of a recording."""
    limit: int | None = None


def run_roboreward(order: RoboRewardConfig, progress: OnProgress = lambda *_: None) -> VideoBenchReport:
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
    order: RoboRewardConfig, rollouts: Sequence[RewardRollout], journal: Journal, progress: OnProgress
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
