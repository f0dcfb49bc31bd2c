"""Reading LeRobot datasets: right frames and numbers, and one clear line for everything broken."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.cli import goalreel
from support.faults import (
    DATA,
    EPISODES,
    FRONT,
    TASKS,
    Fault,
    both,
    column,
    feature,
    info,
    start,
    table,
    truncate,
    unlink,
    video,
    write,
)
from support.recordings import lerobot_reads

from goalreel.annotator.check import check
from goalreel.datasets import video as reading
from goalreel.datasets.health.inspect import refuse_broken
from goalreel.datasets.source import Source, declares
from goalreel.errors import DatasetError

VIDEO = video(FRONT)
NAN = float("nan")


@pytest.mark.parametrize("kind", ["video_dataset", "image_dataset", "sharded_dataset"])
def test_frames_and_numbers_are_lerobots(kind, request):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = request.getfixturevalue(kind)
    source, dataset = Source.open(root), LeRobotDataset("local/test", root=root, video_backend="pyav")
    pictures = (dataset[i][FRONT].numpy().transpose(1, 2, 0) for i in range(len(dataset)))
    expected = ((picture * 255).round() for picture in pictures)
    for episode in map(source.episode, source.indices):
        episode.check(FRONT)
        for image, i in zip(episode.frames(FRONT, range(len(episode))), range(len(episode)), strict=True):
            assert np.abs(image.pixels - next(expected)).max() <= 1
            assert image.frame == f"{FRONT}#{i}"
        assert episode.instruction == "put the red block in the blue bowl"
        assert episode.state_names == ("x", "y", "z", "gripper")
        np.testing.assert_allclose(episode.state[:, 0], 0.1 * np.arange(len(episode)), rtol=1e-5)
        assert episode.timestamps.dtype == np.float32
    assert next(expected, None) is None
    if kind == "sharded_dataset":
        assert len(list((root / "data").rglob("*.parquet"))) > 1
        assert len(list((root / "videos" / FRONT).rglob("*.mp4"))) > 1


def test_frames_in_any_order_twice_and_by_several_threads(video_dataset):
    episode = Source.open(video_dataset).episode(2)
    every = episode.frames(FRONT, range(len(episode)))
    some = [9, 2, 2, 14, 0]
    assert episode.frames(FRONT, some) == [every[i] for i in some]
    assert episode.frames(FRONT, []) == []
    with pytest.raises(IndexError):
        episode.frames(FRONT, [15])
    pairs = [(i, 14 - i) for i in range(15)] * 3
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda pair: episode.frames(FRONT, pair), pairs))
    assert found == [[every[a], every[b]] for a, b in pairs]


@pytest.mark.parametrize("frames", [1, 2, 50])
def test_a_frame_is_found_by_the_nearest_time(frames):
    random = np.random.default_rng(frames)
    pts = np.cumsum(random.integers(1, 9000, frames))
    index = reading.VideoIndex(Path("video.mp4"), pts, pts[:1], 1 / 90_000, (64, 48))
    seconds = np.concatenate([index.times, random.uniform(-1, index.times[-1] + 1, 50), [1e300, np.inf]])
    distance = np.abs(index.times - seconds[:, None])
    assert np.array_equal(index.nearest(seconds[:-2]), distance[:-2].argmin(axis=1))
    near = distance.min(axis=1) <= 0.01
    want = [int(pts[at]) if ok else None for at, ok in zip(distance.argmin(axis=1), near, strict=True)]
    assert index.find(seconds, 0.01) == want
    assert index.find(np.array([np.nan]), 0.01) == [None]


def test_rows_are_found_in_any_order(root, video_dataset):
    table(DATA, lambda t: t.take(np.random.default_rng(0).permutation(len(t))))(root)
    for index in range(3):
        ours, theirs = (Source.open(folder).episode(index) for folder in (root, video_dataset))
        assert np.array_equal(ours.state, theirs.state)
        assert np.array_equal(ours.timestamps, theirs.timestamps)


def test_cameras_by_short_name(video_dataset):
    source = Source.open(video_dataset)
    assert source.camera(None) == FRONT
    assert source.camera("wrist") == "observation.images.wrist"
    with pytest.raises(DatasetError, match=r"no camera 'top'; it has .*front, .*wrist"):
        source.camera("top")


def sets(**values: object) -> Fault:
    return info(lambda i: i.update(values))


def shorten_video(root: Path) -> None:
    """Re-mux the file without its last packets: whole, readable, and too short."""
    import av

    path, short = root / VIDEO, root / "short.mp4"
    with av.open(str(path)) as source, av.open(str(short), "w") as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for packet in [p for p in source.demux(video=0) if p.dts is not None][:-6]:
            packet.stream = stream
            out.mux(packet)
    short.replace(path)


def jitter(times: list) -> list:
    """Whole episodes, some frames nearer to their neighbour's place in the video (0.1 s a frame)."""
    return [t + (0.06 if 0.35 < t < 0.45 else 0) for t in times]


