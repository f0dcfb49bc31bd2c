"""The dataset for GR00T: the published shape field by field, and its loaders' own rules, for want of GR00T.

Of Isaac-GR00T: getting_started/data_preparation.md, gr00t/data/schema.py and dataset.py (N1.5),
gr00t/data/dataset/lerobot_episode_loader.py and gr00t/data/stats.py (N1.6). And lerobot reads it as v2.1.
"""

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel, ConfigDict
from support.cli import fails, results
from support.killing import tree
from support.recordings import make_dataset, renamed

from goalreel.annotator.exports.annotated import Exported
from goalreel.annotator.exports.groot import export_groot, parts
from goalreel.datasets.episode import Episode
from goalreel.datasets.records import FOLDER
from goalreel.datasets.source import Source
from goalreel.datasets.writing.plan import TextOptions
from goalreel.datasets.writing.video import encoding, recording_encoder

STATUSES = ("accepted", "rejected", "accepted")
RECORDED = "put the red block in the blue bowl"
TOLD = {"instruction": RECORDED}
EPISODES = {0: {"tail": 2, "drawn": (2,), **TOLD}, 1: {"statuses": STATUSES, **TOLD}}
"""The others have no annotation."""
TASK = "annotation.human.action.task_description"
SUB_TASK = "annotation.goalreel.action.sub_task"


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Part(Strict):
    start: int
    end: int
    original_key: str | None = None


class Modality(Strict):
    state: dict[str, Part]
    action: dict[str, Part]
    video: dict[str, dict[Literal["original_key"], str]]
    annotation: dict[str, Strict]


class SubTask(Strict):
    start: int
    end: int
    text: str


class EpisodeLine(Strict):
    episode_index: int
    tasks: list[str]
    length: int
    sub_tasks: list[SubTask]


class Info(BaseModel):
    codebase_version: Literal["v2.1"]
    fps: float
    chunks_size: int
    total_episodes: int
    total_frames: int
    total_tasks: int
    total_videos: int
    total_chunks: int
    data_path: Literal["data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"]
    video_path: Literal["videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"]
    features: dict[str, dict]


STATS = {"mean", "std", "min", "max", "q01", "q99"}


class Groot:
    """A dataset as GR00T's loaders take it in, where they are strict."""

    def __init__(self, root: Path) -> None:
        def lines(name: str) -> list[str]:
            return (root / "meta" / name).read_text("ascii").splitlines()

        self.root = root
        self.info = Info.model_validate_json("\n".join(lines("info.json")))
        self.modality = Modality.model_validate_json("\n".join(lines("modality.json")))
        self.episodes = [EpisodeLine.model_validate_json(line) for line in lines("episodes.jsonl")]
        tasks = [json.loads(line) for line in lines("tasks.jsonl")]
        assert all(set(task) == {"task_index", "task"} for task in tasks)
        self.tasks = {task["task_index"]: task["task"] for task in tasks}
        self.stats = json.loads("\n".join(lines("stats.json")))
        assert all(set(stats) == STATS for stats in self.stats.values())

    def path(self, pattern: str, episode: int, camera: str = "") -> Path:
        chunk = episode // self.info.chunks_size
        return self.root / pattern.format(episode_chunk=chunk, episode_index=episode, video_key=camera)

    def rows(self, episode: int) -> pd.DataFrame:
        return pd.read_parquet(self.path(self.info.data_path, episode))

    def language(self, episode: int, key: str) -> list[str]:
        assert key.removeprefix("annotation.") in self.modality.annotation
        return [self.tasks[index] for index in self.rows(episode)[key]]

    def part(self, episode: int, kind: str, name: str) -> np.ndarray:
        part = getattr(self.modality, kind)[name]
        column = part.original_key or {"state": "observation.state", "action": "action"}[kind]
        assert 0 <= part.start < part.end <= len(self.stats[column]["mean"])
        return np.stack(self.rows(episode)[column])[:, part.start : part.end]

    def frames(self, episode: int, key: str) -> np.ndarray:
        from torchcodec.decoders import VideoDecoder

        original = self.modality.video[key]["original_key"]
        feature = self.info.features[original]
        assert feature["info"]["video.fps"] == self.info.fps
        decoder = VideoDecoder(
            str(self.path(self.info.video_path, episode, original)), dimension_order="NHWC"
        )
        times = self.rows(episode)["timestamp"].to_numpy()
        # N1.6 reads by index, N1.5 by timestamp.
        assert len(decoder) == len(times)
        shown = decoder.get_frames_in_range(0, len(decoder))
        assert shown.pts_seconds.numpy() == pytest.approx(times, abs=0.1 / self.info.fps)
        pictures = shown.data.numpy()
        height, width, channels = (feature["shape"][feature["names"].index(n)] for n in feature["names"])
        assert feature["names"] == ["height", "width", "channels"]
        assert pictures.shape[1:] == (height, width, channels)
        return pictures


