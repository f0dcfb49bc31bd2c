"""Stock ACT from lerobot on demonstrations, told in words, and where things are instead of seeing them."""

import math
from dataclasses import dataclass

import torch
from label_faults import TOLD, Samples
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from torch import Tensor, nn

from goalreel.tabletop.env import STATE_NAMES
from goalreel.training.run import half
from goalreel_lab.policy.policy_tasks import ENVIRONMENT, KEY_POSE_NAMES, STATE

BATCH, RATE, WIDTH = 128, 3e-3, 64


def words_policy() -> ACTPolicy:
    """Make lerobot's ACT of the policy study, smaller, and without pictures."""
    config = ACTConfig(
        input_features={
            STATE: PolicyFeature(FeatureType.STATE, (len(STATE_NAMES),)),
            ENVIRONMENT: PolicyFeature(FeatureType.ENV, (TOLD,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (len(KEY_POSE_NAMES),))},
        chunk_size=2,
        n_action_steps=2,
        dim_model=WIDTH,
        n_heads=4,
        dim_feedforward=4 * WIDTH,
        n_encoder_layers=1,
        n_decoder_layers=1,
        pre_norm=True,
        use_vae=False,
        dropout=0.0,
        pretrained_backbone_weights=None,
        device="cpu",
        push_to_hub=False,
    )
    return ACTPolicy(config)


@dataclass(frozen=True)
class Scale:
    """Mean and spread of the key poses (2, 6) of a training set, over both of them."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, actions: Tensor) -> "Scale":
        flat = actions.flatten(0, 1)
        return cls(flat.mean(0), flat.std(0))


def fit(samples: Samples, seed: int, steps: int) -> tuple[ACTPolicy, Scale]:
    """Train a policy; gives it with the scale of what it answers."""
    torch.manual_seed(seed)
    policy = words_policy()
    scale = Scale.of(samples.actions)
    actions = (samples.actions - scale.mean) / scale.std
    optimizer = torch.optim.AdamW(policy.parameters(), RATE, weight_decay=1e-4, betas=(0.9, 0.98))
    generator = torch.Generator().manual_seed(seed)
    policy.train()
    for step in range(1, steps + 1):
        now = min(1.0, step / 100) * max(0.01, 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = RATE * now
        rows = samples.rows(BATCH, generator)
        with half(torch.device("cpu")):
            loss, _ = policy.forward(samples.inputs(rows) | {"action": actions[rows]})
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    return policy, scale