def pandas_type(file: str, name: str, kind: str) -> Fault:
    """As pandas changes a column, for instance where a value was missing once."""

    def apply(root: Path) -> None:
        frame = pd.read_parquet(root / file)
        frame[name] = frame[name].astype(kind)
        frame.to_parquet(root / file)

    return apply


def stray(root: Path) -> None:
    (root / EPISODES).with_name("._file-000.parquet").write_bytes(b"none")


def no_episode(root: Path) -> None:
    pq.write_table(pq.read_table(root / EPISODES)[:0], (root / EPISODES).with_name("file-001.parquet"))


lengths, nan_state = column(EPISODES, "length", lambda _: [12, 8, 15]), [[0.0] * 4, [0, NAN, 0, 0]]
BROKEN: dict[str, tuple[Fault, str]] = {
    "missing video": (unlink(VIDEO), "episode 0: .*file-000.mp4: the video file is missing"),
    "truncated video": (truncate(VIDEO, 0.5), "mp4: .* of the 9 frames of episode 1 are in .*goalreel check"),
    "frame count": (shorten_video, r"file-000.mp4: 9 of the 15 frames of episode 2 are in"),
    "missing data": (unlink(DATA), r"episode 0: .*file-000.parquet is missing"),
    "rows": (lengths, "episode 1: file-000.parquet holds 9 frames but meta/episodes says 8"),
    "empty instruction": (column(TASKS, "task", lambda _: [" "]), "episode 0: empty instruction"),
    "NaN state": (start("observation.state", *nan_state), "episode 0: .*state is NaN or infinite at frame 1"),
    "time runs backwards": (start("timestamp", 0.0, 0.0), "episode 0: timestamps in .* do not increase"),
    "jittered time": (column(DATA, "timestamp", jitter), "of the 12 frames of episode 0 are in the video"),
}
"""Faults of episodes."""
fraction = pandas_type(EPISODES, f"videos/{FRONT}/file_index", "float64")
as_text = pandas_type(EPISODES, f"videos/{FRONT}/file_index", "str")
nowhere = column(EPISODES, "data/file_index", lambda old: [None, *old[1:]])
pipe_of_tasks = both(unlink(TASKS), lambda root: os.mkfifo(root / TASKS))
REFUSED: dict[str, tuple[Fault, str]] = {
    "lance": (sets(storage_format="lance"), r"info.json: stored as lance, .*parquet"),
    "old version": (sets(codebase_version="v2.1"), "codebase version v2.1, .*convert_dataset_v21_to_v30"),
    "escape": (sets(data_path="../x/chunk-{chunk_index}/{file_index}"), "points outside the dataset"),
    "escape of the videos": (sets(video_path="/sentinel"), "points outside the dataset"),
    "escape by a field": (sets(video_path="{video_key}/../../../{file_index}"), "points outside the dataset"),
    "an unknown field": (sets(video_path="{camera}/{file_index}.mp4"), "is .*: write lerobot's, videos/"),
    "a camera in a data path": (sets(data_path="{video_key}"), "write lerobot's, data/"),
    "a path that is a number": (sets(data_path=7), "data_path is 7: "),
    "two cameras in a video": (sets(video_path="{chunk_index}/{file_index}"), "write lerobot's, videos/"),
    "no path of videos": (sets(video_path=None), "no video_path: write lerobot's"),
    "a feature that is a path": (feature("../../outside", dtype="video"), "outside.*: no name of a folder"),
    "no info": (unlink("meta/info.json"), r"no meta/info.json"),
    "info nested deeply": (write("meta/info.json", "[" * 200_000), "info.json: damaged .nested too deeply"),
    "a rate beyond range": (sets(fps=10**400), "info.json: damaged .a number of 401 digits"),
    "a rate of nothing": (sets(fps=1e-300), "fps is 1e-300: .* greater than"),
    "chunks of NaN": (sets(chunks_size=NAN), "chunks_size is nan"),
    "a path as wide as the memory": (sets(data_path="{chunk_index:0999999999d}"), "write lerobot's, data/"),
    "a pipe for the tasks": (pipe_of_tasks, "tasks.parquet: .*a pipe"),
    "a pipe among the episodes": (
        lambda r: os.mkfifo(r / "meta/episodes/chunk-000/x.parquet"),
        "x.parquet: not readable as parquet .*a pipe",
    ),
    "tasks that are numbers": (
        table(EPISODES, lambda t: t.drop_columns(["tasks"]).append_column("tasks", pa.array([1] * len(t)))),
        "tasks is of type int64: write lists of text",
    ),
    "no episodes": (lambda r: shutil.rmtree(r / "meta/episodes"), "meta/episodes holds no parquet"),
    "damaged tasks": (truncate(TASKS, 0.3), "tasks.parquet: not readable"),
    "no number of a task": (column(TASKS, "task_index", lambda _: [None]), "task_index is no whole number"),
    "no place of the data": (nowhere, "data/file_index is empty in 1 row.s.: fill it"),
    "no chunks": (sets(chunks_size=0), "chunks_size is 0: .* greater than 0"),
    "a rate that is true": (sets(fps=True), "fps is True: .* number"),
    "a feature that is none": (info(lambda i: i["features"].update(action=None)), "features.action is None"),
    "no dtype": (info(lambda i: i["features"][FRONT].pop("dtype")), "front.dtype: Field required"),
    "an unknown dtype": (feature("action", dtype="audio"), "0.6 does not know the dtype 'audio'"),
    "no shape": (info(lambda i: i["features"]["action"].pop("shape")), "the shape None: write its sizes"),
    "a video's place as text": (as_text, "file_index is of type (large_)?string: write whole numbers, as"),
    "a video's place as a fraction": (fraction, "file_index is of type double: write whole numbers, as"),
    "a stray file": (stray, "not readable as parquet .*, where lerobot fails: remove a stray file"),
    "a file without episodes": (no_episode, "holds no episode, where lerobot fails: remove the file"),
}
"""Faults of meta/, which make a dataset broken as a whole."""
LOST = [*list(REFUSED)[list(REFUSED).index("no chunks") :], "no path of videos"]
"""Those that lerobot does not load; it takes a `fps` that is true for 1."""
READ: dict[str, Fault] = {
    "a list of robots": sets(robot_type=["so101", "so101"]),
    "names that are none": feature("observation.state", names=-1),
    "a camera without a shape": info(lambda i: i["features"][FRONT].pop("shape")),
    "a camera whose names are a number": feature(FRONT, names=3),
    "places as 32 bits": pandas_type(EPISODES, f"videos/{FRONT}/file_index", "int32"),
    "a file of meta that is NaN": table(
        EPISODES,
        lambda t: t.drop_columns(["meta/episodes/file_index"]).append_column(
            "meta/episodes/file_index", pa.array([0.0, NAN, 0.0])
        ),
    ),
    "tasks by fractions": pandas_type(TASKS, "task_index", "float64"),
}


