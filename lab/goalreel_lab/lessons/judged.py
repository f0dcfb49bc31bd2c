"""Verdict rows from an editor's own pictures, judged by reading them back; the unreadable is left out.

On made candidates of 70 validation sub-goals: of 453 without a misshapen block 442 were judged, all rightly;
of 67 with one 19 were recognised, 3 passed as right and 45 were left out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import batched
from typing import Self
from zlib import crc32

import cv2
import numpy as np

from goalreel.image import Image
from goalreel.tabletop.readback import MOVED, STILL, PixelMask, fit_cubes, possible, read_after, segment
from goalreel.tabletop.scene import SceneLayout, SubGoal, colour, displacement
from goalreel.types import Edit, Editor
from goalreel_lab.lessons.edits import order
from goalreel_lab.lessons.grounding import compare
from goalreel_lab.lessons.mistakes import Made
from goalreel_lab.lessons.prompts import terse
from goalreel_lab.lessons.rows import VerdictRow
from goalreel_lab.lessons.steps import Done, walk
from goalreel_lab.lessons.verdicts import verdict_row

type Draw = Callable[[Sequence[Image], Sequence[str]], Sequence[Image | None]]
"""(sources, prompts) -> pictures of the same size, one each; None where there is none."""

WHOLE, BROKEN = (0.7, 1.4), (0.5, 2.0)
"""Area of a colour against the target's: within WHOLE it is in order, outside BROKEN it is not."""
WORSE = 0.10
"""A block whose outline fits a cube by this much less than in the target may be misshapen (IoU)."""
_STREAM = 4


def editor_rows(
    seeds: Iterable[int], draw: Draw, size: int = 128, batch: int = 32, variety: float = 0.0
) -> Iterator[VerdictRow]:
    """Make a row for each register of a sub-goal: what the editor made of it, right or wrong.

    Raises:
        ValueError: the editor did not give one picture a prompt.
    """
    for some in batched(walk(seeds, size, _STREAM, variety), batch):
        judges = [judge for done in some if (judge := Judge.of(done))]
        requests = [(j, p) for j in judges for p in (terse(j.done.goal, j.done.rng), order(j.done))]
        pictures = draw([j.done.source for j, _ in requests], [prompt for _, prompt in requests])
        for (judge, prompt), picture in zip(requests, pictures, strict=True):
            if picture is not None and (row := judge.read(picture)):
                done = judge.done
                change = compare(done.layout, row.layout, done.goal, row.misshapen)
                yield verdict_row(done, row, None if change.success(done.goal) else "editor", prompt)


def drawn_by(editor: Editor) -> Draw:
    """Make a function by which an editor draws.

    A prompt has its own seed, so that rows do not depend on their order.

    Raises (when called):
        goalreel.errors.BackendError: it cannot be called at all.
    """

    def draw(sources: Sequence[Image], prompts: Sequence[str]) -> list[Image | None]:
        edits = [
            Edit(task_id=str(i), step=0, attempt=0, image=source, prompt=prompt, seed=crc32(prompt.encode()))
            for i, (source, prompt) in enumerate(zip(sources, prompts, strict=True))
        ]
        return [answer if isinstance(answer, Image) else None for answer in editor.edit(edits)]

    return draw


@dataclass(frozen=True)
class Judge:
    """Reads pictures that should show a sub-goal reached. `fits`: how well each block in the target fits a
    cube's outline (IoU)."""

    done: Done
    fits: dict[str, float]

    @classmethod
    def of(cls, done: Done) -> Self | None:
        """Prepare to judge pictures of a sub-goal; None where not even its true target can be read."""
        layout = _look(done, done.target)
        if any(n not in layout or displacement(layout, done.reached, n) > STILL for n in done.reached):
            return None
        return cls(done, _fits(done.target, layout, done.env.scene.camera))

    def read(self, picture: Image) -> Made | None:
        """Read what a picture shows; None where that is in doubt: hidden, on a limit, or of odd shape."""
        layout, goal = self.done.layout, self.done.goal
        reading = _look(self.done, picture)
        shifts = [displacement(reading, layout, name) for name in reading if name != goal.object]
        if any(STILL < shift < MOVED for shift in shifts) or not sure(reading, goal):
            return None
        now = {n: layout[n] if displacement(reading, layout, n) <= STILL else at for n, at in reading.items()}
        if not compare(layout, now, goal).success(goal):
            return Made(picture, now)
        odd = self._odd(picture, reading)
        return None if odd is None else Made(picture, now, odd)

    def _odd(self, picture: Image, layout: SceneLayout) -> tuple[str, ...] | None:
        """Name blocks whose colour covers far more or less than in the target; None where one is in doubt."""
        picture_masks, target_masks = segment(picture.pixels), segment(self.done.target.pixels)
        shares = {
            b: picture_masks[colour(b)].sum() / max(target_masks[colour(b)].sum(), 1) for b in self.fits
        }
        if odd := tuple(b for b, share in shares.items() if not BROKEN[0] < share < BROKEN[1]):
            return odd
        fits = _fits(picture, layout, self.done.env.scene.camera)
        doubt = any(fits[block] < fit - WORSE for block, fit in self.fits.items())
        doubt |= not all(WHOLE[0] < share < WHOLE[1] for share in shares.values())
        return None if doubt or self._strays(picture_masks, target_masks) else ()

    def _strays(self, picture_masks: dict[str, PixelMask], target_masks: dict[str, PixelMask]) -> bool:
        """Tell whether a block that should stay has another outline.

        Edges do not count, nor does what the moved block hides.
        """
        moved = colour(self.done.goal.object)
        near = (
            cv2.dilate(
                (picture_masks[moved] | target_masks[moved]).astype(np.uint8), np.ones((5, 5), np.uint8)
            )
            > 0
        )
        for block in (b for b in self.fits if b != self.done.goal.object):
            differs = (picture_masks[colour(block)] ^ target_masks[colour(block)]) & ~near
            if cv2.morphologyEx(differs.astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8)).any():
                return True
        return False


def _look(done: Done, picture: Image) -> SceneLayout:
    return read_after(picture.pixels, done.env.scene, done.layout, (done.goal.object,))


def _fits(picture: Image, layout: SceneLayout, camera: str) -> dict[str, float]:
    return {block: fit for block, (_, fit) in fit_cubes(picture.pixels, layout, camera).items()}


def sure(layout: SceneLayout, goal: SubGoal) -> bool:
    """Tell whether the sub-goal's answer is the same all around where the block was read."""
    if goal.object not in layout or goal.target not in layout:
        return True
    return len(possible(layout, goal)) == 1
