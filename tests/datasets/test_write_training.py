"""Policies train on the result unchanged: one step of ACT and of Diffusion policy."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.policies import tiny

KEY = "observation.images.subgoal"
PAD = "subgoal_is_pad"


def train_one_step(root: Path, name: str):
    """As lerobot's training script does it: (policy, batch, loss)."""
    import torch
    from lerobot.datasets.factory import resolve_delta_timestamps
    from lerobot.datasets.lerobot_dataset import LeRobotDataset, LeRobotDatasetMetadata
    from lerobot.policies.factory import make_policy, make_pre_post_processors
    from lerobot.utils.collate import lerobot_collate_fn

    torch.manual_seed(0)
    config = tiny(name)
    meta = LeRobotDatasetMetadata("local/test", root=root)
    times = resolve_delta_timestamps(config, meta)
    dataset = LeRobotDataset("local/test", root=root, delta_timestamps=times, video_backend="pyav")
    policy = make_policy(config, ds_meta=dataset.meta)
    prepare, _ = make_pre_post_processors(config, dataset_stats=dataset.meta.stats)
    batch = prepare(lerobot_collate_fn([dataset[i] for i in (0, 5, 11, 14)]))
    policy.train()
    loss, _ = policy.forward(batch)
    loss.backward()
    torch.optim.SGD(policy.parameters(), lr=1e-3).step()
    return SimpleNamespace(policy=policy, batch=batch, loss=float(loss.detach()), dataset=dataset)


@pytest.mark.parametrize("name", ["act", "diffusion"])
def test_one_training_step(video_dataset, annotated, tmp_path, name):
    import torch

    if name == "diffusion":
        pytest.importorskip("diffusers")
    step = train_one_step(annotated(video_dataset, tmp_path / "out", {0: {"tail": 4}, 1: {}}), name)
    assert torch.isfinite(torch.tensor(step.loss))
    assert KEY in step.policy.config.image_features
    assert PAD not in step.policy.config.input_features
    pad = step.batch[PAD]  # it came through lerobot's processors
    assert pad.dtype == torch.bool
    assert pad.tolist() == [False, False, True, False]
    assert step.batch[KEY].shape[-3:] == (3, 48, 48)
