"""Looks of an episode: shades of its colours, tables, light, and the camera. Its events stay the same."""

import colorsys
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from goalreel.errors import InputError
from goalreel.tabletop.grammar import TabletopEpisode
from goalreel.tabletop.mjcf import FIXED
from goalreel.tabletop.scene import TABLES, Look, Paint, Placed, TabletopScene

type Style = Literal["plain", "varied", "unseen"]
"""`plain`: one shade a colour, white light. `varied`: what training shows beside it. `unseen`: what no
training shows."""


@dataclass(frozen=True)
class View:
    """View of an episode: its colours and light, and the fixed camera."""

    look: Style = "plain"
    camera: str = "front"


PLAIN = View()

type Variety = float | View
"""The share of episodes that look other than plain, from 0 to 1; or the view of all of them."""


@dataclass(frozen=True)
class _Range:
    """Extent of a style. Hues are in turns; all others are factors, or shares from 0 to 1."""

    hue: tuple[float, float]
    saturation: tuple[float, float]
    value: tuple[float, float]
    light: tuple[float, float]
    tint: tuple[float, float]
    """Largest difference from white, warmer or cooler."""
    glaze: tuple[float, float]
    """Darkness of bowls inside."""
    tables: tuple[tuple[Paint, Paint], ...]


_RANGES = {
    "varied": _Range(
        hue=(0, 0.014),
        saturation=(0.86, 1.0),
        value=(0.80, 1.05),
        light=(0.75, 1.15),
        tint=(0, 0.05),
        glaze=(0, 0.12),
        tables=tuple(TABLES.values()),
    ),
    "unseen": _Range(
        hue=(0.014, 0.020),
        saturation=(0.78, 0.86),
        value=(0.72, 0.80),
        light=(0.68, 0.75),
        tint=(0.05, 0.08),
        glaze=(0.14, 0.22),
        tables=(
            ((0.66, 0.55, 0.55), (0.62, 0.51, 0.51)),
            ((0.55, 0.60, 0.68), (0.51, 0.56, 0.64)),
            ((0.27, 0.27, 0.28), (0.24, 0.24, 0.25)),
        ),
    ),
}
_STREAM = 77
"""Sets its choices apart from the episode's own."""


def task_id_of(seed: int, view: View = PLAIN) -> str:
    """Make the id of a tabletop task: `tabletop-SEED`, with `-LOOK-CAMERA` unless the view is plain."""
    return f"tabletop-{seed}" if view == PLAIN else f"tabletop-{seed}-{view.look}-{view.camera}"


def task_of(task_id: str) -> tuple[int, View]:
    """Read seed and view from the id of a tabletop task; raise an InputError if it is of another form."""
    name, *parts = task_id.split("-")
    if name != "tabletop" or len(parts) not in (1, 3) or not parts[0].isdecimal():
        raise InputError(f"{task_id!r} is no tabletop task: tabletop-SEED or tabletop-SEED-LOOK-CAMERA")
    look, camera = parts[1:] or (PLAIN.look, PLAIN.camera)
    if look not in ("plain", "varied", "unseen") or camera not in FIXED:
        raise InputError(f"{task_id!r}: no look {look!r}, or no camera {camera!r}")
    return int(parts[0]), View(look, camera)


def view_of(seed: int, variety: Variety) -> View:
    """Choose how training sees the episode of a seed; a larger share contains a smaller one.

    A share `variety` of all episodes has another look, another camera, or both. Training looks through
    `front` and `corner`. `left` stands on the other side, and `side` and `top` hide too much.
    """
    if isinstance(variety, View):
        return variety
    rng = np.random.default_rng([seed, _STREAM])
    if rng.random() >= variety:
        return PLAIN
    return [View("varied"), View("varied"), View("plain", "corner"), View("varied", "corner")][
        rng.integers(4)
    ]


def seen(episode: TabletopEpisode, view: View) -> TabletopEpisode:
    """Show the same episode under another view.

    Raises:
        InputError: no such look.
    """
    scene = episode.scene
    if view.look != "plain":
        if view.look not in _RANGES:
            raise InputError(f"no look {view.look!r}: choose plain or one of {', '.join(_RANGES)}")
        scene = _painted(scene, np.random.default_rng([episode.seed, _STREAM, 1]), _RANGES[view.look])
    return replace(episode, scene=replace(scene, camera=view.camera))


def _painted(scene: TabletopScene, rng: np.random.Generator, how: _Range) -> TabletopScene:
    blocks, bowls = (tuple(_shade(o, rng, how) for o in kind) for kind in (scene.blocks, scene.bowls))
    return replace(scene, blocks=blocks, bowls=bowls, look=_look(scene.look, rng, how))


def _shade(thing: Placed, rng: np.random.Generator, how: _Range) -> Placed:
    """Draw another shade of a thing's colour, near enough that its word still says which it is."""
    hue, saturation, value = colorsys.rgb_to_hsv(*thing.rgb)
    paint = colorsys.hsv_to_rgb(
        (hue + _signed(rng, how.hue)) % 1,
        saturation * rng.uniform(*how.saturation),
        min(1.0, value * rng.uniform(*how.value)),
    )
    return replace(thing, paint=paint)


def _look(look: Look, rng: np.random.Generator, how: _Range) -> Look:
    table, shade = how.tables[rng.integers(len(how.tables))]
    blend, warmth, glaze = rng.uniform(0, 1), _signed(rng, how.tint), 0.96 - rng.uniform(*how.glaze)
    return replace(
        look,
        table=_between(table, shade, blend),
        shade=_between(shade, table, 0.2 * blend),
        brightness=float(rng.uniform(*how.light)),
        light=(float(rng.uniform(0.1, 0.9)), float(rng.uniform(-0.6, 0.6))),
        tint=(1 + warmth, 1.0, 1 - warmth),
        glaze=(glaze, 0.99 * glaze, 0.96 * glaze),
    )


def _signed(rng: np.random.Generator, span: tuple[float, float]) -> float:
    return float(rng.uniform(*span) * rng.choice((-1, 1)))


def _between(first: Paint, second: Paint, share: float) -> Paint:
    red, green, blue = ((1 - share) * a + share * b for a, b in zip(first, second, strict=True))
    return red, green, blue
