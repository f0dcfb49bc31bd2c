"""Verdict rows from an editor's own pictures, judged by reading them back; the unreadable is left out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import batched, product

import numpy as np

from goalreel.annotator.image import Image
from goalreel.datasets.corpora.edits import order
from goalreel.datasets.corpora.grounding import compare
from goalreel.datasets.corpora.mistakes import Made
from goalreel.datasets.corpora.prompts import terse
from goalreel.datasets.corpora.rows import VerdictRow
from goalreel.datasets.corpora.steps import Done, walk
from goalreel.datasets.corpora.verdicts import verdict_row
from goalreel.datasets.tabletop.predicates import SubGoal, shows
from goalreel.datasets.tabletop.readback import read_back, segment
from goalreel.datasets.tabletop.scene import Layout

type Edit = Callable[[Sequence[Image], Sequence[str]], Sequence[Image]]
"""(sources, prompts) -> pictures of the same size, one each."""

STILL, MOVED = 0.012, 0.035
"""What seems to have shifted by less stayed, by more moved; between them the picture cannot be judged (m)."""
UNSURE = 0.008
"""A sub-goal must hold, or not, wherever the block might be within this of its reading (m)."""
WHOLE, BROKEN = (0.7, 1.4), (0.5, 2.0)
"""Area of a colour against the target's: within WHOLE it is in order, outside BROKEN it is not."""
_STREAM = 4


def editor_rows(seeds: Iterable[int], edit: Edit, size: int = 128, batch: int = 32) -> Iterator[VerdictRow]:
    """Two rows a sub-goal at most, one a register: what the editor made of it, right or wrong.

    Raises:
        ValueError: the editor did not give one picture a prompt.
    """
    for some in batched(walk(seeds, size, _STREAM), batch):
        asked = [(done, prompt) for done in some for prompt in (terse(done.goal, done.rng), order(done))]
        pictures = edit([done.source for done, _ in asked], [prompt for _, prompt in asked])
        for (done, prompt), picture in zip(asked, pictures, strict=True):
            if made := judge(done, picture):
                change = compare(done.layout, made.layout, done.goal, made.misshapen)
                yield verdict_row(done, made, None if change.success(done.goal) else "editor", prompt)


def judge(done: Done, picture: Image) -> Made | None:
    """What a picture shows; None where that is in doubt: hidden, on a limit, or of odd shape."""
    scene = done.env.scene
    expected, found = read_back(done.target.pixels, scene), read_back(picture.pixels, scene)
    if any(n not in expected or _away(expected, done.reached, n) > STILL for n in done.reached):
        return None  # not even the right picture can be read
    others = [name for name in found if name != done.goal.object]
    if any(STILL < _away(found, done.layout, name) < MOVED for name in others):
        return None
    if not _sure(found, done.goal):
        return None
    now = {n: done.layout[n] if _away(found, done.layout, n) <= STILL else at for n, at in found.items()}
    if not compare(done.layout, now, done.goal).success(done.goal):
        return Made(picture, now)
    odd = _odd(picture, done.target, done.env.blocks)
    return None if odd is None else Made(picture, now, odd)


def _away(layout: Layout, other: Layout, name: str) -> float:
    return float(np.linalg.norm(layout[name] - other[name]))


def _sure(found: Layout, goal: SubGoal) -> bool:
    """Whether the sub-goal's answer is the same all around where the block was read."""
    if goal.object not in found or goal.target not in found:
        return True
    shifts = [np.array([x, y, 0]) for x, y in product((-UNSURE, 0, UNSURE), repeat=2)]
    return len({shows(found | {goal.object: found[goal.object] + s}, goal) for s in shifts}) == 1


def _odd(picture: Image, target: Image, blocks: Sequence[str]) -> tuple[str, ...] | None:
    """The blocks whose colour covers far more or less than in the target; None where one is in doubt."""
    seen, wanted = segment(picture.pixels), segment(target.pixels)
    shares = {b: seen[b.split()[0]].sum() / max(wanted[b.split()[0]].sum(), 1) for b in blocks}
    odd = tuple(b for b, share in shares.items() if not BROKEN[0] < share < BROKEN[1])
    whole = all(WHOLE[0] < share < WHOLE[1] for share in shares.values())
    return odd if odd or whole else None
