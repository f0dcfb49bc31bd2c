"""Recordings: what lerobot loads back, the ground truth beside it, refusals, and the command line."""

import gc
from pathlib import Path

import numpy as np
import pytest
from support.cli import fails, goalreel

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
pytest.importorskip("lerobot", reason="needs lerobot: pip install 'goalreel[sim]'")

import pyarrow.parquet as pq

from goalreel.tabletop.env import ACTION_NAMES, STATE_NAMES, Tabletop
from goalreel.tabletop.expert import PHASES
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.record import PREDICATE_NAMES, record
from goalreel.tabletop.truth import read_truth

SEEDS = (11, 14, 21)
"""The first of one or two goals."""
COLUMNS = ("observation.state", "action", "subgoal", "phase", "predicates", "timestamp", "episode_index")


def table(root: Path):
    return pq.read_table(sorted(root.glob("data/*/*.parquet"))[0])


def columns(root: Path) -> dict[str, np.ndarray]:
    return {name: np.array(table(root).column(name).to_pylist()) for name in COLUMNS}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("tabletop") / "data"
    done = []
    record(root, SEEDS, size=64, progress=lambda n, _: done.append(n))
    assert done == [1, 2, 3]
    return root


@pytest.mark.lab
def test_lerobot_loads_every_feature_and_the_first_frame_is_the_scene(recorded):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/tabletop", root=recorded, video_backend="pyav")
    assert dataset.num_episodes == len(SEEDS)
    features = dataset.meta.features
    assert tuple(features["observation.state"]["names"]) == STATE_NAMES
    assert tuple(features["action"]["names"]) == ACTION_NAMES
    assert tuple(features["predicates"]["names"]) == PREDICATE_NAMES
    item, first = dataset[5], dataset[0]
    assert item["observation.images.front"].shape == item["observation.images.wrist"].shape == (3, 64, 64)
    assert item["task"] == sample_episode(SEEDS[0]).instruction
    with Tabletop(sample_episode(SEEDS[0]).scene) as env:
        expected = env.render("front", 64)
        np.testing.assert_array_equal(first["observation.state"], env.observation())
    assert np.abs(255 * first["observation.images.front"].permute(1, 2, 0).numpy() - expected).mean() < 6


@pytest.mark.lab
def test_truth_and_language_rows_have_our_boundaries_and_pass_lerobots_validator(recorded, tmp_path):
    from lerobot.annotations.steerable_pipeline.reader import iter_episodes
    from lerobot.annotations.steerable_pipeline.staging import EpisodeStaging
    from lerobot.annotations.steerable_pipeline.validator import StagingValidator
    from lerobot.datasets.language import language_events_arrow_type, language_persistent_arrow_type
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    schema = table(recorded).schema
    assert schema.field("language_persistent").type == language_persistent_arrow_type()
    assert schema.field("language_events").type == language_events_arrow_type()
    dataset = LeRobotDataset("local/tabletop", root=recorded, video_backend="pyav")
    assert dataset.meta.features["language_persistent"]["dtype"] == "language"
    first = 0
    for seed, episode in zip(SEEDS, read_truth(recorded).episodes, strict=True):
        expected = sample_episode(seed)
        assert (episode.seed, episode.split, episode.instruction) == (seed, "train", expected.instruction)
        assert [s.text for s in episode.segments] == [g.text for g in expected.goals]
        assert episode.missions == tuple(m.kind for m in expected.missions)
        rows = dataset[first + 3]["language_persistent"]
        subtasks = [(r["content"], r["timestamp"]) for r in rows if r["style"] == "subtask"]
        assert subtasks == [(s.text, pytest.approx(s.start / 10)) for s in episode.segments]
        plans = [r["content"] for r in rows if r["style"] == "plan"]
        assert plans[0] == "\n".join(f"{i}. {s.text}" for i, s in enumerate(episode.segments, 1))
        first += episode.segments[-1].end
    with pytest.raises(FileNotFoundError, match="tabletop record"):
        read_truth(recorded.parent)
    records = list(iter_episodes(recorded))
    for r in records:
        staged = table(recorded).column("language_persistent")[r.row_offset].as_py()
        EpisodeStaging(tmp_path, r.episode_index).write("plan", staged)
    report = StagingValidator().validate(records, tmp_path)
    assert report.ok, report.errors


