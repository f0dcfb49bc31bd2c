"""(source, candidate, instruction, prompt) -> verdict: as many right pictures as wrong ones."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import batched
from typing import Self
from zlib import crc32

import cv2
import numpy as np

from goalreel.datasets.corpora.critic_rows import CritiqueRow, candidate_of
from goalreel.image import Image
from goalreel.tabletop.grammar import state_of
from goalreel.tabletop.readback import MOVED, STILL, PixelMask, fit_cubes, read_after, segment
from goalreel.tabletop.scene import SceneLayout, SubGoal, colour, displacement
from goalreel.types import Edit, Editor
from goalreel_lab.corpora.edits import MADE, Made, make, order, relabel, vary
from goalreel_lab.corpora.grounding import Change, compare, verdict_of
from goalreel_lab.corpora.plans import Done, walk
from goalreel_lab.corpora.prompts import terse
from goalreel_lab.corpora.rows import Mistake, VerdictRow
from goalreel_lab.scoring import SimulatorScorer, possible, success_of
from goalreel_lab.variety import Variety, task_id_of

_STREAM = 3


def verdict_rows(
    seeds: Iterable[int], size: int = 128, variety: Variety = 0.0, relabelled: float = 0.0
) -> Iterator[VerdictRow]:
    """Make a right and a wrong candidate for each sub-goal.

    A training seed with a held-out composition gives none.

    Half of the right ones are the target, the others have the block elsewhere within tolerance. The wrong one
    has the first mistake, in random order, that the scene offers. With `relabelled`, that share of the wrong
    ones are the target itself, asked about as another sub-goal's (`edits.relabel`), where the scene offers
    one: for training alone, as TabletopBench's candidates stay the same.
    """
    for done in walk(seeds, size, _STREAM, variety):
        right = vary(done) if done.rng.random() < 0.5 else Made(done.target, done.reached)
        yield verdict_row(done, right, None)
        other = relabel(done) if relabelled and done.rng.random() < relabelled else None
        if other is not None:
            yield verdict_row(other, Made(done.target, done.reached), "relabelled")
        elif wrong := _wrong(done):
            yield verdict_row(done, *wrong)


def _wrong(done: Done) -> tuple[Made, Mistake] | None:
    """Make a candidate with the first mistake, in random order, that the scene offers."""
    for i in done.rng.permutation(len(MADE)):
        if mistake := make(done, MADE[i]):
            return mistake, MADE[i]
    return None


def verdict_row(
    done: Done, fault: Made, mistake: Mistake | None, prompt: str | None = None, change: Change | None = None
) -> VerdictRow:
    """Make the row of a candidate.

    Args:
        prompt: drawn from both registers if None.
        change: what the candidate shows; told by its layout if None.

    Raises:
        ValueError: the candidate is right and should not be, or the other way round.
    """
    if change is None:
        change = compare(done.layout, fault.layout, done.goal, fault.misshapen)
    verdict = verdict_of(done.layout, fault.layout, done.reached, done.goal, change)
    if verdict.success != (mistake is None):
        raise ValueError(
            f"seed {done.origin.seed}, step {done.origin.done}: {mistake}, but {verdict.reasoning}"
        )
    if prompt is None:
        prompt = prompt_for(done)
    return VerdictRow(
        source=done.source,
        candidate=fault.image,
        instruction=state_of(done.goal),
        prompt=prompt,
        goal=done.goal,
        verdict=verdict,
        mistake=mistake,
        origin=done.origin,
    )


def prompt_for(done: Done) -> str:
    """Write an order for the step, in either register."""
    return terse(done.goal, done.rng) if done.rng.random() < 0.5 else order(done)


type Draw = Callable[[Sequence[Image], Sequence[str]], Sequence[Image | None]]
"""(sources, prompts) -> pictures of the same size, one each; None where there is none."""

WHOLE, BROKEN = (0.7, 1.4), (0.5, 2.0)
"""Area of a colour against the target's: within WHOLE it is in order, outside BROKEN it is not."""
WORSE = 0.10
"""A block whose outline fits a cube by this much less than in the target may be misshapen (IoU)."""
_JUDGED_STREAM = 4


def editor_rows(
    seeds: Iterable[int], draw: Draw, size: int = 128, batch: int = 32, variety: float = 0.0
) -> Iterator[VerdictRow]:
    """Make a row for each register of a sub-goal: what the editor made of it, right or wrong.

    Raises:
        ValueError: the editor did not give one picture a prompt.
    """
    for some in batched(walk(seeds, size, _JUDGED_STREAM, variety), batch):
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


_CRITIQUE_STREAM = 8
_BATCH = 32


def critique_rows(
    seeds: Iterable[int], draw: Draw, size: int = 128, variety: float = 0.0
) -> Iterator[CritiqueRow]:
    """Make up to four rows for each sub-goal.

    Two are what the editor made of its terse and of its explicit order, as a first and a second attempt. The
    others are made candidates, of whichever kind, right or wrong, there are fewer of. They have one order or
    the other. A training seed with a held-out composition gives no rows.

    Raises:
        ValueError: the editor did not give one picture a prompt.
    """
    for some in batched(walk(seeds, size, _CRITIQUE_STREAM, variety), _BATCH):
        orders = [(terse(done.goal, done.rng), order(done)) for done in some]
        requests = [(done, prompt) for done, both in zip(some, orders, strict=True) for prompt in both]
        drawn = draw([done.source for done, _ in requests], [prompt for _, prompt in requests])
        pictures = list(batched(drawn, 2))
        for done, both, pair in zip(some, orders, pictures, strict=True):
            yield from _of(done, both, pair)


def _of(done: Done, orders: tuple[str, str], pictures: tuple[Image | None, ...]) -> Iterator[CritiqueRow]:
    drawn_rows = [_row(done, orders, n, p) for n, p in enumerate(pictures) if p is not None]
    rows = [row for row in drawn_rows if row is not None]
    right = sum(row.success for row in rows)
    wrong = len(rows) - right
    for success in [True] * max(wrong - right, 0) + [False] * max(right - wrong, 0) or [True, False]:
        mistake = _made(done, success)
        row = None if mistake is None else _row(done, orders, int(done.rng.integers(2)), mistake.image)
        if row is not None and row.success == success:
            rows.append(row)
    yield from rows


def _made(done: Done, success: bool) -> Made | None:
    if success:
        return vary(done)
    mistakes = (make(done, MADE[i]) for i in done.rng.permutation(len(MADE)))
    return next((picture for picture in mistakes if picture is not None), None)


def _row(done: Done, orders: tuple[str, str], attempt: int, picture: Image) -> CritiqueRow | None:
    """Make the row of a picture from the order of its attempt; None where its truth is in doubt."""
    row = CritiqueRow(
        task_id=task_id_of(done.origin.seed, done.origin.view),
        step=done.origin.done,
        attempt=attempt,
        source=done.source,
        candidate=picture.resized(done.source.size),
        drawn=False,
        instruction=state_of(done.goal),
        first_prompt=orders[0],
        prompt=orders[attempt],
        success=False,
        semantics=0,
        quality=0,
    )
    (scores,) = SimulatorScorer().score([candidate_of(row)])
    success = success_of(scores)
    if scores is None or success is None:
        return None
    return replace(row, success=success, semantics=scores.semantics, quality=scores.quality)