@pytest.mark.parametrize("name", [*BROKEN, *REFUSED])
def test_broken_datasets_get_one_clear_line(name, root):
    spoil, message = (BROKEN | REFUSED)[name]
    spoil(root)
    with pytest.raises(DatasetError, match=rf"\A[^\n]*{message}[^\n]*\Z"):
        source = Source.open(root)
        for episode in map(source.episode, source.indices):
            episode.check(FRONT)
    if name in REFUSED:
        assert check(root).count("broken")
    if name in LOST:
        assert lerobot_reads(root) == (name == "a rate that is true")


@pytest.mark.parametrize("name", READ)
def test_what_lerobot_loads_is_read(name, root):
    READ[name](root)
    before = json.loads((root / "meta/info.json").read_text())
    report = check(root)
    assert report.episodes == 3
    assert not report.count("broken"), report.issues
    (picture,) = Source.open(root).episode(2).frames(FRONT, [14])
    assert picture.size == (48, 48)
    assert lerobot_reads(root)
    assert json.loads((root / "meta/info.json").read_text()) == before


def test_corrupt_pixels_are_found_when_decoding(root):
    content = bytearray((root / VIDEO).read_bytes())
    begin = content.find(b"mdat") + 1200
    content[begin : begin + 300] = b"\xff" * 300
    (root / VIDEO).write_bytes(content)
    episode = Source.open(root).episode(0)
    with pytest.raises(DatasetError, match=r"episode 0: .*file-000.mp4.*decod"):
        episode.frames(FRONT, range(len(episode)))


