"""Which form of the sub-goal camera which stock policy can use: does it know the goal from the live view?

Real lerobot classes, tiny and with random weights: what such a policy cannot tell apart, no training
teaches it. The table in docs/explanation/subgoal-forms.md is made from these tests.
"""

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch
from support.policies import GOAL, LIVE, POLICIES, make, tiny
from support.recordings import moving_square
from support.tiny import tiny_smolvlm

from goalreel.subgoal_camera import DEFAULT_FORM, LIVE_FORMS, SubGoalForm, in_form

FORMS = get_args(SubGoalForm)
SIZE = (48, 48)
BLIND = {("act", "plain")}
"""Where live view and goal may be exchanged, and the policy does the same."""
SAME, OTHER = 1e-5, 1e-4
"""Shares of an action: rounding is below the first, and what a picture changes is above the second."""
NOW, THERE, ELSEWHERE = (moving_square(frame, 0) for frame in (0, 6, 12))


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    made = cache(lambda name: make(name, SIZE, vlm if name == "smolvla" else None))
    vlm = tiny_smolvlm(tmp_path_factory.mktemp("vlm"))
    return made


def tensor(picture: np.ndarray) -> torch.Tensor:
    """A picture as lerobot gives it to a policy."""
    return torch.from_numpy(picture / np.float32(255)).permute(2, 0, 1)[None]


def acts(policy, live: np.ndarray, shown: np.ndarray) -> torch.Tensor:
    """What the policy does with a live view and what the sub-goal camera shows; the noise is always the same.

    Of SmolVLA it is the error of the flow that it is trained on: lerobot 0.6.1's sampling fails with the
    transformers installed here (`DynamicCache.crop` of a positive length).
    """
    batch = {LIVE: tensor(live), GOAL: tensor(shown)}
    batch["observation.state"] = torch.full((1, 2), 0.5)
    torch.manual_seed(0)
    with torch.inference_mode():
        if policy.name != "smolvla":
            policy.reset()
            return policy.select_action(batch)
        words = torch.ones(1, 4, dtype=torch.long)
        told = {"observation.language.tokens": words, "observation.language.attention_mask": words.bool()}
        action = torch.zeros(1, policy.config.chunk_size, 2)
        loss, _ = policy.forward({**batch, **told, "action": action}, reduction="none")
        return loss


def apart(one: torch.Tensor, two: torch.Tensor) -> float:
    """How far two actions are from one another, as a share of their size."""
    return float((one - two).abs().max() / one.abs().max())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", POLICIES)
def test_whether_live_view_and_goal_may_be_exchanged_and_another_goal_is_another_action(policy, name, form):
    """From NOW to THERE is another task than THERE to NOW, than another thing, and than nothing to do."""
    way, *others = (acts(policy(name), NOW, in_form(form, goal, NOW)) for goal in (THERE, ELSEWHERE, NOW))
    back = acts(policy(name), THERE, in_form(form, NOW, THERE))
    assert (apart(way, back) < SAME) == ((name, form) in BLIND)
    assert (apart(way, back) > OTHER) == ((name, form) not in BLIND)
    assert all(apart(way, other) > OTHER for other in others)


def test_the_default_is_for_every_policy_and_every_way_of_delivery():
    assert DEFAULT_FORM not in {form for _, form in BLIND} | LIVE_FORMS


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
