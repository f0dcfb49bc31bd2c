"""Questions that a run asks the owner of a dataset about its robot, with their pictures and answers."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from goalreel.annotator.report.cards import ticks
from goalreel.annotator.report.sheet import INK, MUTED, Cell, Line, lay_out
from goalreel.datasets.episode import Episode
from goalreel.datasets.info_file import find_numbers
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError
from goalreel.files import cache_folder, digest, write_bytes
from goalreel.image import Image
from goalreel.planners.kinematic.layout import Finding, Layout, as_places, names_of, values_of, written
from goalreel.planners.kinematic.robot import Robot
from goalreel.planners.kinematic.roles import side_of
from goalreel.planners.kinematic.signals import Curve, hand_signal, smooth, split_level

_LETTERS = "ABCDEF"


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer to a question."""

    letter: str
    answer: str
    """One of `Finding.answers`."""
    words: str
    """The case in which it is right, such as `it is closed in row A`."""
    option: str
    """The option of `goalreel annotate` that gives it."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about the robot that the data leave open."""

    finding: Finding
    about: str
    """Such as `which end of the gripper is closed`."""
    look: str
    """The same as asked of someone who looks at the picture."""
    choices: tuple[Choice, ...]
    rows: Mapping[str, str]
    """The rows of the picture by their labels, each as the answer that it alone would be."""
    picture: Path | None = None

    def __str__(self) -> str:
        line = f"{self.about} is not known ({self.finding.reason})"
        if self.picture:
            options = ", or ".join(f"{choice.option} if {choice.words}" for choice in self.choices)
            return f"{line}: look at {self.picture}, and say {options}"
        options = " or ".join(choice.option for choice in self.choices)
        return f"{line}: say {options}" if options else line


def find_question(robot: Robot, layout: str | None = None) -> Question | None:
    """Find the first thing that a run needs and the data do not tell; None where all is known.

    The options of the answers repeat `layout`, which a person has said before.
    """
    if not robot.unknown:
        return None
    finding = robot.unknown[0]
    about, look, words = _words(finding)
    said = "--camera " if finding.field == "camera" else f"--layout {layout}," if layout else "--layout "
    shown = list(dict.fromkeys(hand for answer in finding.answers for hand in _hands(answer)))
    labels = _LETTERS if shown == list(finding.answers) else "123456789"
    rows: dict[str, str] = dict(zip(labels, shown, strict=False))
    choices: list[Choice] = []
    for letter, answer in zip(_LETTERS, finding.answers, strict=False):
        own = [label for label, row in rows.items() if row in _hands(answer)]
        where = f"row{'s' if own[1:] else ''} {' and '.join(own)}" if own else "no row"
        where += " alone" if labels != _LETTERS and len(own) == 1 else ""
        choices.append(Choice(letter, answer, words.format(where), said + answer))
    return Question(finding, about, look, tuple(choices), rows)


def _hands(answer: str) -> list[str]:
    """The answer for each hand alone: `gripper=5` and `gripper=11` for `gripper=5/11`."""
    first, *more = answer.split(",")
    if not first.startswith("gripper="):
        return [answer]
    hands = first.removeprefix("gripper=").split("/")
    return [",".join([f"gripper={hand}", *more]) for hand in hands if hand != "none"]


_ASKED = {
    "gripper": (
        "the gripper",
        "In which rows does a gripper open or close from picture to picture?",
        "it opens and closes in {}",
    ),
    "camera": (
        "the camera of the goal images",
        "Which row shows the work best, and stands still?",
        "{} is best",
    ),
    "state": ("the robot's state", "Which curve follows the robot?", "that of {} does"),
}


def _words(finding: Finding) -> tuple[str, str, str]:
    """Say what is asked, what to look for in the picture, and when an answer is right."""
    *label, field = finding.field.split()
    if field != "closed":
        return _ASKED.get(field, (f"the robot's {field}", f"Which {field} is right?", "{} is right"))
    hand = f"gripper {label[0]}" if label and label[0][0].isdigit() else " ".join(["the", *label, "gripper"])
    look = f"In which row is {hand} closed, or holds something?"
    return f"which end of {hand} is closed", look, "it is closed in {}"


_EPISODES = 20
"""Episodes among which that of the picture is chosen."""
_COLOURS = ("#1f66b0", "#c25b00", "#2c7a3f", "#8a3ea8", "#8a6d00", "#a02c4a")
_WIDTH, _CELL, _PLOT = 1500, 360, 190
"""Pixels: the whole picture's width, that of a frame at least, and a plot's height."""
_SETTLED = 0.15  # share of a curve's range by which it may differ from the level at which it stays


