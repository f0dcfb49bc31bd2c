"""A real ACT policy, small and untrained: front camera, sub-goal camera, two joints unless told otherwise."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.processor import ProcessorStep

CAMERAS = ("front", "subgoal")
FRONT = np.random.default_rng(0).integers(0, 255, (48, 64, 3), np.uint8)
"""What the front camera sees."""


def act_config(
    pictures: Mapping[str, tuple[int, int, int]], numbers: Mapping[str, int], action: int, **sizes: int
) -> ACTConfig:
    """An ACT of one layer, which sees pictures (channels, height, width) and numbers."""
    seen = {name: PolicyFeature(FeatureType.VISUAL, shape) for name, shape in pictures.items()}
    kinds = {"observation.environment_state": FeatureType.ENV}
    felt = {name: PolicyFeature(kinds.get(name, FeatureType.STATE), (n,)) for name, n in numbers.items()}
    return ACTConfig(
        input_features=seen | felt,
        output_features={"action": PolicyFeature(FeatureType.ACTION, (action,))},
        pretrained_backbone_weights=None,
        n_heads=2,
        n_encoder_layers=1,
        use_vae=False,
        device="cpu",
        push_to_hub=False,
        **sizes,
    )


def make_act(
    cameras: Sequence[str] = CAMERAS, size: tuple[int, int] = (64, 48), joints: int = 2
) -> PreTrainedPolicy:
    """The same one every time; `n_action_steps=1`, so that every tick is answered from what is seen then."""
    torch.manual_seed(0)
    pictures = {f"observation.images.{camera}": (3, size[1], size[0]) for camera in cameras}
    sizes = {"dim_model": 64, "dim_feedforward": 64, "chunk_size": 4, "n_action_steps": 1}
    config = act_config(pictures, {"observation.state": joints}, joints, **sizes)
    return get_policy_class("act")(config).eval()


def save_act(
    folder: Path,
    cameras: Sequence[str] = CAMERAS,
    size: tuple[int, int] = (64, 48),
    rest: Sequence[float] = (0.0, 0.0),
    spread: float = 1.0,
    steps: Sequence[ProcessorStep] = (),
) -> Path:
    """As `lerobot-train` saves it, for `--policy.path`; its actions lie around `rest`.

    `steps` come first in its preprocessor.
    """
    policy = make_act(cameras, size, len(rest))
    policy.save_pretrained(folder)
    joints = {"mean": torch.tensor(rest), "std": spread * torch.ones(len(rest))}
    pixels = {"mean": torch.zeros(3, 1, 1), "std": torch.ones(3, 1, 1)}
    stats = {"observation.state": joints, "action": joints} | {
        f"observation.images.{camera}": pixels for camera in cameras
    }
    before, after = make_pre_post_processors(policy.config, dataset_stats=stats)
    before.steps = [*steps, *before.steps]
    before.save_pretrained(folder)
    after.save_pretrained(folder)
    return folder
