"""How well the background's shift and scale are measured in edited pictures whose shift is known.

    python benchmarks/geometry.py --json                          # ../shared/data, and the simulated tabletop
    python benchmarks/geometry.py ROOT ... --json                 # other LeRobot datasets

In a copy of each frame a part of 5 or 20 % is moved to another place, with a smear where it was. Then the
whole copy is shifted and scaled, blurred, brightened or darkened, and made noisy. For `real` frames and for
those of the `tabletop`: `edits`; `measured`, the share that is not called not measurable; `median_px` and
`p95_px`, the error at the picture's corners, in pixels of a picture of 640; `right`, the share of measured
edits that are kept, corrected or rejected as they should be; `changed_at_zero`, the share of edits without a
shift that are corrected or rejected; `ms`, processor time for an edit. `same_picture_px` is the largest shift
that the placement of sources brings into the pictures of an editor that changes nothing.
"""

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

import cv2
import numpy as np
from common import argument_parser, parse, report
from numpy.typing import NDArray

from goalreel.datasets.source import Source
from goalreel.editors.sizes import placement
from goalreel.image import Image
from goalreel.registration import DEADBAND, LIMIT, register
from goalreel.types import Registration

SHARED = Path(__file__).parents[2] / "shared/data"
SHARES = (0.05, 0.2)
MOVES = [(0, 0, 1.0), (0.4, -0.3, 1.0), (0, 0, 1.0), (6, 3, 1.0), (12, -8, 1.0), (20, 0, 1.0), (0, 0, 0.95)]
MOVES += [(0, 0, 1.05), (5, 5, 1.03), (0, 0, 0.98), (130, 0, 1.0), (-60, 40, 1.0)]
"""(right, down) in pixels of a picture of 640, and scale."""
type Pixels = NDArray[np.uint8]


def recorded_frames(roots: Sequence[Path]) -> list[Pixels]:
    """Three frames of each colour camera of each dataset."""
    frames: list[Pixels] = []
    for root in roots:
        source = Source.open(root)
        for index in source.indices[:3]:
            episode = source.episode(index)
            for camera in source.cameras:
                frames += [image.pixels for image in episode.frames(camera, [len(episode) // 3])]
    return frames


def rendered_frames(count: int) -> list[Pixels]:
    """First scenes of the validation split."""
    from goalreel.tabletop.sim.env import Tabletop
    from goalreel.tabletop.sim.grammar import sample_episode
    from goalreel.tabletop.sim.splits import seeds

    frames: list[Pixels] = []
    for seed in seeds("validation", count):
        with Tabletop(sample_episode(seed).scene) as table:
            frames.append(table.render("front", 256).copy())
    return frames


def edited(frame: Pixels, share: float, move: tuple[float, float, float], rng: np.random.Generator) -> Pixels:
    """Move a part of the frame, and then all of it."""
    height, width = frame.shape[:2]
    across, down = int(width * math.sqrt(share)), int(height * math.sqrt(share))
    (x, to_x), (y, to_y) = rng.integers(0, width - across + 1, 2), rng.integers(0, height - down + 1, 2)
    part, picture = frame[y : y + down, x : x + across], frame.copy()
    picture[y : y + down, x : x + across] = cv2.GaussianBlur(part, (0, 0), max(3, across / 4))
    picture[to_y : to_y + down, to_x : to_x + across] = part
    right, below, scale = move
    matrix = np.array([[scale, 0, right * width / 640], [0, scale, below * width / 640]], np.float64)
    matrix[:, 2] += (1 - scale) * (width - 1) / 2, (1 - scale) * (height - 1) / 2
    border = {"flags": cv2.INTER_CUBIC, "borderMode": cv2.BORDER_REFLECT}
    moved = cv2.GaussianBlur(cv2.warpAffine(picture, matrix, (width, height), **border), (0, 0), 0.7)
    noisy = moved * rng.uniform(0.9, 1.1) + rng.uniform(-8, 8) + rng.normal(0, 2, moved.shape)
    return noisy.clip(0, 255).astype(np.uint8)


def error_px(found: Registration, move: tuple[float, float, float], size: tuple[int, int]) -> float:
    """The error at the picture's corners, in pixels of a picture of 640."""
    assert found.shift is not None
    right, down, scale = move
    corner = math.hypot(*size) / 2 * 640 / size[0]
    shift = [value * 640 / size[0] for value in found.shift]
    turned = 1 + found.scale / 100 - scale, math.radians(found.rotation)
    return math.hypot(shift[0] - right, shift[1] - down) + corner * math.hypot(*turned)


def expected(move: tuple[float, float, float], size: tuple[int, int]) -> str:
    """What should be done about a move."""
    width, height = 640, 640 * size[1] / size[0]
    right, down, scale = move
    across, below = abs(right) + abs(scale - 1) * width / 2, abs(down) + abs(scale - 1) * height / 2
    moved = math.hypot(across, below) / max(width, height)
    return "kept" if moved <= DEADBAND else "corrected" if moved <= LIMIT else "rejected"


def measure(frames: Sequence[Pixels], moves: Sequence[tuple[float, float, float]]) -> dict[str, float]:
    """Measure every move of every frame."""
    rng, errors, right, changed, edits, seconds = np.random.default_rng(0), [], [], [], 0, 0.0
    for pixels in frames:
        for share in SHARES:
            for move in moves:
                source, picture = Image(pixels.copy()), Image(edited(pixels, share, move, rng))
                start = time.process_time()
                found, _ = register(source, picture)
                seconds += time.process_time() - start
                edits += 1
                if move == (0, 0, 1):
                    changed.append(found.outcome != "kept")
                if found.shift is not None:
                    errors.append(error_px(found, move, source.size))
                    right.append(found.outcome == expected(move, source.size))
    median, high = np.quantile(errors, (0.5, 0.95)) if errors else (-1.0, -1.0)
    return {
        "edits": edits,
        "measured": round(len(errors) / edits, 3),
        "median_px": round(float(median), 2),
        "p95_px": round(float(high), 2),
        "right": round(float(np.mean(right)), 3) if right else -1.0,
        "changed_at_zero": round(float(np.mean(changed)), 3),
        "ms": round(1000 * seconds / edits, 1),
    }


def same_picture_px(frames: Sequence[Pixels]) -> float:
    """The largest shift that klein's and Kontext's placements bring in, in pixels of the frame."""
    largest = 0.0
    for pixels in frames:
        source = Image(pixels.copy())
        for square in (False, True):
            place = placement(source.size, (1024, 1024), 16, square)
            found, _ = register(source, place.cut(place.place(source)))
            largest = max(largest, *map(abs, found.shift or (0.0,)))
    return round(largest, 3)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument(
        "roots", type=Path, nargs="*", help="LeRobot datasets; by default those of ../shared/data"
    )
    parser.add_argument("--scenes", type=int, default=8, help="of the tabletop")
    options = parse(parser, argv, scenes=1)
    shared = [path.parent.parent for path in sorted(SHARED.glob("*/meta/info.json"))]
    rendered, moves = rendered_frames(options.scenes), MOVES[:2] if options.smoke else MOVES
    result: dict[str, object] = {"tabletop": measure(rendered, moves)}
    frames = [] if options.smoke else recorded_frames(options.roots or shared)
    if frames:
        result["real"] = measure(frames, moves)
    result["same_picture_px"] = same_picture_px([*rendered, *frames])
    report(result, options.json)


if __name__ == "__main__":
    main()
