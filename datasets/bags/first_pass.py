"""The first pass over a bag, which reads the time of every message and all content but the pictures."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalreel.datasets.bags.decode import NUMBERS, stamp
from goalreel.datasets.bags.reader import Bag
from goalreel.datasets.bags.timeline import Indices, Stamps
from goalreel.datasets.bags.topics import StampClock, TopicChoice
from goalreel.errors import DatasetError

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Track:
    """One topic's messages in order of time."""

    topic: str
    stamps: Stamps
    """Ascending, (messages,)."""
    order: Indices
    """Their places among the topic's messages as the bag gives them, (messages,)."""
    payloads: list[Any]
    """What was kept of each."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """A topic whose messages are rows of numbers, one row a message."""

    topic: str
    stamps: Stamps
    names: tuple[str, ...]
    values: NDArray[np.float32]
    """(messages, dims)."""


def survey(
    bag: Bag, choice: TopicChoice, clock: StampClock, keep: dict[str, Callable[[Any], Any]]
) -> dict[str, Track]:
    """Topic -> track, for every chosen topic. `keep`: what to keep of a topic's messages, by default nothing.

    Raises:
        DatasetError: the bag is damaged, a message does not fit its topic, or the clock is not usable.
    """
    stamps: dict[str, list[int]] = {topic: [] for topic in choice.all}
    payloads: dict[str, list[Any]] = {topic: [] for topic in choice.all}
    for topic, received, message in bag.messages(choice.all):
        where = f"{bag.path}: {topic}: message {len(stamps[topic])}"
        at = received if clock == "received" else stamp(message, received)
        if not at:
            raise DatasetError(f"{where}: its header's stamp is zero: use --clock received")
        try:
            payloads[topic].append(keep[topic](message) if topic in keep else None)
        except ValueError as e:
            raise DatasetError(f"{where}: {e}") from e
        stamps[topic].append(at)
    for topic, times in stamps.items():
        _complete(bag, topic, len(times))
    return {topic: _track(bag, topic, clock, stamps[topic], payloads[topic]) for topic in choice.all}


def _complete(bag: Bag, topic: str, count: int) -> None:
    """Compare the number of messages with the one that the bag states; they differ where it is damaged."""
    expected = bag.topics[topic].count
    if not count:
        raise DatasetError(f"{bag.path}: {topic}: none of its {expected} messages is there: truncated?")
    if count != expected:
        log.warning("%s: %s: holds %d messages and tells of %d: damaged?", bag.path, topic, count, expected)


def _track(bag: Bag, topic: str, clock: StampClock, stamps: list[int], payloads: list[Any]) -> Track:
    times = np.array(stamps, np.int64)
    if clock == "header" and (back := np.flatnonzero(np.diff(times) < 0)).size:
        raise DatasetError(
            f"{bag.path}: {topic}: header stamps go backwards at message {back[0] + 1}: "
            "use --clock received, or cut the bag there"
        )
    order = np.argsort(times, kind="stable")
    return Track(topic, times[order], order, [payloads[i] for i in order])


def numbers(bag: Bag, tracks: Iterable[Track]) -> list[Numbers]:
    """Turn tracks, whose payloads are rows of named numbers, into arrays.

    Raises:
        DatasetError: names or dimensions change along the way, or a value is NaN or infinite.
    """
    arrays = []
    for track in tracks:
        names = track.payloads[0][0]
        for place, (message_names, _) in zip(track.order, track.payloads, strict=True):
            if message_names != names:
                raise DatasetError(
                    f"{bag.path}: {track.topic}: message {place} has {_few(message_names)} "
                    f"where others have {_few(names)}"
                )
        values = np.array([row for _, row in track.payloads], np.float32).reshape(len(track.payloads), -1)
        if not np.isfinite(values).all():
            place = track.order[np.argwhere(~np.isfinite(values))[0, 0]]
            raise DatasetError(f"{bag.path}: {track.topic}: message {place} holds NaN or infinity")
        arrays.append(Numbers(track.topic, track.stamps, names, values))
    return arrays


def number_readers(bag: Bag, choice: TopicChoice) -> dict[str, Callable[[Any], Any]]:
    """Topic -> what reads its message as named numbers, for the state and action topics."""
    return {t: NUMBERS[bag.topics[t].type] for t in (*choice.states, *choice.actions)}


def _few(names: tuple[str, ...]) -> str:
    first_names = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    return f"{len(names)} values ({first_names})"
