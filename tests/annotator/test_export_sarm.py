"""Stages for SARM: what lerobot's own reward model and processor read from the exported dataset."""

import json
import logging
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.cli import fails, results
from support.killing import tree
from support.recordings import renamed

from goalreel.annotator.exports import SarmStage, export_sarm, in_order, proportions
from goalreel.errors import InputError
from goalreel.files import atomic_folder

STATUSES = ("accepted", "rejected", "accepted")
NAMES = ["reach the block", "grasp the block", "put it in the bowl"]
EPISODES = {0: {"tail": 3}, 1: {"vain": (2,)}, 2: {"statuses": STATUSES}}
"""Of 12, 9 and 15 frames. The last one has none."""
LENGTHS = (12, 9, 15, 6)


@pytest.fixture(scope="module")
def goals(annotated, tmp_path_factory) -> Path:
    from support.recordings import make_dataset

    root = tmp_path_factory.mktemp("sarm")
    source = make_dataset(root / "in", LENGTHS)
    apart(source, 3)
    return annotated(source, root / "goals", EPISODES)


def apart(source: Path, episode: int) -> None:
    """Give an episode a file of meta/episodes of its own."""
    path = source / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    table = pq.read_table(path)
    at = table.schema.get_field_index("meta/episodes/file_index")
    alone = table.slice(episode).set_column(at, table.schema.field(at), [[1]])
    pq.write_table(table.slice(0, episode), path)
    pq.write_table(alone, path.with_name("file-001.parquet"))


@pytest.fixture(scope="module")
def out(goals) -> Path:
    export_sarm(goals, goals.parent / "sarm")
    return goals.parent / "sarm"


@pytest.fixture(scope="module")
def dataset(out):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset("local/test", root=out, video_backend="pyav")


@pytest.fixture(scope="module")
def processor(dataset):
    """lerobot's processor step, as its constructor leaves it without CLIP, which needs a download."""
    from lerobot.rewards.sarm.configuration_sarm import SARMConfig
    from lerobot.rewards.sarm.modeling_sarm import SARMRewardModel
    from lerobot.rewards.sarm.processor_sarm import SARMEncodingProcessorStep

    config = SARMConfig(
        annotation_mode="dense_only",
        image_key="observation.images.front",
        device="cpu",
        hidden_dim=16,
        num_heads=2,
        num_layers=1,
        n_obs_steps=2,
        max_rewind_steps=1,
        frame_gap=1,
    )
    SARMRewardModel(config, dataset_meta=dataset.meta)
    step = SARMEncodingProcessorStep.__new__(SARMEncodingProcessorStep)
    step.config, step.dataset_meta = config, dataset.meta
    step.dense_subtask_names, step.sparse_subtask_names = (
        config.dense_subtask_names,
        config.sparse_subtask_names,
    )
    step.dense_temporal_proportions = step.sparse_temporal_proportions = {}
    return step


