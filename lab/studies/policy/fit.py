"""Stock ACT from lerobot on demonstrations, an arm at a time, over features of the frozen backbone.

Features are computed once; the policy that is saved has the backbone in it and is lerobot's own, loaded by
`from_pretrained` like any other.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np
import torch
from backbone import MEAN, STD, Reader, as_input, device, resnet, worn
from demos import CAMERA, SIZE, Demos
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors
from numpy.typing import NDArray
from torch import Tensor, nn
from torchvision.ops.misc import FrozenBatchNorm2d

from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel.subgoal_camera import in_form
from goalreel.tabletop.env import STATE_NAMES, Tabletop
from goalreel.tabletop.grammar import sample_episode
from goalreel.training.loading import half
from goalreel_lab.policy.policy_tasks import ENVIRONMENT, IMAGES, KEY_POSE_NAMES, STATE, WORDS

type Pictures = NDArray[np.uint8]
"""(B, H, W, 3) RGB."""
type TrainedArm = Literal["instruction", "text", "picture"]
ARMS: tuple[TrainedArm, ...] = get_args(TrainedArm.__value__)
"""Cue of a policy about its sub-goal: the whole instruction in words; the present sub-task in words; that
and the goal image, where now and then one of the two is missing."""
MISSING = torch.tensor([0.5, 0.15])
"""Shares of the samples of `picture` without words, without a picture: so it leans on neither alone."""
BATCH = 64
"""Pictures whose features are computed at once."""
LIVE = f"{IMAGES}{CAMERA}"
PICK_NEAR, PLACE_NEAR = 0.012, 0.025
"""Near enough to succeed, m: for the fingers to close on a block, and for one to stand where it should."""


@dataclass(frozen=True)
class Bank:
    """Samples as a policy gets them, their pictures as features (512, 4, 4) in float16."""

    live: Tensor
    goal: Tensor
    black: Tensor
    """(512, 4, 4): of no goal."""
    sub_tasks: Tensor
    instructions: Tensor
    actions: Tensor

    def __len__(self) -> int:
        return len(self.live)

    @classmethod
    def join(cls, parts: "Sequence[Bank]") -> "Bank":
        """Join samples whose features are of the same backbone."""
        joined = {
            f.name: torch.cat([getattr(p, f.name) for p in parts]) for f in fields(cls) if f.name != "black"
        }
        return cls(**joined, black=parts[0].black)


@torch.inference_mode()
def bank(
    reader: Reader, demos: Demos, redraw: Callable[[Pictures], Pictures], seed: int, drawn: float = 0.5
) -> Bank:
    """Compute the features of all samples, camera and goal image worn differently.

    A share `drawn` of the goal images is as an editor's VAE gives them back (`redraw`), for predicted ones
    look so.
    """
    target_device = device()
    reader.eval().to(target_device)
    rng = np.random.default_rng(seed)

    def seen(pictures: Pictures) -> Tensor:
        with half(target_device):
            return reader.backbone(as_input(pictures).to(target_device))["feature_map"].half().cpu()

    live, goal = [], []
    for start in range(0, len(demos.live), BATCH):
        now = demos.pictures[demos.live[start : start + BATCH]]
        goal_pictures = demos.pictures[demos.goal[start : start + BATCH]]
        redrawn = rng.random(len(goal_pictures)) < drawn
        if redrawn.any():
            goal_pictures[redrawn] = redraw(goal_pictures[redrawn])
        live.append(seen(np.stack([worn(rng, p) for p in now])))
        goal.append(seen(np.stack([in_form("bordered", worn(rng, p)) for p in goal_pictures])))
    black = seen(np.zeros((1, SIZE, SIZE, 3), np.uint8))[0]
    tensors = (torch.from_numpy(w) for w in (demos.sub_tasks, demos.instructions, demos.actions))
    return Bank(torch.cat(live), torch.cat(goal), black, *tensors)


class FeaturePass(nn.Module):
    """Stands for the backbone where features are at hand."""

    def forward(self, features: Tensor) -> dict[str, Tensor]:
        return {"feature_map": features}


def config() -> ACTConfig:
    """Describe the one policy of all arms."""
    picture = PolicyFeature(FeatureType.VISUAL, (3, SIZE, SIZE))
    return ACTConfig(
        input_features={
            LIVE: picture,
            SUBGOAL: picture,
            STATE: PolicyFeature(FeatureType.STATE, (len(STATE_NAMES),)),
            ENVIRONMENT: PolicyFeature(FeatureType.ENV, (WORDS,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (len(KEY_POSE_NAMES),))},
        chunk_size=2,
        n_action_steps=2,
        dim_model=128,
        n_heads=4,
        dim_feedforward=512,
        n_encoder_layers=2,
        n_decoder_layers=2,
        pre_norm=True,
        use_vae=False,
        dropout=0.0,
        pretrained_backbone_weights=None,
        device="cpu",
        push_to_hub=False,
    )


def key_pose_policy() -> ACTPolicy:
    """Make an untrained policy that takes features."""
    policy = ACTPolicy(config())
    policy.model.backbone = FeaturePass()  # pyrefly: ignore[bad-assignment]  (a layer of another class)
    return policy


def batch_of(
    data: Bank, rows: Tensor, arm: TrainedArm, generator: torch.Generator | None
) -> dict[str, Tensor]:
    """Make what the policy gets of samples; without a generator nothing is left out."""
    count = len(rows)
    goal = data.black.expand(count, -1, -1, -1)
    vector = data.instructions[rows] if arm == "instruction" else data.sub_tasks[rows]
    if arm == "picture":
        goal = data.goal[rows]
        if generator is not None:
            silent, blind = torch.rand(2, count, generator=generator) < MISSING[:, None]
            vector = torch.where((silent & ~blind)[:, None], 0.0, vector)
            goal = torch.where(blind[:, None, None, None], data.black, goal)
    return {
        LIVE: data.live[rows].float(),
        SUBGOAL: goal.float(),
        STATE: torch.zeros(count, len(STATE_NAMES)),
        ENVIRONMENT: vector,
    }


@dataclass(frozen=True)
class Scale:
    """Mean and spread of the key poses (2, 6) of a training set, over both of them."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, actions: Tensor) -> "Scale":
        flat = actions.flatten(0, 1)
        return cls(flat.mean(0), flat.std(0))


