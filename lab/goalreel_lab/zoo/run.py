"""Record robots where they are missing, write and annotate them as strangers would, and score the result."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from av.logging import ERROR, set_libav_level
from datasets.utils.logging import disable_progress_bar as disable_progress_bars
from lerobot.datasets.lerobot_dataset import LeRobotDataset

from goalreel.annotator.annotate import annotate
from goalreel.annotator.options import Options
from goalreel.annotator.questions import find_question
from goalreel.annotator.robot import read_robot
from goalreel.annotator.statistics import Measurement, share, with_interval
from goalreel.datasets.source import Source
from goalreel.datasets.writing.video import recording_encoder
from goalreel.planners.kinematic.layout import Layout, as_places, values_of
from goalreel.planners.kinematic.robot import Robot
from goalreel.planners.kinematic.signals import hand_signal
from goalreel.progress import OnProgress
from goalreel_lab.metaworld.run import read_annotation
from goalreel_lab.metaworld.score import Annotation, EpisodeScore, MetaWorldReport, make_report, score_episode
from goalreel_lab.metaworld.truth import BodyTruth, RecordingTruth, TaskTruth, read_truth, write_truth
from goalreel_lab.zoo.episode import SimulatedEpisode
from goalreel_lab.zoo.tasks import TASKS
from goalreel_lab.zoo.writing import Role, Writing, WrittenEpisode, draw, write

EPISODES, SIZE = 4, 96
"""Episodes of each combination, and width and height of their pictures."""
_QUESTIONS = 4
"""Questions that an owner answers at most."""
_GRIPPER, _PLACES = {"gripper"}, {"place", "height", "joint", "turn"}
_ANY_GRIPPER = {"gripper", "gripper rate"}


@dataclass(frozen=True)
class Written:
    """A combination as a LeRobot dataset, and what is true of it."""

    root: Path
    writing: Writing
    state: tuple[Role, ...]
    action: tuple[Role, ...]

    def roles(self, source: str) -> tuple[Role, ...]:
        """The roles of the state's or the action's dimensions."""
        return self.state if source == "state" else self.action


@dataclass(frozen=True)
class ZooScore:
    """Result of one combination."""

    writing: str
    wrong: tuple[str, ...]
    """Findings that are called certain and are wrong."""
    questions: tuple[str, ...]
    unanswerable: tuple[str, ...]
    """Questions that have no right answer."""
    episodes: tuple[EpisodeScore, ...]
    doubts: tuple[str, ...]
    """The first of each episode that has some."""

    def faults(self) -> list[str]:
        """List what went wrong, by kind."""
        m, predicted, true = (sum(e.boundary[i] for e in self.episodes) for i in range(3))
        return [
            *(f"certain and wrong: {what}" for what in self.wrong),
            *(f"no right answer: {question}" for question in self.unanswerable),
            *(["inverted"] if any(e.inverted for e in self.episodes) else []),
            *([f"cuts: {m} of {true} found, {predicted} made"] if 2 * m < 0.9 * (predicted + true) else []),
            *(f"untrue: {detail.what}" for e in self.episodes for detail in e.false),
            *(
                [f"goal images: {n} contradict"]
                if (n := sum(e.observed_untrue for e in self.episodes))
                else []
            ),
            *([f"goal images: {n} early"] if (n := sum(e.observed_early for e in self.episodes)) else []),
            *(f"doubt: {doubt}" for doubt in dict.fromkeys(self.doubts)),
        ]


class ZooReport(MetaWorldReport):
    """Report of `goalreel eval zoo`; its tasks are combinations, its split the seed."""

    doubts: Measurement
    """Share of the episodes with a doubt: all do what they are asked to."""
    wrong: int
    """Combinations with a finding that is called certain and is wrong."""
    unanswerable: int
    """Combinations with a question that has no right answer."""
    faults: tuple[tuple[str, tuple[str, ...]], ...]
    """Each combination that has some, and its faults."""


def measure(
    count: int, seed: int, data: Path, progress: OnProgress = lambda stage, done, total: None
) -> ZooReport:
    """Score `annotate` on `count` combinations drawn by a seed.

    Raises:
        RuntimeError: an expert fails.
    """
    scores: list[ZooScore] = []
    for number in range(count):
        writing = draw(1000 * seed + number)
        with tempfile.TemporaryDirectory(prefix="goalreel-zoo-") as folder:
            scores.append(score(write_dataset(Path(folder) / "zoo", writing, simulated(writing, data))))
        progress("annotate", number + 1, count)
    report = make_report(str(seed), count, [episode for score in scores for episode in score.episodes])
    return ZooReport(
        **dict(report),
        doubts=with_interval([(len(s.doubts), len(s.episodes)) for s in scores], share),
        wrong=sum(bool(s.wrong) for s in scores),
        unanswerable=sum(bool(s.unanswerable) for s in scores),
        faults=tuple((s.writing, tuple(s.faults())) for s in scores if s.faults()),
    )


def simulated(writing: Writing, data: Path) -> list[SimulatedEpisode]:
    """Read the episodes of a robot and a task, which are simulated where `data` does not hold them."""
    start = "closed" if writing.starts_closed else "open"
    folder = data / f"{writing.robot}-{writing.task}-{start}-{EPISODES}x{SIZE}"
    if not folder.exists():
        from goalreel_lab.zoo.sim import record

        record(writing.robot, writing.task, writing.starts_closed, EPISODES, folder, SIZE)
    return [SimulatedEpisode.load(folder / f"{i}.npz") for i in range(EPISODES)]


def write_dataset(root: Path, writing: Writing, episodes: Sequence[SimulatedEpisode]) -> Written:
    """Write a combination as the new LeRobot dataset `root`, with its truth."""
    set_libav_level(ERROR)
    disable_progress_bars()
    written = [write(episode, writing, i) for i, episode in enumerate(episodes)]
    picture = {"dtype": "video", "shape": (SIZE, SIZE, 3), "names": ["height", "width", "channels"]}
    dataset = LeRobotDataset.create(
        "goalreel/zoo",
        fps=writing.fps,
        features={
            **{f"observation.images.{name}": dict(picture) for _, name in writing.cameras},
            "observation.state": _numbers(written[0].state),
            "action": _numbers(written[0].action),
        },
        root=root,
        robot_type=writing.robot.lower(),
        rgb_encoder=recording_encoder().lerobot_config(),
        streaming_encoding=True,
        encoder_queue_maxsize=10**6,  # it drops frames otherwise
    )
    truths = []
    for number, (episode, numbers) in enumerate(zip(episodes, written, strict=True)):
        instruction = TASKS[writing.task].spec.say[number % 2]
        state, action = (
            np.stack([c.values for c in columns], axis=1).astype(np.float32)
            for columns in (numbers.state, numbers.action)
        )
        for i in range(len(numbers.frames)):
            pictures = {
                f"observation.images.{name}": numbers.picture(episode, source, i)
                for source, name in writing.cameras
            }
            row = {"observation.state": state[i], "action": action[i], "task": instruction}
            dataset.add_frame(pictures | row)
        dataset.save_episode(parallel_encoding=False)
        truths.append(_truth(episode, numbers, writing, number, instruction))
    dataset.finalize()
    write_truth(root, TaskTruth(fps=writing.fps, closed=writing.closed, episodes=tuple(truths)))
    state, action = (tuple(c.role for c in columns) for columns in (written[0].state, written[0].action))
    return Written(root, writing, state, action)


def _numbers(columns: Sequence[Any]) -> dict[str, Any]:
    names = [column.name for column in columns]
    return {"dtype": "float32", "shape": (len(names),), "names": names if all(names) else None}


def _truth(
    episode: SimulatedEpisode, written: WrittenEpisode, writing: Writing, seed: int, instruction: str
) -> RecordingTruth:
    frames = written.frames
    body = BodyTruth(
        movable=True,
        touched=tuple(episode.touched[frames].tolist()),
        held=tuple(episode.held[frames].tolist()),
        met=(False,) * len(frames),
        pose=tuple(map(tuple, episode.pose[frames].round(5).tolist())),
    )
    (name,) = {*TASKS[writing.task].spec.objects.values()}
    return RecordingTruth(
        task=writing.task,
        seed=seed,
        instruction=instruction,
        ending="retreat",
        hand=tuple(map(tuple, episode.eef[frames].round(5).tolist())),
        opening=tuple((episode.width[frames] / episode.width.max()).round(5).tolist()),
        success=tuple(episode.success[frames].tolist()),
        bodies={name: body},
    )


def score(written: Written) -> ZooScore:
    """Read the robot, answer what is asked from the truth, annotate, and compare."""
    source, truth = Source.open(written.root), read_truth(written.root)
    recordings = [source.episode(i) for i in source.indices]
    answers: dict[str, str] = {}
    camera: str | None = None
    questions: list[str] = []
    unanswerable: list[str] = []
    robot = read_robot(source)
    wrong = wrong_findings(robot, written, recordings, truth)
    while (question := find_question(robot)) and len(questions) < _QUESTIONS:
        questions.append(str(question))
        answer = _answer(robot, written, recordings, truth)
        if answer is None:
            unanswerable.append(str(question))
            break
        if "camera" in answer:
            camera = answer["camera"]
        answers |= {key: value for key, value in answer.items() if key != "camera"}
        layout = ",".join(f"{key}={value}" for key, value in answers.items())
        robot = read_robot(source, Layout.parse(layout) if layout else None, camera)
    annotations = [Annotation((), (), failed=True)] * len(truth.episodes)
    if not unanswerable and not find_question(robot):
        options = Options(layout=",".join(f"{k}={v}" for k, v in answers.items()) or None, camera=camera)
        with tempfile.TemporaryDirectory(prefix="goalreel-zoo-") as folder:
            out = Path(folder) / "annotated"
            summary = annotate(source, out, options=options)
            annotations = [
                empty if i in summary.failures else read_annotation(out, i)
                for i, empty in enumerate(annotations)
            ]
    ends = _inverted(robot, recordings, truth)
    scores = [
        replace(
            score_episode(annotation, TASKS[episode.task].spec, episode, truth.fps),
            asked=bool(questions),
            inverted=ends,
        )
        for annotation, episode in zip(annotations, truth.episodes, strict=True)
    ]
    doubts = tuple(annotation.doubts[0] for annotation in annotations if annotation.doubts)
    return ZooScore(str(written.writing), wrong, tuple(questions), tuple(unanswerable), tuple(scores), doubts)


def wrong_findings(
    robot: Robot, written: Written, recordings: Sequence[Any], truth: TaskTruth
) -> tuple[str, ...]:
    """List what is called certain and is not so."""
    certain = {f.field.rpartition(" ")[2]: f for f in robot.findings if f.confidence == "certain"}
    wrong: list[str] = []
    for hand in robot.hands:
        summed = hand.summed if "summed" in certain else ()
        found = {
            "gripper": (hand.gripper, hand.source, _GRIPPER),
            "position": (hand.position, "state", _PLACES),
            "vertical": ((hand.vertical,) if hand.vertical is not None else (), "state", {"height"}),
            "summed": (summed, "state", {"rate", "height rate", "gripper rate"}),
        }
        for field, (dims, feature, right) in found.items():
            roles = {_role(written, feature, i, hand, field) for i in dims}
            if field in certain and roles - right:
                wrong.append(f"{field}: {', '.join(sorted(roles - right))}")
    if "closed" in certain and _inverted(robot, recordings, truth):
        wrong.append("closed: the open end")
    if "base" in certain:
        wrong.append("base: there is none")
    camera = certain.get("camera")
    if camera and camera.value:
        names = {name: kind for kind, name in written.writing.cameras}
        kind = names[camera.value.removeprefix("observation.images.")]
        if kind in ("wrist", "moving"):
            wrong.append(f"camera: {kind}")
    return tuple(wrong)


def _role(written: Written, feature: str, dim: int, hand: Layout, field: str = "") -> str:
    """The role of a dimension; a rate that is summed is the place that it changes."""
    role = written.roles(feature)[dim]
    if field == "summed" or feature != "state" or dim not in hand.summed:
        return role
    return {"rate": "place", "height rate": "height", "gripper rate": "gripper"}.get(role, role)


def _closed(layout: Layout, recordings: Sequence[Any], truth: TaskTruth) -> str | None:
    """The closed end of a layout's gripper; None where its numbers do not go with the opening."""
    if not layout.gripper:
        return None
    hands = [values_of(as_places(r, layout), layout.source)[:, list(layout.gripper)] for r in recordings]
    if all(len(np.unique(hand)) <= 2 for hand in hands):
        return truth.closed  # a command, which slow fingers follow late
    pairs = [
        np.corrcoef(hand_signal(hand), episode.opening)[0, 1]
        for hand, episode in zip(hands, truth.episodes, strict=True)
        if np.ptp(hand)
    ]
    mean = float(np.mean(pairs)) if pairs else 0.0
    return ("low" if mean > 0 else "high") if abs(mean) > 0.5 else None


