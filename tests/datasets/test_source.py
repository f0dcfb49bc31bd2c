"""Reading LeRobot datasets: right frames and numbers, and one clear line for everything broken."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.faults import reshow

from goalreel.datasets import video as reading
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError

FRONT = "observation.images.front"


def lerobot_frames(root: Path, camera: str, count: int | None = None) -> list[np.ndarray]:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/test", root=root, video_backend="pyav")
    return [
        (dataset[i][camera].numpy().transpose(1, 2, 0) * 255).round() for i in range(count or len(dataset))
    ]


@pytest.mark.parametrize("kind", ["video_dataset", "image_dataset", "sharded_dataset"])
def test_frames_and_numbers_are_lerobots(kind, request):
    root = request.getfixturevalue(kind)
    source = Source.open(root)
    expected = iter(lerobot_frames(root, FRONT))
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


def test_the_sharded_dataset_is_sharded(sharded_dataset):
    assert len(list((sharded_dataset / "data").rglob("*.parquet"))) > 1
    assert len(list((sharded_dataset / "videos" / FRONT).rglob("*.mp4"))) > 1


def test_frames_in_any_order_and_twice(video_dataset):
    episode = Source.open(video_dataset).episode(2)
    every = episode.frames(FRONT, range(len(episode)))
    some = [9, 2, 2, 14, 0]
    assert episode.frames(FRONT, some) == [every[i] for i in some]
    assert episode.frames(FRONT, []) == []
    with pytest.raises(IndexError):
        episode.frames(FRONT, [15])


def test_few_videos_stay_open_and_a_new_file_is_read_anew(video_dataset, tmp_path):
    roots = [tmp_path / str(i) for i in range(6)]
    for root in roots:
        shutil.copytree(video_dataset, root)
    seen = [Source.open(root).episode(1).frames(FRONT, [0, 8]) for root in roots * 2]
    assert all(frames == seen[0] for frames in seen)
    links = [str(f.readlink()) for f in Path("/proc/self/fd").iterdir() if f.is_symlink()]
    assert 0 < sum(link.startswith(str(tmp_path)) for link in links) <= 4
    (tmp_path / "new.mp4").write_bytes(b"none")
    (tmp_path / "new.mp4").replace(video(roots[5]))
    with pytest.raises(DatasetError, match="not a readable video"):
        Source.open(roots[5]).episode(1).frames(FRONT, [8])


def test_threads_read_a_file_each_for_itself(video_dataset):
    episode = Source.open(video_dataset).episode(2)
    every = episode.frames(FRONT, range(len(episode)))
    pairs = [(i, 14 - i) for i in range(15)] * 3
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda pair: episode.frames(FRONT, pair), pairs))
    assert found == [[every[a], every[b]] for a, b in pairs]


@pytest.mark.parametrize("frames", [1, 2, 50])
def test_a_frame_is_found_by_the_nearest_time(frames):
    random = np.random.default_rng(frames)
    pts = np.cumsum(random.integers(1, 9000, frames))
    index = reading.VideoIndex(Path("video.mp4"), pts, pts[:1], 1 / 90_000)
    seconds = np.concatenate([index.times, random.uniform(-1, index.times[-1] + 1, 50), [1e300, np.inf]])
    distance = np.abs(index.times - seconds[:, None])
    assert np.array_equal(index.nearest(seconds[:-2]), distance[:-2].argmin(axis=1))
    near = distance.min(axis=1) <= 0.01
    assert index.find(seconds, 0.01) == [
        int(pts[at]) if ok else None for at, ok in zip(distance.argmin(axis=1), near, strict=True)
    ]
    assert index.find(np.array([np.nan]), 0.01) == [None]


def test_rows_are_found_in_any_order(video_dataset, tmp_path):
    shutil.copytree(video_dataset, tmp_path / "in")
    (path,) = (tmp_path / "in" / "data").glob("*/*.parquet")
    table = pq.read_table(path)
    pq.write_table(table.take(np.random.default_rng(0).permutation(len(table))), path)
    for index in range(3):
        ours, theirs = (Source.open(root).episode(index) for root in (tmp_path / "in", video_dataset))
        assert np.array_equal(ours.state, theirs.state)
        assert np.array_equal(ours.timestamps, theirs.timestamps)


def test_real_episodes(real_dataset):
    source = Source.open(real_dataset)
    camera = source.camera(None)
    assert "wrist" not in camera
    episode = source.episode(0)
    expected = lerobot_frames(real_dataset, camera, count=40)
    for image, want in zip(episode.frames(camera, range(40)), expected, strict=True):
        assert np.abs(image.pixels.astype(int) - want).mean() < 1
    for episode in map(source.episode, source.indices):
        episode.check(camera)
        assert len(episode.state) == len(episode.timestamps) == len(episode)


def test_a_dataset_with_language_columns(video_dataset, tmp_path):
    from lerobot.annotations.steerable_pipeline.reader import iter_episodes
    from lerobot.annotations.steerable_pipeline.staging import EpisodeStaging
    from lerobot.annotations.steerable_pipeline.writer import LanguageColumnsWriter

    root = shutil.copytree(video_dataset, tmp_path / "data")
    records = list(iter_episodes(root))
    row = {"role": "assistant", "content": "reach", "style": "subtask", "timestamp": 0.0}
    EpisodeStaging(tmp_path / "staged", 0).write("plan", [{**row, "camera": None, "tool_calls": None}])
    LanguageColumnsWriter().write_all(records, tmp_path / "staged", root)
    source = Source.open(root)
    for episode in map(source.episode, source.indices):
        assert episode.frames(FRONT, [0])[0].size == (48, 48)


def test_cameras_by_short_name(video_dataset):
    source = Source.open(video_dataset)
    assert source.camera(None) == FRONT
    assert source.camera("wrist") == "observation.images.wrist"
    with pytest.raises(DatasetError, match=r"no camera 'top'; it has .*front, .*wrist"):
        source.camera("top")
    with pytest.raises(DatasetError, match="no episode 9; it has 3 from 0 to 2"):
        source.episode(9)


def edit_info(root: Path, **changes) -> None:
    path = root / "meta" / "info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def add_feature(root: Path, name: str, **feature) -> None:
    features = json.loads((root / "meta" / "info.json").read_text())["features"]
    edit_info(root, features={**features, name: feature})


def edit_table(path: Path, column: str, change: Callable[[list], list]) -> None:
    table = pq.read_table(path)
    at = table.column_names.index(column)
    values = pa.array(change(table[column].to_pylist()), table.schema.field(column).type)
    pq.write_table(table.set_column(at, table.schema.field(column), values), path)


def data(root: Path) -> Path:
    return root / "data/chunk-000/file-000.parquet"


def video(root: Path) -> Path:
    return root / "videos" / FRONT / "chunk-000/file-000.mp4"


def truncate(path: Path, keep: float) -> None:
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])


def shorten_video(root: Path) -> None:
    """Re-mux the file without its last packets: whole, readable, and too short."""
    import av

    path, short = video(root), root / "short.mp4"
    with av.open(str(path)) as source, av.open(str(short), "w") as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for packet in [p for p in source.demux(video=0) if p.dts is not None][:-6]:
            packet.stream = stream
            out.mux(packet)
    short.replace(path)


def jitter(times: list) -> list:
    """Whole episodes, some frames nearer to their neighbour's place in the video (0.1 s a frame)."""
    return [t + (0.06 if 0.35 < t < 0.45 else 0) for t in times]


