"""Reads a picture back into object positions: colour segmentation, then analysis by synthesis.

Every block is drawn as the convex outline of its cube, nearest last, and moved until the outline's visible
part lies where its colour was seen. What a block stands on is the support under which all outlines fit best.
Bowls never move: one is reported where the scene has it, if the picture still shows it there.
"""

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import combinations, permutations, product

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.tabletop.mjcf import FIXED, PinholeCamera
from goalreel.tabletop.scene import (
    BOWL_FLOOR,
    BOWL_HEIGHT,
    BOWL_LIP,
    BOWL_RADIUS,
    COLOURS,
    HALF,
    Floats,
    SceneLayout,
    SubGoal,
    TabletopScene,
    colour,
    displacement,
    is_bowl,
    shows,
)

type PixelMask = NDArray[np.bool_]

SATURATION, VALUE = 105, 45
"""Less than this (of 255) is table, arm or glaze, never an object."""
HUE_SLACK = 11
"""Largest distance to a colour's hue (OpenCV's half degrees)."""
LEAST = 0.15
"""A block is missing when less than this share of its outline shows its colour."""

STILL, MOVED = 0.012, 0.035
"""Largest shift of what stayed, and least of what moved; between them a picture cannot tell (m)."""
_CUBE = HALF * np.array(list(product((-1, 1), repeat=3)))
_CIRCLE = np.array([[np.cos(a), np.sin(a)] for a in np.linspace(0, 2 * np.pi, 24, endpoint=False)])


def read_back(picture: NDArray[np.uint8], scene: TabletopScene, camera: str | None = None) -> SceneLayout:
    """Read positions off a picture; an object that is not seen is left out.

    `picture` is (size, size, 3) RGB from a fixed camera, by default the scene's own, at least 64 px, arm out
    of the way. From the top a block under another is invisible, so read stacks from the front or the side.

    Raises:
        ValueError: the camera is not fixed, or the picture not square.
    """
    return SceneReader(picture, scene, camera).read()


def segment(picture: NDArray[np.uint8]) -> dict[str, PixelMask]:
    """Mark where every colour of COLOURS shows, (size, size) each."""
    hue, saturation, value = (c.astype(int) for c in cv2.split(cv2.cvtColor(picture, cv2.COLOR_RGB2HSV)))
    names = list(COLOURS)
    paint = np.array([[COLOURS[n] for n in names]], np.float32)
    hues = cv2.cvtColor((255 * paint).astype(np.uint8), cv2.COLOR_RGB2HSV)[0, :, 0].astype(int)
    away = np.abs(hue[..., None] - hues)
    away = np.minimum(away, 180 - away)
    nearest = np.where((saturation > SATURATION) & (value > VALUE), away.argmin(-1), -1)
    nearest[away.min(-1) > HUE_SLACK] = -1
    return {name: nearest == i for i, name in enumerate(names)}


def shown(layout: SceneLayout, goal: SubGoal) -> bool:
    """Tell whether a layout read off a picture, where objects may be missing, satisfies the sub-goal."""
    return goal.object in layout and goal.target in layout and shows(layout, goal)