def _inverted(robot: Robot, recordings: Sequence[Any], truth: TaskTruth) -> bool:
    return any(h.closed and h.closed != _closed(h, recordings, truth) for h in robot.hands)


def _answer(
    robot: Robot, written: Written, recordings: Sequence[Any], truth: TaskTruth
) -> dict[str, str] | None:
    """Answer the first question rightly, as an owner would; None where no answer is right."""
    finding = robot.unknown[0]
    field = finding.field.rpartition(" ")[2]
    if field == "camera":
        order = ("front", "side", "moving", "wrist")
        best = min(written.writing.cameras, key=lambda pair: order.index(pair[0]))[1]
        return {"camera": f"observation.images.{best}"}
    if field == "closed":
        ends = [_closed(hand, recordings, truth) for hand in robot.hands]
        if any(_role(written, h.source, i, h) not in _GRIPPER for h in robot.hands for i in h.gripper):
            return None
        return {"closed": ends[0]} if ends[0] else None
    if field == "gripper":
        for feature in ("state", "action"):
            dims = [str(i) for i, role in enumerate(written.roles(feature)) if role in _ANY_GRIPPER]
            right = {"gripper": "+".join(dims)} | ({"source": "action"} if feature == "action" else {})
            hands = (hand for text in finding.answers for hand in Layout.parse(text).hands)
            offered = {str(i) for hand in hands if hand.source == feature for i in hand.gripper}
            if dims and (not offered or offered.intersection(dims)):
                return right
        return None
    return None