def test_a_broken_stored_image_names_its_frame(image_dataset, tmp_path):
    root = shutil.copytree(image_dataset, tmp_path / "data")
    column(DATA, FRONT, lambda old: [*old[:3], {**old[3], "bytes": b"rubbish"}, *old[4:]])(root)
    episode = Source.open(root).episode(0)
    assert episode.frames(FRONT, [2])[0].size == (48, 48)
    with pytest.raises(DatasetError, match=r"episode 0: .*front frame 3: not a readable image"):
        episode.frames(FRONT, [3])


@pytest.mark.parametrize("kind", ["video_dataset", "image_dataset"])
def test_a_thin_camera_is_refused(kind, request, monkeypatch):
    monkeypatch.setattr("goalreel.image.MAX_ASPECT", 0.9)
    with pytest.raises(DatasetError, match=r"episode 0: .*front.* image of 48x48 pixels is too thin: crop"):
        Source.open(request.getfixturevalue(kind)).episode(0).frames(FRONT, [0])


@pytest.mark.parametrize("stale", [lambda places: [p + 70 for p in places], lambda places: places[::-1]])
def test_an_episode_is_where_its_rows_are(stale, sharded_dataset, tmp_path):
    root = shutil.copytree(sharded_dataset, tmp_path / "data")
    column(EPISODES, "data/file_index", stale)(root)
    before, after = Source.open(sharded_dataset), Source.open(root)
    after.check_data()
    for index in before.indices:
        assert np.array_equal(before.episode(index).state, after.episode(index).state)
    assert dict(before.fingerprint().episodes) == dict(after.fingerprint().episodes), "its corrections stay"
    (found,) = (issue for issue in check(root).issues if issue.kind == "stale_file")
    assert set(found.episodes) == set(after.rows.moved)


