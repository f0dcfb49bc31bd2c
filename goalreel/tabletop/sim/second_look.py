"""A second look at a picture in which one block alone should have moved.

Where a tower hides a bowl, or red runs into yellow, colours alone are misread (`readback`). So the scene is
painted twice, as it was read and with everything else where it was before, and the picture decides.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from goalreel.tabletop.sim.predicates import displacement
from goalreel.tabletop.sim.readback import STILL, PixelMask, SceneReader, centre, segment
from goalreel.tabletop.sim.scene import HALF, Floats, SceneLayout, TabletopScene, is_bowl

SOFT = 1.2, 1.7
"""The pictures are blurred by the first, the sharp paintings by the second, to be alike (px at 128)."""
SHADE = 0.85
"""What light leaves of a paint, on average over a block's faces."""
DIM = 90
"""In a pixel darker than this (of 255) a colour counts for less."""
EDGE = 5
"""Pixels around what differs between two paintings that are compared (at 128)."""
STEPS = (0.01, 0.005, 0.0025)
"""By these the moved block is shifted to where it explains the picture best (m)."""
STACKED = 0.05
"""How far off its base's middle a block may be seen and still be tried on top of it (m)."""

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
    reader = SceneReader.of(picture, scene)
    reading = reader.read()
    blocks = [b for b in moved if b in layout_before]
    if any(not _strange(reading, layout_before, block) for block in blocks):
        return reading
    painter = _Painter(reader, scene)
    explained = [_explained(painter, reader, layout_before, block) for block in blocks]
    for layout in sorted((e for e in explained if e), key=painter.error):
        if painter.prefers(layout, reading):
            return layout
    return reading


def _strange(layout: SceneLayout, layout_before: SceneLayout, moved: str) -> bool:
    """Tell whether the block, or a thing beside it that was to stay, is gone or elsewhere."""
    return any(
        n not in layout or (n != moved and displacement(layout, layout_before, n) > STILL)
        for n in layout_before
    )


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
