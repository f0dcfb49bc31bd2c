"""What ten steps cost a picture by its size alone: the editor draws its source, at its working size.

    python benchmarks/working_size.py --json                  # the simulated tabletop, as a camera frames it
    python benchmarks/working_size.py frame.png --json        # the middle of a picture

Keys of --json: `WIDTHxHEIGHT.kept`, where the next step starts from the editor's own picture, and
`WIDTHxHEIGHT.back`, where every picture is first brought back to the camera's size, each with three numbers
in dB (null: the pictures are the same): `tenth_to_first`, the PSNR of the picture that is handed out after
the tenth step against the one after the first, and of both against the frame, `first_to_frame` and
`tenth_to_frame`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from common import argument_parser, parse, report
from support.same_picture import same_picture_editor

from goalreel.editors.diffusers import DiffusersEditor
from goalreel.image import Image
from goalreel.tabletop.sim.env import Tabletop
from goalreel.tabletop.sim.grammar import sample_episode
from goalreel.tabletop.sim.splits import seeds
from goalreel.types import Edit

CAMERAS = ["640x480", "1280x720"]
STEPS = 10
RENDERED = 1024
"""The side of the largest picture that the simulator gives."""


@dataclass(frozen=True)
class Loss:
    """PSNR in dB; None: the pictures are the same."""

    tenth_to_first: float | None
    first_to_frame: float | None
    tenth_to_frame: float | None


def goal_pictures(editor: DiffusersEditor, frame: Image, *, back: bool) -> Iterator[Image]:
    """Yield the picture that is handed out after each step, at the frame's size."""
    source = frame
    for step in range(STEPS):
        edit = Edit(task_id="t", step=step, attempt=0, image=source, prompt="keep it", seed=0)
        (picture,) = editor.edit([edit])
        assert isinstance(picture, Image), picture
        resized = picture.resized(frame.size)
        source = resized if back else picture
        yield resized


def psnr(a: Image, b: Image) -> float | None:
    """Compute the peak signal-to-noise ratio in dB; None where the pictures are the same."""
    error = float(np.square(a.pixels.astype(float) - b.pixels).mean())
    return round(10 * math.log10(255**2 / error), 2) if error else None


def cut(picture: Image, size: tuple[int, int]) -> Image:
    """Cut the middle of a picture in the shape of `size` (width, height), resampled to it."""
    width, height = picture.size
    scale = min(width / size[0], height / size[1])
    wide, high = round(size[0] * scale), round(size[1] * scale)
    x, y = (width - wide) // 2, (height - high) // 2
    return Image(picture.pixels[y : y + high, x : x + wide].copy()).resized(size)


def simulated_picture() -> Image:
    """Render the first scene of the validation split."""
    with Tabletop(sample_episode(seeds("validation", 1)[0]).scene) as table:
        return Image(table.render("front", RENDERED).copy())


def measure(picture: Image, cameras: Sequence[str], side: int) -> dict[str, Loss]:
    """Measure the loss by camera and by what the next step starts from, at an area of `side` squared."""
    editor = same_picture_editor((side, side))
    losses: dict[str, Loss] = {}
    for camera in cameras:
        width, height = map(int, camera.split("x"))
        frame = cut(picture, (width, height))
        for way in ("kept", "back"):
            pictures = list(goal_pictures(editor, frame, back=way == "back"))
            pairs = ((pictures[-1], pictures[0]), (pictures[0], frame), (pictures[-1], frame))
            losses[f"{camera}.{way}"] = Loss(*(psnr(a, b) for a, b in pairs))
    return losses


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("picture", type=Path, nargs="?", help="by default, the simulated tabletop")
    parser.add_argument("--cameras", nargs="+", default=CAMERAS, help="widths and heights in pixels")
    parser.add_argument("--side", type=int, default=1024, help="square root of the editor's working area")
    options = parse(parser, argv, cameras=["64x48"], side=96)
    picture = Image.decode(options.picture.read_bytes()) if options.picture else simulated_picture()
    losses = measure(picture, options.cameras, options.side)
    if options.json:
        report({name: asdict(loss) for name, loss in losses.items()}, as_json=True)
        return
    print(f"{'':15} step 10 to step 1   step 1 to frame   step 10 to frame")
    for name, loss in losses.items():
        columns = ("the same" if db is None else f"{db:.1f} dB" for db in asdict(loss).values())
        print(f"{name:15} {next(columns):>17}   {next(columns):>15}   {next(columns):>16}")


if __name__ == "__main__":
    main()
