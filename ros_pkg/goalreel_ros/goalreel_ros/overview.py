# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""The whole plan as pictures for people: a contact sheet, and markers for RViz.

The markers' form follows what RViz's code does (the rules are in `tests/ros_pkg/test_overview.py`). Every
array starts with DELETEALL and is complete, so that a late subscriber of the latched topic sees the same.
"""

import textwrap
import unicodedata
from collections.abc import Callable, Iterator
from itertools import batched
from typing import Any, Final

from geometry_msgs.msg import Point, Vector3
from rclpy.publisher import Publisher
from sensor_msgs.msg import CompressedImage, Image as RawImage
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from goalreel.annotator.report.cards import claim_lines
from goalreel.annotator.report.sheet import INK, MUTED, Cell, Line, Mark, lay_out
from goalreel.image import Image
from goalreel.streaming.board import Board, StepPanel
from goalreel_ros.convert import header, image_status
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.pictures import Jpegs, raw

_REPLACEMENTS = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "œ": "oe", "ł": "l", "Ł": "L", "ı": "i", "đ": "d"}
    | dict.fromkeys("‘’‚′", "'")
    | dict.fromkeys("“”„″", '"')
    | dict.fromkeys("‐‑‒–—−", "-")
    | {"…": "...", "×": "x", "→": "->", "·": "-", "°": " deg"}
)


def to_ascii(text: str, fallback: str) -> str:
    """Give the text in ASCII, which is all RViz can draw; the fallback where half of it would be lost."""
    decomposed = unicodedata.normalize("NFKD", text.translate(_REPLACEMENTS))
    letters = [c for c in decomposed if not unicodedata.combining(c)]
    ascii_text = "".join(c if c.isprintable() else " " for c in letters if c.isascii())
    lost_count = sum(not c.isascii() for c in letters)
    ascii_text = " ".join(ascii_text.split())
    return ascii_text if ascii_text and lost_count * 2 < len(letters) else fallback


CELL: Final = 180
"""Preferred width of a picture in pixels, so that a screen holds several in a row."""
ACTIVE: Final = "#2b5d86"
GREEN, GREY, RED = "#17603c", "#535a62", "#9a2323"
_INKS = {"pending": MUTED, "active": ACTIVE, "completed": GREEN, "skipped": GREY, "failed": RED}
_MARKS = {"completed": Mark("tick", GREEN), "skipped": Mark("dash", GREY), "failed": Mark("cross", RED)}
_NOTES = {
    "none": "not rendered yet",
    "generating": "rendering …",
    "validating": "being checked …",
    "text": "no picture: words only",
    "accepted": "no picture",
    "unjudged": "no picture: words only",
    "rejected": "no picture",
    "failed": "no picture came about",
}


def compose(board: Board, width: int) -> Image:
    """Draw the board as one RGB picture, `width` pixels wide and as high as needed.

    The active step is framed and completed ones are ticked. A plan that lost a model says so.
    """
    active = board.active
    facts: list[str] = [board.state.replace("empty", "no plan yet")]
    if active is not None:
        facts.append(f"step {active.index + 1} of {len(board.steps)}")
    if board.revision:
        facts.append(f"plan {board.revision + 1}")
    if board.doubted:
        facts.append(f"{board.doubted} of {len(board.steps)} in doubt")
    paragraphs = [Line(board.task.strip() or "no task", 24, INK, 3), Line(" · ".join(facts), 15, MUTED, 1)]
    if board.degraded:
        paragraphs.append(Line(board.degraded, 17, RED, 3))
    if board.examination is not None:
        paragraphs.append(Line(board.examination.line, 13, MUTED, 2))
    source = board.source
    start = () if source is None else (Cell(source.image, (Line("planned from", 17, INK, 1),)),)
    return lay_out(paragraphs, (*start, *(_cell(panel, board) for panel in board.steps)), width, CELL)


def _cell(panel: StepPanel, board: Board) -> Cell:
    step, colour = panel.step, _INKS[panel.status]
    lines = [Line(f"{panel.index + 1}. {step.name}", 17, INK, 3)]
    if step.instruction.strip() != step.name.strip():
        lines.append(Line(step.instruction, 15, MUTED, 3))
    lines.append(Line(state(panel, board), 15, colour, 2))
    lines += (Line(line, 13, MUTED, 2) for line in claim_lines(panel.claims(board.models)))
    note = Line(_NOTES[panel.image_status], 15, MUTED, 3)
    if step.prompt is None and step.auxiliary_text:
        note = Line(step.auxiliary_text, 15, INK, 6)
    frame = ACTIVE if panel.status == "active" else None
    return Cell(panel.goal_image, tuple(lines), _MARKS.get(panel.status), frame, note)


def state(panel: StepPanel, board: Board) -> str:
    """Describe a step's state: its execution, its picture, and its attempts if there were several."""
    if panel.image_status == "none":
        return panel.status
    if panel.step.prompt is None:
        return f"{panel.status} · in words"
    tries = f" · {panel.attempts} of {panel.max_attempts} attempts" if panel.attempts > 1 else ""
    return f"{panel.status} · {image_status(board, panel)}{tries}"


type Rgb = tuple[float, float, float]

_WHITE: Rgb = (1.0, 1.0, 1.0)
_COLOURS: dict[str, Rgb] = {
    "pending": (0.62, 0.66, 0.7),
    "active": (0.35, 0.75, 1.0),
    "completed": (0.4, 0.9, 0.55),
    "skipped": (0.45, 0.47, 0.5),
    "failed": (1.0, 0.42, 0.38),
}
_MUTED: Rgb = (0.72, 0.75, 0.78)
_NAME_LINES, _CLAIM_LINES = 3, 4
_SMALL = 0.6
"""Height of the letters of claims, as a share of the others."""
_LETTER = 0.46
"""Mean width of a letter of RViz's font over its height, spaces included, rounded up."""
_LEADING = 1.25