def with_picture(question: Question, source: Source, robot: Robot, camera: str) -> Question:
    """Draw a question's picture into the user's cache folder; none where no episode shows the answers."""
    root = source.root.resolve()
    path = cache_folder("questions") / f"{root.name}-{digest(str(root), repr(question))[:8]}.png"
    with suppress(DatasetError, OSError):
        if drawn := _draw(question, source, robot, camera):
            write_bytes(path, drawn.png(), durable=False)
            return replace(question, picture=path)
    return question


@dataclass(frozen=True, slots=True)
class _Row:
    """The moments of one episode that show one answer."""

    label: str
    colour: str
    about: str
    """The names of the numbers, or of the camera."""
    level: str
    cameras: Sequence[str]
    frames: Sequence[int]
    curve: Curve | None = None
    clear: float = 1.0
    """Seconds for which the curve stays where the moments are, at most two each."""

    def mark(self, number: int) -> str:
        """Name a moment: `A1` of a row A, `1a` of a row 1."""
        return f"{self.label}{number + 1 if self.label.isalpha() else 'abcd'[number]}"


def _draw(question: Question, source: Source, robot: Robot, camera: str) -> Image | None:
    """Draw the episode that shows the answers best."""
    count = min(_EPISODES, len(source.indices))
    found: list[tuple[tuple[float, float], list[_Row], Episode]] = []
    for at in np.linspace(0, len(source.indices) - 1, count).astype(int).tolist():
        with suppress(DatasetError):
            episode = source.episode(source.indices[at])
            rows = _rows(question, source, robot, camera, episode)
            clear = [row.clear for row in rows]
            found.append(((min(clear, default=0.0), sum(clear)), rows, episode))
    if not any(clear for (_, clear), _, _ in found):
        return None
    _, rows, episode = max(found, key=lambda item: item[0])
    about = f"Episode {episode.index} of {source.root.resolve().name}: {episode.instruction}"
    parts = [lay_out([Line(question.look, 36, INK, 2), Line(about, 20, MUTED, 2)], [], _WIDTH, _CELL)]
    for row in rows:
        pictures = [episode.frames(name, row.frames) for name in row.cameras]
        cells: list[Cell] = []
        for i, frame in enumerate(row.frames):
            caption = (Line(f"{row.mark(i)}, {frame / episode.fps:.1f} s", 19, INK, 1),)
            cells += [Cell(view[i], caption, border=row.colour) for view in pictures]
        heading = Line(f"Row {row.label}: {row.about}{row.level}", 27, row.colour, 2)
        parts.append(lay_out([heading], cells, _WIDTH, _CELL if len(cells) < 4 else _CELL - 40))
    for about, alike in groupby(rows, key=lambda row: row.about):
        if plot := _plot(list(alike), episode):
            title = Line(f"{about} over time", 19, MUTED, 1)
            parts.append(lay_out([title], [Cell(plot, ())], _WIDTH, _WIDTH))
    colours = {row.label: row.colour for row in rows}
    lines = [Line(f"If {c.words}: {c.option}", 27, colours.get(c.letter, INK), 2) for c in question.choices]
    parts.append(lay_out(lines, [], _WIDTH, _CELL))
    return Image(np.concatenate([part.pixels for part in parts]))


def _rows(question: Question, source: Source, robot: Robot, camera: str, episode: Episode) -> list[_Row]:
    rows: list[_Row] = []
    for (label, answer), colour in zip(question.rows.items(), _COLOURS, strict=False):
        if question.finding.field == "camera":
            frames = np.linspace(0, len(episode) - 1, 4).astype(int).tolist()
            rows.append(_Row(label, colour, answer, "", [source.camera(answer)], frames))
            continue
        side, about, curve = _curve(question.finding, answer, source, robot, episode)
        views = sorted(source.views(camera), key=lambda view: side_of(view) not in ("", side))[:2]
        end = {"low": 0, "high": 1}.get(answer.rpartition("closed=")[2])
        level = f" ({answer})" if end is None else (" is low", " is high")[end]
        moments = [moment for moment in _moments(curve, episode.fps) if end in (None, moment[1])]
        moments = sorted(moments, key=lambda m: -m[0])[: 2 if len(views) > 1 else 4 if end is None else 3]
        clear = sum(seconds for seconds, _, _ in moments)
        spread = np.linspace(0, len(episode) - 1, 2).astype(int).tolist()  # where nothing changes
        frames = sorted(frame for _, _, frame in moments) or spread
        rows.append(_Row(label, colour, about, level, views, frames, curve, clear))
    return rows