def one_gop(source: Path) -> Path:
    """Encode the front camera anew, such that an episode begins between two keyframes."""
    path = source / "videos" / "observation.images.front" / "chunk-000" / "file-000.mp4"
    with av.open(str(path)) as container:
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    with encoding(path, recording_encoder(), (48, 48), Fraction(10)) as encode:
        for picture in pictures:
            encode(picture, 1, False)
    return source


@pytest.fixture(scope="module", params=["video", "sharded", "one_gop", "odd_images"])
def pair(request, annotated, tmp_path_factory) -> tuple[Path, Groot]:
    """(annotated dataset, what was made of it) of every kind of dataset."""
    root = tmp_path_factory.mktemp("groot")
    if request.param == "one_gop":
        source = one_gop(make_dataset(root / "in"))
    elif request.param == "odd_images":
        source = make_dataset(root / "in", dtype="image", size=49)
    else:
        source = request.getfixturevalue(f"{request.param}_dataset")
    goals = annotated(source, root / "goals", EPISODES)
    before = tree(goals)
    export_groot(goals, root / "out")
    assert tree(goals) == before
    return goals, Groot(root / "out")


def test_the_files_and_their_columns_are_the_published_ones(pair):
    goals, groot = pair
    source, info = Source.open(goals), groot.info
    meta = {"info.json", "modality.json", "episodes.jsonl", "tasks.jsonl", "stats.json"}
    assert {p.name for p in (groot.root / "meta").iterdir()} == {*meta, "episodes_stats.jsonl"}
    assert [e.episode_index for e in groot.episodes] == list(source.indices)
    assert [e.length for e in groot.episodes] == source.rows.column("length")
    data = {groot.path(info.data_path, e) for e in source.indices}
    videos = {groot.path(info.video_path, e, c) for e in source.indices for c in source.cameras}
    assert set((groot.root / "data").rglob("*.parquet")) == data
    assert set((groot.root / "videos").rglob("*.mp4")) == videos
    frames = sum(e.length for e in groot.episodes)
    assert (info.total_episodes, info.total_frames) == (len(source.rows), frames)
    assert (info.total_tasks, info.total_videos, info.total_chunks) == (len(groot.tasks), len(videos), 1)
    assert "goalreel: begin" not in (groot.root / "README.md").read_text()
    plain = {name for name, feature in info.features.items() if feature["dtype"] != "video"}
    for path in data:
        schema = pq.read_schema(path)
        assert set(schema.names) == plain
        if b"huggingface" in (schema.metadata or {}):
            declared = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
            assert set(declared) == plain
    annotations = {name for name in plain if name.startswith("annotation.")}
    assert annotations == {f"annotation.{name}" for name in groot.modality.annotation} == {TASK, SUB_TASK}


def test_the_words_of_each_frame_are_what_may_be_said(pair):
    _, groot = pair
    names = ["reach the block", "grasp the block", "put it in the bowl"]
    assert groot.language(0, TASK) == [RECORDED] * 12
    told = [names[0]] * 3 + [names[1]] * 3 + [names[2]] * 4
    assert groot.language(0, SUB_TASK) == [*told, RECORDED, RECORDED]
    told = [names[0]] * 3 + [RECORDED] * 3 + [names[2]] * 3
    assert groot.language(1, SUB_TASK) == told
    assert groot.language(2, TASK) == groot.language(2, SUB_TASK) == [RECORDED] * 15
    assert groot.rows(0)["task_index"].equals(groot.rows(0)[TASK])
    assert [e.tasks for e in groot.episodes[:3]] == [[RECORDED]] * 3
    spans = [(s.start, s.end, s.text) for s in groot.episodes[1].sub_tasks]
    assert spans == [(0, 3, names[0]), (6, 9, names[2])]
    assert groot.episodes[2].sub_tasks == []