@pytest.mark.lab
def test_segments_tile_every_episode_and_frames_agree(recorded):
    truth, frames = read_truth(recorded), columns(recorded)
    assert truth.phases == PHASES
    for index, episode in enumerate(truth.episodes):
        mine = frames["episode_index"] == index
        subgoal, phase, predicates = (frames[k][mine] for k in ("subgoal", "phase", "predicates"))
        assert episode.success
        assert [s.start for s in episode.segments] == [0, *(s.end for s in episode.segments[:-1])]
        assert episode.segments[-1].end == mine.sum()
        for i, segment in enumerate(episode.segments):
            span = slice(segment.start, segment.end)
            assert segment.success
            assert set(subgoal[span]) == {i}
            assert list(dict.fromkeys(phase[span])) == list(range(len(PHASES)))
            assert not predicates[: segment.start + 1, i].any()
            assert predicates[segment.end - 1 :, i].all()
            assert predicates[span, PREDICATE_NAMES.index("grasped")][
                phase[span] == PHASES.index("move")
            ].all()
            assert predicates[segment.end - 1, PREDICATE_NAMES.index("still")] == 1
        assert not predicates[:, len(episode.segments) : 5].any()
        assert set(np.unique(predicates)) <= {0.0, 1.0}


@pytest.mark.lab
def test_an_episode_is_the_same_bit_for_bit_alone_and_in_company(recorded, tmp_path):
    record(tmp_path / "again", SEEDS[:2], cameras=("top",), size=32)
    again, first = columns(tmp_path / "again"), columns(recorded)
    count = len(again["timestamp"])
    assert count > 50
    for name in COLUMNS:
        assert np.array_equal(again[name], first[name][:count]), name
    record(tmp_path / "alone", SEEDS[1:2], cameras=("front",), size=32)
    alone = columns(tmp_path / "alone")
    for name in ("observation.state", "action", "predicates"):
        assert np.array_equal(alone[name], first[name][first["episode_index"] == 1]), name


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seeds": ()}, "at least one episode"),
        ({"cameras": ("front", "back")}, "front, side, corner, left, top, wrist"),
        ({"cameras": ("front", "front")}, "only once"),
        ({"size": 65}, "even"),
        ({"seeds": (2_000_000,)}, "splits"),
    ],
)
def test_a_bad_request_is_refused_in_one_line(tmp_path, change, says):
    with pytest.raises(ValueError, match=says) as refused:
        record(**({"out": tmp_path / "out", "seeds": SEEDS, "size": 32} | change))
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_touched_and_seeds_end_with_their_split(tmp_path):
    (tmp_path / "mine").write_text("precious")
    assert "is there already" in fails("tabletop", "record", "--episodes", "1", "--out", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
    said = fails("tabletop", "record", "--episodes", "3", "--first", "899999", "--out", "x")
    assert said == "goalreel: split train has 900000 seeds, asked for 899999 .. 900002"


@pytest.mark.lab
def test_a_failing_run_leaves_nothing(tmp_path):
    def fail(done: int, _: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(tmp_path / "out", SEEDS, size=32, cameras=("front",), progress=fail)
    gc.collect()  # lerobot's destructors write what they hold
    assert list(tmp_path.iterdir()) == []


@pytest.mark.lab
def test_the_command_line_records_a_split(tmp_path):
    out = tmp_path / "out"
    words = ["--episodes", "1", "--split", "test", "--first", "5", "--cameras", "front,top", "--size", "64"]
    assert goalreel("tabletop", "record", *words, "--out", out) == f"{out}\n"
    truth = read_truth(out)
    assert [(e.seed, e.split) for e in truth.episodes] == [(950_005, "test")]
    assert "observation.images.top" in (out / "meta" / "info.json").read_text()
