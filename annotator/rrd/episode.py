"""Log one annotated episode, or a storyboard without a recording, to a Rerun stream."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import rerun as rr

from goalreel.annotator.report.model import EpisodeView
from goalreel.annotator.review.curves import Points
from goalreel.annotator.rrd.scene import (
    CURVES,
    PHASE,
    attempt_text,
    camera_entity,
    log,
    log_subgoal,
    log_verdict,
    picture,
    step_text,
)
from goalreel.datasets.episode import Episode
from goalreel.datasets.writing.cut import cut_video
from goalreel.errors import DatasetError
from goalreel.types import Storyboard, StoryboardStep

FRAME, TIME = "frame", "time"
"""Timelines of an episode: its frames from 0, and their seconds as recorded."""
ATTEMPT = "attempt"
"""Timeline of a storyboard."""
FIRST, CANDIDATE = "camera/first", "camera/attempt"


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
        log_verdict(stream, view.message, "failed")
    _log_steps(stream, episode, view)
    _log_phases(stream, episode, view.storyboard)


def log_storyboard(stream: rr.RecordingStream, board: Storyboard) -> None:
    """Log a storyboard, each attempt at one tick; a step without attempts has a tick too."""
    stream.set_time(ATTEMPT, sequence=0)
    if board.task.image is not None:
        log(stream, FIRST, picture(board.task.image))
    if board.failure is not None:
        log_verdict(stream, f"{board.failure.stage}: {board.failure.message}", "failed")
    tick = 0
    for number, (step, goal) in enumerate(zip(board.steps, board.goal_images(), strict=True), start=1):
        stream.set_time(ATTEMPT, sequence=tick)
        text = step_text(number, step, 1.0)
        log_subgoal(stream, f"{number}. {step.step.name}", text, None if goal is None else picture(goal))
        for at, attempt in enumerate(step.attempts):
            stream.set_time(ATTEMPT, sequence=tick + at)
            log_verdict(stream, *attempt_text(at + 1, attempt, f"{number}. {step.step.name}"))
            entity = rr.Clear(recursive=False) if attempt.image is None else picture(attempt.image)
            log(stream, CANDIDATE, entity)
        tick += max(1, len(step.attempts))


def _log_camera(stream: rr.RecordingStream, episode: Episode, camera: str) -> None:
    """Log the episode's part of the video as encoded: it is smaller than pictures, and exact."""
    entity = camera_entity(camera)
    with tempfile.TemporaryDirectory(prefix="goalreel-") as folder:
        path = Path(folder) / "episode.mp4"
        cut_video(episode, camera, path)
        video = rr.AssetVideo(path=path)
    where = f"{episode.root}: episode {episode.index}: {camera}"
    try:
        timestamps = video.read_frame_timestamps_nanos()
    except RuntimeError as e:
        raise DatasetError(f"{where}: Rerun cannot read the video ({e}): encode it as AV1 or H.264") from e
    if len(timestamps) != len(episode):
        raise DatasetError(
            f"{where}: Rerun reads {len(timestamps)} of {len(episode)} frames: encode it as AV1"
        )
    log(stream, entity, video, static=True)
    columns = rr.VideoFrameReference.columns_nanos(timestamps)
    stream.send_columns(entity, _times(episode, range(len(episode))), columns, strict=True)


def _log_steps(stream: rr.RecordingStream, episode: Episode, view: EpisodeView) -> None:
    """Log each sub-goal from its first frame to its last.

    The verdicts of steps without a segment are at the start of the episode.
    """
    goals = view.storyboard.goal_images()
    end = 0
    for number, (step, goal) in enumerate(zip(view.storyboard.steps, goals, strict=True), start=1):
        if (cut := step.segment) is None:
            _at(stream, episode, 0)
            _log_verdicts(stream, number, step)
            continue
        if end < cut.start:
            _at(stream, episode, end)
            log_subgoal(stream, "", "", None)
        _at(stream, episode, cut.start)
        name, text = f"{number}. {step.step.name}", step_text(number, step, view.fps)
        log_subgoal(stream, name, text, None if goal is None else picture(goal))
        _log_verdicts(stream, number, step)
        end = cut.end
    if end < len(episode):
        _at(stream, episode, end)
        log_subgoal(stream, "", "", None)


def _log_phases(stream: rr.RecordingStream, episode: Episode, board: Storyboard) -> None:
    for phase in board.phases:
        _at(stream, episode, phase.segment.start)
        log(stream, PHASE, rr.StateChange(state=phase.name))


def _log_verdicts(stream: rr.RecordingStream, number: int, step: StoryboardStep) -> None:
    for at, attempt in enumerate(step.attempts, start=1):
        log_verdict(stream, *attempt_text(at, attempt, f"{number}. {step.step.name}"))


def _at(stream: rr.RecordingStream, episode: Episode, frame: int) -> None:
    stream.set_time(FRAME, sequence=frame)
    stream.set_time(TIME, duration=float(episode.timestamps[frame]))


def _times(episode: Episode, frames: Sequence[int]) -> list[rr.TimeColumn]:
    seconds = episode.timestamps[list(frames)].astype(np.float64)
    return [rr.TimeColumn(FRAME, sequence=frames), rr.TimeColumn(TIME, duration=seconds)]