class TrainingExamples(Protocol):
    """Training examples of a policy."""

    @property
    def data(self) -> Bank: ...

    @property
    def first(self) -> int:
        """Say how many samples are seen: the first of `data`."""
        ...

    def rows(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw samples of a batch, (count,)."""
        ...

    def inputs(self, rows: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """Make what the policy gets of them; `action_is_pad` where actions are missing at an end."""
        ...


@dataclass(frozen=True)
class StudyExamples:
    """The first `first` samples for one arm of the first study."""

    data: Bank
    arm: TrainedArm
    first: int

    def rows(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw samples, all equally often."""
        return torch.randint(self.first, (count,), generator=generator)

    def inputs(self, rows: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """Leave out words or goals as MISSING says."""
        return batch_of(self.data, rows, self.arm, generator)


def fit(
    lessons: TrainingExamples,
    seed: int,
    steps: int,
    batch: int,
    rate: float,
    state: dict[str, Any] | None = None,
    make: Callable[[], ACTPolicy] = key_pose_policy,
) -> Iterator[tuple[int, float, ACTPolicy, Scale, dict[str, Any]]]:
    """Train; (steps done, loss, policy, scale, state to go on from) after every step.

    The policy that is made takes features; `save` gives it the real backbone. A state of a training of
    another length is not gone on from: its rate has fallen by another curve.
    """
    torch.manual_seed(seed)
    target_device = device()
    policy = make()
    data = lessons.data
    scale = Scale.of(data.actions[: lessons.first])
    actions = (data.actions - scale.mean) / scale.std
    policy.to(target_device)
    optimizer = torch.optim.AdamW(policy.parameters(), rate, weight_decay=1e-4, betas=(0.9, 0.98))
    generator = torch.Generator().manual_seed(seed)
    done = 0
    if state is not None and state["steps"] == steps:
        policy.load_state_dict(state["policy"])
        optimizer.load_state_dict(state["optimizer"])
        generator.set_state(state["generator"])
        done = state["done"]
    shorter = half(target_device)
    whole = {"action_is_pad": torch.zeros(batch, data.actions.shape[1], dtype=torch.bool)}
    for step in range(done + 1, steps + 1):
        now = min(1.0, step / 100) * max(0.01, 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = rate * now
        rows = lessons.rows(batch, generator)
        inputs = whole | lessons.inputs(rows, generator) | {"action": actions[rows]}
        policy.train()
        with shorter:
            loss, _ = policy.forward({key: value.to(target_device) for key, value in inputs.items()})
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        yield (
            step,
            loss.item(),
            policy,
            scale,
            {
                "policy": policy.state_dict(),
                "optimizer": optimizer.state_dict(),
                "generator": generator.get_state(),
                "done": step,
                "steps": steps,
            },
        )


@torch.inference_mode()
def misses(policy: ACTPolicy, scale: Scale, data: Bank, arm: TrainedArm) -> dict[str, float]:
    """Measure how far key poses are from the expert's: medians in cm, and shares near enough to succeed."""
    policy.eval()
    batches = torch.arange(len(data)).split(256)
    target_device = next(policy.parameters()).device
    predictions = torch.cat(
        [
            policy.predict_action_chunk(
                {k: v.to(target_device) for k, v in batch_of(data, rows, arm, None).items()}
            )
            for rows in batches
        ]
    ).cpu()
    away = ((predictions * scale.std + scale.mean) - data.actions)[..., :2].norm(dim=-1)
    pick, place = away.T
    return {
        "pick_cm": 100 * float(pick.median()),
        "place_cm": 100 * float(place.median()),
        "pick_near": float((pick < PICK_NEAR).float().mean()),
        "place_near": float((place < PLACE_NEAR).float().mean()),
    }


def home() -> NDArray[np.float32]:
    """Observe the robot's state (12,) at home, where every decision is taken."""
    with Tabletop(sample_episode(0).scene) as env:
        return env.observation()


def save(policy: ACTPolicy, scale: Scale, reader: Reader, state: NDArray[np.float32], out: Path) -> None:
    """Write a checkpoint that lerobot loads: the policy with its backbone, and its processors."""
    backbone = resnet(FrozenBatchNorm2d)
    backbone.load_state_dict(reader.backbone.state_dict())
    policy.model.backbone = backbone
    policy.eval().cpu()
    picture = {"mean": torch.full((3, 1, 1), MEAN), "std": torch.full((3, 1, 1), STD)}
    rest = {"mean": torch.from_numpy(state), "std": torch.ones(len(state))}
    stats = {LIVE: picture, SUBGOAL: picture, STATE: rest, "action": {"mean": scale.mean, "std": scale.std}}
    preprocess, postprocess = make_pre_post_processors(policy.config, dataset_stats=stats)
    for part in (policy, preprocess, postprocess):
        part.save_pretrained(out)
