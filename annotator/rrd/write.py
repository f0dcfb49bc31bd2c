"""Write an annotated dataset, or a storyboard, to .rrd files: one for each episode, which the viewer lists.

There is no joint file: of Rerun's tools that join files, `route` fails on some, and `merge` holds all of them
in memory, as the viewer would.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import rerun as rr
import rerun.blueprint as rrb

from goalreel.annotator.options import Options
from goalreel.annotator.review.curves import curves
from goalreel.annotator.robot import stored_layout
from goalreel.annotator.rrd.episode import ATTEMPT, CANDIDATE, FIRST, TIME, log_episode, log_storyboard
from goalreel.annotator.rrd.scene import APPLICATION, blueprint, camera_entity
from goalreel.annotator.show import episode_view, open_annotated, select
from goalreel.datasets.episode import episode_id
from goalreel.files import write_bytes
from goalreel.progress import OnProgress
from goalreel.storyboard_io import load_storyboard


def write_rrd(
    dataset: Path,
    out: Path,
    *,
    source: Path | None = None,
    episodes: Sequence[int] | None = None,
    progress: OnProgress = lambda stage, done, total: None,
) -> list[Path]:
    """Write an annotated dataset into the folder `out`, an episode a file; returns them.

    The pictures are the dataset's own videos, not encoded anew where they can be copied (`cut_video`). One
    episode at a time is in memory. `source` is as in `show`; other files in `out` are left alone.

    Raises:
        DatasetError: the dataset was not annotated by goalreel, or is damaged; the disk is full.
    """
    records, done, recorded = open_annotated(dataset, source)
    settings = records.settings()
    options, layout = Options.of(settings), stored_layout(recorded, settings)
    views = recorded.views(recorded.camera(settings.get("camera")))
    cameras = [camera for camera in views if camera != options.subgoal_key]
    laid = blueprint([camera_entity(camera) for camera in cameras], TIME)
    written: list[Path] = []
    selected = select(dataset, done, episodes)
    for index in selected:
        episode = recorded.episode(index)
        written.append(out / f"{episode_id(index)}.rrd")
        with _recording(written[-1], f"Episode {index}: {episode.instruction}", laid) as stream:
            view = episode_view(episode, records)
            log_episode(stream, episode, view, cameras, curves(episode, layout))
        progress("recordings", len(written), len(selected))
    return written


def write_storyboard_rrd(folder: Path, out: Path) -> list[Path]:
    """Write what `goalreel plan` left in `folder` as `out`/storyboard.rrd; returns that path, alone.

    Raises:
        InputError: no storyboard is there, or it is damaged.
        DatasetError: the disk is full.
    """
    board, path = load_storyboard(folder), out / "storyboard.rrd"
    laid = blueprint([FIRST, CANDIDATE], ATTEMPT, curves=False)
    with _recording(path, board.task.instruction, laid) as stream:
        log_storyboard(stream, board)
    return [path]


@contextmanager
def _recording(path: Path, name: str, laid: rrb.Blueprint) -> Iterator[rr.RecordingStream]:
    """Make a stream that becomes `path`, whole: Rerun's own writing of files ignores a full disk."""
    stream = rr.RecordingStream(APPLICATION)
    sink = stream.binary_stream()
    stream.send_blueprint(laid)
    stream.send_recording_name(name)
    yield stream
    stream.disconnect()
    write_bytes(path, sink.read() or b"")
