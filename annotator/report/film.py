"""Films and GIFs with captions, in a size for a talk."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from goalreel.annotator.report.cards import EpisodeView, told
from goalreel.annotator.report.sheet import INK, MARKS, MUTED, Cell, Line, contact_sheet, lay_out
from goalreel.datasets.video import ffmpeg_url
from goalreel.files import atomic
from goalreel.image import Image
from goalreel.types import Attempt
from goalreel.wording import verdict_text

WIDTH, CELL, GIF_WIDTH = 1280, 560, 960
"""Pixels: the width of a film, of a picture in it at least, and of a GIF."""
SECONDS, RATE = 2.5, 2
"""Time for which a picture of a storyboard stands still; frames a second of its film."""
NAME = 60
"""Characters of a file's name."""
type Kind = Literal["PNG", "GIF", "MP4"]


def film_name(instruction: str) -> str:
    """Name of the files about a task, after its instruction; at most `NAME` characters.

    >>> film_name("Stack: the red, the blue!")
    'stack-the-red-the-blue'
    """
    name = "-".join(re.findall(r"\w+", instruction.lower()))
    return (name if len(name) <= NAME else name[:NAME].rpartition("-")[0] or name[:NAME]) or "storyboard"


def write_films(
    view: EpisodeView, out: Path, kinds: Iterable[Kind] = ("PNG", "GIF", "MP4")
) -> dict[str, Path]:
    """Write a storyboard in these kinds into a folder; return the files by kind, none without a picture."""
    if not any((view.storyboard.task.image, *view.storyboard.goal_images())):
        return {}
    pages, name = list(_pages(view)), film_name(view.storyboard.task.instruction)
    files: dict[str, Path] = {kind: out / f"{name}.{kind.lower()}" for kind in kinds}
    for kind, path in files.items():
        with atomic(path) as part:
            if kind == "PNG":
                part.write_bytes(contact_sheet(view).png())
            elif kind == "GIF":
                write_gif(pages, part)
            else:
                write_film((page for page in pages for _ in range(round(SECONDS * RATE))), part, RATE)
    return files


def page(title: str, cells: Iterable[Cell]) -> Image:
    """Lay out a picture of a film: the instruction, and pictures side by side."""
    return lay_out((Line(title, 30, INK, 4),), tuple(cells), WIDTH, CELL)


def caption(text: str, colour: str = INK, lines: int = 2) -> Line:
    """A line below a picture of a film."""
    return Line(text, 26 if colour == INK else 22, colour, lines)


def _pages(view: EpisodeView) -> Iterator[Image]:
    """The first frame beside the plan, then every attempt beside the picture before it."""
    board = view.storyboard
    before, label = board.task.image, "first frame"
    if before is not None:
        named = ", then ".join(step.step.name for step in board.steps)
        plan = Cell(None, (caption("the plan", MUTED),), note=Line(named or "no plan", 26, INK, 12))
        yield page(view.instruction, [Cell(before, (caption(label, MUTED),)), plan])
    for number, (step, goal) in enumerate(zip(board.steps, board.goal_images(), strict=True), 1):
        name = caption(f"{number}. {step.step.name}")
        left = [] if before is None else [Cell(before, (caption(label, MUTED),))]
        drawn = [attempt for attempt in step.attempts if attempt.image is not None]
        for tried, attempt in enumerate(drawn, 1):
            many = f"attempt {tried} of {len(drawn)}: " if len(drawn) > 1 else ""
            yield page(view.instruction, [*left, _attempt(attempt, name, many)])
        if not drawn:
            said = Line(step.step.auxiliary_text or "no picture", 26, INK, 8)
            missing = Cell(None, (name, caption(told(step, None), MUTED)), note=said)
            yield page(view.instruction, [*left, missing])
        if goal is not None:
            before, label = goal, f"goal {number}"


def _attempt(attempt: Attempt, name: Line, many: str) -> Cell:
    mark, verdict = MARKS[attempt.status], attempt.verdict
    said = "" if verdict is None else f". {verdict_text(verdict, attempt.registration)}"
    lines = (name, caption(f"{many}{attempt.status}{said}", mark.colour, 3))
    return Cell(attempt.image, lines, mark, border=mark.colour)


def write_gif(pages: list[Image], path: Path) -> None:
    """Write pictures of one width as a GIF that repeats."""
    height = max(one.size[1] for one in pages)
    size = GIF_WIDTH, round(height * GIF_WIDTH / WIDTH)
    fast = PIL.Image.Quantize.FASTOCTREE  # a fifth of the default's time
    padded = (PIL.Image.fromarray(_padded(one, height)) for one in pages)
    first, *rest = [picture.resize(size).quantize(method=fast) for picture in padded]
    first.save(path, save_all=True, append_images=rest, duration=round(1000 * SECONDS), loop=0, format="GIF")


def write_film(pages: Iterable[Image], path: Path, rate: float, height: int | None = None) -> None:
    """Write pictures of one width as MP4 (H.264), on white; None makes it as high as the highest."""
    import av

    if height is None:
        pages = list(pages)
        height = max(one.size[1] for one in pages)
    height += height % 2
    with av.open(ffmpeg_url(path), "w", format="mp4") as file:
        stream = file.add_stream("h264", rate=round(rate), options={"crf": "20", "preset": "veryfast"})
        stream.pix_fmt = "yuv420p"
        for one in pages:
            stream.width, stream.height = one.size[0], height
            file.mux(stream.encode(av.VideoFrame.from_ndarray(_padded(one, height), format="rgb24")))
        file.mux(stream.encode())


def _padded(picture: Image, height: int) -> NDArray[np.uint8]:
    pixels = picture.pixels[:height]
    return np.pad(pixels, ((0, height - len(pixels)), (0, 0), (0, 0)), constant_values=255)
