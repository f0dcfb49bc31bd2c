"""How well a moved background is measured in edited pictures whose movement is known.

    python benchmarks/geometry.py --json                          # ../shared/data, and the simulated tabletop
    python benchmarks/geometry.py ROOT ... --json                 # other LeRobot datasets

In a copy of each frame a part of 5 or 20 % is moved to another place, with a smear where it was; in place of
this, `nano_edits` are the nano editor's own pictures, one for each scene. Then the whole picture is shifted,
scaled, rotated or all three, so that the corner that moves most moves by 0 to 10 % of the longer side, and
blurred, brightened or darkened, and made noisy. Thresholds were chosen on the sets that `fit` names; every
other row is held out.

Keys of --json: a set for each dataset, by its folder's name; `tabletop` and `tabletop_fit`, scenes of the
test and of the validation split; `nano_edits`; `fit`; `same_picture_px`.

Of each set: `edits`; `measured`, the share that is not called not measurable; `median_px` and `p95_px`, the
error at the picture's corners, in pixels of a picture of 640; `right`, the share of measured edits that are
kept, corrected or rejected as they should be; `changed_at_zero`, the share of edits without a movement that
are corrected or rejected; `missed`, the share of edits moved by 7 % or more that are not rejected; `ms`,
processor time for an edit. `same_picture_px` is the largest shift that the placement of sources brings into
the pictures of an editor that changes nothing.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import cv2
import numpy as np
from common import SHARED, argument_parser, parse, report
from numpy.typing import NDArray

from goalreel.datasets.source import Source
from goalreel.editors.sizes import placement
from goalreel.image import Image
from goalreel.models.load import build_editor
from goalreel.registration import DEADBAND, LIMIT, register
from goalreel.tabletop.sim.env import Tabletop
from goalreel.tabletop.sim.grammar import sample_episode
from goalreel.tabletop.sim.splits import Split, seeds
from goalreel.types import Edit, Registration

FIT = ("droid_new_setup",)
SHARES = (0.05, 0.2)
AMOUNTS = (0.0, 0.003, 0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.085, 0.1)
"""How far the corner that moves most moves, as shares of the longer side; none is near a threshold."""
WAYS = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1))
"""The parts that shift, scale and rotation have in a movement."""
MISSED = 0.07
type Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Move:
    """A similarity of pictures of a size (width, height), around their centre, and its displacement."""

    matrix: NDArray[np.float64]
    amount: float


def make_move(
    amount: float, way: tuple[int, int, int], size: tuple[int, int], rng: np.random.Generator
) -> Move:
    """A movement in a random direction whose largest displacement at a corner is `amount`."""
    width, height = size
    direction, half = rng.uniform(0, 2 * math.pi), math.hypot(width, height) / 2
    signs = rng.choice((-1, 1), 2)
    shift = complex(math.cos(direction), math.sin(direction)) * max(size) * way[0]
    turn = complex(signs[0] * way[1], signs[1] * way[2]) * max(size) / half
    corners = [complex(x, y) for x in (-width / 2, width / 2) for y in (-height / 2, height / 2)]
    scale = amount * max(size) / max(abs(turn * corner + shift) for corner in corners)
    linear, by = 1 + turn * scale, shift * scale
    matrix = np.array([[linear.real, -linear.imag, by.real], [linear.imag, linear.real, by.imag]])
    centre = np.array([(width - 1) / 2, (height - 1) / 2])
    matrix[:, 2] += centre - matrix[:, :2] @ centre
    return Move(matrix, amount)


def recorded_frames(root: Path) -> list[Pixels]:
    """A frame of each colour camera of three episodes of a dataset."""
    source, frames = Source.open(root), list[Pixels]()
    for index in source.indices[:3]:
        episode = source.episode(index)
        for camera in source.cameras:
            frames += [image.pixels for image in episode.frames(camera, [len(episode) // 3])]
    return frames


def rendered_frames(split: Split, count: int) -> tuple[list[Pixels], list[str]]:
    """First scenes of a split, and what is to be done in them."""
    frames: list[Pixels] = []
    instructions: list[str] = []
    for seed in seeds(split, count):
        sample = sample_episode(seed)
        with Tabletop(sample.scene) as table:
            frames.append(table.render("front", 256).copy())
        instructions.append(sample.instruction)
    return frames, instructions


def nano_edits(frames: Sequence[Pixels], instructions: Sequence[str]) -> list[Pixels]:
    """What a tiny pipeline, the nano editor, makes of frames."""
    edits = [
        Edit(task_id="t", step=0, attempt=0, image=Image(frame.copy()), prompt=prompt, seed=0)
        for frame, prompt in zip(frames, instructions, strict=True)
    ]
    pictures = build_editor("diffusers:nano-editor").edit(edits)
    return [picture.pixels for picture in pictures if isinstance(picture, Image)]


def rearranged(frame: Pixels, share: float, rng: np.random.Generator) -> Pixels:
    """The frame with a part of it at another place."""
    height, width = frame.shape[:2]
    across, down = int(width * math.sqrt(share)), int(height * math.sqrt(share))
    (x, to_x), (y, to_y) = rng.integers(0, width - across + 1, 2), rng.integers(0, height - down + 1, 2)
    part, picture = frame[y : y + down, x : x + across], frame.copy()
    picture[y : y + down, x : x + across] = cv2.GaussianBlur(part, (0, 0), max(3, across / 4))
    picture[to_y : to_y + down, to_x : to_x + across] = part
    return picture


def moved(picture: Pixels, move: Move, rng: np.random.Generator) -> Pixels:
    """The picture with its view moved, blurred, in another light, and with noise."""
    height, width = picture.shape[:2]
    border = {"flags": cv2.INTER_CUBIC, "borderMode": cv2.BORDER_REFLECT}
    blurred = cv2.GaussianBlur(cv2.warpAffine(picture, move.matrix, (width, height), **border), (0, 0), 0.7)
    noisy = blurred * rng.uniform(0.9, 1.1) + rng.uniform(-8, 8) + rng.normal(0, 2, blurred.shape)
    return noisy.clip(0, 255).astype(np.uint8)


def error_px(registration: Registration, move: Move, size: tuple[int, int]) -> float:
    """The largest error at a corner, in pixels of a picture of 640."""
    assert registration.shift is not None
    width, height = size
    linear = (1 + registration.scale / 100) * np.exp(1j * math.radians(registration.rotation))
    centre = np.array([(width - 1) / 2, (height - 1) / 2])
    true_shift = move.matrix @ [*centre, 1] - centre
    true_linear = complex(move.matrix[0, 0], move.matrix[1, 0])
    off = complex(registration.shift[0] - true_shift[0], registration.shift[1] - true_shift[1])
    corners = [complex(x, y) for x in (-width / 2, width / 2) for y in (-height / 2, height / 2)]
    return max(abs((linear - true_linear) * corner + off) for corner in corners) * 640 / max(size)


def expected(amount: float) -> str:
    """What should be done about a movement."""
    return "kept" if amount <= DEADBAND else "corrected" if amount <= LIMIT else "rejected"


def measure(
    pairs: Sequence[tuple[Pixels, Sequence[Pixels]]], amounts: Sequence[float], rng: np.random.Generator
) -> dict[str, float]:
    """Measure every movement of every edited picture of each source."""
    errors, right, changed, missed, edits, seconds = [], [], [], [], 0, 0.0
    for pixels, pictures in pairs:
        source = Image(pixels.copy())
        for picture in pictures:
            resized = Image(picture.copy()).resized(source.size).pixels
            for amount, way in product(amounts, WAYS):
                move = make_move(amount, way, source.size, rng)
                edited = Image(moved(resized, move, rng))
                start = time.process_time()
                registration, _ = register(source, edited)
                seconds += time.process_time() - start
                edits += 1
                if amount == 0:
                    changed.append(registration.outcome != "kept")
                if amount >= MISSED:
                    missed.append(registration.outcome != "rejected")
                if registration.shift is not None:
                    errors.append(error_px(registration, move, source.size))
                    right.append(registration.outcome == expected(amount))
    median, high = np.quantile(errors, (0.5, 0.95)) if errors else (-1.0, -1.0)
    return {
        "edits": edits,
        "measured": round(len(errors) / edits, 3),
        "median_px": round(float(median), 2),
        "p95_px": round(float(high), 2),
        "right": _share(right),
        "changed_at_zero": _share(changed),
        "missed": _share(missed),
        "ms": round(1000 * seconds / edits, 1),
    }


def _share(values: Sequence[bool]) -> float:
    return round(float(np.mean(values)), 3) if values else -1.0


def rearranged_pairs(
    frames: Sequence[Pixels], rng: np.random.Generator
) -> list[tuple[Pixels, Sequence[Pixels]]]:
    """Each frame, and copies with a part of each of `SHARES` at another place."""
    return [(frame, [rearranged(frame, share, rng) for share in SHARES]) for frame in frames]


def same_picture_px(frames: Sequence[Pixels]) -> float:
    """The largest shift that klein's and Kontext's placements bring in, in pixels of the frame."""
    largest = 0.0
    for pixels in frames:
        source = Image(pixels.copy())
        for square in (False, True):
            place = placement(source.size, (1024, 1024), 16, square)
            registration, _ = register(source, place.cut(place.place(source)))
            largest = max(largest, *map(abs, registration.shift or (0.0,)))
    return round(largest, 3)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument(
        "roots", type=Path, nargs="*", help="LeRobot datasets; by default those of ../shared/data"
    )
    parser.add_argument("--scenes", type=int, default=8, help="of the tabletop")
    options = parse(parser, argv, scenes=1)
    amounts = AMOUNTS[:2] if options.smoke else AMOUNTS
    result: dict[str, object] = {}
    frames: dict[str, list[Pixels]] = {}
    for root in options.roots or ([] if options.smoke else sorted(SHARED.glob("*/meta/info.json"))):
        folder = root if root.is_dir() else root.parent.parent
        frames[folder.name] = recorded_frames(folder)
    frames["tabletop_fit"], _ = rendered_frames("validation", options.scenes)
    frames["tabletop"], instructions = rendered_frames("test", options.scenes)
    for name, camera_frames in frames.items():
        rng = np.random.default_rng(0)
        result[name] = measure(rearranged_pairs(camera_frames, rng), amounts, rng)
    drawn = nano_edits(frames["tabletop"], instructions)
    pairs = [(source, [picture]) for source, picture in zip(frames["tabletop"], drawn, strict=True)]
    result["nano_edits"] = measure(pairs, amounts, np.random.default_rng(0))
    result["fit"] = [*FIT, "tabletop_fit"]
    result["same_picture_px"] = same_picture_px(
        [frame for camera_frames in frames.values() for frame in camera_frames]
    )
    report(result, options.json)


if __name__ == "__main__":
    main()