def _curve(
    finding: Finding, answer: str, source: Source, robot: Robot, episode: Episode
) -> tuple[str, str, Curve]:
    """The side of the hand that an answer is about, the names of its numbers, and their curve."""
    said, label = Layout.parse(answer), finding.field.rpartition(" ")[0]
    if said.state:
        numbers = find_numbers(source.features, said.state)
        episode = Episode.read(source.root, source.info, source.rows.of(episode.index), source.tasks, numbers)
        values = values_of(episode, "body")
        return "", answer.partition("=")[2], values[:, np.ptp(values, axis=0).argmax()].astype(np.float64)
    hand = next((hand for hand in robot.hands if label in (hand.side, written(hand.gripper))), robot.layout)
    hand = said if said.gripper else hand
    names = dict(enumerate(names_of(episode, hand.source)))
    first, *more = (names.get(i, f"number {i}") for i in hand.gripper)
    about = f"{first} and {len(more)} more" if more else first
    values = values_of(as_places(episode, robot.layout), hand.source)
    return (hand.side or "")[:1], about, hand_signal(values[:, list(hand.gripper)])


def _moments(curve: Curve, fps: float) -> list[tuple[float, int, int]]:
    """Find frames at which a curve is low (0) or high (1): beside each change, and amid what stays longest.

    Each has the seconds for which the curve stays so, on the shorter side of the change, and at most two.
    """
    values = smooth(curve, fps)
    if not np.ptp(values):
        return []
    is_high = values > split_level(values)
    edges = [0, *(np.flatnonzero(np.diff(is_high.astype(int))) + 1).tolist(), len(values)]
    spans = [(a, b) for a, b in pairwise(edges) if b - a >= fps / 3]
    moments: list[tuple[float, int, int]] = []
    for (a, b), (c, d) in pairwise(spans):
        seconds = min(b - a, d - c, 2 * fps) / fps
        for frames in (_settled(values, a, b)[::-1], _settled(values, c, d)):
            frame = frames[min(round(0.2 * fps), len(frames) // 2)]
            moments.append((seconds, int(is_high[frame]), frame))
    for end in (0, 1):
        a, b = max((s for s in spans if is_high[s[0]] == end), key=lambda s: s[1] - s[0], default=(0, 0))
        if moments and b > a:
            moments.append((min((b - a) / fps, 2) / 2, end, (a + b) // 2))
    # A curve that does not stay anywhere still has its ends.
    return moments or [(1 / fps, 0, int(curve.argmin())), (1 / fps, 1, int(curve.argmax()))]


def _settled(values: Curve, start: int, end: int) -> list[int]:
    """The frames of a span in which a curve is about where it stays."""
    level = np.sort(values[start:end])[(end - start) // 2]
    is_near = np.abs(values[start:end] - level) <= _SETTLED * np.ptp(values)
    return (start + np.flatnonzero(is_near)).tolist()


def _plot(rows: Sequence[_Row], episode: Episode) -> Image | None:
    """Draw the curve that rows share over time, with their moments."""
    curve = rows[0].curve
    if curve is None:
        return None
    scale = 2  # drawn larger: Pillow draws lines with steps
    width, height, edge = scale * (_WIDTH - 60), scale * _PLOT, scale * 26
    plot = PIL.Image.new("RGB", (width, height), "white")
    draw, font = PIL.ImageDraw.Draw(plot), PIL.ImageFont.load_default(scale * 17)
    last = max(len(episode) - 1, 1)
    for percent, label in ticks(last / episode.fps, 12):
        x = edge + percent / 100 * (width - 2 * edge)
        draw.line((x, edge, x, height - edge), fill="#e2dfd8", width=scale)
        draw.text((x, height), label, fill=MUTED, font=font, anchor="mb")
    x = edge + np.arange(len(curve)) / last * (width - 2 * edge)
    share = (curve - curve.min()) / max(float(np.ptp(curve)), 1e-9)
    y = height - edge - share * (height - 2.6 * edge)
    draw.line(list(zip(x.tolist(), y.tolist(), strict=True)), fill=INK, width=2 * scale, joint="curve")
    for row in rows:
        for number, at in enumerate(row.frames):
            draw.circle((x[at], y[at]), 8 * scale, fill=row.colour)
            over = x[at], y[at] - 10 * scale
            draw.text(over, row.mark(number), fill=row.colour, font=font, anchor="mb")
    return Image(np.array(plot.resize((width // scale, height // scale), PIL.Image.Resampling.LANCZOS)))