class SceneReader:
    """One picture under inspection; arguments and errors are those of `read_back`.

    `bowls`: where the scene has them; `seen`: where the colour of each block shows that is not missing.
    """

    def __init__(self, picture: NDArray[np.uint8], scene: TabletopScene, camera: str | None = None) -> None:
        camera = scene.camera if camera is None else camera
        if camera not in FIXED:
            raise ValueError(f"cannot read camera {camera!r}: choose from {', '.join(FIXED)}")
        if picture.ndim != 3 or picture.shape[0] != picture.shape[1]:
            raise ValueError(f"a tabletop picture is square RGB, got {picture.shape}")
        self.picture, self.size, self.camera = picture, picture.shape[0], FIXED[camera]
        self.bowls = {b.name: np.array([b.x, b.y, 0.0]) for b in scene.bowls}
        masks = segment(picture)
        rings = self.draw({})
        self.shown = {
            name
            for i, name in enumerate(self.bowls, 1)
            if np.mean(masks[colour(name)][rings == i]) > 0.4  # a block in front hides a part
        }
        middle = self.camera.project(np.array([0.5, 0, HALF]) + _CUBE, self.size)  # of the table
        least = LEAST * float(cv2.contourArea(cv2.convexHull(middle.astype(np.float32))))
        self.seen = {}
        for block in scene.blocks:
            mask = masks[colour(block.name)].copy()
            for i, name in enumerate(self.bowls, 1):
                if colour(name) == colour(block.name) and name in self.shown:
                    mask &= ~grown(rings == i)
            mask = _largest(mask)
            if mask.sum() >= least:
                self.seen[block.name] = mask

    def read(self) -> SceneLayout:
        """Try every way the blocks could stand on each other, keep what fits best."""
        best, _ = max(map(self._fit, self._stackings()), key=lambda fit: fit[1])
        return best | {name: self.bowls[name] for name in self.shown}

    def _stackings(self) -> Iterator[dict[str, str]]:
        """Yield block -> the block it stands on, none first, for blocks that line up in the picture."""
        centres = {block: centre(mask) for block, mask in self.seen.items()}
        pairs = [
            (block, base)
            for block, base in permutations(centres, 2)
            if any(self._lined_up(centres[block], centres[base], height) for height in (HALF, 3 * HALF))
        ]
        for count in range(min(len(pairs), 4) + 1):
            for chosen in combinations(pairs, count):
                under = dict(chosen)
                if len(under) == len(set(under.values())) == count and all(
                    b not in _below(under, b) for b in under
                ):
                    yield under

    def _lined_up(self, block: Floats, base: Floats, height: float) -> bool:
        """Tell whether the pixels fit a block one storey above a base at `height`."""
        apart = self._at(block, height + 2 * HALF) - self._at(base, height)
        return bool(np.linalg.norm(apart[:2]) < 1.7 * HALF)

    def _fit(self, under: dict[str, str]) -> tuple[SceneLayout, float]:
        """Find the layout whose outlines lie where the colours were seen, given what stands on what.

        The number says how well they overlap (mean intersection over union, 0-1).
        """
        order = sorted(self.seen, key=lambda b: len(_below(under, b)))
        centres = {block: centre(self.seen[block]) for block in order}
        for last in (False, False, False, True):
            layout: SceneLayout = {}
            for block in order:
                layout[block] = self.stand(centres[block], layout.get(under.get(block, "")))
            drawn = self.draw(layout)
            visible = {b: drawn == i for i, b in enumerate(layout, 1 + len(self.bowls))}
            if last:
                break
            for block in order:
                if visible[block].sum() > 2:
                    centres[block] = centres[block] + centre(self.seen[block]) - centre(visible[block])
        overlaps = [(self.seen[b] & v).sum() / (self.seen[b] | v).sum() for b, v in visible.items()]
        return layout, float(np.mean(overlaps)) if overlaps else 0.0

    def stand(self, centre: Floats, base: Floats | None) -> Floats:
        """Place a block by the pixel of its centre: on its base, in a bowl or on the table."""
        if base is not None:
            return self._at(centre, base[2] + 2 * HALF)
        position = self._at(centre, BOWL_FLOOR + HALF)
        if any(np.linalg.norm(position[:2] - p[:2]) < 0.8 * BOWL_RADIUS for p in self.bowls.values()):
            return position
        return self._at(centre, HALF)

    def _at(self, centre: Floats, height: float) -> Floats:
        return self.camera.on_plane(centre, height, self.size)

    def draw(self, layout: SceneLayout) -> NDArray[np.uint8]:
        """Draw labels: 0 nothing, 1 .. the rings of the bowls, then the blocks in the layout's order."""
        image = np.zeros((self.size, self.size), np.uint8)
        labels = {name: i for i, name in enumerate([*self.bowls, *layout], 1)}
        everything = self.bowls | layout

        def distance(name: str) -> float:
            behind = 0.5 * BOWL_RADIUS if name in self.bowls else 0.0  # its content stands in front of a bowl
            return float(np.linalg.norm(everything[name] - self.camera.position)) + behind

        for name in sorted(everything, key=distance, reverse=True):
            at = everything[name]
            if name in self.bowls:
                rim = np.c_[at[:2] + BOWL_RADIUS * _CIRCLE, np.full(len(_CIRCLE), BOWL_HEIGHT)]
                foot = np.c_[at[:2] + 0.8 * BOWL_RADIUS * _CIRCLE, np.zeros(len(_CIRCLE))]
                _fill(image, np.r_[rim, foot], self.camera, labels[name])
                image[self._glaze(at)] = 0
            else:
                _fill(image, at + _CUBE, self.camera, labels[name])
        return image

    def _glaze(self, at: Floats) -> PixelMask:
        """Mark where a bowl is white: seen through its opening, below the coloured lip."""
        opening = np.ones((self.size, self.size), np.uint8)
        for radius, height in ((0.90, BOWL_HEIGHT), (0.86, BOWL_HEIGHT - BOWL_LIP)):
            circle = np.c_[at[:2] + radius * BOWL_RADIUS * _CIRCLE, np.full(len(_CIRCLE), height)]
            inside = np.zeros_like(opening)
            _fill(inside, circle, self.camera, 1)
            opening &= inside
        return opening.astype(bool)


