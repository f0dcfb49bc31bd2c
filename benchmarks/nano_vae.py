"""What the shipped editor's VAE keeps of true goal images, encoded and decoded, by the simulator's eyes.

python benchmarks/nano_vae.py --first 300 --episodes 100
"""

import json
import os
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import torch
import typer

from goalreel.checkpoints import NANO
from goalreel.cli.console import progress_bars
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.image import Image
from goalreel.tabletop.bench.edit import EditCase, edit_cases
from goalreel.tabletop.bench.scenes import disturbed, walks
from goalreel.tabletop.nano.editor import redraw
from goalreel.tabletop.sim.readback import shown
from goalreel.tabletop.sim.splits import seeds

NEAR = 0.01
"""Largest move of an object in a round trip that leaves it where it was (m)."""


def round_trip(vae: Any, cases: Iterable[EditCase]) -> dict[str, float | int]:
    """Judge what comes back, of the goal images that are judged right as they are.

    `goal`: the sub-goal still reads true; `whole`: and every object within NEAR of where it was; `right`: and
    all else untouched, as the bench sees it; `gone` and `moved`: pictures that it calls wrong, by the worst
    in them; `error`: mean absolute error of pixels (0-255).
    """
    told: Counter[str] = Counter()
    errors = []
    for case in cases:
        told["asked"] += 1
        if not case.judge(case.target).right:
            continue
        told["rows"] += 1
        picture = torch.from_numpy(case.target.pixels.copy()).permute(2, 0, 1)[None]
        again = redraw(vae, picture)[0].permute(1, 2, 0).numpy()
        errors.append(np.abs(again.astype(float) - case.target.pixels).mean())
        before, after = case.read(case.target), case.read(Image(again))
        assert before is not None
        assert after is not None
        goal = shown(after, case.goal)
        near = all(name in after and np.linalg.norm(before[name] - after[name]) < NEAR for name in before)
        right = case.judge(Image(again)).right
        told.update(goal=goal, whole=goal and near, right=right)
        wrong = disturbed(after, case.walk.moments[case.index].layout, {case.goal.object})
        if not right:
            told["gone" if any(name not in after for name in wrong) else "moved"] += 1
    shares = {name: told[name] / told["rows"] for name in ("goal", "whole", "right")}
    counts = {name: told[name] for name in ("asked", "rows", "gone", "moved")}
    return {**counts, **shares, "error": float(np.mean(errors))}


def main(
    first: Annotated[int, typer.Option(min=0, help="First validation seed, counted from the start.")] = 300,
    episodes: Annotated[int, typer.Option(min=1)] = 100,
) -> None:
    vae = DiffusersEditor.load(NANO / "editor", device="cpu").pipeline.vae
    with progress_bars() as progress:
        scenes = walks(seeds("validation", episodes, first), progress)
    typer.echo(json.dumps(round_trip(vae, edit_cases(scenes))))


if __name__ == "__main__":
    typer.run(main)
