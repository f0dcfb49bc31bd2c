"""Who acts on the simulated tabletop: small untrained ACT policies, saved as checkpoints, and scripts."""

from pathlib import Path

import numpy as np
import torch
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors

from goalreel_lab.policy.policy_tasks import WORDS, key_poses
from goalreel_lab.policy.rollout import Acts
from support.act_policy import act_config


class Expert:
    """Acts by the truth; what it is told it does not hear."""

    acts: Acts = "key_poses"

    def __init__(self, goals):
        self._goals, self._poses = goals, []

    def reset(self):
        self._poses = []

    def act(self, env, cue):
        if not self._poses:
            self._poses = list(key_poses(env, next(g for g in self._goals if not env.holds(g))))
        return self._poses.pop(0)


class Clumsy(Expert):
    """The expert, who lets go where it took hold."""

    def act(self, env, cue):
        if not self._poses:
            taken = key_poses(env, self._goals[0])[0]
            self._poses = [taken, np.array([*taken[:5], 1], np.float32)]
        return self._poses.pop(0)


def key_pose_policy(
    folder: Path,
    *,
    action: int = 6,
    chunk: int = 2,
    camera: str = "front",
    goals: bool = True,
    size: tuple[int, int] = (64, 64),
    state: int = 12,
    broken: bool = False,
) -> None:
    """Save one that predicts two key poses at once; `broken` ones answer NaN."""
    torch.manual_seed(0)
    cameras = [camera, "subgoal"] if goals else [camera]
    pictures = {f"observation.images.{c}": (3, *size) for c in cameras}
    numbers = {"observation.state": state, "observation.environment_state": WORDS}
    sizes = {"dim_model": 32, "dim_feedforward": 32, "chunk_size": chunk, "n_action_steps": chunk}
    config = act_config(pictures, numbers, action, **sizes)
    policy = ACTPolicy(config).eval()
    if broken:
        torch.nn.init.constant_(policy.model.action_head.bias, float("nan"))
    stats = {
        **{key: {"mean": torch.full((3, 1, 1), 0.5), "std": torch.full((3, 1, 1), 0.25)} for key in pictures},
        "observation.state": {"mean": torch.zeros(state), "std": torch.ones(state)},
        "action": {"mean": torch.zeros(action), "std": torch.ones(action)},
    }
    for part in (policy, *make_pre_post_processors(config, dataset_stats=stats)):
        part.save_pretrained(folder)


def step_policy(folder: Path) -> None:
    """Save one whose actions are control steps, as `goalreel tabletop record` has them."""
    key_pose_policy(folder, action=5, chunk=1)