def _below(under: dict[str, str], block: str) -> list[str]:
    """List what a block stands on, from the top down; stop where it would come round again."""
    supports: list[str] = []
    while block in under and under[block] not in supports:
        block = under[block]
        supports.append(block)
    return supports


def centre(mask: PixelMask) -> Floats:
    """The mean (column, row) of a mask, in the camera's pixel coordinates."""
    rows, columns = np.nonzero(mask)
    return np.array([columns.mean() + 0.5, rows.mean() + 0.5])


def grown(mask: PixelMask) -> PixelMask:
    """Add all pixels that touch the mask."""
    return cv2.dilate(mask.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)


def _largest(mask: PixelMask) -> PixelMask:
    """Keep the largest connected part."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    return mask if count == 1 else labels == 1 + int(stats[1:, cv2.CC_STAT_AREA].argmax())


TURNS = np.radians(np.arange(-45, 45, 3))
"""A cube looks the same again after a quarter turn."""


def read_turns(picture: NDArray[np.uint8], layout: SceneLayout, camera: str = "front") -> dict[str, float]:
    """Map each block of a layout that `read_back` found to its turn about z in [-pi/4, pi/4) rad.

    From the front camera at 256 px half of the answers are within 3 degrees and all within 13; at 128 px
    within 6 and 28 (`tests/tabletop/test_sim.py`).
    """
    return {name: turn for name, (turn, _) in fit_cubes(picture, layout, camera).items()}


def fit_cubes(
    picture: NDArray[np.uint8], layout: SceneLayout, camera: str = "front"
) -> dict[str, tuple[float, float]]:
    """Map each block to its turn, as `read_turns`, and to how well a cube's outline covers its colour.

    The second number is their intersection over union, 0-1. It is low where the block is hidden or no cube.
    """
    masks = segment(picture)
    blocks = [name for name in layout if not is_bowl(name)]
    return {name: _turn(masks[colour(name)], layout[name], FIXED[camera]) for name in blocks}


def _turn(mask: NDArray[np.bool_], at: NDArray[np.float64], camera: PinholeCamera) -> tuple[float, float]:
    def overlap(turn: float) -> float:
        drawn = outline(at, turn, camera, len(mask))
        # A bowl of the block's colour may stand elsewhere in the picture.
        near = cv2.dilate(drawn, np.ones((9, 9), np.uint8)).astype(bool) & mask
        return float((near & (drawn > 0)).sum() / (near | (drawn > 0)).sum())

    best = max(TURNS, key=overlap)
    return float(best), overlap(best)


def outline(at: NDArray[np.float64], turn: float, camera: PinholeCamera, size: int) -> NDArray[np.uint8]:
    """Fill a turned cube's outline with 1, (size, size); `at` is its centre (3,) in m."""
    c, s = math.cos(turn), math.sin(turn)
    image = np.zeros((size, size), np.uint8)
    _fill(image, at + _CUBE @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]), camera, 1)
    return image


