"""Which class the nano editor should have: FLUX.2-klein's (transformer, flow matching) or InstructPix2Pix's
(UNet, diffusion). Both train for the same time on the same rows with the shipped VAE, and are scored on
validation episodes as `goalreel eval tabletop` scores an editor.

OMP_NUM_THREADS=1 python benchmarks/nano_classes.py --minutes 15 --json
"""

import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("MUJOCO_GL", "egl")

import torch
import typer

from goalreel.checkpoints import NANO
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.tabletop.bench.asking import in_batches
from goalreel.tabletop.bench.edit import EditCase, edit_cases
from goalreel.tabletop.bench.scenes import walk
from goalreel.tabletop.bench.words import prompt_of
from goalreel.tabletop.lessons.edits import edit_rows
from goalreel.tabletop.nano.editor import NanoEditor
from goalreel.tabletop.nano.editor_config import EditorConfig
from goalreel.tabletop.nano.editor_data import Edits, latents, read_edits
from goalreel.tabletop.nano.editor_training import CLASSES, batches
from goalreel.tabletop.sim.splits import seeds
from goalreel.training.compiling import compile_parts
from goalreel.training.config import read_config
from goalreel.training.training_loop import Batch, MakeBatch, fit
from goalreel.types import Editor

TIMED = 12
"""Steps of a run that tells how many fit into the time; the first half of them only warms up."""
CONFIGS = [read_config(name, EditorConfig) for name in ("nano-editor-klein", "nano-editor")]


@dataclass(frozen=True)
class Score:
    parameters: float
    """Of the denoiser, millions."""
    steps: int
    minutes: float
    """That they took."""
    right: float
    """Share of explicit edits: the sub-goal is reached, everything else untouched."""
    reached: float
    edits: int
    seconds: float
    """An edit, alone."""


def main(
    minutes: Annotated[float, typer.Option(min=0.01, help="Of training, each.")] = 15,
    train: Annotated[int, typer.Option(min=1, help="Training episodes, rendered first.")] = 2000,
    episodes: Annotated[int, typer.Option(min=1, help="Validation episodes.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
) -> None:
    size = CONFIGS[0].shape.size
    edits = read_edits(edit_rows(seeds("train", train), size), size)
    asked = edit_cases(walk(seed) for seed in seeds("validation", episodes))
    scores = {}
    for config in CONFIGS:
        name = config.architecture
        steps = max(TIMED, round(60 * minutes / _train(_made(config, edits), edits, TIMED)))
        made = _made(config, edits)
        spent = steps * _train(made, edits, steps) / 60
        parameters = round(sum(p.numel() for p in made.denoiser.parameters()) / 1e6, 2)
        with tempfile.TemporaryDirectory() as out:
            made.save(Path(out))
            scores[name] = _score(DiffusersEditor.load(out, device="cpu"), parameters, asked, steps, spent)
        if not as_json:
            typer.echo(f"{name:8} {scores[name]}")
    if as_json:
        typer.echo(json.dumps({name: asdict(score) for name, score in scores.items()}))


def _made(config: EditorConfig, edits: Edits) -> NanoEditor[Any]:
    """A new one, with the shipped VAE."""
    made = CLASSES[config.architecture].build(config, edits.prompts)
    shipped = DiffusersEditor.load(NANO / "editor", device="cpu").pipeline.vae.float().state_dict()
    made.vae.load_state_dict({k: v for k, v in shipped.items() if not k.startswith("bn.")}, strict=False)
    made.measure_latents(edits.pictures[::50])
    return made


def _train(made: NanoEditor[Any], edits: Edits, steps: int) -> float:
    """Seconds a step, over the second half of the steps."""
    codes = latents(made, edits, None)
    rows: MakeBatch = batches(made, edits, codes, codes, made.tokens(edits.prompts))
    if made.config.compile:
        compile_parts([made.denoiser])
    began = []

    def batch(step: int, count: int, generator: torch.Generator) -> Batch:
        began.append(time.perf_counter())
        return rows(step, count, generator)

    schedule = made.config.denoiser.model_copy(update={"steps": steps, "save_every": steps})
    with tempfile.TemporaryDirectory() as out:
        fit(made.loss(), batch, schedule, Path(out), seed=1)
    half = len(began) // 2
    return (began[-1] - began[half]) / (len(began) - 1 - half)


def _score(editor: Editor, parameters: float, asked: Sequence[EditCase], steps: int, minutes: float) -> Score:
    requests = [case.edit(prompt_of(case.walk, case.index, "explicit")) for case in asked]
    editor.edit(requests[:1])
    began = time.perf_counter()
    editor.edit(requests[:1])
    seconds = time.perf_counter() - began
    answers = in_batches(editor.edit, requests, "edit", lambda *_: None)
    found = [case.judge(answer) for case, answer in zip(asked, answers, strict=True)]
    shares = (sum(getattr(o, name) for o in found) / len(found) for name in ("right", "reached"))
    right, reached = (round(share, 3) for share in shares)
    return Score(parameters, steps, round(minutes, 1), right, reached, len(found), round(seconds, 3))


if __name__ == "__main__":
    typer.run(main)