def test_the_numbers_are_the_recorded_ones_and_the_statistics_theirs(pair):
    goals, groot = pair
    source = Source.open(goals)
    for episode in source.indices:
        same_parts(groot, episode, source.episode(episode))
    numbers = {n for n, f in groot.info.features.items() if f["dtype"] != "video"}
    assert set(groot.stats) == numbers
    rows = pd.concat([groot.rows(e.episode_index) for e in groot.episodes])
    for name, stats in groot.stats.items():
        values = np.vstack([np.asarray(value, np.float32) for value in rows[name]])
        assert stats["mean"] == pytest.approx(values.mean(axis=0), rel=1e-4)
        assert stats["std"] == pytest.approx(values.std(axis=0), rel=1e-4, abs=1e-5)
        assert (stats["min"], stats["max"]) == (values.min(axis=0).tolist(), values.max(axis=0).tolist())
        assert stats["q01"] == pytest.approx(np.quantile(values, 0.01, axis=0))
        assert stats["q99"] == pytest.approx(np.quantile(values, 0.99, axis=0))


def same_parts(groot: Groot, episode: int, recorded: Episode) -> None:
    """Arm and gripper together are the recorded state and action."""
    for kind, values in (("state", recorded.state), ("action", recorded.action)):
        assert list(getattr(groot.modality, kind)) == ["arm", "gripper"]
        both = [groot.part(episode, kind, name) for name in ("arm", "gripper")]
        assert np.array_equal(np.concatenate(both, axis=1), values)


def test_every_frame_is_the_recorded_one_at_its_time(pair):
    """A recorded video is copied where it can be cut."""
    goals, groot = pair
    source = Source.open(goals)
    assert list(groot.modality.video) == ["front", "wrist", "subgoal"]
    for episode in source.indices:
        recorded = source.episode(episode)
        for name, camera in groot.modality.video.items():
            images = recorded.frames(camera["original_key"], range(len(recorded)))
            wanted = np.stack([image.pixels for image in images])
            shown = groot.frames(episode, name).astype(int)
            for picture, own in zip(shown, wanted, strict=True):
                errors = np.abs(picture - wanted).mean(axis=(1, 2, 3))
                mine = np.abs(picture - own).mean()
                # Noise of the recorded pictures is lost at half the colour resolution.
                assert mine == errors.min() < 9, (episode, name)
            if recorded.is_video(camera["original_key"]):
                video, pts = recorded.locate(camera["original_key"], range(len(recorded)))
                written = groot.path(groot.info.video_path, episode, camera["original_key"])
                assert (encoded(written) == encoded(video.path, pts)) == (pts[0] in video.keyframes)


def encoded(path: Path, pts: list[int] | None = None) -> list[bytes]:
    with av.open(str(path)) as container:
        return [bytes(p) for p in container.demux(video=0) if p.size and (pts is None or p.pts in pts)]


def test_lerobot_takes_it_for_v21_and_brings_it_back_to_v30(pair, tmp_path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot.scripts.convert_dataset_v21_to_v30 import convert_dataset

    goals, groot = pair
    shutil.copytree(groot.root, tmp_path / "back")
    convert_dataset("local/back", root=tmp_path / "back", push_to_hub=False)
    back = LeRobotDataset("local/back", root=tmp_path / "back", video_backend="pyav")
    was = LeRobotDataset("local/was", root=goals, video_backend="pyav")
    assert len(back) == len(was)
    for index in range(0, len(was), 5):
        one, other = back[index], was[index]
        assert one["task"] == groot.language(int(other["episode_index"]), TASK)[0]
        for key in ("observation.state", "action", "timestamp", "subgoal_is_pad"):
            assert np.array_equal(one[key], other[key])
        for key in was.meta.camera_keys:
            assert (one[key] - other[key]).abs().mean() < 9 / 255


def set_layout(goals: Path, layout: str) -> None:
    """As if the dataset had been annotated with this `--layout`."""
    path = goals / FOLDER / "settings.json"
    content = json.loads(path.read_text())
    content["settings"]["layout"] = layout
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("names", "layout"),
    [
        ({"observation.state": "state", "action": "actions"}, None),
        ({"observation.state": "robot", "action": "told"}, "state=robot,action=told"),
        # What has lerobot's name is something else here.
        (
            {"observation.state": "action", "action": "observation.state"},
            "state=action,action=observation.state",
        ),
    ],
)
def test_features_of_any_name_are_found_by_their_parts(video_dataset, annotated, tmp_path, names, layout):
    goals = annotated(renamed(video_dataset, tmp_path / "in", names), tmp_path / "goals", {0: {}})
    if layout is not None:
        set_layout(goals, layout)
    export_groot(goals, tmp_path / "out")
    groot = Groot(tmp_path / "out")
    same_parts(groot, 0, Source.open(video_dataset).episode(0))
    assert {part.original_key for part in groot.modality.state.values()} == {names["observation.state"]}


