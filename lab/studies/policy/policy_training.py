"""One policy of a study, trained in pieces: a killed training goes on where it stood."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from fit import Bank, TrainedArm, TrainingExamples, fit, home, misses, save
from pieces import CHECK_BANK, TRAINING_BANK, read_backbone, read_bank, read_state, save_state

from goalreel.files import write_bytes

BATCH, RATE = 128, 1e-3
KEEP_EVERY = 100
"""Steps between two checkpoints."""
STATE, CURVE = "training.pt", "curve.json"
"""Beside a policy: where its training stands, and, written last, how it went."""


def train_policy(
    out: Path,
    folder: Path,
    lessons_of: Callable[[Bank], TrainingExamples],
    cues: TrainedArm,
    seed: int,
    steps: int,
) -> None:
    """Train one policy on the features in `out`, and write it to `folder`.

    Its curve of misses on validation scenes lies beside it; there it is shown what `cues` says.
    """
    if (folder / CURVE).exists():
        return
    torch.set_num_threads(1)
    lessons, checks = lessons_of(read_bank(out / TRAINING_BANK)), read_bank(out / CHECK_BANK)
    path = folder / STATE
    state = read_state(path) if path.exists() else None
    curve = [] if state is None else state["curve"]
    for step, loss, policy, scale, new_state in fit(lessons, seed, steps, BATCH, RATE, state):
        if step % max(1, steps // 10) == 0 or step == steps:
            curve.append({"step": step, "loss": loss, **misses(policy, scale, checks, cues)})
        if step % KEEP_EVERY == 0 and step < steps:
            save_state(path, new_state | {"curve": curve})
        if step == steps:
            save(policy, scale, read_backbone(out), home(), folder)
    write_bytes(folder / CURVE, json.dumps({"samples": lessons.first, "curve": curve}).encode())
    path.unlink(missing_ok=True)
