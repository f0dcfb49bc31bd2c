"""Stock LeRobot policies of a few thousand parameters, with random weights, in lerobot's own classes."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:  # they load for two seconds, in each worker that collects
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.pretrained import PreTrainedPolicy

POLICIES = ("act", "diffusion", "smolvla")
LIVE, GOAL = "observation.images.front", "observation.images.subgoal"
_HERE: dict[str, Any] = {"device": "cpu", "push_to_hub": False}


def tiny(name: str, vlm: Path | None = None) -> "PreTrainedConfig":
    """A policy's configuration, without features; `vlm` is SmolVLA's folder, as `tiny_smolvlm` writes it."""
    if name == "act":
        from lerobot.policies.act.configuration_act import ACTConfig

        return ACTConfig(
            chunk_size=4,
            n_action_steps=4,
            pretrained_backbone_weights=None,
            dim_model=16,
            n_heads=2,
            dim_feedforward=16,
            n_encoder_layers=1,
            latent_dim=4,
            n_vae_encoder_layers=1,
            **_HERE,
        )
    if name == "diffusion":
        from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig

        return DiffusionConfig(
            horizon=8,
            n_action_steps=4,
            crop_shape=None,
            resize_shape=None,
            pretrained_backbone_weights=None,
            down_dims=(16, 32),
            n_groups=4,
            spatial_softmax_num_keypoints=4,
            diffusion_step_embed_dim=8,
            num_train_timesteps=4,
            **_HERE,
        )
    if name == "pi05":
        from lerobot.policies.pi05.configuration_pi05 import PI05Config

        return PI05Config(chunk_size=4, n_action_steps=4, tokenizer_max_length=32, **_HERE)
    from lerobot.policies.smolvla.configuration_smolvla import SmolVLAConfig

    return SmolVLAConfig(
        chunk_size=4,
        n_action_steps=4,
        vlm_model_name=str(vlm),
        num_vlm_layers=2,
        num_steps=2,
        resize_imgs_with_padding=(64, 64),
        **_HERE,
    )


def make(name: str, size: tuple[int, int], vlm: Path | None = None) -> "PreTrainedPolicy":
    """A policy that sees a live and a goal camera of `size` (width, height), and a state of two joints."""
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.factory import get_policy_class

    torch.manual_seed(0)
    picture = PolicyFeature(FeatureType.VISUAL, (3, size[1], size[0]))
    state = PolicyFeature(FeatureType.STATE, (2,))
    config = tiny(name, vlm)
    config.input_features = {LIVE: picture, GOAL: picture, "observation.state": state}
    config.output_features = {"action": PolicyFeature(FeatureType.ACTION, (2,))}
    config.validate_features()
    return get_policy_class(name)(config).eval()


def checkpoint(folder: Path, kind: str, cameras: Sequence[str], **renamed: str) -> Path:
    """Configuration and preprocessor of a policy that was trained on `cameras`, as lerobot saves them."""
    import lerobot.policies
    from lerobot.configs import PreTrainedConfig
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.processor import PolicyProcessorPipeline, RenameObservationsProcessorStep

    assert lerobot.policies  # it registers them
    config = PreTrainedConfig.get_choice_class(kind)(device="cpu", push_to_hub=False)
    keys = [camera if "." in camera else f"observation.images.{camera}" for camera in cameras]
    config.input_features = {key: PolicyFeature(FeatureType.VISUAL, (3, 48, 48)) for key in keys}
    config.input_features["observation.state"] = PolicyFeature(FeatureType.STATE, (4,))
    config.output_features = {"action": PolicyFeature(FeatureType.ACTION, (4,))}
    folder.mkdir()
    config._save_pretrained(folder)
    steps = [RenameObservationsProcessorStep({f"observation.images.{k}": v for k, v in renamed.items()})]
    PolicyProcessorPipeline(steps, name="policy_preprocessor").save_pretrained(folder)
    return folder


TINY_PI05 = """
from lerobot.policies.pi05 import modeling_pi05 as pi05
whole = pi05.PaliGemmaForConditionalGenerationWithPiGemma
def tiny(config):
    vision = config.vision_config
    vision.hidden_size = vision.intermediate_size = 16
    vision.num_hidden_layers, vision.num_attention_heads = 1, 2
    vision.projection_dim = config.text_config.hidden_size
    return whole(config)
pi05.PaliGemmaForConditionalGenerationWithPiGemma = tiny
sizes = dict(width=16, depth=1, mlp_dim=16, num_heads=8, num_kv_heads=1, head_dim=8)
pi05.get_gemma_config = lambda _: pi05.GemmaConfig(**sizes)
"""
"""The sizes that no option of pi0.5 changes: 1.9 billion weights at least, 0.4 of them the vision tower's."""


def train(*runs: Sequence[object], before: str = "", cwd: Path | None = None) -> str:
    """Run `lerobot-train` with each of the arguments in one process, for one step; return the log.

    `before` is run first, and names on the Hub are looked for in `cwd`.
    """
    always = "--policy.device=cpu --policy.push_to_hub=false --steps=1 --batch_size=2 --num_workers=0"
    words = [["lerobot-train", *always.split(), *map(str, run)] for run in runs]
    code = f"import json, sys\n{before}\nfrom lerobot.scripts.lerobot_train import main\n"
    code += "for sys.argv in json.loads(sys.argv[1]):\n    main()"
    command = [sys.executable, "-c", code, json.dumps(words)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("End of training") == len(runs)
    return done.stderr + done.stdout


def flags(config: object) -> list[str]:
    """The options of `lerobot-train` that make a configuration."""
    usual = vars(type(config)(device="cpu", push_to_hub=False))
    changed = {key: value for key, value in vars(config).items() if value != usual[key]}
    changed = {key: list(value) if isinstance(value, tuple) else value for key, value in changed.items()}
    words = (
        f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in changed.items()
    )
    return [f"--policy.type={config.type}", *(f"--policy.{word}" for word in words)]
