"""What is written without lerobot, against lerobot's own functions: a release that differs shows here."""

import dataclasses
from fractions import Fraction
from pathlib import Path

import lerobot
import numpy as np
import pyarrow as pa
import pytest

from goalreel.datasets.info_file import DATA_PATH, VIDEO_PATH
from goalreel.datasets.writing import language as schema, meta as stats, video as encoder
from goalreel.datasets.writing.goals import Goals, GoalSpan, tasks_file
from goalreel.datasets.writing.language import goal_rows
from goalreel.datasets.writing.video import write_video
from goalreel.planners.kinematic.description import CLOSES, OPENS

KEY = "observation.images.subgoal"
ENCODERS = {
    f"{make.__name__}-{size[0]}": make(size)
    for make in (encoder.goal_encoder, encoder.recording_encoder)
    for size in ((48, 48), (47, 47))
}
every_encoder = pytest.mark.parametrize("settings", ENCODERS.values(), ids=ENCODERS)


def test_the_language_columns_are_lerobots():
    from lerobot.datasets import language

    types = schema.language_types()
    assert tuple(types) == language.LANGUAGE_COLUMNS
    assert types[schema.PERSISTENT].equals(language.language_persistent_arrow_type(), check_metadata=True)
    assert types[schema.EVENTS].equals(language.language_events_arrow_type(), check_metadata=True)
    ours = schema.LANGUAGE_FEATURE | {"shape": tuple(schema.LANGUAGE_FEATURE["shape"])}
    assert dict.fromkeys(types, ours) == language.language_feature_info()


KINDS = {
    "persistent": schema.language_types()[schema.PERSISTENT],
    "events": schema.language_types()[schema.EVENTS],
    "mask": pa.bool_(),
    "index": pa.int64(),
    "seconds": pa.float64(),
    "timestamp": pa.float32(),
    "text": pa.string(),
    "count": pa.list_(pa.int64()),
    "texts": pa.list_(pa.string()),
    "channels": pa.list_(pa.list_(pa.list_(pa.float64()))),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_feature_is_as_hugging_face_describes_it(kind):
    from datasets import Features

    reference = Features.from_arrow_schema(pa.schema([pa.field("x", kind)])).to_dict()["x"]
    assert schema.hugging_face_feature(kind) == reference


def spans(*names: str | None) -> Goals:
    """Goals of an episode with three frames a span."""
    parts = tuple(GoalSpan(3 * i, 3 * i + 3, name, None) for i, name in enumerate(names))
    plan = tuple(name for name in names if name)
    return Goals(0, "tidy up the table", plan, parts, (), ((0, "reach"), (2, None)), "")


EDGES = ((3, CLOSES), (5, OPENS), (9, None))
DOUBTFUL = Goals(0, "tidy up the table", (), (GoalSpan(3, 9, None, None),), (), EDGES, "")
"""Only the motion of the hand is said, in frames 3 to 8."""


@pytest.mark.parametrize("goals", [spans("pick it", "put it"), spans(None, "put it"), spans(None), DOUBTFUL])
@pytest.mark.parametrize("task_aug", [False, True])
def test_lerobots_validator_takes_our_rows(goals, task_aug, tmp_path):
    from lerobot.annotations.steerable_pipeline import StagingValidator
    from lerobot.annotations.steerable_pipeline.reader import EpisodeRecord
    from lerobot.annotations.steerable_pipeline.staging import EpisodeStaging

    times = np.arange(12, dtype=np.float32) / 10
    rows = goal_rows(goals, times, task_aug)
    assert rows
    EpisodeStaging(tmp_path, 0).write("plan", rows)
    record = EpisodeRecord(0, "tidy", tuple(times.tolist()), tuple(range(12)), tmp_path, 0, 12)
    report = StagingValidator().validate([record], tmp_path)
    assert report.ok, report.errors


@pytest.mark.parametrize("episodes", [1, 2, 40])
def test_statistics_are_aggregated_as_by_lerobot(episodes):
    from lerobot.datasets.compute_stats import DEFAULT_QUANTILES, aggregate_stats, get_feature_stats

    assert list(stats.QUANTILES) == DEFAULT_QUANTILES
    rng, parts = np.random.default_rng(episodes), []
    for _ in range(episodes):
        levels = stats.PictureLevels()
        for _ in range(3):
            levels.add(int(rng.integers(1, 9)), rng.integers(0, 256, (6, 8, 3), np.uint8))
        parts.append(levels.stats())
    reference = aggregate_stats([{KEY: part} for part in parts])[KEY]
    half = episodes // 2
    files = [[parts[i] for i in span] for span in (range(half), range(half, episodes)) if span]
    groups = [{name: np.stack([part[name] for part in file]) for name in file[0]} for file in files]
    result = stats.aggregate(groups)
    assert [*result] == [*reference]
    is_main = (Path(lerobot.__file__).parent / "configs/recipes").is_dir()  # it takes the outermost
    for name, values in reference.items():
        assert np.array_equal(result[name], values) or (is_main and name.startswith("q")), name
    assert set(result) == set(get_feature_stats(np.zeros((2, 3, 4, 4)), (0, 2, 3), keepdims=True))


@every_encoder
def test_an_encoder_is_one_of_lerobots(settings):
    config = settings.lerobot_config()
    assert dataclasses.asdict(settings).keys() == dataclasses.asdict(config).keys()
    assert dataclasses.asdict(settings) == dataclasses.asdict(config)
    reference = config.get_codec_options(encoder_threads=1, as_strings=True)
    assert list(settings.codec_options().items()) == list(reference.items())


@every_encoder
def test_a_video_is_described_as_by_lerobot(settings, tmp_path):
    from lerobot.datasets.video_utils import get_video_info

    path, side = tmp_path / "x.mp4", 47 if settings.pix_fmt == "yuv444p" else 48
    picture = np.full((side, side, 3), 90, np.uint8)
    write_video(path, settings, [(3, picture, True)], (side, side), Fraction(10))
    with_encoder = get_video_info(path, video_encoder=settings.lerobot_config())
    assert list(encoder.video_info(path, settings).items()) == list(with_encoder.items())
    assert list(encoder.video_info(path).items()) == list(get_video_info(path).items())


def test_files_lie_where_lerobot_puts_them():
    from lerobot.datasets.utils import DEFAULT_DATA_PATH, DEFAULT_VIDEO_PATH

    assert (DATA_PATH, VIDEO_PATH) == (DEFAULT_DATA_PATH, DEFAULT_VIDEO_PATH)


@pytest.mark.parametrize("indices", [{}, {"b": 1, "a": 0}, {"a": 0, "ä 東": 5, "": 2}])
def test_tasks_are_written_as_by_lerobot(indices, tmp_path):
    import pandas as pd
    from lerobot.datasets.io_utils import load_tasks, write_tasks

    texts = dict(sorted(({0: "a"} | {index: text for text, index in indices.items()}).items()))
    frame = pd.DataFrame({"task_index": list(texts)}, index=pd.Index(list(texts.values()), name="task"))
    write_tasks(frame, tmp_path)
    assert tasks_file({0: "a"}, indices) == (tmp_path / "meta/tasks.parquet").read_bytes()
    assert load_tasks(tmp_path).equals(frame)
