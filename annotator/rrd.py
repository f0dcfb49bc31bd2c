"""Write an annotated dataset to .rrd files: one for each episode, which the viewer lists.

There is no joint file: of Rerun's tools that join files, `route` fails on some, and `merge` holds all of them
in memory, as the viewer would.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import rerun as rr
import rerun.blueprint as rrb

from goalreel.annotator.options import Options
from goalreel.annotator.report.cards import SHOWN, EpisodeView, attempt_card, claim_lines, jpeg, when
from goalreel.annotator.review.curves import Points, curves
from goalreel.annotator.robot import stored_layout
from goalreel.annotator.show import episode_view, open_annotated, select
from goalreel.critics.examiner import word
from goalreel.datasets.episode import Episode, episode_id
from goalreel.datasets.writing.video import cut_video
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.progress import OnProgress
from goalreel.types import Attempt, StoryboardStep

APPLICATION = "goalreel"
"""The viewer has one layout for all recordings of an application."""
GOAL, WORDS = "subgoal/goal", "subgoal/words"
LANES, STEP, PHASE = "lanes", "lanes/step", "lanes/phase"
CURVES, LOG, CRITIC = "curves", "log", "log/critic"
LEVELS = {"accepted": "INFO", "unjudged": "INFO", "rejected": "WARN", "failed": "ERROR"}

FRAME, TIME = "frame", "time"
"""Timelines of an episode: its frames from 0, and their seconds as recorded.

All is logged strictly: Rerun would otherwise warn and drop the data.
"""


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
    refined = f"Next prompt: {card.refined}" if card.refined else ""
    head = f"{label}, attempt {number}: {card.outcome}{scores}"
    return "\n".join(filter(None, (head, card.text, f"Prompt: {card.prompt}", refined))), card.outcome


def blueprint(cameras: Sequence[str]) -> rrb.Blueprint:
    """Cameras, sub-goals and curves on the left; the goal, its text and the Critic's on the right."""
    views = (rrb.Spatial2DView(origin=entity, name=entity.rpartition("/")[2]) for entity in cameras)
    pictures = rrb.Vertical(
        rrb.Grid(*views),
        rrb.StateTimelineView(origin=LANES, name="Sub-goals"),
        rrb.TimeSeriesView(origin=CURVES, name="Curves"),
        row_shares=[5, 1.5, 2],
    )
    texts = rrb.Vertical(
        rrb.Spatial2DView(origin=GOAL, name="Goal image"),
        rrb.TextDocumentView(origin=WORDS, name="Sub-goal"),
        rrb.TextLogView(
            origin=LOG, name="Log", columns=rrb.TextLogColumns(text_log_columns=["loglevel", "body"])
        ),
        row_shares=[4, 3, 3],
    )
    return rrb.Blueprint(
        rrb.Horizontal(pictures, texts, column_shares=[3, 2]),
        rrb.TimePanel(timeline=TIME, state="collapsed"),
        rrb.SelectionPanel(state="hidden"),
    )


def log_episode(
    stream: rr.RecordingStream,
    episode: Episode,
    view: EpisodeView,
    cameras: Sequence[str],
    curves: Mapping[str, Points],
) -> None:
    """Log an episode with its cameras, sub-goals, verdicts and curves. Holds one camera's video at a time.

    Raises:
        DatasetError: frames are missing or cannot be decoded; the disk is full.
    """
    for camera in cameras:
        _log_camera(stream, episode, camera)
    for name, points in curves.items():
        indices, values = zip(*points, strict=True)
        stream.send_columns(
            f"{CURVES}/{name}", _times(episode, indices), rr.Scalars.columns(scalars=values), strict=True
        )
    _at(stream, episode, 0)
    if view.message is not None:
        stream.log(CRITIC, rr.TextLog(view.message, level=LEVELS["failed"]), strict=True)
    _log_steps(stream, episode, view)
    for phase in view.storyboard.phases:
        _at(stream, episode, phase.segment.start)
        stream.log(PHASE, rr.StateChange(state=phase.name), strict=True)


