"""The written dataset, as lerobot itself sees it: loader, decoders, language, statistics, metadata."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.recordings import load, make_dataset

from goalreel.datasets.source import Source

KEY = "observation.images.subgoal"
PAD = "subgoal_is_pad"
STATUSES = ("accepted", "rejected", "accepted")
EPISODES = {0: {"tail": 2, "drawn": (2,)}, 1: {"statuses": STATUSES}}
"""Episode 2 (and 3) is left alone."""


@pytest.fixture(scope="session", params=["video", "image", "sharded"])
def pair(request, annotated, tmp_path_factory) -> tuple[Path, Path]:
    """(IN, OUT) of every kind of dataset."""
    source = request.getfixturevalue(f"{request.param}_dataset")
    return source, annotated(source, tmp_path_factory.mktemp("out") / "out", EPISODES)


def expected_goals(source: Path, board, episode: int, keywords: dict) -> list[np.ndarray | None]:
    """Frame -> goal picture, from the storyboard alone."""
    recording = Source.open(source).episode(episode)
    frames: list[np.ndarray | None] = [None] * len(recording)
    for step in board(len(recording), **keywords).steps:
        image, span = step.goal_image, step.segment
        if step.status != "accepted":
            continue
        if image.frame:
            (image,) = recording.frames("observation.images.front", [span.end - 1])
        frames[span.start : span.end] = [image.pixels] * (span.end - span.start)
    return frames


def subsampled(picture: np.ndarray) -> np.ndarray:
    """What 4:2:0 video keeps at best: half the colour resolution (the test pictures' ground is noise)."""
    import av

    frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
    return frame.reformat(format="yuv420p").to_ndarray(format="rgb24").astype(int)


def data_tables(root: Path) -> list[pa.Table]:
    return [pq.read_table(path) for path in sorted((root / "data").glob("*/*.parquet"))]


@pytest.mark.parametrize("backend", ["pyav", "torchcodec"])
def test_every_frame_shows_its_goal_and_the_mask_says_so(pair, board, backend):
    source, out = pair
    dataset = load(out, backend)
    wanted = [f for e, keywords in EPISODES.items() for f in expected_goals(source, board, e, keywords)]
    others = [w for w in wanted if w is not None]
    for index, goal in enumerate(wanted):
        item = dataset[index]
        shown = (item[KEY].permute(1, 2, 0).numpy() * 255).round()
        assert bool(item[PAD]) == (goal is None), index
        if goal is None:
            assert shown.max() < 8
            continue
        errors = [np.abs(shown - other).mean() for other in others]
        assert np.abs(shown - goal).mean() == min(errors), index
        assert np.abs(shown - subsampled(goal)).mean() < 3
    for index in range(len(wanted), len(dataset)):
        item = dataset[index]
        assert item[PAD]
        assert item[KEY].max() < 8 / 255


def test_the_rest_of_the_data_is_as_it_was(pair):
    source, out = pair
    for old, new in zip(data_tables(source), data_tables(out), strict=True):
        assert new.select(old.column_names).equals(old)
        assert new.schema.names == [*old.schema.names, "language_persistent", "language_events", PAD]
    old, new = load(source)[len(load(source)) - 1], load(out)[len(load(out)) - 1]
    for key, value in old.items():
        assert np.array_equal(value, new[key]) if hasattr(value, "numpy") else value == new[key], key


def test_data_files_are_those_of_lerobots_own_writer(pair, tmp_path):
    """And the Hugging Face features in their metadata are in step with the columns."""
    import datasets
    from lerobot.datasets.io_utils import write_table_one_row_group_per_episode
    from lerobot.datasets.language import language_events_arrow_type, language_persistent_arrow_type

    def row_groups(path: Path) -> bytes:
        content = path.read_bytes()
        return content[: -8 - int.from_bytes(content[-8:-4], "little")]

    paths = sorted((pair[1] / "data").glob("*/*.parquet"))
    for path in paths:
        write_table_one_row_group_per_episode(pq.read_table(path), tmp_path / path.name)
        assert row_groups(path) == row_groups(tmp_path / path.name)
        schema = pq.read_schema(path)
        assert schema.field("language_persistent").type == language_persistent_arrow_type()
        assert schema.field("language_events").type == language_events_arrow_type()
        assert schema.field(PAD).type == pa.bool_()
    rows = datasets.Dataset.from_parquet([str(path) for path in paths])
    assert rows.features[PAD] == datasets.Value("bool")
    assert rows[0]["language_persistent"][0]["style"] == "plan"


def test_statistics_are_lerobots(pair, board, tmp_path):
    """Against lerobot's own function over the same pictures as PNG files."""
    from lerobot.datasets.compute_stats import compute_episode_stats

    from goalreel.image import Image

    source, out = pair
    black = np.zeros((48, 48, 3), np.uint8)
    paths = []
    for i, goal in enumerate(expected_goals(source, board, 0, EPISODES[0])):
        paths.append(str(tmp_path / f"{i}.png"))
        Path(paths[-1]).write_bytes(Image(black if goal is None else goal).png())
    want = compute_episode_stats({KEY: paths}, {KEY: {"dtype": "video"}})[KEY]
    row = pq.read_table(next((out / "meta/episodes").glob("*/*.parquet"))).slice(0, 1).to_pylist()[0]
    for name, value in want.items():
        got = np.array(row[f"stats/{KEY}/{name}"])
        assert got.shape == value.shape
        np.testing.assert_allclose(got, value, atol=1.01 / 255, err_msg=name)
    np.testing.assert_allclose(row[f"stats/{KEY}/mean"], want["mean"], atol=1e-5)


def test_metadata_is_typed_like_any_other_camera(pair):
    source, out = pair
    schemas = [pq.read_schema(p) for p in sorted((out / "meta/episodes").glob("*/*.parquet"))]
    assert all(s.equals(schemas[0]) for s in schemas)
    for name in schemas[0].names:
        if KEY in name and name.startswith("stats/"):
            other = name.replace(KEY, "observation.images.front")
            assert schemas[0].field(name).type == schemas[0].field(other).type, name
    for name in (name for name in schemas[0].names if name.startswith("videos/observation.images.front/")):
        mine = name.replace("observation.images.front", KEY)
        assert schemas[0].field(mine).type == schemas[0].field(name).type
    old, new = (json.loads((r / "meta/info.json").read_text()) for r in (source, out))
    assert new.pop("features").items() >= old.pop("features").items()
    assert {**new, "video_path": None} == {**old, "video_path": None}
    stats = json.loads((out / "meta/stats.json").read_text())
    assert PAD not in stats
    assert set(stats[KEY]) == set(stats["observation.images.front"])
    assert stats.items() >= json.loads((source / "meta/stats.json").read_text()).items()


def test_lerobots_tools_take_the_result(pair, tmp_path):
    """Deleting an episode re-encodes our camera and keeps rows and mask."""
    from lerobot.datasets.dataset_tools import delete_episodes

    _, out = pair
    dataset = load(out)
    length = dataset.meta.episodes[0]["length"]
    rest = delete_episodes(dataset, [0], output_dir=tmp_path / "rest", repo_id="local/rest")
    for index in (0, 4, len(rest) - 1):
        one, two = dataset[length + index], rest[index]
        assert np.abs(one[KEY].numpy() - two[KEY].numpy()).mean() < 0.02
        assert bool(one[PAD]) == bool(two[PAD])
        assert one["language_persistent"] == two["language_persistent"]


def test_a_camera_of_odd_size_has_goals_of_that_size(annotated, tmp_path):
    """Diffusion policy refuses cameras of two sizes; and lerobot's tools encode such a video again."""
    from lerobot.datasets.dataset_tools import delete_episodes

    source = make_dataset(tmp_path / "in", (8, 6), dtype="image", size=47, cameras=("front",))
    out = annotated(source, tmp_path / "out", {0: {"tail": 2}, 1: {}})
    assert json.loads((out / "meta/info.json").read_text())["features"][KEY]["shape"] == [47, 47, 3]
    goal = Source.open(source).episode(1).frames("observation.images.front", [5])[0].pixels
    rest = delete_episodes(load(out), [0], output_dir=tmp_path / "rest", repo_id="local/rest")
    ours = [(load(out, backend), 13, 4) for backend in ("pyav", "torchcodec")]
    for dataset, index, error in [*ours, (load(rest.root), 5, 10)]:  # the ground is noise
        shown = dataset[index][KEY].permute(1, 2, 0).numpy() * 255
        assert shown.shape == (47, 47, 3)
        assert np.abs(shown - goal).mean() < error


def test_real_episodes(real_dataset, annotated, tmp_path):
    out = annotated(real_dataset, tmp_path / "out", {1: {"tail": 3}})
    for backend in ("pyav", "torchcodec"):
        dataset = load(out, backend)
        first, last = (dataset.meta.episodes[1][f"dataset_{k}_index"] for k in ("from", "to"))
        assert [bool(dataset[i][PAD]) for i in (first - 1, first, last - 4, last - 1)] == [1, 0, 0, 1]
        item = dataset[last - 4]
        camera = Source.open(out).camera(None)
        assert np.abs(item[KEY].numpy() - item[camera].numpy()).mean() < 0.02