def _fill(image: NDArray[np.uint8], points: Floats, camera: PinholeCamera, label: int) -> None:
    """Fill the outline of world points (n, 3) with a label."""
    # Four fractional bits; OpenCV puts pixel centres, the camera pixel corners, on whole numbers.
    pixels = np.round(16 * (camera.project(points, len(image)) - 0.5)).astype(np.int32)
    cv2.fillConvexPoly(image, cv2.convexHull(pixels), label, shift=4)


SOFT = 1.2, 1.7
"""The pictures are blurred by the first, the sharp paintings by the second, to be alike (px at 128)."""
SHADE = 0.85
"""Share of a paint that light leaves, on average over a block's faces."""
DIM = 90
"""In a pixel darker than this (of 255) a colour counts for less."""
EDGE = 5
"""Pixels around what differs between two paintings that are compared (at 128)."""
STEPS = (0.01, 0.005, 0.0025)
"""By these the moved block is shifted to where it explains the picture best (m)."""
STACKED = 0.05
"""Largest distance from its base's middle at which a block is still tried on top of it (m)."""

type Chroma = NDArray[np.float32]
"""(size, size, 2): hue as a direction, saturation as length; shading leaves it as it is."""


def read_after(
    picture: NDArray[np.uint8], scene: TabletopScene, layout_before: SceneLayout, moved: Iterable[str]
) -> SceneLayout:
    """Read a picture (size, size, 3) of the scene's own camera, taken after one of the blocks `moved` may
    have been moved from the layout `layout_before`.

    As `read_back`, but for pictures that seem to show anything else gone or elsewhere: there, all else is
    where it was if the picture is explained at least as well so, and by each such thing.

    Raises:
        ValueError: as `read_back`.
    """
    reader = SceneReader(picture, scene)
    reading = reader.read()
    blocks = [b for b in moved if b in layout_before]
    gone = [n for n in layout_before if n not in reading or displacement(reading, layout_before, n) > STILL]
    if any(set(gone) <= {block} and block in reading for block in blocks):
        return reading
    painter = _Painter(reader, scene)
    explained = [_explained(painter, reader, layout_before, block) for block in blocks]
    for layout in sorted((e for e in explained if e), key=painter.error):
        if painter.prefers(layout, reading):
            return layout
    return reading


def _tried(reader: SceneReader, layout_before: SceneLayout, moved: str) -> Iterator[SceneLayout]:
    """Yield layouts with the block where its colour shows, on the table or a base, and all else as it was."""
    rest = {name: at for name, at in layout_before.items() if name != moved}
    mask_centre = centre(reader.seen[moved]) if moved in reader.seen else None
    if mask_centre is not None:
        yield rest | {moved: reader.stand(mask_centre, None)}
    for base in (name for name in rest if not is_bowl(name)):
        top = rest[base] + np.array([0, 0, 2 * HALF])
        if all(np.linalg.norm(at - top) > HALF for at in rest.values()):
            yield rest | {moved: top}
            if (
                mask_centre is not None
                and np.linalg.norm((at := reader.stand(mask_centre, rest[base])) - top) < STACKED
            ):
                yield rest | {moved: at}


