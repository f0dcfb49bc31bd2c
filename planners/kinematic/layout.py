"""The dimensions of a recording that are the gripper and the end-effector's position, as text."""

from dataclasses import dataclass
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, NonNegativeInt

from goalreel.errors import InputError
from goalreel.types import Recording

type Confidence = Literal["given", "certain", "likely", "unknown"]
_INDICES = ("gripper", "position", "base", "summed")
_WRITTEN = (
    "gripper",
    "position",
    "vertical",
    "closed",
    "threshold",
    "source",
    "base",
    "base_source",
    "summed",
)


class Unsegmentable(ValueError):
    """An episode cannot be cut into segments; the message is one line."""


class Finding(BaseModel, frozen=True):
    """One field as the data show it, how sure that is, and why."""

    field: str
    """Such as `gripper`, or `left gripper` where there are two."""
    value: str | None
    """Written as in `--layout`; None where there is none, or it is unknown."""
    confidence: Confidence
    reason: str
    answers: tuple[str, ...] = Field(default=(), exclude=True)
    """Answers to choose from where it is unknown, one of which is right: `closed=low`, `closed=high`."""

    @property
    def found(self) -> str:
        """Field and value as `--layout` takes them."""
        return f"{self.field}={self.value}" if self.value else f"{self.field} not found"

    def __str__(self) -> str:
        return f"{self.found} ({self.confidence}): {self.reason}"


def finding(
    field: str, value: object, confidence: Confidence, reason: str, answers: tuple[str, ...] = ()
) -> Finding:
    """A finding of a layout's value, which it has as `--layout` writes it."""
    text = written(value) or None
    return Finding(field=field, value=text, confidence=confidence, reason=reason, answers=answers)


