"""lerobot's ACT on Meta-World: what it is trained on in each arm, and how it acts."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from fit import LIVE, Bank, FeaturePass, Scale
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from metaworld_backbone import CHANNELS, SmallReader, features_of
from metaworld_demos import CHUNK, SIZE, TaskDemos
from numpy.typing import NDArray
from pieces import read_state
from scarce_examples import ScarceArm, ScarceExamples
from torch import Tensor, nn

from goalreel.datasets.writing.pipeline import SUBGOAL
from goalreel_lab.metaworld.sim import Action, Observation
from goalreel_lab.metaworld.tasks import tasks
from goalreel_lab.policy.policy_tasks import ENVIRONMENT, STATE

CORNER = "observation.images.corner"
EXECUTED = 5
"""Frames of a chunk that are carried out before the next is asked for."""


def vocabulary_of(training_tasks: Sequence[str]) -> tuple[str, ...]:
    """List the words in which the trained tasks are asked for; no policy knows others."""
    return tuple(
        sorted({word for task in training_tasks for say in tasks()[task].say for word in _words(say)})
    )


def word_vector(task: str, number: int, vocabulary: Sequence[str]) -> NDArray[np.float32]:
    """Say which known words an episode's instruction has; every second one has the other wording."""
    words = set(_words(tasks()[task].say[number % 2]))
    return np.array([word in words for word in vocabulary], np.float32)


def _words(say: str) -> list[str]:
    return re.findall(r"[a-z]+", say)


