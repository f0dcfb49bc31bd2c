"""Make docs/images/storyboard.png: a storyboard of the nano models in which the Critic had something to say.

Tries the scenes of the validation split in order, each as `goalreel plan --preset nano` would, and takes the
first whose storyboard has one rejected picture and its correction, in which the simulator agrees with the
plan, the rejection and every acceptance, and in which no accepted picture smudges anything. Scenes in which a
block comes to stand before another are left out: they are hard to read. It does not check the Critic's words.

    .venv/bin/python dev/nano_picture.py docs/images/storyboard.png
"""

import io
import logging
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import PIL.Image
import typer
from PIL.PngImagePlugin import PngInfo

from goalreel.annotator.report.sheet import INK, MARKS, MUTED, Cell, Line, lay_out
from goalreel.cli.errors import one_line_errors
from goalreel.drivers import Limits, run
from goalreel.errors import InputError
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.models.model_set import ModelSet
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.mjcf import FIXED
from goalreel.tabletop.readback import segment
from goalreel.tabletop.scene import HALF, is_bowl
from goalreel.tabletop.splits import seeds
from goalreel.types import Attempt, Plan, Storyboard, StoryboardStep, Verdict
from goalreel_lab.bench.plan import read_plan
from goalreel_lab.bench.scenes import Walk, look_rendered, outcome, walk

PRESET: Final = "nano"
SCENES: Final = 2000
"""Scenes tried at most."""
STEPS: Final = (2, 3)
"""So that all pictures stand in one row."""
WIDTH: Final = 1360
CELL: Final = 240
KEPT: Final = 0.75
"""Least share of a colour's area in the true picture that an accepted one shows: what fades or frays
still reads as in its place."""
HIDES: Final = 3.0
"""Degrees, from the camera, within which one block hides half of another that it does not stand on."""

log = logging.getLogger(__name__)


def candidates() -> Iterator[int]:
    """Validation seeds in order, of storyboards that fit on the picture."""
    return (seed for seed in seeds("validation", SCENES) if len(sample_episode(seed).goals) in STEPS)


def search(tried: Iterable[int], model_set: ModelSet, attempts: int) -> tuple[int, Storyboard]:
    """Find the first of the seeds with a storyboard to show.

    Raises:
        InputError: none of them has one.
    """
    for seed in tried:
        scene = walk(seed)
        if hides(scene):
            log.info("seed %d: one block hides another", seed)
            continue
        task = scene.task.model_copy(update={"seed": 0})  # the default of `goalreel plan`
        models = (model_set.planner, model_set.editor, model_set.critic)
        board = next(run([task], *models, max_attempts=attempts, limits=Limits(1, 1)))
        wrong = objection(scene, board)
        log.info("seed %d: %s", seed, wrong or "taken")
        if wrong is None:
            return seed, board
    raise InputError("no scene has a storyboard to show")


def objection(scene: Walk, board: Storyboard) -> str | None:
    """Say why a storyboard is not for the picture; None if it is."""
    if board.failure is not None:
        return board.failure.message
    plan = Plan(steps=tuple(step.step for step in board.steps))
    if tuple(read_plan(plan, scene.names)) != scene.goals:
        return "the plan is wrong"
    if not board.complete:
        return "a step was never accepted"
    if sum(len(step.attempts) for step in board.steps) != len(board.steps) + 1:
        return "not one picture was rejected, but none or several"
    if not all(all(rights) for rights in judged(scene, board)):
        return "the simulator does not agree with the Critic"
    if colours := smudged(scene, board):
        return f"an accepted picture smudges {', '.join(sorted(colours))}"
    return None


