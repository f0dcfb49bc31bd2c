"""The pieces of a policy study, each short and kept: demonstrations, backbone, features, jobs side by side.

A piece that is there is not made again, so a command goes on where it was killed.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import demos
import numpy as np
import torch
from backbone import Reader, batches, loss_of, off_by, train
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from fit import Bank, Pictures, TrainedArm, TrainingExamples, bank, fit, home, misses, save

from goalreel.checkpoints import located
from goalreel.errors import InputError
from goalreel.files import write_bytes
from goalreel.progress import OnProgress
from goalreel.tabletop.splits import seeds
from goalreel.training.loading import half
from goalreel_lab.nano.editor import latent_means

BATCH, RATE = 64, 1.5e-3
"""Rows and learning rate of a step of the backbone."""
KEEP_EVERY = 50
"""Steps of the backbone between two checkpoints."""
PICTURES, FORMS = 128, {"plain": False, "bordered": True}
"""Unseen pictures that the backbone is measured on, and whether they are shown as goals."""
TRAINING_BANK, CHECK_BANK = "bank", "validation_bank"
type StudyJob = Callable[[], None]


def prepare(
    out: Path, scenes: int, checks: int, backbone_steps: int, pool: Executor, progress: OnProgress
) -> None:
    """Make demonstrations, backbone and features.

    Raises:
        InputError: `out` has those of other settings.
    """
    settle(out, {"scenes": scenes, "checks": checks, "backbone_steps": backbone_steps})
    paths = demos.make(out / "demos", seeds("train", scenes), pool, progress)
    validation = demos.make(out / "validation", seeds("validation", checks), pool, progress)
    _backbone(out / "backbone.pt", paths, validation, backbone_steps, progress)
    features: list[StudyJob] = [partial(_features, out, TRAINING_BANK, path, 0.5) for path in paths]
    features += [partial(_features, out, CHECK_BANK, path, 0.0) for path in validation]
    run_jobs(pool, features, "features", progress)


def settle(out: Path, settings: Mapping[str, object]) -> None:
    """Refuse a folder whose demonstrations or backbone are of other settings: they would pass for these."""
    path = out / "settings.json"
    if path.exists() and (earlier_settings := json.loads(path.read_text())) != settings:
        differences = ", ".join(
            f"{key} {earlier_settings.get(key)}"
            for key in settings
            if earlier_settings.get(key) != settings[key]
        )
        raise InputError(f"{out} was made with {differences}: choose another --out")
    write_bytes(path, json.dumps(settings).encode())


def run_jobs(pool: Executor, jobs: Sequence[StudyJob], stage: str, progress: OnProgress) -> None:
    """Run jobs side by side, the first of them first."""
    for done, job in enumerate(as_completed([pool.submit(job) for job in jobs]), 1):
        job.result()
        progress(stage, done, len(jobs))


def save_state(path: Path, value: object) -> None:
    """Write a file of tensors, whole or not at all."""
    packed = io.BytesIO()
    torch.save(value, packed)
    write_bytes(path, packed.getvalue())


def read_state(path: Path) -> dict[str, Any]:
    """Read what `save_state` wrote: tensors, numbers and words alone."""
    return torch.load(path, map_location="cpu", weights_only=True)


def _backbone(
    path: Path, parts: Sequence[Path], validation: Sequence[Path], steps: int, progress: OnProgress
) -> None:
    """Train it; how far it reads blocks from where they stand on unseen scenes lies beside it, in cm."""
    torch.manual_seed(0)
    checkpoint = read_state(path) if path.exists() else None
    if checkpoint is None or checkpoint["done"] < steps:
        draw = partial(batches, demos.read(parts), BATCH)
        for done, _, state in train(Reader(), draw, loss_of, steps, RATE, checkpoint):
            if done % KEEP_EVERY == 0 or done == steps:
                save_state(path, state)
            progress("backbone", done, steps)
    result = path.with_suffix(".json")
    if not result.exists():
        unseen = demos.read(validation)
        rows = np.arange(0, len(unseen.pictures), max(1, len(unseen.pictures) // PICTURES))[:PICTURES]
        reader = read_backbone(path.parent)
        off = {
            name: 100 * float(np.median(off_by(reader, unseen, rows, goals))) for name, goals in FORMS.items()
        }
        write_bytes(result, json.dumps(off).encode())


def read_backbone(out: Path) -> Reader:
    """Read the backbone that `prepare` trained in `out`."""
    reader = Reader()
    reader.load_state_dict(read_state(out / "backbone.pt")["reader"])
    return reader


def _features(out: Path, name: str, part: Path, drawn: float) -> None:
    path = out / name / f"{part.stem}.pt"
    if not path.exists():
        torch.set_num_threads(1)
        features = bank(read_backbone(out), demos.read([part]), round_trip(), int(part.stem), drawn)
        save_state(path, {f.name: getattr(features, f.name) for f in fields(features)})


def read_bank(folder: Path) -> Bank:
    """Read the features of all parts in a folder, in the order of the scenes."""
    parts = sorted(folder.glob("*.pt"))
    return Bank.join([Bank(**read_state(part)) for part in parts])


def round_trip() -> Callable[[Pictures], Pictures]:
    """Load the shipped editor's VAE, and make a function that encodes pictures and decodes them again."""
    vae: Any = AutoencoderKL.from_pretrained(located("nano-editor"), subfolder="vae").eval()

    @torch.no_grad()
    def again(pictures: Pictures) -> Pictures:
        with half(torch.device("cpu")):
            means = latent_means(vae, torch.from_numpy(pictures).permute(0, 3, 1, 2))
            decoded = vae.decode(means, return_dict=False)[0]
        pixels = ((decoded.float() + 1) * 127.5).round().clamp(0, 255).byte()
        return pixels.permute(0, 2, 3, 1).numpy()

    return again


POLICY_BATCH, POLICY_RATE, POLICY_KEEP_EVERY = 128, 1e-3, 100
"""Samples and learning rate of a step of a policy, and steps between two checkpoints."""
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
    for step, loss, policy, scale, new_state in fit(lessons, seed, steps, POLICY_BATCH, POLICY_RATE, state):
        if step % max(1, steps // 10) == 0 or step == steps:
            curve.append({"step": step, "loss": loss, **misses(policy, scale, checks, cues)})
        if step % POLICY_KEEP_EVERY == 0 and step < steps:
            save_state(path, new_state | {"curve": curve})
        if step == steps:
            save(policy, scale, read_backbone(out), home(), folder)
    write_bytes(folder / CURVE, json.dumps({"samples": lessons.first, "curve": curve}).encode())
    path.unlink(missing_ok=True)
