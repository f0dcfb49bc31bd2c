"""What ten steps cost a picture by its size alone: the editor draws what it is given, at its working size.

python benchmarks/working_size.py --json                  # the simulated tabletop, as a camera frames it
python benchmarks/working_size.py frame.png --json        # the middle of a picture

PSNR (dB) of the picture that is handed out after the tenth step against the one after the first, and of both
against the frame: `kept` where the next step starts from the editor's own picture, `back` where every picture
is first brought back to the camera's size.
"""

import json
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import typer

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.same_picture import same_picture_editor

from goalreel.editors.diffusers import DiffusersEditor
from goalreel.image import Image
from goalreel.tabletop.sim.env import Tabletop
from goalreel.tabletop.sim.grammar import sample_episode
from goalreel.tabletop.sim.splits import seeds
from goalreel.types import Edit

CAMERAS = ((640, 480), (1280, 720))
WORKING = (1024, 1024)
STEPS = 10
RENDERED = 1024
"""The side of the largest picture that the simulator gives."""


@dataclass(frozen=True)
class Loss:
    """dB; None: the pictures are the same."""

    tenth_to_first: float | None
    first_to_frame: float | None
    tenth_to_frame: float | None


def main(
    picture: Annotated[Path | None, typer.Argument(help="By default, the simulated tabletop.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
) -> None:
    whole = Image.decode(picture.read_bytes()) if picture else _simulated()
    editor = same_picture_editor(WORKING)
    found: dict[str, Loss] = {}
    for size in CAMERAS:
        frame = _framed(whole, size)
        for way in ("kept", "back"):
            shown = list(_shown(editor, frame, back=way == "back"))
            pairs = ((shown[-1], shown[0]), (shown[0], frame), (shown[-1], frame))
            found[f"{size[0]}x{size[1]}.{way}"] = Loss(*(psnr(a, b) for a, b in pairs))
    if as_json:
        typer.echo(json.dumps({name: asdict(loss) for name, loss in found.items()}))
        return
    typer.echo(f"{'':15} step 10 to step 1   step 1 to frame   step 10 to frame")
    for name, loss in found.items():
        columns = ("the same" if db is None else f"{db:.1f} dB" for db in asdict(loss).values())
        typer.echo(f"{name:15} {next(columns):>17}   {next(columns):>15}   {next(columns):>16}")


def _shown(editor: DiffusersEditor, frame: Image, *, back: bool) -> Iterator[Image]:
    """What is handed out after each step, at the frame's size."""
    source = frame
    for step in range(STEPS):
        edit = Edit(task_id="t", step=step, attempt=0, image=source, prompt="keep it", seed=0)
        (drawn,) = editor.edit([edit])
        assert isinstance(drawn, Image), drawn
        handed_out = drawn.resized(frame.size)
        source = handed_out if back else drawn
        yield handed_out


def psnr(a: Image, b: Image) -> float | None:
    """Peak signal-to-noise ratio in dB; None where the pictures are the same."""
    error = float(np.square(a.pixels.astype(float) - b.pixels).mean())
    return round(10 * math.log10(255**2 / error), 2) if error else None


def _framed(picture: Image, size: tuple[int, int]) -> Image:
    """The middle of a picture in the shape of `size`, resampled to it."""
    width, height = picture.size
    scale = min(width / size[0], height / size[1])
    wide, high = round(size[0] * scale), round(size[1] * scale)
    left, top = (width - wide) // 2, (height - high) // 2
    return Image(picture.pixels[top : top + high, left : left + wide].copy()).resized(size)


def _simulated() -> Image:
    with Tabletop(sample_episode(seeds("validation", 1)[0]).scene) as table:
        return Image(table.render("front", RENDERED).copy())


if __name__ == "__main__":
    typer.run(main)
