"""Check a dataset before it is annotated: what is understood of it, and what is broken or may be wrong."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, computed_field

from goalreel.annotator.examples import by_instruction, by_task, label_example, to_label
from goalreel.annotator.policy import PolicyInputs, policy_inputs
from goalreel.annotator.questions import find_question, with_picture
from goalreel.annotator.readings import Reading, Steps, check_instructions, is_identifier, read_steps
from goalreel.annotator.robot import goal_camera, read_robot
from goalreel.critics.examination import Examination, read_examination
from goalreel.datasets.episode import Episode
from goalreel.datasets.health.inspect import inspect
from goalreel.datasets.health.issues import HealthIssue, broken, by_level, note, spell, warning
from goalreel.datasets.hub import local_folder
from goalreel.datasets.labels import find_labels
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.planners.examples import carry, hand_cues
from goalreel.planners.examples.audit import FAULTS, FEWEST, Fault, suspicions
from goalreel.planners.kinematic.layout import Finding, Layout
from goalreel.planners.kinematic.planner import KinematicPlanner
from goalreel.planners.kinematic.robot import SAMPLE, Robot
from goalreel.planners.kinematic.signals import hand_signal
from goalreel.progress import OnProgress
from goalreel.types import Failure, Plan, Task

_CLOSED = 0.75
"""A hand that has closed this far, of the range in all episodes, is closed."""


class LabelFinding(BaseModel, frozen=True):
    """A label that may be wrong."""

    episode: int
    step: int
    """Counted from 0 within the episode."""
    name: str
    start_s: float
    """Seconds since the episode's start."""
    end_s: float
    fault: Fault | Literal["refused"]
    """`refused`: the Critic that annotated the dataset said no to the goal image of the step."""
    why: str
    sure: float
    """0 to 1; it orders the findings, and is no probability."""

    def __str__(self) -> str:
        span = f"{self.start_s:.1f}-{self.end_s:.1f} s"
        return f'episode {self.episode}, step {self.step + 1} "{self.name}", {span}: {self.fault}: {self.why}'


class Audit(BaseModel, frozen=True):
    """Findings of `goalreel check --audit`."""

    episodes: int
    """Number of episodes with labels that can be read."""
    labels: int
    findings: tuple[LabelFinding, ...] = ()
    """The surest first, one a label."""
    unread: tuple[str, ...] = ()
    """Reasons to leave out episodes, one line each; or why there is nothing to audit, or too little."""
    critic: str = ""
    """Result of the examination of the Critic whose refusals are findings; empty where there was none."""

    @computed_field
    @property
    def faults(self) -> dict[str, int]:
        """Fault -> number of findings; only those that occur."""
        kinds = (*FAULTS, "refused")
        counts = {fault: sum(found.fault == fault for found in self.findings) for fault in kinds}
        return {fault: count for fault, count in counts.items() if count}


class CheckReport(BaseModel, frozen=True):
    """Findings of `goalreel.check`."""

    dataset: str
    robot_type: str | None = None
    episodes: int = 0
    """Number of checked episodes."""
    fps: float | None = None
    """Frames per second."""
    camera: str | None = None
    """The camera whose frames become goal images."""
    robot: tuple[Finding, ...] = ()
    """Inferences about the robot, each with its certainty and reason."""
    issues: tuple[HealthIssue, ...] = ()
    """Problems, the worst first."""
    sampled: int = 0
    """Episodes whose instruction was compared with their motion."""
    named: int = 0
    """Sampled episodes whose steps can be named."""
    silent: int = 0
    """Sampled episodes whose steps would have no names."""
    readings: tuple[Reading, ...] = ()
    """Each distinct instruction and how it is read; the most frequent first."""
    reasons: dict[str, int] = {}
    """Reasons to write no names -> number of episodes; the most frequent first."""
    to_label: dict[str, tuple[int, ...]] = {}
    """Task -> the episodes to label first, whose steps are then carried over to the others of it."""
    policy: PolicyInputs | None = None
    """The view of a policy, where one was named."""
    audit: Audit | None = None
    """Labels that may be wrong, where they were looked for."""

    def count(self, level: Literal["broken", "warning", "note"]) -> int:
        return sum(issue.level == level for issue in self.issues)


