"""Boards of the simulated tabletop: real renders, exact goal images, every state a step can be in."""

import functools
import itertools
from dataclasses import replace
from uuid import UUID

from goalreel.image import Image
from goalreel.streaming.board import Board, Frame, StepPanel
from goalreel.tabletop.env import Tabletop, teleport
from goalreel.tabletop.grammar import sample_episode
from goalreel.types import Attempt, Step, StoryboardStep, Verdict

FRAME = "camera_optical_frame"


def record(step: Step, attempt: Attempt | None = None) -> StoryboardStep:
    """A step with what came of it."""
    if attempt is None:
        return StoryboardStep(step=step)
    chosen = None if attempt.image is None else 0
    return StoryboardStep(step=step, attempts=(attempt,), status=attempt.status, chosen=chosen)


@functools.cache
def scene(size: int, camera: str = "front") -> tuple[str, tuple[str, ...], tuple[Image, ...]]:
    """Instruction, sub-goals, and pictures before and after each, of an episode of four sub-goals."""
    episode = next(e for e in map(sample_episode, itertools.count()) if len(e.goals) == 4)
    with Tabletop(episode.scene) as env:
        pictures = [Image(env.render(camera, size))]
        for goal in episode.goals:
            teleport(env, goal)
            pictures.append(Image(env.render(camera, size)))
    return episode.instruction, tuple(goal.text for goal in episode.goals), tuple(pictures)


def finished(size: int = 256) -> Board:
    """A plan of four steps with its pictures, before anything is executed."""
    instruction, goals, (first, *after) = scene(size)
    panels = tuple(
        StepPanel(
            i,
            record(
                Step(name=text, instruction=f"{text}, and nothing else has moved", prompt=text),
                Attempt(prompt=text, seed=i, image=after[i], verdict=Verdict(success=True)),
            ),
            max_attempts=3,
            image_status="accepted",
            attempts=1,
        )
        for i, text in enumerate(goals)
    )
    source = Frame(first, stamp=1_000_000_000, frame_id=FRAME)
    return Board(UUID(int=1), instruction, "ready", stamp=2_000_000_000, source=source, steps=panels)


def under_way(size: int = 256) -> Board:
    """One step done, the second active after two tries, the third being drawn, the fourth waiting."""
    board = finished(size)
    a, b, c, d = board.steps
    return replace(
        board,
        state="executing",
        steps=(
            replace(a, status="completed"),
            replace(b, status="active", attempts=2),
            replace(c.without_picture(), image_status="generating"),
            d.without_picture(),
        ),
    )


def long(count: int, size: int = 256) -> Board:
    """A plan of `count` steps with their pictures."""
    board = finished(size)
    return replace(board, steps=tuple(replace(board.steps[i % 4], index=i) for i in range(count)))
