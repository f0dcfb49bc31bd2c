"""The pieces of the study on Meta-World, each short and kept, from recordings to tries.

A piece that is there is not made again, so a command goes on where it was killed.
"""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from fit import fit
from metaworld_backbone import SmallReader, draw_batches, misses_of, places_loss
from metaworld_costs import note_cost
from metaworld_demos import SIZE, read_demos, read_goals, record_demos, record_goals
from metaworld_policy import (
    FrameBank,
    FrameExamples,
    MetaWorldActor,
    TrainedPolicy,
    chunk_policy,
    make_bank,
    read_policy,
    vocabulary_of,
    word_vector,
)
from pieces import BATCH, read_state, save_state, train_backbone
from scarce_examples import ScarceArm

from goalreel.files import write_bytes
from goalreel.progress import OnProgress
from goalreel_lab.metaworld.sim import Workbench

ARMS: dict[str, ScarceArm] = {"g": "goals", "a1_mix": "mix", "a1_n": "worded"}
POLICY_BATCH, POLICY_RATE, KEEP_EVERY = 64, 1e-3, 100
LONGEST = 250
"""Frames of a try: 500 control steps, Meta-World's own bound."""


@dataclass(frozen=True)
class Study:
    """A study's trained pieces, and their folder."""

    out: Path
    training_tasks: tuple[str, ...]
    heldout_tasks: tuple[str, ...]
    episodes: int
    worded: int
    positions: int
    backbone_steps: int
    steps: int

    def demos(self, task: str) -> Path:
        return self.out / "demos" / f"{task}.npz"

    def goals(self, task: str) -> Path:
        return self.out / "goals" / f"{self.positions}-{task}.npz"

    @property
    def backbone(self) -> Path:
        return self.out / f"backbone-{self.backbone_steps}.pt"

    @property
    def bank(self) -> Path:
        return self.out / f"bank-{self.worded}-{self.backbone_steps}.pt"

    def policy(self, arm: str, seed: int) -> Path:
        return self.out / "policies" / f"{arm}-{self.worded}-{seed}-{self.steps}-{self.backbone_steps}"

    def tries(self, arm: str, seed: int, task: str) -> Path:
        return self.policy(arm, seed) / f"tries-{self.positions}" / f"{task}.json"


def record_training(study: Study, task: str) -> None:
    """Record a task's demonstrations, unless they are there."""
    if not study.demos(task).exists():
        with note_cost(study.out, "demonstrations", task) as cost:
            record_demos(study.demos(task), task, study.episodes)
            cost.units = study.episodes


def record_test(study: Study, task: str) -> None:
    """Record a task's unseen positions, unless they are there."""
    if not study.goals(task).exists():
        with note_cost(study.out, "goals", task) as cost:
            record_goals(study.goals(task), task, study.positions)
            cost.units = study.positions


def make_backbone(study: Study, progress: OnProgress) -> None:
    """Train the backbone, from where its training stands."""
    if study.backbone.exists() and read_state(study.backbone)["done"] >= study.backbone_steps:
        return
    torch.set_num_threads(1)
    paths = [study.demos(task) for task in study.training_tasks]
    with note_cost(study.out, "backbone", str(study.backbone_steps)) as cost:

        def count(stage: str, done: int, total: int) -> None:
            cost.units += 1
            progress(stage, done, total)

        train_backbone(
            study.backbone,
            partial(SmallReader, len(paths)),
            partial(draw_batches, paths, BATCH),
            places_loss,
            study.backbone_steps,
            count,
        )


def read_reader(study: Study) -> SmallReader:
    """Read the backbone of a study."""
    reader = SmallReader(len(study.training_tasks))
    reader.load_state_dict(read_state(study.backbone)["reader"])
    return reader.eval()


def compute_bank(study: Study) -> None:
    """Compute what policies are trained on; how far the backbone reads things off lies beside it, in cm."""
    if study.bank.exists():
        return
    torch.set_num_threads(1)
    with note_cost(study.out, "features", study.bank.stem) as cost:
        reader = read_reader(study)
        demos = [(task, read_demos(study.demos(task))) for task in study.training_tasks]
        save_state(
            study.bank, make_bank(reader, demos, study.worded, vocabulary_of(study.training_tasks)).packed()
        )
        cost.units = study.episodes * len(study.training_tasks)
    off = misses_of(reader, [study.demos(task) for task in study.training_tasks], every=20)
    write_bytes(study.backbone.with_suffix(".json"), json.dumps(off).encode())


def train_on_frames(study: Study, arm: str, seed: int) -> None:
    """Train one policy, from where its training stands."""
    folder = study.policy(arm, seed)
    done_path, path = folder / "policy.pt", folder / "training.pt"
    if done_path.exists():
        return
    torch.set_num_threads(1)
    frames = FrameBank.unpacked(read_state(study.bank))
    make = partial(chunk_policy, len(vocabulary_of(study.training_tasks)))
    state = read_state(path) if path.exists() else None
    lessons = FrameExamples.of(frames, ARMS[arm])
    losses: list[float] = []
    with note_cost(study.out, "policies", folder.name) as cost:
        for step, loss, policy, scale, new in fit(
            lessons, seed, study.steps, POLICY_BATCH, POLICY_RATE, state, make
        ):
            cost.units += 1
            losses.append(loss)
            if step % KEEP_EVERY == 0 and step < study.steps:
                save_state(path, new)
            if step == study.steps:
                trained = TrainedPolicy(policy, scale, frames.state_scale, frames.bank.black)
                save_state(done_path, trained.packed())
    write_bytes(folder / "loss.json", json.dumps(float(np.mean(losses[-100:]))).encode())
    path.unlink(missing_ok=True)


def try_task(study: Study, arm: str, seed: int, task: str) -> None:
    """Let a policy try the unseen positions of a task; which it solves is written when all are tried."""
    path = study.tries(arm, seed, task)
    if path.exists():
        return
    torch.set_num_threads(1)
    vocabulary = vocabulary_of(study.training_tasks)
    goals, reader = read_goals(study.goals(task)), read_reader(study)
    trained = read_policy(study.policy(arm, seed) / "policy.pt", len(vocabulary))
    with note_cost(study.out, "tries", f"{study.policy(arm, seed).name}-{task}") as cost:
        bench = Workbench(task, SIZE)
        successes = {}
        for position, picture in zip(goals.positions.tolist(), goals.pictures, strict=True):
            goal = picture if ARMS[arm] == "goals" else None
            actor = MetaWorldActor(trained, reader, word_vector(task, position, vocabulary), goal)
            successes[position] = bench.attempt(position, actor, LONGEST)
            cost.units += 1
    write_bytes(path, json.dumps(successes).encode())