# The strip of panels, in metres of an optical frame (REP 103: z forward, y down).
DISTANCE = 1.0
"""z of the strip, in front of the camera."""
OFFSET = -0.35
"""y of its middle; a negative value is above the view axis, out of the scene."""
PANEL, GAP, LETTER = 0.25, 0.03, 0.018
"""Width of a panel, distance of two, and height of a letter."""
COLUMNS = 6
LINE_LENGTH = int(PANEL / (_LETTER * LETTER))
"""Letters in a line of a panel."""


def build(board: Board, *, frame_id: str) -> MarkerArray:
    """Make all markers of a board, as the complete content of its topic."""
    texts = list(_texts(board)) if board.steps else []
    for marker in texts:
        marker.header.frame_id = frame_id
        marker.ns = f"r{board.revision}/{marker.ns}"
    return MarkerArray(markers=[Marker(action=Marker.DELETEALL), *texts])


def _texts(board: Board) -> Iterator[Marker]:
    """The texts of a board with steps, row by row."""
    leading = _LEADING * LETTER
    height = (_NAME_LINES + 2 + _SMALL * _CLAIM_LINES) * leading
    rows = list(batched(board.steps, COLUMNS))
    top = OFFSET - len(rows) * height / 2
    width = max(2, min(len(board.steps), COLUMNS)) * LINE_LENGTH
    (title,) = _wrap(f"{board.state}: {to_ascii(board.task, 'see the contact sheet')}", width, 1)
    yield _text("task", 0, title, 0.0, top - leading, _WHITE)
    if board.degraded:
        loss = to_ascii(f"degraded: {board.degraded}", "degraded: see the contact sheet")
        (line,) = _wrap(loss, width, 1)
        yield _text("task", 1, line, 0.0, top - 2 * leading, _COLOURS["failed"])
    first_x = -((len(rows[0]) - 1) * (PANEL + GAP)) / 2
    for row, panels in enumerate(rows):
        for column, panel in enumerate(panels):
            yield from _panel(board, panel, first_x + column * (PANEL + GAP), top + row * height)


def _panel(board: Board, panel: StepPanel, x: float, top: float) -> Iterator[Marker]:
    """One step's state, name and claims; `x` is its middle, `top` its upper edge."""
    leading = _LEADING * LETTER
    y = top + leading
    status = "in words" if panel.step.prompt is None else image_status(board, panel)
    head = panel.status if panel.image_status == "none" else f"{panel.status}, {status}"
    name = to_ascii(panel.step.name, f"step {panel.index + 1}")
    lines = [f"{panel.index + 1} {head}", *_wrap(name, LINE_LENGTH, _NAME_LINES)]
    for line, text in enumerate(lines):
        ink = _COLOURS[panel.status] if line == 0 else _WHITE
        number = panel.index * (_NAME_LINES + 1) + line
        yield _text("text", number, text, x, y + line * leading, ink)
    y += (len(lines) - 1 + (1 + _SMALL) / 2) * leading
    sentences = (to_ascii(text, "see ~/storyboard") for text in claim_lines(panel.claims(board.models)))
    wrapped = [line for text in sentences for line in textwrap.wrap(text, int(LINE_LENGTH / _SMALL))]
    for line, text in enumerate(wrapped[:_CLAIM_LINES]):
        number = panel.index * _CLAIM_LINES + line
        yield _text("claims", number, text, x, y + line * _SMALL * leading, _MUTED, _SMALL)


def _wrap(text: str, width: int, lines: int) -> list[str]:
    return textwrap.wrap(text, width, max_lines=lines, placeholder="...")


def _text(ns: str, number: int, text: str, x: float, y: float, colour: Rgb, size: float = 1.0) -> Marker:
    # One line per marker: older versions of RViz misplace texts of several lines. Stamp, lifetime and lock
    # stay zero: a latched marker holds until the next array.
    marker = Marker(ns=ns, id=number, type=Marker.TEXT_VIEW_FACING, action=Marker.ADD, text=text)
    marker.scale = Vector3(z=size * LETTER)
    marker.pose.position = Point(x=x, y=y, z=DISTANCE)
    marker.pose.orientation.w = 1.0
    marker.color = ColorRGBA(r=colour[0], g=colour[1], b=colour[2], a=1.0)
    return marker


class Overview:
    """Draws boards. Each takes about 100 ms, so run it in a thread of its own. `options` may be replaced."""

    def __init__(
        self,
        options: NodeOptions,
        create: Callable[[type[Any], str], Publisher],
        warn: Callable[..., object],
        now: Callable[[], int],
    ) -> None:
        self.options, self._warn, self._now = options, warn, now
        self._sheet = create(RawImage, "~/storyboard/image")
        self._compressed = create(CompressedImage, "~/storyboard/image/compressed")
        self._markers = create(MarkerArray, "~/markers") if options.publish_markers else None
        self._published: MarkerArray | None = None

    def draw(self, board: Board) -> None:
        """Publish the contact sheet and the markers of a board."""
        sheet = compose(board, self.options.contact_sheet_width)
        at = header(board.stamp or self._now(), board.frame_id)
        self._sheet.publish(raw(sheet, at))
        self._compressed.publish(Jpegs(self.options.jpeg_quality).message(sheet, at))
        if self._markers is None:
            return
        frame_id = board.frame_id or self.options.frame_id
        if board.steps and not frame_id:
            self._warn(
                "no ~/markers: the camera's messages have no frame_id; set the parameter frame_id", once=True
            )
            return
        markers = build(board, frame_id=frame_id)
        if markers != self._published:
            self._published = markers
            self._markers.publish(markers)