class Layout(BaseModel, frozen=True, extra="forbid"):
    """Dimensions by index. An empty or None field is found automatically (`robot.infer_robot`).

    >>> Layout.parse("gripper=6,position=0:3,closed=high").gripper
    (6,)
    >>> [hand.gripper for hand in Layout.parse("gripper=6/13,closed=low").hands]
    [(6,), (13,)]
    """

    gripper: tuple[NonNegativeInt, ...] = ()
    """Dimensions of `source`: one, or all the finger joints of one hand."""
    position: tuple[NonNegativeInt, ...] = ()
    """Dimensions of the body (`body_of`): the end-effector in metres, or arm joints."""
    vertical: NonNegativeInt | None = None
    """The dimension that grows upwards, when there is one."""
    closed: Literal["low", "high"] | None = None
    """Which end of the gripper's range is closed."""
    threshold: float | None = None
    """The gripper's value between open and closed on something, where the middle of its range is not."""
    source: Literal["state", "action"] = "state"
    """The feature that holds the gripper."""
    state: tuple[str, ...] = ()
    """Features of the dataset that hold the state, joined; `observation.state` and the like if empty."""
    action: tuple[str, ...] = ()
    """Those of the action."""
    base: tuple[NonNegativeInt, ...] = ()
    """Dimensions of `base_source` that tell where a mobile base is, or how fast it drives."""
    base_source: Literal["state", "action"] = "state"
    """The feature that holds the base."""
    summed: tuple[NonNegativeInt, ...] = ()
    """Dimensions of the body that hold changes or speeds, not places."""
    side: Literal["left", "right"] | None = None
    """Which hand it is, where the names tell."""
    other: "Layout | None" = None
    """The second hand, where there are two."""
    handless: bool = False
    """A person says that there is no gripper: `gripper=none`."""
    complete: bool = False
    """An empty field says that there is none: nothing is left to find."""

    @property
    def hands(self) -> "tuple[Layout, ...]":
        """Each hand: this one, and `other`."""
        return (self, *(self.other.hands if self.other else ()))

    def with_all(self, **fields: object) -> "Layout":
        """The layout with these fields of each hand."""
        other = self.other.with_all(**fields) if self.other else None
        return self.model_copy(update={**fields, "other": other})

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `gripper=6,position=0:3,vertical=2,closed=high,source=action`.

        `+` joins spans, and `/` parts two hands: `gripper=6/13`. `state=NAME,action=NAME` name features.

        Raises:
            InputError: the text is no layout; the message shows how to write one.
        """
        hands: list[dict[str, object]] = [{}, {}]
        try:
            for item in filter(None, text.replace(" ", "").split(",")):
                key, _, value = item.partition("=")
                if (key, value) == ("gripper", "none"):
                    hands[0]["handless"] = hands[1]["handless"] = True
                    continue
                if key in ("state", "action"):
                    hands[0][key] = hands[1][key] = tuple(filter(None, value.split("+")))
                    continue
                first, slash, second = value.partition("/")
                for hand, part in zip(hands, (first, second if slash else first), strict=True):
                    if part or not slash:
                        hand[key] = _indices(part) if key in _INDICES else part
            layout, other = map(cls.model_validate, hands)
        except ValueError as e:
            raise InputError(
                f"layout {text!r} cannot be read: write it like "
                "'gripper=6,position=0:3,vertical=2,closed=high,source=state', or for two hands "
                "'gripper=6/13,closed=low', with other features 'state=NAME,action=NAME'"
            ) from e
        return layout.model_copy(update={"other": other}) if other.gripper != layout.gripper else layout

    def __str__(self) -> str:
        """The text that `parse` reads, but for what is open."""
        parts: list[str] = []
        for key in _WRITTEN:
            values = [written(getattr(hand, key)) for hand in self.hands]
            if any(value not in ("", "state") for value in values):
                parts.append(f"{key}={'/'.join(values if len(set(values)) > 1 else values[:1])}")
        parts += ["gripper=none"] if self.handless else []
        parts += [f"{key}={'+'.join(names)}" for key in ("state", "action") if (names := getattr(self, key))]
        return ",".join(parts)


def written(value: object) -> str:
    """A field as `--layout` writes it, neighbours as spans: `14:17+20`."""
    if isinstance(value, float):
        return f"{value:.5g}"
    if not isinstance(value, tuple):
        return "" if value is None else str(value)
    spans: list[tuple[int, int]] = []
    for index in value:
        start = spans.pop()[0] if spans and spans[-1][1] == index else index
        spans.append((start, index + 1))
    return "+".join(str(a) if b == a + 1 else f"{a}:{b}" for a, b in spans)


def _indices(text: str) -> tuple[int, ...]:
    indices: list[int] = []
    for part in text.split("+"):
        first, colon, last = part.partition(":")
        indices += range(int(first), int(last)) if colon else [int(first)]
    return tuple(indices)


def check_layout(recording: Recording, layout: Layout) -> None:
    """Check that a recording has the dimensions that a layout names.

    Raises:
        Unsegmentable: it has fewer.
    """
    for hand in layout.hands:
        vertical = () if hand.vertical is None else (hand.vertical,)
        for indices, source, name in (
            (hand.gripper, hand.source, f"gripper (in {hand.source})"),
            ((*hand.position, *vertical), "body", "position"),
            (hand.base, hand.base_source, f"base (in {hand.base_source})"),
            (hand.summed, "body", "summed"),
        ):
            last, dims = max(indices, default=-1), values_of(recording, source).shape[1]
            if last >= dims:
                there = f"the recording has {dims} (from 0)"
                raise Unsegmentable(f"layout: {name} names dimension {last}, {there}")


def check_recording(recording: Recording) -> None:
    """Check that a recording can be segmented.

    Raises:
        Unsegmentable: it has no frame, a NaN or infinity, or neither state nor action.
    """
    if not len(recording.timestamps):
        raise Unsegmentable("the recording holds no frame")
    if not values_of(recording, "body").shape[1]:
        raise Unsegmentable("the recording has neither observation.state nor action to segment by")
    for name, values in (("observation.state", recording.state), ("action", recording.action)):
        for frame, dim in np.argwhere(~np.isfinite(values))[:1]:
            where = f"{name} is NaN or infinite at frame {frame}, dimension {dim}"
            raise Unsegmentable(f"{where}: repair or drop the episode")


def body_of(recording: Recording) -> Literal["state", "action"]:
    """The feature that tells where the arm is: the state, or the action without one."""
    return "state" if recording.state.shape[1] else "action"


def values_of(recording: Recording, source: str) -> NDArray[np.float32]:
    """The numbers of the `state`, the `action`, or the `body` (`body_of`)."""
    source = body_of(recording) if source == "body" else source
    return recording.state if source == "state" else recording.action


@dataclass(frozen=True)
class _Places:
    """A recording whose rates are summed: each column begins at its lowest value."""

    recording: Recording
    state: NDArray[np.float32]
    action: NDArray[np.float32]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recording, name)


def as_places(recording: Recording, layout: Layout) -> Recording:
    """The recording with what `layout` says to sum as places."""
    if not layout.summed or isinstance(recording, _Places):
        return recording
    body, columns = values_of(recording, "body").copy(), list(layout.summed)
    sums = np.cumsum(body[:, columns], axis=0, dtype=np.float64)
    body[:, columns] = sums - sums.min(axis=0, initial=np.inf)
    is_state = body_of(recording) == "state"
    state, action = (body, recording.action) if is_state else (recording.state, body)
    return cast("Recording", _Places(recording, state, action))


def names_of(recording: Recording, source: str) -> tuple[str, ...]:
    """The names of their dimensions; nothing where a dataset does not name each."""
    source = body_of(recording) if source == "body" else source
    names = recording.state_names if source == "state" else recording.action_names
    return names if len(names) == values_of(recording, source).shape[1] else ()


def episodes_text(number: int) -> str:
    """Such as `1 episode` or `13 episodes`."""
    return "1 episode" if number == 1 else f"{number} episodes"


def times_text(number: int) -> str:
    """Such as `once` or `3 times`."""
    return "once" if number == 1 else f"{number} times"
