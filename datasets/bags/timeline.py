"""Messages of many rates on one time line. Pure numpy; all times are int64 nanoseconds.

A frame shows the newest picture of the leading camera half a period after its tick, so that a camera which
runs at the dataset's own rate gives every picture once although its times jitter. Its moment is that
picture's time. All else is held: the newest message at that moment. An action is the newest one at the
next frame's moment: the last command given on seeing this frame.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalreel.datasets.bags import StampClock
from goalreel.datasets.bags.topics import JOINT_STATE, Bag, TopicChoice, stamp
from goalreel.errors import DatasetError

type Stamps = NDArray[np.int64]
type Indices = NDArray[np.int64]

SECOND = 1_000_000_000
FOREVER = 2**62
"""Later than any time in a bag, ns."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Timeline:
    """Time of each frame of an episode, and which picture it shows; times in ns."""

    moments: Stamps
    """Ascending, (frames,)."""
    pictures: Indices
    """Which picture of the leading camera, (frames,)."""
    period: int
    end: int
    """End of the episode."""

    def __len__(self) -> int:
        return len(self.moments)

    @property
    def next_moments(self) -> Stamps:
        """Times at which each frame gave way to the next, (frames,)."""
        if not len(self):
            return self.moments
        return np.minimum(np.append(self.moments[1:], self.moments[-1] + self.period), self.end - 1)

    def since(self, first: int) -> "Timeline":
        """The same time line without the frames before number `first`."""
        return Timeline(self.moments[first:], self.pictures[first:], self.period, self.end)


def timeline(camera: Stamps, fps: int, start: int, end: int) -> Timeline:
    """Frames at `fps` from the first picture in [start, end) to the last; none where no picture is there.

    `camera` are the ascending times of the leading camera's pictures.
    """
    first, last = np.searchsorted(camera, (start, end), side="left")
    period, half = SECOND // fps, SECOND // (2 * fps)
    if first == last:
        return Timeline(np.zeros(0, np.int64), np.zeros(0, np.int64), period, end)
    origin = int(camera[first])
    count = (int(camera[last - 1]) - origin + half) * fps // SECOND + 1
    ticks = origin + np.arange(count, dtype=np.int64) * SECOND // fps
    pictures = as_of(camera[:last], ticks + half)
    # Where the camera paused, its last picture stands still but time goes on.
    return Timeline(np.maximum(camera[pictures], ticks - half), pictures, period, end)


def as_of(stamps: Stamps, moments: Stamps) -> Indices:
    """Which message was the newest at each moment (ns, inclusive); -1 before the first."""
    return np.searchsorted(stamps, moments, side="right").astype(np.int64) - 1


def common_rate(stamps: Stamps) -> int:
    """The whole number of messages a second by their median distance; raises ValueError without any."""
    distances = np.diff(np.unique(stamps))
    if not len(distances):
        raise ValueError("fewer than two pictures in time: there is no rate to see, pass --fps")
    return max(1, round(SECOND / float(np.median(distances))))


def staleness(stamps: Stamps, moments: Stamps) -> tuple[float, float]:
    """The greatest age of a message in use, and its time after the first moment, both in seconds."""
    age = moments - stamps[as_of(stamps, moments)]
    worst = int(age.argmax())
    return float(age[worst]) / SECOND, float(moments[worst] - moments[0]) / SECOND


@dataclass(frozen=True, eq=False)
class Track:
    """One topic's messages in order of time."""

    topic: str
    stamps: Stamps
    """Ascending, (messages,)."""
    order: Indices
    """Their places among the topic's messages as the bag gives them, (messages,)."""
    payloads: list[Any]
    """Content that was kept of each."""


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
    stamps, header_times, lags = (defaultdict[str, list[int]](list) for _ in range(3))
    payloads = defaultdict[str, list[Any]](list)
    for topic, received, message in bag.messages(choice.all):
        where = f"{bag.path}: {topic}: message {len(stamps[topic])}"
        at = received if clock == "received" else stamp(message, received)
        if clock == "header" and not at:
            raise DatasetError(f"{where}: its header's stamp is zero: use --clock received")
        if not 0 <= at < FOREVER:
            raise DatasetError(f"{where}: its time, {at} ns, is none: use the other --clock")
        if clock == "header" or topic in choice.cameras.values():
            header_times[topic].append(stamp(message, received))
        try:
            payloads[topic].append(keep[topic](message) if topic in keep else None)
        except ValueError as e:
            raise DatasetError(f"{where}: {e}") from e
        stamps[topic].append(at)
        if topic in (*choice.cameras.values(), *choice.states, *choice.actions):  # a latched one may be old
            lags[topic].append(received - at)
    tracks: dict[str, Track] = {}
    for topic in choice.all:
        count, expected = len(stamps[topic]), bag.topics[topic].msgcount
        if not count:
            raise DatasetError(f"{bag.path}: {topic}: none of its {expected} messages is there: truncated?")
        if count != expected:
            log.warning(
                "%s: %s: holds %d messages and tells of %d: damaged?", bag.path, topic, count, expected
            )
        times = np.array(stamps[topic], np.int64)
        order = np.argsort(times, kind="stable")
        tracks[topic] = Track(topic, times[order], order, [payloads[topic][i] for i in order])
    _check_lags(bag, lags)
    for topic, times in stamps.items():
        _check_order(f"{bag.path}: {topic}", clock, times, header_times[topic])
    return tracks


