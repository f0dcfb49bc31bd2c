"""What a second look is worth (`goalreel/tabletop/sim/second_look.py`), and what it lets pass.

    python benchmarks/tabletop_second_look.py --first 300 --episodes 50

Right pictures (true goal images, and ones with the block elsewhere within tolerance) and made mistakes, as
they are and after the shipped editor's VAE has encoded and decoded them. One JSON line, for each of the two:
    right               right pictures
    right_by_colour     called right by `read_back` alone
    right_after         called right by `read_after`
    wrong               pictures with a mistake that a layout tells: all but misshapen blocks
    wrong_by_colour, wrong_after   of these called right
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import typer

sys.path.append(str(Path(__file__).parent))
from nano_vae import redraw

from goalreel.checkpoints import NANO
from goalreel.cli.console import progress_bars
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.tabletop.bench.scenes import SIZE, outcome
from goalreel.tabletop.lessons.mistakes import MADE, make, vary
from goalreel.tabletop.lessons.steps import Done, walk
from goalreel.tabletop.sim.readback import read_back
from goalreel.tabletop.sim.second_look import read_after
from goalreel.tabletop.sim.splits import seeds

_STREAM = 3
type Change = Callable[[np.ndarray], np.ndarray]


def pictures(done: Done) -> Iterator[tuple[bool, np.ndarray]]:
    """Whether it is right, and the picture."""
    yield True, done.target.pixels
    if varied := vary(done):
        yield True, varied.image.pixels
    for mistake in MADE:
        if mistake != "deformed" and (made := make(done, mistake)):
            yield False, made.image.pixels


def count(told: Counter[str], steps: Iterable[Done], change: Change) -> None:
    for done in steps:
        scene, goal = done.env.scene, done.goal
        for right, original in pictures(done):
            name, picture = "right" if right else "wrong", change(original)
            told[name] += 1
            told[f"{name}_by_colour"] += outcome(read_back(picture, scene), done.layout, goal).right
            after = read_after(picture, scene, done.layout, (goal.object,))
            told[f"{name}_after"] += outcome(after, done.layout, goal).right


def main(
    first: Annotated[int, typer.Option(min=0, help="First validation seed, counted from the start.")] = 300,
    episodes: Annotated[int, typer.Option(min=1)] = 50,
) -> None:
    vae = DiffusersEditor.load(NANO / "editor", device="cpu").pipeline.vae
    changes: dict[str, Change] = {"rendered": lambda p: p, "decoded": lambda p: redraw(vae, p)}
    told: dict[str, Counter[str]] = {name: Counter() for name in changes}
    chosen = seeds("validation", episodes, first)
    with progress_bars() as progress:
        for number, (name, change) in enumerate(changes.items(), 1):
            count(told[name], walk(chosen, SIZE, _STREAM), change)
            progress("pictures", number, len(changes))
    typer.echo(json.dumps(told))


if __name__ == "__main__":
    typer.run(main)