def check(
    dataset: Source | str | PathLike[str],
    *,
    episodes: Sequence[int] | None = None,
    layout: str | None = None,
    camera: str | None = None,
    steps: Steps | Path | str | None = None,
    policy: str | None = None,
    audit: bool = False,
    progress: OnProgress = lambda stage, done, total: None,
) -> CheckReport:
    """Report what goalreel understands of a dataset, and what is broken in it. It is only read.

    In a large dataset 200 episodes are sampled to infer the robot, and to compare instructions with motions.

    Examples:
        >>> goalreel.check("pusht").count("broken")  # doctest: +SKIP
        0

    Args:
        dataset: folder of a LeRobot v3.0 dataset, its name on the Hub, or the result of
            `goalreel.open_dataset`.
        episodes: which episodes to check (default: all).
        layout: as `Options.layout`.
        camera: camera of the goal images, as `Options.camera`.
        steps: as `Options.steps`.
        policy: a checkpoint's folder, or a type of lerobot's, that is to be trained on the dataset.
        audit: also look for spoiled labels in those that the dataset has.
        progress: called with a stage's name, the amount that is done, and the total.

    Raises:
        InputError: the layout or the steps cannot be read, or does not fit the dataset, or `policy` is none.
        DatasetError: there is no such episode or camera.
    """
    hint, spelled = Layout.parse(layout) if layout else None, read_steps(steps)
    try:
        source = dataset
        if not isinstance(source, Source):
            dataset = local_folder(Path(source), videos=False)
            source = Source.open(dataset)
    except DatasetError as e:
        return CheckReport(dataset=str(dataset), issues=(broken("metadata", str(e)),))
    selected = source.select(episodes)
    check_instructions(spelled, source.tasks.values())
    source.read_numbers(*((hint.state, hint.action) if hint else ((), ())))
    seen, of_policy = policy_inputs(source, policy) if policy is not None else (None, [])
    issues = by_level([*of_policy, *inspect(source, selected, progress=progress)])
    robot_type = source.info.get("robot_type")
    found: dict[str, Any] = {
        "dataset": str(source.root),
        "robot_type": None if robot_type is None else str(robot_type),
        "episodes": len(selected),
        "fps": source.fps,
        "policy": seen,
    }
    is_unread = any(i.level == "broken" and i.kind in ("data_file", "columns") for i in issues)
    if is_unread or not source.cameras:
        not_audited = Audit(episodes=0, labels=0, unread=("not audited: there is no camera, or no number",))
        return CheckReport(**found, issues=tuple(issues), audit=not_audited if audit else None)
    robot = read_robot(source, hint, camera)
    found |= {"camera": goal_camera(robot, source), "robot": robot.findings}
    if question := find_question(robot, layout):
        asks = with_picture(question, source, robot, found["camera"])
        issues.append(warning("robot", f"annotate asks: {asks}"))
    if audit:
        found["audit"] = _audit(source, selected, robot.layout)
    found |= _motion(issues, source, selected, robot, spelled or {}, progress)
    return CheckReport(**found, issues=tuple(by_level(issues)))


