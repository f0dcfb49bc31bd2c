"""The progress of each frame: the rule, the feature in lerobot, and lerobot's weights from the file."""

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest

from goalreel.datasets.source import Source
from goalreel.datasets.writing.frame_columns import PROGRESS, PROGRESS_FILE, frame_progress
from goalreel.datasets.writing.goals import Goals, GoalSpan
from goalreel.datasets.writing.plan import TextOptions
from goalreel.errors import DatasetError

WITH = TextOptions(replace_rows=True, progress=True)
DOUBT = {"doubts": ["no rule reads the whole instruction"]}


def goals(*spans: GoalSpan, steps: int | None = None) -> Goals:
    return Goals(0, "do it", (), spans, ("observed",) * (len(spans) if steps is None else steps), (), "")


def span(start: int, end: int, name: str | None = "a", *, failed: bool = False) -> GoalSpan:
    return GoalSpan(start, end, None if failed else name, None, failed)


def numbers(episode: Goals | None, length: int) -> list[float]:
    return [round(float(value), 3) for value in frame_progress(episode, length)]


def test_each_step_has_an_equal_share_that_time_divides():
    assert numbers(goals(span(0, 2), span(2, 6)), 6) == [0, 0.25, 0.5, 0.667, 0.833, 1]
    assert numbers(goals(span(0, 1)), 1) == [1]
    assert numbers(goals(span(0, 2), span(2, 3)), 3) == [0, 0.25, 1]


def test_frames_of_no_step_keep_what_was_reached():
    assert numbers(goals(span(1, 3), span(4, 6)), 8) == [0, 0, 0.25, 0.5, 0.5, 0.75, 1, 1]


def test_a_failed_step_gains_nothing_and_a_failed_end_stays_below_one():
    assert numbers(goals(span(0, 2, failed=True), span(2, 4)), 4) == [0, 0, 0, 1]
    assert numbers(goals(span(0, 2), span(2, 4, failed=True)), 4) == [0, 0.25, 0.5, 0.5]
    assert numbers(goals(span(0, 2, failed=True)), 2) == [0, 0]


DOUBTFUL, MISSING = goals(span(0, 2), span(2, 4, None)), goals(span(0, 4), steps=2)


@pytest.mark.parametrize("unsure", [None, goals(), DOUBTFUL, MISSING])
def test_no_number_where_a_step_is_in_doubt_or_has_no_place(unsure):
    assert all(map(math.isnan, frame_progress(unsure, 4)))


def test_lerobot_reads_it_per_frame_and_weights_samples_with_it(video_dataset, annotated, tmp_path):
    from lerobot.datasets.compute_stats import aggregate_stats
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot.rewards.sarm.rabc import RABCWeights

    out = annotated(video_dataset, tmp_path / "out", {0: {}, 1: DOUBT}, text=WITH)
    dataset = LeRobotDataset("local/test", root=out, video_backend="pyav")
    first, second = (dataset.meta.episodes[i]["length"] for i in (0, 1))
    told = [float(dataset[i][PROGRESS]) for i in range(first + second)]
    assert (told[0], told[first - 1]) == (0, 1)
    assert sorted(told[:first]) == told[:first]
    assert all(map(math.isnan, told[first:]))
    stats = dataset.meta.stats[PROGRESS]
    assert [stats[name].tolist() for name in ("count", "min", "max")] == [[first], [0], [1]]
    assert np.isclose(stats["mean"][0], np.mean(told[:first]))
    assert PROGRESS in aggregate_stats([dataset.meta.stats, dataset.meta.stats])
    for mode in ("sparse", "dense"):
        weighter = RABCWeights(out / PROGRESS_FILE, chunk_size=4, head_mode=mode)
        assert weighter.progress_lookup == pytest.approx(dict(enumerate(told[:first])))
        weights, _ = weighter.compute_batch_weights({"index": [0, first - 1]})
        assert weights[0] > weights[1]  # one goes on, the other is at its end


def test_a_second_pass_leaves_the_other_episodes_their_progress(sharded_dataset, annotated, tmp_path):
    first = annotated(sharded_dataset, tmp_path / "first", {0: {}, 2: {}}, text=WITH)
    second = annotated(first, tmp_path / "second", {2: DOUBT}, text=TextOptions(replace_rows=True))
    told = {episode: {} for episode in range(4)}
    for row in pq.read_table(second / PROGRESS_FILE).to_pylist():
        told[row["episode_index"]][row["frame_index"]] = row["progress_dense"]
    assert told[0][11] == 1
    assert all(math.isnan(value) for episode in (1, 2, 3) for value in told[episode].values())
    assert json.loads((second / "meta/stats.json").read_text())[PROGRESS]["count"] == [12]
    assert "`progress`" in (second / "README.md").read_text()


def test_what_an_owner_or_a_reward_model_wrote_stays(video_dataset, annotated, tmp_path, monkeypatch):
    source = Source.open(video_dataset)
    owned = {"dtype": "float32", "shape": [1], "names": None}
    source.info["features"] = {**source.features, PROGRESS: owned}
    monkeypatch.setattr(Source, "open", lambda root: source)
    with pytest.raises(DatasetError, match=r"has a progress already.*leave progress out"):
        annotated(video_dataset, tmp_path / "out", {0: {}}, text=WITH)
