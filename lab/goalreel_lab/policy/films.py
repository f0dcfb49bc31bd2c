"""A task as a GIF: front camera, the goal image that the policy is given beside it, what it is told above."""

import io
import textwrap
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as Picture

from goalreel.files import write_bytes
from goalreel.tabletop.env import Tabletop
from goalreel_lab.policy.acting import GoalCue
from goalreel_lab.policy.rollout import OnStep, PolicyEnd

SIDE, LINE, LINES, LETTERS = 160, 13, 3, 56
"""Pixels of a picture's side and of a line of text; how many lines there are, of so many letters."""
BANNER = LINES * LINE + 3
EVERY = 5
"""Control steps between two frames: half a second, shown in a fifth of one."""
FRAME_MS, LAST_MS = 200, 1500


def film(carry_out: Callable[[OnStep], PolicyEnd], path: Path) -> None:
    """Carry out a task once more, and write it to `path`."""
    frames: list[NDArray[np.uint8]] = []
    steps = 0

    def look(env: Tabletop, cue: GoalCue) -> None:
        nonlocal steps
        if steps % EVERY == 0:
            frames.append(_frame(env.render(env.scene.camera, SIDE), cue))
        steps += 1

    end = carry_out(look)
    frames[-1] = _with_text(frames[-1], "reached" if end.success else "not reached")
    # One palette for all, or colours flicker: of the first frame and the last, which show every block.
    colours = Picture.fromarray(np.vstack([frames[0], frames[-1]])).quantize(256)
    pictures = [Picture.fromarray(f).quantize(palette=colours, dither=Picture.Dither.NONE) for f in frames]
    packed = io.BytesIO()
    waits = [FRAME_MS] * (len(pictures) - 1) + [LAST_MS]
    pictures[0].save(packed, "GIF", save_all=True, append_images=pictures[1:], duration=waits, loop=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, packed.getvalue())


def _frame(live: NDArray[np.uint8], cue: GoalCue) -> NDArray[np.uint8]:
    black = np.zeros((SIDE, SIDE, 3), np.uint8)
    goal = black if cue.picture is None else cue.picture.resized((SIDE, SIDE)).pixels
    banner = np.full((BANNER, 2 * SIDE, 3), 255, np.uint8)
    return _with_text(np.vstack([banner, np.hstack([live, goal])]), cue.text or "(no words)")


def _with_text(frame: NDArray[np.uint8], text: str) -> NDArray[np.uint8]:
    pixels = frame.copy()
    pixels[:BANNER] = 255
    for number, line in enumerate(textwrap.wrap(text, LETTERS, max_lines=LINES, placeholder=" ..."), 1):
        cv2.putText(
            pixels, line, (3, LINE * number), cv2.FONT_HERSHEY_SIMPLEX, 0.34, (0, 0, 0), 1, cv2.LINE_AA
        )
    return pixels