def hides(scene: Walk) -> bool:
    """Tell whether a block stands before another in one of a scene's true pictures."""
    camera = np.array(FIXED[scene.episode.scene.camera].position)
    for moment in scene.moments:
        blocks = [at for name, at in moment.layout.items() if not is_bowl(name)]
        for first, second in combinations(blocks, 2):
            stacked = np.linalg.norm((first - second)[:2]) < HALF
            sides = [(at - camera) / np.linalg.norm(at - camera) for at in (first, second)]
            if not stacked and np.degrees(np.arccos(sides[0] @ sides[1])) < HIDES:
                return True
    return False


def smudged(scene: Walk, board: Storyboard) -> set[str]:
    """Name the colours of which a goal image shows too little."""
    names = set()
    for moment, goal in zip(scene.moments[1:], board.goal_images(), strict=True):
        assert goal is not None, "the board is complete"
        drawn, true = segment(goal.pixels), segment(moment.picture.pixels)
        names |= {colour for colour in true if drawn[colour].sum() < KEPT * true[colour].sum()}
    return names


def judged(scene: Walk, board: Storyboard) -> Iterator[list[bool]]:
    """For every step of a complete board, whether the simulator agrees with each attempt's verdict."""
    layout = scene.moments[0].layout
    for goal, step in zip(scene.goals, board.steps, strict=True):
        drawn_layouts = [
            look_rendered(attempt.image, scene.episode.scene, layout, goal.object)
            for attempt in step.attempts
        ]
        truth = [outcome(drawn, layout, goal).right for drawn in drawn_layouts]
        verdicts = [a.verdict is not None and a.verdict.success for a in step.attempts]
        yield [t == s for t, s in zip(truth, verdicts, strict=True)]
        layout = drawn_layouts[-1] or layout


def sheet(seed: int, board: Storyboard) -> Image:
    """First frame, then every attempt of every step, rejected ones in red."""
    paragraphs = (
        Line(board.task.instruction, 24, INK, 3),
        Line(
            f"predicted by the {PRESET} models · a scene of the validation split, which they have not seen · "
            f"goalreel tabletop scene --seed {seed}",
            15,
            MUTED,
            2,
        ),
    )
    first = Cell(board.task.image, (Line("first frame", 17, INK, 1),))
    cells = [_cell(n, i, a, s) for n, s in enumerate(board.steps, 1) for i, a in enumerate(s.attempts, 1)]
    return lay_out(paragraphs, [first, *cells], WIDTH, CELL)


def _cell(number: int, count: int, attempt: Attempt, step: StoryboardStep) -> Cell:
    verdict = attempt.verdict
    good = verdict is not None and verdict.success
    mark = MARKS["accepted" if good else "failed"]
    word = "accepted" if good else "rejected"
    lines = [
        Line(f"{number}. {step.step.name}", 17, INK, 2),
        Line(f"“{attempt.prompt}”", 15, MUTED, 8),
        Line(word if len(step.attempts) == 1 else f"attempt {count}: {word}", 15, mark.colour, 1),
    ]
    if verdict is not None and not good:
        lines.append(Line(f"Critic: {reason(verdict)}", 15, mark.colour, 4))
    return Cell(attempt.image, tuple(lines), mark, mark.colour)


def reason(verdict: Verdict) -> str:
    """Say what the Critic finds wrong, without its first sentence, which only says where things are."""
    places, _, faults = verdict.reasoning.partition(". ")
    return faults or places


def png(seed: int, picture: Image) -> bytes:
    """Encode the picture with its seed, for the README's test."""
    about, data = PngInfo(), io.BytesIO()
    about.add_text("seed", str(seed))
    PIL.Image.fromarray(picture.pixels).save(data, "PNG", pnginfo=about, optimize=True)
    return data.getvalue()


def main(out: Path) -> None:
    """Search, and write the picture."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    log.setLevel(logging.INFO)
    with one_line_errors():
        preset = presets.load(PRESET)
        seed, board = search(candidates(), load(preset), preset.max_attempts)
        write_bytes(out, png(seed, sheet(seed, board)))
        log.info("README.md and the Makefile are to name seed %d: %s", seed, board.task.instruction)


if __name__ == "__main__":
    typer.run(main)