def targets(processor, episode: int, kind: str) -> list[float]:
    """Stage and share of it done, one a frame of an episode, as lerobot's processor computes them."""
    import torch

    row = processor.dataset_meta.episodes[episode]
    frames = range(row["dataset_from_index"], row["dataset_to_index"])
    table = processor.dataset_meta.episodes.to_pandas()
    found = processor._compute_batch_targets(
        list(frames), [episode] * len(frames), torch.tensor([]), torch.zeros(len(frames)), table, kind
    )
    return found[:, processor.config.n_obs_steps // 2].tolist()


def test_lerobots_reward_model_reads_the_stages_and_their_shares(out, processor):
    from lerobot.data_processing.sarm_annotations.subtask_annotation import load_annotations_from_dataset

    config = processor.config
    assert config.dense_subtask_names == NAMES
    assert config.num_dense_stages == 3
    assert sum(config.dense_temporal_proportions) == pytest.approx(1)
    assert config.sparse_subtask_names == ["task"]
    assert json.loads((out / "meta" / "temporal_proportions_sparse.json").read_text()) == {"task": 1.0}
    dense = load_annotations_from_dataset(out, "dense")
    assert sorted(dense) == [0, 1, 2]
    assert [s.name for s in dense[1].subtasks] == ["reach the block", "grasp the block", "grasp the block"]
    assert sorted(load_annotations_from_dataset(out, "sparse")) == [0, 1, 2, 3]


THIRDS, FIFTHS = [0, 1 / 3, 2 / 3], [0, 0.2, 0.4, 0.6, 0.8]
TARGETS = {
    "the last frames of a whole episode are complete": (
        0,
        [*(n + t for n in range(3) for t in THIRDS), *[2.999] * 3],
    ),
    "after a step in vain nothing more is done": (1, [*(n + t for n in range(2) for t in THIRDS), 2, 2, 2]),
    "on frames that may not be said the step before stays complete": (
        2,
        [*FIFTHS, *[1.0] * 5, *(2 + f for f in FIFTHS)],
    ),
    "an episode without annotation": (3, [0] * 6),
}


@pytest.mark.parametrize("case", TARGETS)
def test_the_targets_of_frames(case, processor):
    episode, wanted = TARGETS[case]
    assert targets(processor, episode, "dense") == pytest.approx(wanted, abs=1e-5)


def test_an_episode_without_annotation_has_the_whole_as_its_stage_alone(processor, caplog):
    assert targets(processor, 3, "sparse") == pytest.approx([*FIFTHS, 0.999], abs=1e-5)
    with caplog.at_level(logging.WARNING):
        processor._validate_annotation_columns()
    assert "1/4 episodes have unusable annotations" in caplog.text


def test_the_columns_are_lerobots_in_every_file(out):
    files = sorted((out / "meta" / "episodes").glob("*/*.parquet"))
    assert len(files) == 2
    for path in files:
        schema = pq.read_schema(path)
        for prefix in ("sparse_", "dense_", ""):
            kinds = [
                str(schema.field(f"{prefix}subtask_{name}").type.value_type)
                for name in ("names", "start_times", "end_times", "start_frames", "end_frames")
            ]
            assert kinds == ["string", "double", "double", "int64", "int64"]
    first = pq.read_table(files[0]).to_pylist()[0]
    assert first["dense_subtask_start_times"] == pytest.approx([0, 0.3, 0.6, 1.1])
    assert first["sparse_subtask_end_frames"] == first["subtask_end_frames"] == [12]


def test_all_else_is_the_dataset_and_the_dataset_is_as_it_was(goals, dataset):
    before, out = tree(goals), goals.parent / "again"
    said = results("export", goals, "--to", "sarm", "--out", out)
    assert said == {"to": "sarm", "out": str(out), "episodes": 4, "named": 3}
    assert tree(goals) == before
    after = tree(out)
    changed = {name for name, was in before.items() if not name.startswith(".") and after[name] != was}
    assert {str(Path(name).parent) for name in changed} == {"meta/episodes/chunk-000"}
    proportions = {f"meta/temporal_proportions_{kind}.json" for kind in ("sparse", "dense")}
    assert set(after) - set(before) == proportions
    for path in (goals / "videos").rglob("*.mp4"):
        assert path.samefile(out / path.relative_to(goals))
    for path in [*(goals / "data").rglob("*.parquet"), *(goals / "meta").rglob("*.*")]:
        assert not path.samefile(out / path.relative_to(goals))
    assert len(dataset) == sum(LENGTHS)
    assert dataset[0]["task"] == "put the red block in the blue bowl"


def test_what_cannot_be_exported_is_one_clear_line_and_leaves_nothing(
    goals, video_dataset, annotated, tmp_path
):
    def refused(dataset: Path, *more: object, out: Path = tmp_path / "out") -> str:
        return fails("export", dataset, "--to", "sarm", "--out", out, *more)

    assert "run goalreel annotate first" in refused(video_dataset)
    assert "--source is for --to table" in refused(goals, "--source", video_dataset)
    assert "overlaps the dataset" in refused(goals, out=goals / "sarm")
    half = tmp_path / "half"
    (half / "meta" / "goalreel").mkdir(parents=True)
    assert "not written yet" in refused(half)
    vain = annotated(video_dataset, tmp_path / "vain", {0: {"statuses": ["rejected"]}})
    assert "so there are no stages" in refused(vain)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    assert "is there already" in refused(goals, out=tmp_path / "full")
    assert "is there already" in refused(goals, out=tmp_path / "full" / "mine.txt")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["full", "half", "vain"]
    with atomic_folder(tmp_path / "busy"):
        assert "another goalreel run is writing there" in refused(goals, out=tmp_path / "busy")
    assert list((tmp_path / "busy").iterdir()) == []


def test_a_lock_that_a_kill_at_the_very_end_left_goes(tmp_path):
    with atomic_folder(tmp_path / "done") as part:
        (part / "file").touch()
    (tmp_path / "done/.goalreel-tmp-lock").touch()
    with pytest.raises(InputError, match="is there already"), atomic_folder(tmp_path / "done"):
        pass
    assert [path.name for path in (tmp_path / "done").iterdir()] == ["file"]


@pytest.mark.process
def test_a_killed_export_leaves_no_folder_and_the_next_one_is_whole(goals, out, tmp_path):
    code = """
import os, sys
from pathlib import Path
from goalreel.annotator.exports import export_sarm

def killed(stage, done, total):
    if stage == "write":
        os.kill(os.getpid(), 9)

export_sarm(Path(sys.argv[1]), Path(sys.argv[2]), progress=killed)
"""
    done = subprocess.run([sys.executable, "-c", code, goals, tmp_path / "out"])
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    export_sarm(goals, tmp_path / "out")
    assert tree(tmp_path / "out") == tree(out)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_stages_are_in_the_order_of_most_episodes_and_shares_are_means_over_those_that_have_the_stage():
    assert in_order([["b", "c"], ["a", "b", "c"], ["a", "c", "b"], ["a", "d", "c"]]) == ["a", "b", "d", "c"]
    assert sorted(in_order([["a", "b"], ["b", "c"], ["c", "a"]])) == ["a", "b", "c"]
    assert in_order([["x"], ["y", "x"], ["p", "q"]]) == ["y", "x", "p", "q"]
    whole = [SarmStage("a", 0, 2), SarmStage("b", 2, 10)]
    twice = [SarmStage("a", 0, 3), SarmStage("b", 3, 4), SarmStage("a", 4, 5), SarmStage("b", 9, 9)]
    assert proportions([whole, twice]) == pytest.approx({"a": 0.5, "b": 0.5})


def test_a_state_of_another_name_and_what_is_told_in_spite_of_its_pictures(
    video_dataset, annotated, tmp_path, caplog
):
    source = renamed(video_dataset, tmp_path / "in", {"observation.state": "state"})
    goals = annotated(source, tmp_path / "goals", {0: {"statuses": STATUSES}}, use_rejected=True)
    settings = goals / "meta" / "goalreel" / "settings.json"
    settings.write_text(settings.read_text().replace('"test": 1', '"use_rejected": true'))
    export_sarm(goals, tmp_path / "out")
    assert "SARM looks for observation.state: set its state_key to state" in caplog.text
    shares = json.loads((tmp_path / "out" / "meta" / "temporal_proportions_dense.json").read_text())
    assert list(shares) == NAMES
    caplog.clear()
    export_sarm(annotated(video_dataset, tmp_path / "usual", {0: {}}), tmp_path / "other")
    assert "state_key" not in caplog.text
