"""The world that a small checkpoint was trained on: what is unlike it gets a refusal, and no answer."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from goalreel.chat.conversation import Conversation
from goalreel.image import Image
from goalreel.terms import KEEP

FILE = "world.npz"
SIDE = 16
"""The thumbnail's side in cells."""
_WORD = re.compile(r"[^\W\d_]+")
_CAPITALS = re.compile(r"\b(?:(?<=[\w,;] )[A-Z]|[A-Za-z]+[A-Z])\w*")
"""Words with a capital that begins no sentence: to small models they are other words."""
_STRONG = 0.995


@dataclass(frozen=True)
class World:
    """Words and looks of a checkpoint's lessons; measured by `lab/benchmarks/nano_world.py`."""

    name: str
    words: frozenset[str]
    """All words of questions that it was taught, in small letters."""
    things: frozenset[str]
    """Words of which a question has at least one."""
    views: tuple[Mapping[str, NDArray[np.floating]], ...]
    """For each camera the `mean` of `features`, their `ways` to vary with a `spread`, and other `noise`."""
    limit: float
    """The most that a picture's `distance` may be."""
    colour: float
    """The least `colour` of a picture."""

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """Read the world of a checkpoint in a folder; None where it does not tell."""
        path = folder / FILE
        if not path.is_file():
            return None
        with np.load(path, allow_pickle=False) as file:
            parts = {name: file[name] for name in file.files}
        views: dict[str, dict[str, Any]] = {}
        for name, values in parts.items():
            if "." in name:
                view, _, field = name.partition(".")
                views.setdefault(view, {})[field] = values.astype(np.float32)
        words, things = (frozenset(str(parts[name]).split()) for name in ("words", "things"))
        limits = float(parts["limit"]), float(parts["colour"])
        return cls(str(parts["name"]), words, things, tuple(views.values()), *limits)

    def refusal(self, conversation: Conversation) -> str | None:
        """Say in one line why a conversation is not of this world; None where it is.

        It reads the first question alone: its words, and its first picture, from which all others are drawn.
        """
        parts = next((message.parts for message in conversation if message.role == "user"), ())
        text = " ".join(part for part in parts if isinstance(part, str)).replace(KEEP, "")
        words = words_of(text)
        unknown = [word for word in dict.fromkeys(words) if word not in self.words]
        if strange := unknown or _CAPITALS.findall(text):
            return self._line(f"its lessons have no word {', '.join(map(repr, strange[:3]))}")
        if self.things.isdisjoint(words):
            return self._line(f"the words name no {' or '.join(sorted(self.things))}")
        picture = next((part for part in parts if isinstance(part, Image)), None)
        if picture is not None and (self.distance(picture) > self.limit or colour(picture) < self.colour):
            return self._line("the picture does not look like it")
        return None

    def distance(self, picture: Image) -> float:
        """Measure how far a picture is from the nearest view, in spreads of its lessons' pictures."""
        return min(_distance(features(picture), view) for view in self.views)

    def _line(self, reason: str) -> str:
        return f"not of this model's world, which is {self.name} alone: {reason}"


def words_of(text: str) -> list[str]:
    """List the words of a text, in small letters and without numbers."""
    return _WORD.findall(text.casefold())


def features(picture: Image) -> NDArray[np.float32]:
    """Make the thumbnail that views are compared by: grey, red less green, green less blue of each cell."""
    cells = _cells(picture, SIDE)
    red, green, blue = np.moveaxis(cells, -1, 0)
    return np.stack([cells.mean(-1), red - green, green - blue], -1).ravel()


def colour(picture: Image) -> float:
    """Measure the colour of the strongest cells, 0-1: things have some, and a grey picture has none."""
    cells = _cells(picture, 4 * SIDE)
    return float(np.quantile(cells.max(-1) - cells.min(-1), _STRONG))


def _distance(cells: NDArray[np.float32], view: Mapping[str, NDArray[np.floating]]) -> float:
    along = view["ways"] @ (cells - view["mean"])
    rest = cells - view["mean"] - along @ view["ways"]
    return float(np.sqrt(np.mean(np.concatenate([along / view["spread"], rest / view["noise"]]) ** 2)))


def _cells(picture: Image, side: int) -> NDArray[np.float32]:
    import cv2

    cells = cv2.resize(picture.pixels, (side, side), interpolation=cv2.INTER_AREA)
    return np.asarray(cells, np.float32) / np.float32(255)