def test_several_features_give_parts_under_their_names(video_dataset, annotated, tmp_path):
    goals = annotated(video_dataset, tmp_path / "goals", {0: {}})
    set_layout(goals, "state=observation.state+timestamp")
    assert "state=timestamp is no feature" in fails("export", goals, "--to", "groot", "--out", tmp_path / "x")
    set_layout(goals, "state=observation.state+action")
    export_groot(goals, tmp_path / "out")
    state = Groot(tmp_path / "out").modality.state
    assert list(state) == ["state_arm", "state_gripper", "action_arm", "action_gripper"]
    assert [part.original_key for part in state.values()] == [None, None, "action", "action"]


def indexed(groot: Groot, episode: int) -> list[str]:
    return [groot.tasks[index] for index in groot.rows(episode)["task_index"]]


def test_frames_may_have_their_sub_tasks_as_task_index(annotated, video_dataset, tmp_path):
    """In the export, or in the dataset already, which changes nothing."""
    goals = annotated(video_dataset, tmp_path / "goals", EPISODES)
    text = TextOptions(replace_rows=True, task_per_frame=True, language=False)
    export_groot(goals, tmp_path / "plain")
    export_groot(annotated(video_dataset, tmp_path / "told", EPISODES, text=text), tmp_path / "other")
    said = results("export", goals, "--to", "groot", "--out", tmp_path / "out", "--task-per-frame")
    assert said == {"to": "groot", "out": str(tmp_path / "out"), "episodes": 3, "named": 2}
    plain, other, groot = (Groot(tmp_path / name) for name in ("plain", "other", "out"))
    for episode in range(3):
        for column in (TASK, SUB_TASK):
            assert plain.language(episode, column) == other.language(episode, column)
        assert plain.episodes[episode] == other.episodes[episode]
        assert indexed(groot, episode) == groot.language(episode, SUB_TASK)
        assert groot.language(episode, TASK) == [RECORDED] * groot.episodes[episode].length
    assert groot.episodes[1].tasks == ["reach the block", RECORDED, "put it in the bowl"]
    sarm = ("export", goals, "--to", "sarm", "--out", tmp_path / "sarm", "--task-per-frame")
    assert "goes with --to groot" in fails(*sarm)


@pytest.mark.parametrize("per_frame", [False, True])
def test_every_task_of_an_episode_is_there_on_its_frames(annotated, video_dataset, tmp_path, per_frame):
    """The owner's, with sub-tasks beside them that may or may not have been written as tasks."""
    source = shutil.copytree(video_dataset, tmp_path / "in")
    tasks = pd.DataFrame(
        {"task_index": [0, 1, 2, 3]}, index=pd.Index([RECORDED, "pick it up", "", "drop it"])
    )
    tasks.rename_axis("task").to_parquet(source / "meta/tasks.parquet")
    (path,) = (source / "data").glob("*/*.parquet")
    rows = pd.read_parquet(path)
    rows.loc[:11, "task_index"] = [2] * 2 + [1] * 4 + [3] * 6
    rows.loc[12:13, "task_index"] = 2
    rows.to_parquet(path)
    episodes = {0: {"instruction": "pick it up; drop it"}, 1: TOLD}
    text = TextOptions(task_per_frame=per_frame)
    goals = annotated(source, tmp_path / "goals", episodes, text=text)
    export_groot(goals, tmp_path / "out")
    groot = Groot(tmp_path / "out")
    theirs = [""] * 2 + ["pick it up"] * 4 + ["drop it"] * 6
    assert indexed(groot, 0) == groot.language(0, TASK) == theirs
    assert groot.episodes[0].tasks == ["", "pick it up", "drop it"]
    assert groot.language(0, SUB_TASK)[:4] == ["reach the block"] * 4
    assert indexed(groot, 1) == [""] * 2 + [RECORDED] * 7


def odd_columns(source: Path) -> Path:
    """Indices in 32 bits, a matrix, a feature without a column, and NaN in an episode."""
    (path,) = (source / "data").glob("*/*.parquet")
    table = pq.read_table(path)
    for at, field in enumerate(table.schema):
        if field.type == pa.int64():
            table = table.set_column(at, field.name, table[field.name].cast(pa.int32()))
    touch = pa.array([[[1.0, 2.0]] * 2] * len(table), pa.list_(pa.list_(pa.float32())))
    table = table.append_column("observation.touch", touch)
    actions = table["action"].to_pylist()
    actions[-1][0] = float("nan")
    at = table.column_names.index("action")
    pq.write_table(table.set_column(at, "action", pa.array(actions, table.schema.field(at).type)), path)
    info = json.loads((source / "meta/info.json").read_text())
    info["features"]["observation.touch"] = {"dtype": "float32", "shape": [2, 2], "names": None}
    info["features"]["next.reward"] = {"dtype": "float32", "shape": [1], "names": None}
    (source / "meta/info.json").write_text(json.dumps(info))
    return source