@pytest.mark.long
def test_a_part_of_a_dataset_is_annotated_where_it_is_whole(sharded_dataset, annotated, tmp_path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root = shutil.copytree(sharded_dataset, tmp_path / "data")
    sorted((root / "data").glob("*/*.parquet"))[-1].write_bytes(b"no parquet")
    with pytest.raises(DatasetError, match=r"episode 3: .*is not readable"):
        Source.open(root).episode(3)
    for path in [p for p in root.glob("[dv]*/**/file-*") if p.stem != "file-000"]:  # as a download of a part
        path.unlink()
    source = Source.open(root)
    refuse_broken(source, [0])
    for chosen in (source.indices, [0, 3]):
        with pytest.raises(DatasetError, match=r"file-00\d.parquet is missing: copy the dataset again"):
            refuse_broken(source, chosen)
    out = annotated(root, tmp_path / "out", {0: {}})
    dataset = LeRobotDataset("local/test", root=out, episodes=[0], video_backend="pyav")
    assert len(dataset) == 12
    assert dataset[5]["observation.images.subgoal"].max() > 0
    whole = annotated(sharded_dataset, tmp_path / "whole", {0: {}})
    with pytest.raises(DatasetError, match=r"episode 3: .* is missing"):
        annotated(root, tmp_path / "out", {3: {}})
    for path in (out / "data").glob("*/*.parquet"):
        assert path.read_bytes() == (whole / path.relative_to(out)).read_bytes()
    assert pq.read_metadata(out / EPISODES).num_rows == 4
    assert Source.open(out).episode(0).instruction == source.episode(0).instruction


HWC = ["height", "width", "channels"]


@pytest.mark.parametrize("kind", ["video_dataset", "image_dataset"])
@pytest.mark.parametrize(
    ("shape", "names"), [([480, 640, 3], HWC), ([3, 48, 48], None), ([32, 3, 48], ["c", "h", "w"])]
)
def test_the_subgoal_camera_has_the_size_in_which_the_camera_loads(
    kind, shape, names, annotated, tmp_path, request
):
    root = shutil.copytree(request.getfixturevalue(kind), tmp_path / "in")
    feature(FRONT, shape=shape, names=names)(root)
    (issue,) = (issue for issue in check(root).issues if issue.kind == "camera_size")
    assert "frames of observation.images.front are 48x48, and" in issue.text
    source = Source.open(annotated(root, tmp_path / "out", {0: {"drawn": (1,)}}))
    subgoal = source.features["observation.images.subgoal"]
    assert (subgoal["shape"], subgoal["names"]) == ([48, 48, 3], HWC)
    assert source.episode(0).frames("observation.images.subgoal", [0])[0].size == (48, 48)


def test_shapes_are_read_as_lerobot_reads_them():
    assert declares({"shape": [48, 64, 3], "names": HWC}, (64, 48))
    assert declares({"shape": [3, 48, 64], "names": ["rgb", "height", "width"]}, (64, 48))
    assert not declares({"shape": [48, 64, 3], "names": ["height", "width", "rgb"]}, (64, 48))


def test_a_relative_path_with_a_colon(video_dataset, tmp_path, monkeypatch):
    """FFmpeg would take what is before it for a protocol."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(video_dataset, "10:30")
    goalreel("annotate", "10:30", "--out", "11:00")
    assert list(Path("11:00/videos/observation.images.subgoal").glob("*/*.mp4"))
    goalreel("show", "11:00")


RANDOM_ACCESS = {
    "h264": {"x264-params": "bframes=4:b-pyramid=none:keyint=20:open-gop=1"},
    "hevc": {"x265-params": "bframes=4:b-pyramid=0:keyint=20:log-level=none"},
    "vp9": {"lag-in-frames": "16", "auto-alt-ref": "1", "cpu-used": "8"},
    "libaom-av1": {"cpu-used": "8", "g": "20"},
}


@pytest.mark.parametrize("codec", RANDOM_ACCESS)
def test_a_frame_alone_is_as_among_all_frames(codec, tmp_path):
    import av

    path, chance = tmp_path / "video.mp4", np.random.default_rng(0)
    ground = cv2.GaussianBlur(chance.integers(0, 255, (96, 160, 3), np.uint8), (0, 0), 4)
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=30, options=RANDOM_ACCESS[codec])
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        for i in range(60):
            picture = np.ascontiguousarray(ground[i // 3 : i // 3 + 64, i : i + 96])
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(stream.encode())
    index = reading.VideoIndex.read(path)
    assert reading.decode(replace(index, path=Path("gone")), []) == {}
    frames = reading.decode(index, index.pts.tolist())
    assert list(frames) == index.pts.tolist()
    for count in (1, 2, 7) * 10:
        chosen = chance.choice(index.pts, count, replace=False).tolist()
        some = reading.decode(index, chosen)
        assert sorted(some) == sorted(chosen)
        assert all(np.array_equal(some[at], frames[at]) for at in chosen)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # that a fork has no other threads
def test_an_open_video_is_kept_for_one_reader_after_the_other(root):
    path, spare = root / VIDEO, root / "spare.mp4"
    with reading.open_video(path) as first, reading.open_video(path) as other:
        assert other is not first
    with reading.open_video(path) as again:
        assert again in (first, other)
    if not (child := os.fork()):
        with suppress(BaseException), reading.open_video(path) as own:
            os._exit(own in (first, other))
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    shutil.copy2(path, spare)  # of the same size and time
    spare.replace(path)
    with ExitStack() as stack:
        assert not {stack.enter_context(reading.open_video(path)) for _ in range(9)} & {first, other}
    handles = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert sum(str(root) in name for name in handles) <= reading.IDLE


def test_a_new_file_is_read_anew(root, tmp_path):
    Source.open(root).episode(1).frames(FRONT, [0, 8])
    (tmp_path / "new.mp4").write_bytes(b"none")
    (tmp_path / "new.mp4").replace(root / VIDEO)
    with pytest.raises(DatasetError, match="not a readable video"):
        Source.open(root).episode(1).frames(FRONT, [8])


def test_a_video_of_no_known_codec_is_named(root):
    (root / VIDEO).write_bytes((root / VIDEO).read_bytes().replace(b"avc1", b"zzzz"))
    with pytest.raises(DatasetError, match="of no known codec"):
        Source.open(root).episode(1).frames(FRONT, [8])


def test_paths_that_info_leaves_out_are_lerobots(root):
    before = json.loads((root / "meta/info.json").read_text())
    info(lambda i: [i.pop(name) for name in ("data_path", "video_path")])(root)
    assert Source.open(root).info == before