def set_nan(states: list) -> list:
    states[5][1] = float("nan")
    return states


BROKEN = {
    "missing video": (lambda r: video(r).unlink(), r"file-000.mp4: the video file is missing.*\(episode 0\)"),
    "truncated video": (
        lambda r: truncate(video(r), 0.5),
        r"file-000.mp4: frame count mismatch in episode 1: .*truncated",
    ),
    "empty video": (lambda r: truncate(video(r), 0), r"file-000.mp4: .*\(episode 0\)"),
    "frame count": (shorten_video, r"file-000.mp4: frame count mismatch in episode 2: 9 of 15"),
    "missing data": (lambda r: data(r).unlink(), r"episode 0: .*file-000.parquet is missing"),
    "truncated data": (lambda r: truncate(data(r), 0.5), r"episode 0: .*file-000.parquet is not readable"),
    "rows": (
        lambda r: edit_table(r / "meta/episodes/chunk-000/file-000.parquet", "length", lambda _: [12, 8, 15]),
        r"episode 1: file-000.parquet holds 9 frames but meta/episodes says 8",
    ),
    "empty instruction": (
        lambda r: edit_table(r / "meta/tasks.parquet", "task", lambda _: [" "]),
        "episode 0: empty instruction",
    ),
    "NaN state": (
        lambda r: edit_table(data(r), "observation.state", set_nan),
        r"episode 0: observation.state is NaN or infinite at frame 5",
    ),
    "time runs backwards": (
        lambda r: edit_table(data(r), "timestamp", lambda t: [0.0, 0.0, *t[2:]]),
        "episode 0: timestamps in file-000.parquet do not increase",
    ),
    "jittered time": (
        lambda r: edit_table(data(r), "timestamp", jitter),
        r"timestamps of episode 0 are up to 0\.060 s off a constant 10 frames a second",
    ),
    "a video at half the rate": (
        lambda r: reshow("videos/observation.images.front/chunk-000/file-000.mp4", lambda i: i / 5)(r),
        r"the video has 5 frames a second and the dataset 10 \(episode 0\): encode it at 10, or take another",
    ),
    "lance": (lambda r: edit_info(r, storage_format="lance"), r"info.json: stored as lance, .*parquet"),
    "old version": (
        lambda r: edit_info(r, codebase_version="v2.1"),
        r"info.json: codebase version v2.1, .*convert_dataset_v21_to_v30",
    ),
    "newer version": (lambda r: edit_info(r, codebase_version="v4.0"), "v4.0, .*newer goalreel"),
    "escape": (
        lambda r: edit_info(r, data_path="../x/chunk-{chunk_index}/{file_index}.parquet"),
        "points outside the dataset",
    ),
    "escape of the videos": (
        lambda r: edit_info(r, video_path=f"{r.parent}/sentinel"),
        "points outside the dataset",
    ),
    "an unknown field": (
        lambda r: edit_info(r, video_path="videos/{camera}/{file_index}.mp4"),
        r"video_path is 'videos/\{camera\}/\{file_index\}.mp4': write lerobot's, videos/\{video_key\}/",
    ),
    "fields of v2.1": (
        lambda r: edit_info(r, data_path="data/{episode_chunk:03d}/{episode_index:06d}.parquet"),
        r"data_path is .*: write lerobot's, data/chunk-",
    ),
    "a camera in a data path": (lambda r: edit_info(r, data_path="{video_key}"), "write lerobot's, data/"),
    "a wrong format": (
        lambda r: edit_info(r, data_path="data/chunk-{chunk_index:s}.parquet"),
        "write lerobot's, data/chunk-",
    ),
    "a field by its place": (lambda r: edit_info(r, data_path="data/{}.parquet"), "write lerobot's, data/"),
    "a lone brace": (lambda r: edit_info(r, video_path="videos/{video_key}/{"), "write lerobot's, videos/"),
    "a null byte": (lambda r: edit_info(r, data_path="data\0"), "write lerobot's, data/"),
    "a path that is a number": (lambda r: edit_info(r, data_path=7), "data_path is 7: "),
    "no data path": (lambda r: edit_info(r, data_path=None), "data_path is None: "),
    "two cameras in a video": (
        lambda r: edit_info(r, video_path="videos/{chunk_index}/{file_index}.mp4"),
        r"write lerobot's, videos/\{video_key\}/",
    ),
    "escape by a field": (
        lambda r: edit_info(r, video_path="videos/{video_key}/../../../{file_index}"),
        "points outside the dataset",
    ),
    "a feature that is a path": (
        lambda r: add_feature(r, "../../../outside", dtype="video", shape=[48, 48, 3]),
        r"features\..*outside.*: no name of a folder",
    ),
    "no info": (lambda r: (r / "meta/info.json").unlink(), r"no meta/info.json"),
    "damaged info": (lambda r: truncate(r / "meta/info.json", 0.5), r"info.json: damaged"),
    "no episodes": (lambda r: shutil.rmtree(r / "meta/episodes"), "meta/episodes holds no parquet"),
    "damaged tasks": (lambda r: truncate(r / "meta/tasks.parquet", 0.3), "tasks.parquet: not readable"),
}