def _check_lags(bag: Bag, lags: dict[str, list[int]]) -> None:
    """Refuse stamps of one topic that are over 5 s older than those of another: no delay, but a clock."""
    medians = sorted((float(np.median(each)) / SECOND, topic) for topic, each in lags.items())
    (least, newest), (most, oldest) = medians[0], medians[-1]
    if most - least > 5:
        raise DatasetError(
            f"{bag.path}: the stamps of {oldest} are {most - least:.1f} s older than those of {newest}, "
            "as where a clock is off: use --clock received"
        )


def _check_order(where: str, clock: StampClock, times: list[int], earlier_times: list[int]) -> None:
    """Refuse a clock that jumped back: messages of two times would lie between one another.

    A bag is read in the order of reception, so where that clock jumped, `earlier_times` go to and fro.
    Where their own clock jumped, they go back once and stay there.
    """
    back = np.flatnonzero(np.diff(earlier_times) < 0) + 1
    fro = back[1:][np.diff(back) <= 3]
    if clock == "header" and back.size and not fro.size:
        advice = f"header stamps go backwards at message {back[0]}: use --clock received"
    elif clock == "received" and fro.size:
        advice = f"header stamps go to and fro at message {fro[0]}: did the clock jump? use --clock header"
    elif clock == "received" and (back := np.flatnonzero(np.diff(times) < -SECOND)).size:
        advice = f"times of reception go backwards at message {back[0] + 1}: use --clock header"
    else:
        return
    raise DatasetError(f"{where}: {advice}, or cut the bag there")


def numbers(bag: Bag, tracks: Iterable[Track]) -> list[Numbers]:
    """Turn tracks, whose payloads are rows of named numbers, into arrays.

    Joints are told apart by their names: a message may have them in another order or only some of them, as
    where two nodes publish theirs on one topic. Each keeps its newest value.

    Raises:
        DatasetError: the dimensions of another type change along the way, there are no numbers, or a value is
            NaN or infinite.
    """
    return [_numbers(f"{bag.path}: {t.topic}", t, bag.topics[t.topic].msgtype == JOINT_STATE) for t in tracks]


def _numbers(where: str, track: Track, joints: bool) -> Numbers:
    names = tuple(dict.fromkeys(chain.from_iterable(names for names, _ in track.payloads)))
    if not names:
        raise DatasetError(f"{where}: there are no {'positions' if joints else 'numbers'} in its messages")
    columns = {name: at for at, name in enumerate(names)}
    values = np.full((len(track.payloads), len(names)), np.nan, np.float32)
    for message_names, run in groupby(enumerate(track.payloads), lambda item: item[1][0]):
        at, rows = zip(*((at, row) for at, (_, row) in run), strict=True)
        if not joints and message_names != track.payloads[0][0]:
            both = (message_names, track.payloads[0][0])
            shown = (", ".join((*each[:4], "...")[: len(each)]) for each in both)
            has, others = (f"{len(each)} values ({text})" for each, text in zip(both, shown, strict=True))
            raise DatasetError(f"{where}: message {track.order[at[0]]} has {has} where others have {others}")
        block = np.array(rows, np.float32)
        if not np.isfinite(block).all():
            place = track.order[at[int(np.argwhere(~np.isfinite(block))[0, 0])]]
            raise DatasetError(f"{where}: message {place} holds NaN or infinity")
        values[at[0] : at[-1] + 1, [columns[name] for name in message_names]] = block
    newest = np.maximum.accumulate(np.where(np.isnan(values), 0, np.arange(len(values))[:, None]), axis=0)
    values = values[newest, np.arange(len(names))]
    first = int(np.isnan(values).any(axis=1).sum())  # from here on every joint has spoken
    return Numbers(track.topic, track.stamps[first:], names, values[first:])