def test_odd_columns_are_left_out_and_said(annotated, video_dataset, tmp_path, caplog):
    source = odd_columns(shutil.copytree(video_dataset, tmp_path / "in"))
    exported = export_groot(annotated(source, tmp_path / "goals", EPISODES), tmp_path / "out")
    assert exported == Exported(episodes=2, named=2)
    assert "for GR00T reads vectors alone: observation.touch" in caplog.text
    assert "episode 2: action is NaN or infinite at frame 14: not exported" in caplog.text
    groot = Groot(tmp_path / "out")
    assert [line.episode_index for line in groot.episodes] == [0, 1]
    numbers = {name for name, feature in groot.info.features.items() if feature["dtype"] == "float32"}
    assert numbers == {"observation.state", "action", "timestamp"} <= set(groot.stats), "as N1.6 demands"
    assert groot.language(0, SUB_TASK)[0] == "reach the block"
    assert len(groot.frames(1, "subgoal")) == 9


def test_real_recordings_of_two_robots(real_dataset, annotated, tmp_path):
    goals = annotated(real_dataset, tmp_path / "goals", {0: {}})
    export_groot(goals, tmp_path / "out")
    groot, recorded = Groot(tmp_path / "out"), Source.open(goals).episode(0)
    known = {7: ["arm", "gripper"], 26: ["left_arm", "right_arm", "left_hand", "right_hand"]}
    assert list(groot.modality.state) == known[recorded.state.shape[1]]
    for name, camera in groot.modality.video.items():
        shown = groot.frames(0, name)
        for index in (0, len(recorded) // 2, len(recorded) - 1):
            (image,) = recorded.frames(camera["original_key"], [index])
            assert np.abs(shown[index].astype(int) - image.pixels).mean() < 3, (name, index)


def test_what_cannot_be_exported_is_one_clear_line_and_leaves_nothing(annotated, video_dataset, tmp_path):
    def refused(dataset: Path) -> str:
        return fails("export", dataset, "--to", "groot", "--out", tmp_path / "out")

    goals = annotated(video_dataset, tmp_path / "goals", EPISODES)
    video = goals / "videos" / "observation.images.wrist" / "chunk-000" / "file-000.mp4"
    data = video.read_bytes()
    video.unlink()
    video.write_bytes(data[: len(data) // 2])
    assert "4 of 9 frames are in the video" in refused(goals)
    info = goals / "meta" / "info.json"
    text = json.loads(info.read_text())
    del text["features"]["action"]
    info.write_text(json.dumps(text))
    asked = "no feature is known to be the action, and GR00T wants one: annotate it with --layout"
    assert asked in refused(goals)
    assert [path.name for path in tmp_path.iterdir()] == ["goals"]


ALOHA = ["waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper"]


@pytest.mark.parametrize(
    ("names", "dims", "found"),
    [
        (["shoulder_pan.pos", "elbow_flex.pos", "gripper.pos"], 3, {"arm": (0, 2), "gripper": (2, 3)}),
        (
            [f"{side}_{joint}" for side in ("left", "right") for joint in ALOHA],
            14,
            {"left_arm": (0, 6), "left_gripper": (6, 7), "right_arm": (7, 13), "right_gripper": (13, 14)},
        ),
        ({"left_arm": ["a", "b"], "waist": ["c"]}, 3, {"left_arm": (0, 2), "waist": (2, 3)}),
        ({"motors": ["x", "gripper"]}, 2, {"arm": (0, 1), "gripper": (1, 2)}),
        (["kLeftHipPitch", "kLeftKnee", "kWaistYaw"], 3, {"left_leg": (0, 2), "waist": (2, 3)}),
        (["motor_0", "motor_1"], 2, {"all": (0, 2)}),
        (["gripper", "x", "gripper_width"], 3, {"all": (0, 3)}),
        (["x", "gripper"], 3, {"all": (0, 3)}),
        (None, 2, {"all": (0, 2)}),
    ],
)
def test_parts_are_told_by_names(names, dims, found):
    assert parts(names, dims) == found
