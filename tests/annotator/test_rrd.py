"""Recordings for the Rerun viewer, as its own reader finds them."""

import io
import shutil
import subprocess
import sys

import av
import numpy as np
import pytest

pytest.importorskip("rerun", reason="needs rerun: pip install 'goalreel[rerun]'")

from support.cli import fails, forget, goalreel
from support.recordings import renamed
from support.rrd import entities, name_of, values, verify

from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.image import Image

pytestmark = pytest.mark.process

STEP = ("lanes/step", "StateChange:state")


@pytest.fixture(scope="module")
def shown(video_dataset, annotated, tmp_path_factory):
    """The annotated dataset, and the folder of its recordings."""
    out = tmp_path_factory.mktemp("rrd")
    keywords = {"statuses": ("accepted", "rejected"), "drawn": (1,), "vain": (1,), "tail": 3}
    phases = [("reach", 0, 4), ("grasp", 4, 8)]
    annotated(video_dataset, out / "data", {0: {}, 2: {**keywords, "phases": phases}})
    goalreel("show", out / "data", "--rerun", out / "seen")
    return out / "data", out / "seen"


def recording(data, out, *words):
    """Write the one recording that there is to write."""
    goalreel("show", data, "--rerun", out, *words)
    [path] = out.iterdir()
    verify(path)
    return path


def decoded(path, camera):
    """The pictures that the viewer is to show, frame by frame."""
    [(_, blob)] = values(path, f"camera/{camera}", "AssetVideo:blob")
    wanted = values(path, f"camera/{camera}", "VideoFrameReference:timestamp", "frame")
    with av.open(io.BytesIO(bytes(blob))) as container:
        [stream] = container.streams.video
        frames = {round(f.pts * stream.time_base * 10**9): f for f in container.decode(stream)}
    nearest = [min(frames, key=lambda t, at=at: abs(t - at)) for _, at in wanted]
    assert [frame for frame, _ in wanted] == list(range(len(wanted)))
    return [frames[at].to_ndarray(format="rgb24") for at in nearest]


def shows(path, episode, camera="observation.images.front", frames=None):
    """Tell if the viewer's pictures are the dataset's, encoded anew."""
    found, frames = decoded(path, camera.removeprefix("observation.images.")), frames or range(len(episode))
    pairs = zip([found[i] for i in frames], episode.frames(camera, frames), strict=True)
    return len(found) == len(episode) and all(np.abs(a.astype(int) - b.pixels).mean() < 8 for a, b in pairs)


def test_each_episode_is_a_recording_that_rerun_reads(shown):
    paths = sorted(shown[1].iterdir())
    assert [p.name for p in paths] == ["episode_000000.rrd", "episode_000002.rrd"]
    verify(*paths)
    assert name_of(paths[1]) == "Episode 2: put the red block in the blue bowl"
    assert {e for e in entities(paths[0]) if e.startswith("camera/")} == {"camera/front", "camera/wrist"}
    episode = Source.open(shown[0]).episode(2)
    assert all(shows(paths[1], episode, f"observation.images.{camera}") for camera in ("front", "wrist"))


def test_the_sub_goal_changes_where_its_segment_does_and_ends_with_it(shown):
    path = shown[1] / "episode_000002.rrd"
    assert values(path, *STEP, "frame") == [(0, "1. reach the block"), (6, "2. grasp the block"), (12, "")]
    assert [t for t, _ in values(path, *STEP, "time")] == pytest.approx([0, 0.6e9, 1.2e9], abs=1e3)
    assert values(path, "lanes/phase", "StateChange:state", "frame") == [(0, "reach"), (4, "grasp")]
    words = [text for _, text in values(path, "subgoal/words", "TextDocument:text", "frame")]
    assert "0.0–0.6 s" in words[0]
    assert "failed attempt" in words[1]
    assert "attempt 1: rejected" in words[1]
    assert words[2] == ""


def test_the_goal_image_is_that_of_the_records(shown):
    data, seen = shown
    path = seen / "episode_000002.rrd"
    goals = dict(values(path, "subgoal/goal", "EncodedImage:blob", "frame"))
    assert list(goals) == [0, 6]
    [end] = Source.open(data).episode(2).frames("observation.images.front", [5])
    drawn = np.zeros((48, 48, 3), np.uint8)
    drawn[:, :, 1] = 80
    for blob, wanted in ((goals[0], end.pixels), (goals[6], drawn)):
        assert np.abs(Image.decode(bytes(blob)).pixels.astype(int) - wanted).mean() < 4
    assert [t for t, _ in values(path, "subgoal/goal", "Clear:is_recursive", "frame")] == [12]
    assert values(path, "log/critic", "TextLog:level", "frame") == [(0, "INFO"), (6, "WARN")]
    closed = [v for _, v in values(path, "curves/gripper", "Scalars:scalars", "frame")]
    assert closed[0] < 0.2 < 0.8 < max(closed)
    assert len(closed) == 15


def test_stored_pictures_become_videos_and_features_of_other_names_curves(image_dataset, annotated, tmp_path):
    source = renamed(image_dataset, tmp_path / "in", {"observation.state": "state", "action": "actions"})
    path = recording(annotated(source, tmp_path / "data", {1: {}}), tmp_path / "seen")
    assert shows(path, Source.open(image_dataset).episode(1))
    assert {"curves/gripper", "curves/speed"} <= set(entities(path))


def unwritten(folder, source, index, board):
    """The records of an episode of a dataset that is not written yet."""
    with Records.open(folder, {"test": 1}, source.fingerprint()) as records:
        records.commit(index, board)
    return folder


def test_real_episodes_frame_by_frame(real_dataset, board, tmp_path):
    """H.264 with frames out of order, and AV1, as published; while the dataset is not written yet."""
    source = Source.open(real_dataset)
    index, camera = source.indices[1], source.camera(None)
    episode = source.episode(index)
    data = unwritten(tmp_path / "out", source, index, board(len(episode), camera=camera))
    path = recording(data, tmp_path / "seen", "--source", real_dataset)
    assert shows(path, episode, camera, [0, 1, len(episode) // 2, len(episode) - 1])


def test_a_video_that_rerun_cannot_read_is_encoded_anew(video_dataset, board, tmp_path):
    shutil.copytree(video_dataset, tmp_path / "old")
    for path in (tmp_path / "old").rglob("*.mp4"):
        old = path.rename(path.with_name("h264.mp4"))
        subprocess.run(["ffmpeg", "-loglevel", "error", "-i", old, "-c:v", "mpeg4", path], check=True)
    source = Source.open(tmp_path / "old")
    data = unwritten(tmp_path / "out", source, 0, board(12))
    assert shows(recording(data, tmp_path / "seen", "--source", tmp_path / "old"), source.episode(0))


def test_what_cannot_be_is_one_line(shown, video_dataset, tmp_path, monkeypatch):
    data, _ = shown
    out = ("--rerun", tmp_path / "seen")
    assert "--out is the report's" in fails("show", data, *out, "--out", "report")
    assert "episode 1 is not annotated" in fails("show", data, *out, "--episodes", "1")
    assert str(video_dataset) in fails("show", video_dataset, *out)
    assert not (tmp_path / "seen").exists()
    forget(monkeypatch, ("goalreel.annotator.rrd",))
    monkeypatch.setitem(sys.modules, "rerun", None)
    assert "rerun is not installed: pip install 'goalreel[rerun]'" in fails("show", data, *out)