def _explained(
    painter: "_Painter", reader: SceneReader, layout_before: SceneLayout, block: str
) -> SceneLayout | None:
    """Find the layout, one block moved, that explains the picture best; None if the block is nowhere."""
    layout = min(_tried(reader, layout_before, block), key=painter.error, default=None)
    if layout is None:
        return None
    smallest = painter.error(layout)
    for step in STEPS:
        better = True
        while better:
            better = False
            for way in ((step, 0, 0), (-step, 0, 0), (0, step, 0), (0, -step, 0)):
                shifted = layout | {block: layout[block] + np.array(way)}
                if (error := painter.error(shifted)) < smallest:
                    layout, smallest, better = shifted, error, True
    return layout


class _Painter:
    """Paints layouts in flat colours, and compares them with the picture."""

    def __init__(self, reader: SceneReader, scene: TabletopScene) -> None:
        self._reader = reader
        self._scale = reader.size / 128
        self._names = [o.name for o in (*scene.bowls, *scene.blocks)]
        self._paints = {o.name: 255 * SHADE * np.array(o.rgb) for o in (*scene.bowls, *scene.blocks)}
        self._seen = _chroma(self._soft(reader.picture.astype(np.float32), SOFT[0]))

    @cached_property
    def _table(self) -> Floats:
        """Take the median colour of the lower part of the picture, where nothing is seen."""
        things = np.logical_or.reduce([*segment(self._reader.picture).values(), self._reader.draw({}) > 0])
        free = ~self._around(things)
        free[: self._reader.size // 3] = False
        return np.median(self._reader.picture[free], axis=0) if free.any() else np.full(3, 128.0)

    def error(self, layout: SceneLayout) -> float:
        return float(self._errors(layout)[0].sum())

    def prefers(self, layout: SceneLayout, reading: SceneLayout) -> bool:
        """Tell whether a layout explains the picture as well as the one that was read.

        So must each thing that it adds or has elsewhere, against the same layout without that thing.
        """
        added = [n for n in layout if n not in reading or displacement(layout, reading, n) > STILL]
        return self._as_well(layout, reading) and all(
            self._as_well(layout, {n: at for n, at in layout.items() if n != name}) for name in added
        )

    def _as_well(self, layout: SceneLayout, other: SceneLayout) -> bool:
        (ours, error_here), (other_picture, error_there) = self._errors(layout), self._errors(other)
        differs = self._around(error_here != error_there)
        return bool(ours[differs].sum() <= other_picture[differs].sum())

    def _errors(self, layout: SceneLayout) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        """Compute the squared distance of the colours, (size, size), and which thing is painted where."""
        blocks = {name: at for name, at in layout.items() if not is_bowl(name)}
        drawn = self._reader.draw(blocks)
        order = [*self._reader.bowls, *blocks]
        labels = np.zeros(1 + len(order), np.uint8)
        paints = np.tile(self._table, (1 + len(order), 1))
        for i, name in enumerate(order, 1):
            if name in layout:
                labels[i], paints[i] = 1 + self._names.index(name), self._paints[name]
        painted = self._soft(paints.astype(np.float32)[drawn], SOFT[1])
        return ((_chroma(painted) - self._seen) ** 2).sum(-1), labels[drawn]

    def _soft(self, picture: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
        return np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma * self._scale), np.float32)

    def _around(self, mask: PixelMask) -> PixelMask:
        side = 2 * round(EDGE * self._scale / 2) + 1
        return cv2.dilate(mask.astype(np.uint8), np.ones((side, side), np.uint8)).astype(bool)


def _chroma(rgb: NDArray[np.float32]) -> Chroma:
    hue, saturation, value = cv2.split(cv2.cvtColor(rgb / 255, cv2.COLOR_RGB2HSV))
    strength = saturation * np.minimum(1, value * (255 / DIM))
    angle = np.radians(hue)
    return np.stack([strength * np.cos(angle), strength * np.sin(angle)], -1).astype(np.float32)
