"""Write an annotated dataset to .rrd files: one for each episode, which the viewer lists.

There is no joint file: of Rerun's tools that join files, `route` fails on some, and `merge` holds all of them
in memory, as the viewer would.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import rerun as rr
import rerun.blueprint as rrb

from goalreel.annotator import robot, show
from goalreel.annotator.options import Options
from goalreel.annotator.report.cards import SHOWN, EpisodeView, attempt_card, claim_lines, jpeg, when
from goalreel.annotator.review.curves import curves
from goalreel.critics.examination import word
from goalreel.datasets.episode import Episode, episode_id
from goalreel.datasets.writing.video import cut_video
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.progress import OnProgress
from goalreel.types import Attempt, StoryboardStep

APPLICATION = "goalreel"
"""The viewer has one layout for all recordings of an application."""
GOAL, WORDS, STEP, CRITIC = "subgoal/goal", "subgoal/words", "lanes/step", "log/critic"
LEVELS = {"accepted": "INFO", "unjudged": "INFO", "rejected": "WARN", "failed": "ERROR"}
FRAME, TIME = "frame", "time"
"""Timelines of an episode: its frames from 0, and their seconds as recorded."""


def camera_entity(name: str) -> str:
    """Name the entity of a camera, by its name in a dataset or in ROS."""
    return f"camera/{rr.escape_entity_path_part(name.removeprefix('observation.images.'))}"


def step_text(number: int, step: StoryboardStep, fps: float) -> str:
    """Write the full text of a step and of the Critic on it, which the log cuts; `number` is from 1."""
    label, plan = f"{number}. {step.step.name}", step.step
    lines = [label, plan.instruction, when(step, fps), plan.auxiliary_text, word(step, None)]
    lines.append("\n".join(claim_lines(step.claims)))
    lines.append("\n".join(plan.details.lines()) if plan.details else "")
    lines.append("\n".join(f"The words may be untrue: {doubt}." for doubt in plan.doubts))
    lines += (attempt_text(at, attempt, label)[0] for at, attempt in enumerate(step.attempts, start=1))
    return "\n\n".join(line for line in lines if line)


def attempt_text(number: int, attempt: Attempt, label: str) -> tuple[str, str]:
    """Write the full text of an attempt, and its outcome; `number` counts from 1."""
    card = attempt_card(number, attempt, label, pictured=False)
    scores = f" ({card.scores})" if card.scores else ""
    lines = [f"{label}, attempt {number}: {attempt.outcome}{scores}", card.text, f"Prompt: {attempt.prompt}"]
    if attempt.verdict is not None and attempt.verdict.refined_prompt:
        lines.append(f"Next prompt: {attempt.verdict.refined_prompt}")
    return "\n".join(filter(None, lines)), attempt.outcome


def blueprint(cameras: Sequence[str]) -> rrb.Blueprint:
    """Cameras, sub-goals and curves on the left; the goal, its text and the Critic's on the right."""
    views = (rrb.Spatial2DView(origin=entity, name=entity.rpartition("/")[2]) for entity in cameras)
    pictures = rrb.Vertical(
        rrb.Grid(*views),
        rrb.StateTimelineView(origin="lanes", name="Sub-goals"),
        rrb.TimeSeriesView(origin="curves", name="Curves"),
        row_shares=[5, 1.5, 2],
    )
    texts = rrb.Vertical(
        rrb.Spatial2DView(origin=GOAL, name="Goal image"),
        rrb.TextDocumentView(origin=WORDS, name="Sub-goal"),
        rrb.TextLogView(
            origin="log", name="Log", columns=rrb.TextLogColumns(text_log_columns=["loglevel", "body"])
        ),
        row_shares=[4, 3, 3],
    )
    return rrb.Blueprint(
        rrb.Horizontal(pictures, texts, column_shares=[3, 2]),
        rrb.TimePanel(timeline=TIME, state="collapsed"),
        rrb.SelectionPanel(state="hidden"),
    )


