"""A real ACT policy, small and untrained: front camera, sub-goal camera, two joints."""

from pathlib import Path

import torch
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.policies.pretrained import PreTrainedPolicy

PICTURE = PolicyFeature(FeatureType.VISUAL, (3, 48, 64))
FEATURES = {
    "observation.images.front": PICTURE,
    "observation.images.subgoal": PICTURE,
    "observation.state": PolicyFeature(FeatureType.STATE, (2,)),
}


def make_act() -> PreTrainedPolicy:
    """The same one every time; `n_action_steps=1`, so that every tick is answered from what is seen then."""
    torch.manual_seed(0)
    config = ACTConfig(
        input_features=FEATURES,
        output_features={"action": PolicyFeature(FeatureType.ACTION, (2,))},
        pretrained_backbone_weights=None,
        dim_model=64,
        n_heads=2,
        dim_feedforward=64,
        n_encoder_layers=1,
        chunk_size=4,
        n_action_steps=1,
        use_vae=False,
        device="cpu",
        push_to_hub=False,
    )
    return get_policy_class("act")(config).eval()


def save_act(folder: Path) -> Path:
    """As `lerobot-train` saves it, for `--policy.path`."""
    policy = make_act()
    policy.save_pretrained(folder)
    two, three = torch.ones(2), torch.ones(3, 1, 1)
    stats = {"observation.state": {"mean": 0 * two, "std": two}, "action": {"mean": 0 * two, "std": two}} | {
        key: {"mean": 0 * three, "std": three} for key in FEATURES if "images" in key
    }
    for pipeline in make_pre_post_processors(policy.config, dataset_stats=stats):
        pipeline.save_pretrained(folder)
    return folder