def chunk_policy(words: int) -> ACTPolicy:
    """Make the one policy of all arms, untrained; it takes features of the backbone."""
    picture = PolicyFeature(FeatureType.VISUAL, (3, SIZE, SIZE))
    config = ACTConfig(
        input_features={
            CORNER: picture,
            SUBGOAL: picture,
            STATE: PolicyFeature(FeatureType.STATE, (4,)),
            ENVIRONMENT: PolicyFeature(FeatureType.ENV, (words,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
        chunk_size=CHUNK,
        n_action_steps=EXECUTED,
        dim_model=128,
        n_heads=4,
        dim_feedforward=256,
        n_encoder_layers=2,
        n_decoder_layers=1,
        pre_norm=True,
        use_vae=False,
        dropout=0.1,
        pretrained_backbone_weights=None,
        device="cpu",
        push_to_hub=False,
    )
    policy = ACTPolicy(config)
    policy.model.backbone = FeaturePass()  # pyrefly: ignore[bad-assignment]  (a layer of another class)
    policy.model.encoder_img_feat_input_proj = nn.Conv2d(CHANNELS, config.dim_model, 1)
    return policy


@dataclass(frozen=True)
class FrameBank:
    """Frames as a policy gets them; those of episodes with words come first."""

    bank: Bank
    states: Tensor
    """(N, 4), about zero mean and unit variance."""
    pads: Tensor
    """(N, CHUNK): actions behind an episode's end."""
    worded: int
    """Frames of episodes with words."""
    state_scale: Scale

    def packed(self) -> dict[str, object]:
        """Give all of it as tensors and a number."""
        samples = {f.name: getattr(self.bank, f.name) for f in fields(Bank)}
        rest = {"states": self.states, "pads": self.pads, "worded": self.worded}
        return {"samples": samples, **rest, "mean": self.state_scale.mean, "std": self.state_scale.std}

    @classmethod
    def unpacked(cls, packed: Mapping[str, Any]) -> Self:
        """Make it of what `packed` gave."""
        scale = Scale(packed["mean"], packed["std"])
        return cls(Bank(**packed["samples"]), packed["states"], packed["pads"], packed["worded"], scale)


def make_bank(
    reader: SmallReader, demos: Sequence[tuple[str, TaskDemos]], worded: int, vocabulary: Sequence[str]
) -> FrameBank:
    """Compute what policies are trained on; `worded` episodes of each task have words."""
    live, goal, words, actions, pads, states, spoken = [], [], [], [], [], [], []
    for task, frames in demos:
        ends = np.unique(frames.last)
        live.append(features_of(reader, frames.pictures, goals=False))
        goal.append(features_of(reader, frames.pictures[ends], goals=True)[frames.episodes])
        words_of = np.stack([word_vector(task, number, vocabulary) for number in range(len(ends))])
        words.append(torch.from_numpy(words_of[frames.episodes]))
        chunks, pad = frames.chunks()
        actions.append(torch.from_numpy(chunks))
        pads.append(torch.from_numpy(pad))
        states.append(torch.from_numpy(frames.states))
        spoken.append(torch.from_numpy(frames.episodes < worded))
    silent = ~torch.cat(spoken)
    order = silent.to(torch.int8).argsort(stable=True)
    all_states = torch.cat(states)
    scale = Scale(all_states.mean(0), all_states.std(0))
    black = features_of(reader, np.zeros((1, SIZE, SIZE, 3), np.uint8), goals=False)[0]
    words_by_frame = torch.cat(words)[order]
    return FrameBank(
        Bank(
            live=torch.cat(live)[order],
            goal=torch.cat(goal)[order],
            black=black,
            sub_tasks=words_by_frame,
            instructions=words_by_frame,
            actions=torch.cat(actions)[order],
        ),
        states=((all_states - scale.mean) / scale.std)[order],
        pads=torch.cat(pads)[order],
        worded=int((~silent).sum()),
        state_scale=scale,
    )


@dataclass(frozen=True)
class FrameExamples(ScarceExamples):
    """Samples for one arm, as on the tabletop: the same words and goals are left out, by the same draws."""

    states: Tensor
    pads: Tensor

    @classmethod
    def of(cls, frames: FrameBank, arm: ScarceArm) -> Self:
        return cls(frames.bank, arm, frames.worded, frames.states, frames.pads)

    def inputs(self, rows: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """Add the robot's state, and which actions lie behind an episode's end."""
        inputs = super().inputs(rows, generator)
        inputs[CORNER] = inputs.pop(LIVE)
        return inputs | {STATE: self.states[rows], "action_is_pad": self.pads[rows]}


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy with what it needs to act."""

    policy: ACTPolicy
    actions: Scale
    states: Scale
    black: Tensor

    def packed(self) -> dict[str, object]:
        """Give all of it as tensors."""
        scales = {"actions": self.actions, "states": self.states}
        flat = {f"{name}_{part}": getattr(s, part) for name, s in scales.items() for part in ("mean", "std")}
        return {"policy": self.policy.state_dict(), "black": self.black, **flat}


def read_policy(path: Path, words: int) -> TrainedPolicy:
    """Read a policy from the tensors that `packed` gave."""
    packed = read_state(path)
    policy = chunk_policy(words)
    policy.load_state_dict(packed["policy"])
    actions, states = (Scale(packed[f"{name}_mean"], packed[f"{name}_std"]) for name in ("actions", "states"))
    return TrainedPolicy(policy.eval(), actions, states, packed["black"])


class MetaWorldActor:
    """Acts for one episode: it asks the policy for a chunk, and carries out EXECUTED frames of it."""

    def __init__(
        self,
        trained: TrainedPolicy,
        reader: SmallReader,
        words: NDArray[np.float32],
        goal: NDArray[np.uint8] | None,
    ) -> None:
        self._trained, self._reader = trained, reader
        self._words = torch.from_numpy(words)[None]
        seen = trained.black[None] if goal is None else features_of(reader, goal[None], goals=True)
        self._goal = seen.float()
        self._queue: list[Action] = []

    def __call__(self, observation: Observation, look: Callable[[], NDArray[np.uint8]]) -> Action:
        """Choose the next action."""
        if not self._queue:
            self._queue = self._chunk(observation, look())
        return self._queue.pop(0)

    def _chunk(self, observation: Observation, picture: NDArray[np.uint8]) -> list[Action]:
        states, actions = self._trained.states, self._trained.actions
        state = torch.from_numpy(observation[:4].astype(np.float32))
        chunk = self._trained.policy.predict_action_chunk(
            {
                CORNER: features_of(self._reader, picture[None], goals=False).float(),
                SUBGOAL: self._goal,
                STATE: ((state - states.mean) / states.std)[None],
                ENVIRONMENT: self._words,
            }
        )[0, :EXECUTED]
        return list((chunk * actions.std + actions.mean).double().numpy())