def _log_camera(stream: rr.RecordingStream, episode: Episode, camera: str) -> None:
    """Log the episode's part of a camera as a video of its own: it is smaller than pictures."""
    entity = camera_entity(camera)
    with tempfile.TemporaryDirectory(prefix="goalreel-") as folder:
        path = Path(folder) / "episode.mp4"
        cut_video(episode, camera, path)
        video = rr.AssetVideo(path=path)
    stream.log(entity, video, static=True, strict=True)
    columns = rr.VideoFrameReference.columns_nanos(video.read_frame_timestamps_nanos())
    stream.send_columns(entity, _times(episode, range(len(episode))), columns, strict=True)


def _log_steps(stream: rr.RecordingStream, episode: Episode, view: EpisodeView) -> None:
    """Log each sub-goal from its first frame to its last.

    The verdicts of steps without a segment are at the start of the episode.
    """
    goals, end = view.storyboard.goal_images(), 0
    for number, (step, goal) in enumerate(zip(view.storyboard.steps, goals, strict=True), start=1):
        label, cut = f"{number}. {step.step.name}", step.segment
        if cut is not None and end < cut.start:
            _log_subgoal(stream, episode, end)
        if cut is not None:
            _log_subgoal(stream, episode, cut.start, label, step_text(number, step, view.fps), goal)
            end = cut.end
        _at(stream, episode, cut.start if cut is not None else 0)
        for at, attempt in enumerate(step.attempts, start=1):
            text, outcome = attempt_text(at, attempt, label)
            stream.log(CRITIC, rr.TextLog(text, level=LEVELS[outcome]), strict=True)
    if end < len(episode):
        _log_subgoal(stream, episode, end)


def _log_subgoal(
    stream: rr.RecordingStream,
    episode: Episode,
    frame: int,
    name: str = "",
    text: str = "",
    goal: Image | None = None,
) -> None:
    """Log the sub-goal that holds from a frame on; an empty `name` is none."""
    _at(stream, episode, frame)
    stream.log(STEP, rr.StateChange(state=name), strict=True)
    stream.log(WORDS, rr.TextDocument(text), strict=True)
    if goal is None:
        stream.log(GOAL, rr.Clear(recursive=False), strict=True)
    else:
        stream.log(GOAL, rr.EncodedImage(contents=jpeg(goal, SHOWN), media_type="image/jpeg"), strict=True)


def _at(stream: rr.RecordingStream, episode: Episode, frame: int) -> None:
    stream.set_time(FRAME, sequence=frame)
    stream.set_time(TIME, duration=float(episode.timestamps[frame]))


def _times(episode: Episode, frames: Sequence[int]) -> list[rr.TimeColumn]:
    seconds = episode.timestamps[list(frames)].astype(np.float64)
    return [rr.TimeColumn(FRAME, sequence=frames), rr.TimeColumn(TIME, duration=seconds)]


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
    records, done, recorded = open_annotated(dataset, source)
    settings = records.settings()
    options, layout = Options.of(settings), stored_layout(recorded, settings)
    views = recorded.views(recorded.camera(settings.get("camera")))
    cameras = [camera for camera in views if camera != options.subgoal_key]
    laid = blueprint([camera_entity(camera) for camera in cameras])
    written = list[Path]()
    selected = select(dataset, done, episodes)
    for index in selected:
        episode = recorded.episode(index)
        stream = rr.RecordingStream(APPLICATION)
        sink = stream.binary_stream()  # Rerun's own writing of files ignores a full disk
        stream.send_blueprint(laid)
        stream.send_recording_name(f"Episode {index}: {episode.instruction}")
        log_episode(stream, episode, episode_view(episode, records), cameras, curves(episode, layout))
        stream.disconnect()
        written.append(out / f"{episode_id(index)}.rrd")
        write_bytes(written[-1], sink.read() or b"")
        progress("recordings", len(written), len(selected))
    return written
