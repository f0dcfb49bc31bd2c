"""A dataset that changed since it was annotated: only what is new or another recording is annotated again."""

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.faults import column
from support.provenance import named
from support.recordings import make_dataset, moving_square
from support.steady import Drawless, Steady, contents

from goalreel import ModelSet, Options, annotate, load_models, open_dataset
from goalreel.annotator.job import Summary
from goalreel.errors import DatasetError


def work(root: Path, out: Path, rejects: bool = False, **run) -> Summary:
    source = open_dataset(root)
    models = load_models("hindsight", recordings=Options().recorded(source))
    return annotate(source, out, replace(models, critic=Steady(accepts=0)) if rejects else models, **run)


def record_more(root: Path) -> None:
    """Append an episode with another task, as lerobot's recorder does."""
    from lerobot.configs.video import RGBEncoderConfig
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    encoder = RGBEncoderConfig(vcodec="h264", g=4, crf=18)
    dataset = LeRobotDataset.resume("local/test", root=root, rgb_encoder=encoder)
    for i in range(10):
        state = np.array([0.1 * i, 0.2, 0, float(not 3 <= i < 6)], np.float32)
        frame = {"observation.images.front": moving_square(i, 2), "observation.state": state, "action": state}
        dataset.add_frame({**frame, "task": "open the drawer"})
    dataset.save_episode()
    dataset.finalize()


def merged(root: Path) -> None:
    """Append the dataset to itself with lerobot's tool, which puts all episodes into one file."""
    from lerobot.datasets.aggregate import aggregate_datasets

    one = root.rename(root.with_name("one"))
    aggregate_datasets(["local/a", "local/b"], "local/out", roots=[one, one], aggr_root=root)
    shutil.rmtree(one)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """Two episodes in a file each."""
    root = tmp_path_factory.mktemp("recorded") / "data"
    return make_dataset(root, (12, 9), cameras=["front"], data_files_size_in_mb=0.001)


@pytest.mark.parametrize(
    ("grow", "rejects", "new"), [(record_more, False, 1), (merged, False, 2), (record_more, True, 3)]
)
def test_a_dataset_that_grew_is_annotated_where_it_grew(
    grow: Callable[[Path], None], rejects: bool, new: int, recorded, tmp_path
):
    """Together with what is tried again."""
    root = shutil.copytree(recorded, tmp_path / "in")
    assert work(root, tmp_path / "out", rejects).incomplete == 2 * rejects
    grow(root)
    summary = work(root, tmp_path / "out", retry="rejected" if rejects else None)
    assert (summary.annotated, summary.resumed, summary.clean) == (new, 2 * (not rejects), True)
    work(root, tmp_path / "once")
    assert contents(tmp_path / "out") == contents(tmp_path / "once")


def edit_states(root: Path, episode: int) -> None:
    file = f"data/chunk-000/file-{episode:03d}.parquet"
    column(file, "observation.state", lambda old: [[0.0, 0.0, 0.0, 1.0]] * len(old))(root)


def test_an_episode_that_was_recorded_again_is_annotated_again(recorded, tmp_path, caplog):
    root = shutil.copytree(recorded, tmp_path / "in")
    work(root, tmp_path / "out")
    edit_states(root, 1)
    with caplog.at_level(logging.WARNING):
        summary = work(root, tmp_path / "out")
    assert (summary.annotated, summary.resumed) == (1, 1)
    assert "episode_000001.json: its recording has changed" in caplog.text
    assert "episode_000000.json" not in caplog.text
    work(root, tmp_path / "once")
    assert contents(tmp_path / "out") == contents(tmp_path / "once")


def test_an_answer_about_another_recording_is_asked_for_again(recorded, tmp_path):
    root, model = shutil.copytree(recorded, tmp_path / "in"), Drawless()
    model_set = ModelSet(model, model, model, named())
    annotate(root, tmp_path / "out", model_set)
    edit_states(root, 1)
    annotate(root, tmp_path / "out", model_set)
    assert model.asked["plan"] == 3


def test_another_dataset_is_refused(recorded, tmp_path):
    work(recorded, tmp_path / "out")
    before = contents(tmp_path / "out")
    other, slow = (shutil.copytree(recorded, tmp_path / name) for name in ("other", "slow"))
    edit_states(other, 0)
    edit_states(other, 1)
    info = json.loads((slow / "meta/info.json").read_text())
    (slow / "meta/info.json").write_text(json.dumps(info | {"fps": 5}))
    for root in (other, slow):
        with pytest.raises(DatasetError, match="made from another dataset: choose another --out"):
            work(root, tmp_path / "out")
    assert contents(tmp_path / "out") == before