def test_paths_that_info_leaves_out_are_lerobots(video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    path = root / "meta" / "info.json"
    info = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in info.items() if k not in ("data_path", "video_path")}))
    assert Source.open(root).info == info


@pytest.mark.parametrize("name", BROKEN)
def test_broken_datasets_get_one_clear_line(name, video_dataset, tmp_path):
    spoil, message = BROKEN[name]
    root = shutil.copytree(video_dataset, tmp_path / "data")
    spoil(root)
    with pytest.raises(DatasetError, match=message) as caught:
        source = Source.open(root)
        for episode in map(source.episode, source.indices):
            episode.check(FRONT)
    assert "\n" not in str(caught.value)


def test_corrupt_pixels_are_found_when_decoding(video_dataset, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "data")
    content = bytearray(video(root).read_bytes())
    start = content.find(b"mdat") + 1200
    content[start : start + 300] = b"\xff" * 300
    video(root).write_bytes(content)
    episode = Source.open(root).episode(0)
    with pytest.raises(DatasetError, match=r"file-000.mp4.*decod.*\(episode 0\)"):
        episode.frames(FRONT, range(len(episode)))


def test_a_broken_stored_image_names_its_frame(image_dataset, tmp_path):
    root = shutil.copytree(image_dataset, tmp_path / "data")

    def spoil(cells: list) -> list:
        cells[3]["bytes"] = b"rubbish"
        return cells

    edit_table(data(root), FRONT, spoil)
    episode = Source.open(root).episode(0)
    assert episode.frames(FRONT, [2])[0].size == (48, 48)
    with pytest.raises(DatasetError, match=r"episode 0: .*front frame 3: not a readable image"):
        episode.frames(FRONT, [3])