def _motion(
    issues: list[HealthIssue],
    source: Source,
    selected: Sequence[int],
    robot: Robot,
    steps: Steps,
    progress: OnProgress,
) -> dict[str, Any]:
    """Report what the motions and the words of the episodes tell of each other, and add to the issues."""
    reported = {episode for issue in issues for episode in issue.episodes}
    recordings: list[Episode] = []
    for index in selected[:: max(1, -(-len(selected) // SAMPLE))]:  # from all over the dataset
        try:
            recordings.append(source.episode(index))
        except DatasetError as e:
            if index not in reported:
                issues.append(warning("episode", str(e), [index]))
    planner = KinematicPlanner({r.id: r for r in recordings}, layout=robot.layout, steps=steps or None)
    plans: list[Plan | Failure] = []
    for recording in recordings:  # no picture is read
        plans += planner.plan([Task(id=recording.id, instruction=recording.instruction)])
        progress("compare words and motion", len(plans), len(recordings))
    issues += _motion_issues(recordings, robot, plans, len(selected))
    hands = robot.layout.other is not None
    instructions = by_instruction(source, selected, recordings)
    readings = tuple(Reading.of(text, of_text, steps, hands=hands) for text, of_text in instructions)
    for reading in readings:
        if is_identifier(reading.instruction) and not reading.is_read:
            text = (
                f'{spell(reading.episodes)}: the instruction "{reading.instruction}" looks like an '
                "identifier and not like words: give its steps with --steps, or reword it in "
                "meta/tasks.parquet"
            )
            issues.append(warning("identifier", text, reading.episodes))
    silent = sum(map(_is_silent, plans))
    return {
        "sampled": len(plans),
        "named": len(plans) - silent,
        "silent": silent,
        "readings": readings,
        "reasons": dict(_reasons(plans).most_common()),
        "to_label": to_label(source, by_task(instructions)[:5]),  # those of most episodes
    }


def _reasons(plans: Sequence[Plan | Failure]) -> Counter[str]:
    """Count the episodes that each reason keeps silent."""
    reasons: Counter[str] = Counter()
    for plan in plans:
        if isinstance(plan, Failure):
            reasons[plan.message.partition(": ")[2] or plan.message] += 1
        else:
            reasons.update(dict.fromkeys((doubt for step in plan.steps for doubt in step.doubts), 1))
    return reasons


def _is_silent(plan: Plan | Failure) -> bool:
    return isinstance(plan, Failure) or any(step.doubts for step in plan.steps)


def _motion_issues(
    recordings: Sequence[Episode], robot: Robot, plans: Sequence[Plan | Failure], episodes: int
) -> Iterator[HealthIssue]:
    """Report what motions show: unknown ends of grippers, hands that start closed, words without a motion."""
    of = f" (of {len(recordings)} that were looked at)" if episodes > len(recordings) else ""
    starts = zip(recordings, _start_closed(recordings, robot), strict=True)
    if closed := [recording.index for recording, is_closed in starts if is_closed]:
        text = (
            f"{spell(closed)}{of}: a hand is closed at the start, and may hold something already; grasps "
            "count from when it first opens"
        )
        yield note("starts_closed", text, closed)
    if silent := [r.index for r, plan in zip(recordings, plans, strict=True) if _is_silent(plan)]:
        why = "; ".join(f"{reason} ({n})" for reason, n in _reasons(plans).most_common(3))
        text = f"{spell(silent)}{of}: no names will be written: {why}"
        yield note("silent", text, tuple(silent))


def _start_closed(recordings: Sequence[Episode], robot: Robot) -> list[bool]:
    """True if a hand is closed in the first frames of each recording."""
    starts = np.zeros(len(recordings), bool)
    for hand in robot.hands if recordings else ():
        if not hand.gripper or hand.closed is None:
            continue
        values = [r.state if hand.source == "state" else r.action for r in recordings]
        curves = [hand_signal(v[:, list(hand.gripper)]) for v in values]
        low, high = min(c.min() for c in curves), max(c.max() for c in curves)
        if high > low:
            share = (np.array([np.median(c[:3]) for c in curves]) - low) / (high - low)
            starts |= (share if hand.closed == "high" else 1 - share) > _CLOSED
    return starts.tolist()


def _audit(source: Source, selected: Sequence[int], layout: Layout) -> Audit:
    """Compare the sub-task labels of the selected episodes with each other, their words and their motion."""
    labelled = {i for indices in find_labels(source, selected).values() for i in indices}
    examples: dict[int, carry.Example] = {}
    unread: list[str] = []
    for index in selected:
        try:
            source.episode(index)
            if index in labelled:
                examples[index] = label_example(source, index)
        except DatasetError as e:
            unread.append(str(e).removeprefix(f"{source.root}: "))
    if not labelled and not unread:
        unread.append("no episode has sub-task labels: there is nothing to audit")
    counts = Counter(example.instruction for example in examples.values())
    if few := sum(count for count in counts.values() if count <= FEWEST):
        unread.append(
            f"{few} of {len(examples)} labelled episodes are of tasks with {FEWEST} or fewer, "
            f"too few to compare: label {FEWEST + 1} or more of a task"
        )
    indices = [*examples]
    findings = [
        _finding(examples, indices[found.episode], found.step, found.fault, found.why, found.sure)
        for found in suspicions([*examples.values()], hand_cues.cues_of(layout))
    ]
    examination, refused = _refused(source, examples)
    known = {(found.episode, found.step) for found in findings}
    findings += [found for found in refused if (found.episode, found.step) not in known]
    return Audit(
        episodes=len(examples),
        labels=sum(len(example.steps) for example in examples.values()),
        findings=tuple(sorted(findings, key=lambda found: -found.sure)),
        unread=tuple(unread),
        critic=examination.line if examination else "",
    )


def _finding(
    examples: Mapping[int, carry.Example],
    index: int,
    step: int,
    fault: Fault | Literal["refused"],
    why: str,
    sure: float,
) -> LabelFinding:
    example = examples[index]
    name, segment = example.steps[step].name, example.segments[step]
    start_s, end_s = (round(frame / example.fps, 2) for frame in (segment.start, segment.end))
    sure = round(sure, 2)
    return LabelFinding(
        episode=index, step=step, name=name, start_s=start_s, end_s=end_s, fault=fault, why=why, sure=sure
    )


def _refused(
    source: Source, examples: Mapping[int, carry.Example]
) -> tuple[Examination | None, list[LabelFinding]]:
    """Read the examination of the Critic that annotated a dataset, and the labels that it refused.

    A refusal is as sure as the Critic is seldom wrong on what is true, by its control questions.
    """
    records = Records(source.root / FOLDER, source="")
    if (examination := read_examination(records.examination)) is None:
        return None, []
    sure = 0.0 if examination.too_few else 1 - examination.no_on_true[1]
    found: list[LabelFinding] = []
    for index in sorted(records.recorded() & examples.keys()):
        numbers = {(label.start, label.end): i for i, label in enumerate(examples[index].segments)}
        for step in records.outline(index).steps:
            verdict = step.attempts[step.chosen].verdict if step.chosen is not None else None
            number = numbers.get((step.segment.start, step.segment.end)) if step.segment else None
            if step.status == "rejected" and verdict and not verdict.pictures_only and number is not None:
                why = f"the critic says: {verdict.reasoning}"
                found.append(_finding(examples, index, number, "refused", why, sure))
    return examination, found