class _Recording:
    """The recording of an episode; what is logged holds from the frame of `at` on."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self.stream = rr.RecordingStream(APPLICATION)
        self.sink = self.stream.binary_stream()  # Rerun's own writing of files ignores a full disk

    def log(self, entity: str, value: rr.AsComponents, *, static: bool = False) -> None:
        """Log strictly: Rerun would otherwise warn and drop the data."""
        self.stream.log(entity, value, static=static, strict=True)

    def at(self, frame: int) -> None:
        self.stream.set_time(FRAME, sequence=frame)
        self.stream.set_time(TIME, duration=float(self.episode.timestamps[frame]))

    def columns(self, entity: str, frames: Sequence[int], columns: rr.ComponentColumnList) -> None:
        seconds = self.episode.timestamps[list(frames)].astype(np.float64)
        times = [rr.TimeColumn(FRAME, sequence=frames), rr.TimeColumn(TIME, duration=seconds)]
        self.stream.send_columns(entity, times, columns, strict=True)

    def log_camera(self, camera: str) -> None:
        """Log the episode's part of a camera as a video of its own: it is smaller than pictures."""
        entity = camera_entity(camera)
        with tempfile.TemporaryDirectory(prefix="goalreel-") as folder:
            path = Path(folder) / "episode.mp4"
            cut_video(self.episode, camera, path)
            video = rr.AssetVideo(path=path)
        self.log(entity, video, static=True)
        shown = rr.VideoFrameReference.columns_nanos(video.read_frame_timestamps_nanos())
        self.columns(entity, range(len(self.episode)), shown)

    def log_steps(self, view: EpisodeView) -> None:
        """Log each sub-goal from its first frame to its last, and the verdicts.

        The verdicts of steps without a segment are at the start of the episode.
        """
        goals, end = view.storyboard.goal_images(), 0
        for number, (step, goal) in enumerate(zip(view.storyboard.steps, goals, strict=True), start=1):
            label, cut = f"{number}. {step.step.name}", step.segment
            if cut is not None and end < cut.start:
                self.log_subgoal(end)
            if cut is not None:
                self.log_subgoal(cut.start, label, step_text(number, step, view.fps), goal)
                end = cut.end
            self.at(cut.start if cut is not None else 0)
            for tried, attempt in enumerate(step.attempts, start=1):
                text, outcome = attempt_text(tried, attempt, label)
                self.log(CRITIC, rr.TextLog(text, level=LEVELS[outcome]))
        if end < len(self.episode):
            self.log_subgoal(end)

    def log_subgoal(self, frame: int, name: str = "", text: str = "", goal: Image | None = None) -> None:
        """Log the sub-goal that holds from a frame on; an empty `name` is none."""
        self.at(frame)
        self.log(STEP, rr.StateChange(state=name))
        self.log(WORDS, rr.TextDocument(text))
        if goal is None:
            self.log(GOAL, rr.Clear(recursive=False))
        else:
            self.log(GOAL, rr.EncodedImage(contents=jpeg(goal, SHOWN), media_type="image/jpeg"))


def write_rrd(
    dataset: Path,
    out: Path,
    *,
    source: Path | None = None,
    episodes: Sequence[int] | None = None,
    progress: OnProgress = lambda stage, done, total: None,
) -> list[Path]:
    """Write an annotated dataset into the folder `out`, an episode a file; returns them.

    One episode at a time is in memory. `source` is as in `show`; other files in `out` are left alone.

    Raises:
        DatasetError: the dataset was not annotated by goalreel, or is damaged; the disk is full.
    """
    records, done, recorded = show.open_annotated(dataset, source)
    settings = records.settings()
    options, layout = Options.of(settings), robot.stored_layout(recorded, settings)
    views = recorded.views(recorded.camera(settings.get("camera")))
    cameras = [camera for camera in views if camera != options.subgoal_key]
    laid = blueprint([camera_entity(camera) for camera in cameras])
    written = list[Path]()
    selected = show.select(dataset, done, episodes)
    for index in selected:
        episode = recorded.episode(index)
        view, recording = show.episode_view(episode, records), _Recording(episode)
        recording.stream.send_blueprint(laid)
        recording.stream.send_recording_name(f"Episode {index}: {episode.instruction}")
        for camera in cameras:  # one video at a time is in memory
            recording.log_camera(camera)
        for name, points in curves(episode, layout).items():
            frames, values = zip(*points, strict=True)
            recording.columns(f"curves/{name}", frames, rr.Scalars.columns(scalars=values))
        recording.at(0)
        if view.message is not None:
            recording.log(CRITIC, rr.TextLog(view.message, level=LEVELS["failed"]))
        recording.log_steps(view)
        for phase in view.storyboard.phases:
            recording.at(phase.segment.start)
            recording.log("lanes/phase", rr.StateChange(state=phase.name))
        recording.stream.disconnect()
        written.append(out / f"{episode_id(index)}.rrd")
        write_bytes(written[-1], recording.sink.read() or b"")
        progress("recordings", len(written), len(selected))
    return written