def test_a_hugging_face_cache_is_read_through_its_links(video_dataset, tmp_path):
    blobs, root = shutil.copytree(video_dataset, tmp_path / "blobs"), tmp_path / "snapshot"
    for path in blobs.rglob("*"):
        if path.is_file():
            link = root / path.relative_to(blobs)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    source = Source.open(root)
    for episode in map(source.episode, source.indices):
        assert episode.frames(FRONT, [0])[0].size == (48, 48)


def test_the_fingerprint_tells_datasets_apart(video_dataset, tmp_path):
    same = shutil.copytree(video_dataset, tmp_path / "same")
    assert Source.open(same).fingerprint() == Source.open(video_dataset).fingerprint()
    edit_table(data(same), "observation.state", lambda states: states[::-1])
    assert Source.open(same).fingerprint() != Source.open(video_dataset).fingerprint()


def test_an_open_episode_is_found_by_its_id(video_dataset):
    source = Source.open(video_dataset)
    with pytest.raises(KeyError):
        source.recording("episode_000001")
    episode = source.episode(1)
    assert source.recording(episode.id) is episode
    del episode
    with pytest.raises(KeyError):
        source.recording("episode_000001")


@pytest.mark.parametrize("codec", ["h264", "hevc", "vp9", "mpeg4"])
@pytest.mark.parametrize("movflags", ["faststart", "frag_keyframe+empty_moov", ""])
def test_the_header_of_a_video_tells_what_its_packets_tell(codec, movflags, tmp_path):
    import av

    from goalreel.datasets.video import VideoIndex, _mp4_frames, _packets

    path = tmp_path / "video.mp4"
    with av.open(str(path), "w", options={"movflags": movflags} if movflags else {}) as out:
        stream = out.add_stream(codec, rate=30, options={} if codec == "vp9" else {"bf": "2"})
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for i in range(20):
            picture = np.full((64, 64, 3), 10 * i, np.uint8)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(stream.encode())
    pts, is_keyframe, unit, size = _packets(path)
    index = VideoIndex.read(path)
    assert (_mp4_frames(path) is None) == movflags.startswith("frag")
    assert np.array_equal(index.pts, np.sort(pts))
    assert np.array_equal(index.keyframes, np.sort(pts[is_keyframe]))
    assert index.time_base == pytest.approx(unit)
    assert index.size == size == (64, 64)


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
    frames = reading.decode(index, index.pts.tolist())
    assert list(frames) == index.pts.tolist()
    for count in (1, 2, 7) * 10:
        chosen = chance.choice(index.pts, count, replace=False).tolist()
        some = reading.decode(index, chosen)
        assert sorted(some) == sorted(chosen)
        assert all(np.array_equal(some[at], frames[at]) for at in chosen)
