"""Cut a bag into episodes: find the pictures, the state, the action and the sub-goal of every frame."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from goalreel.datasets.bags import TopicRequest, timeline as times
from goalreel.datasets.bags.streamed import Storyboards, StreamedSpan, spans, without_pictures
from goalreel.datasets.bags.timeline import FOREVER, SECOND, Numbers, Stamps, Timeline, Track, as_of, numbers
from goalreel.datasets.bags.topics import NUMBERS, Bag, TopicChoice, choose
from goalreel.errors import DatasetError

log = logging.getLogger(__name__)

STALE_S = 1.0
"""A value held for longer is worth a warning."""
PAUSE = 10 * SECOND
"""A camera silent for longer ends the episode: its picture standing still would be no recording."""


@dataclass(frozen=True, eq=False)
class Excerpt:
    """One episode of a bag: its frames, with the pictures, numbers and sub-goals of each."""

    task: str
    moments: Stamps
    """ns, (frames,)."""
    pictures: dict[str, times.Indices]
    """Camera name -> place of the picture among its topic's messages in the bag, (frames,)."""
    rows: dict[str, NDArray[np.float32]]
    """`observation.state` and `action`, as far as asked for, (frames, dims)."""
    spans: tuple[StreamedSpan, ...]
    """The sub-goals that a node showed meanwhile; the first may have begun earlier."""


@dataclass(frozen=True, eq=False)
class Cut:
    """A whole bag, cut into episodes: the use of its topics, and the frames of each episode."""

    choice: TopicChoice
    fps: int
    names: dict[str, tuple[str, ...]]
    """Feature -> one name a dimension."""
    excerpts: tuple[Excerpt, ...]
    storyboards: Storyboards

    def in_order_of(self, other: "Cut") -> "Cut":
        """The same with the dimensions in the order of `other`, where they are the same."""
        orders = {
            feature: [names.index(name) for name in other.names[feature]]
            for feature, names in self.names.items()
            if sorted(names) == sorted(other.names.get(feature, ()))
        }
        excerpts = []
        for each in self.excerpts:
            rows = each.rows | {feature: each.rows[feature][:, order] for feature, order in orders.items()}
            excerpts.append(replace(each, rows=rows))
        names = self.names | {feature: other.names[feature] for feature in orders}
        return replace(self, names=names, excerpts=tuple(excerpts))


def cut(bag: Bag, request: TopicRequest) -> Cut:
    """Read everything but the pictures and lay out the episodes.

    Raises:
        DatasetError: see `choose` and `survey`; an empty instruction; sub-goals of an older node; or no
            episode of two frames.
    """
    choice = choose(bag, request)
    keep: dict[str, Callable[[Any], Any]] = {
        topic: NUMBERS[str(bag.topics[topic].msgtype)] for topic in (*choice.states, *choice.actions)
    }
    if choice.instruction:
        keep[choice.instruction] = lambda m: m.data.strip()
    if choice.subgoal:
        keep[choice.subgoal] = lambda m: m
    if choice.storyboard:
        keep[choice.storyboard] = without_pictures
    tracks = times.survey(bag, choice, request.clock, keep)
    goals, boards = (tracks[topic].payloads if topic else [] for topic in (choice.subgoal, choice.storyboard))
    needed = [(goal, name) for goal in goals for name in ("claims", "degraded")]
    needed += [(step.critic, "probability") for board in boards for step in board.steps]
    if missing := next((name for message, name in needed if not hasattr(message, name)), None):
        raise DatasetError(
            f"{bag.path}: recorded by an older goalreel node: its sub-goals hold no {missing}: "
            "record it again, or leave them out (ros2 bag convert, exclude_topics)"
        )
    return _Cutter(bag, choice, request, tracks).cut()


@dataclass(frozen=True)
class _Window:
    start: int
    end: int
    task: str
    fresh: int = 0
    """Values from before this moment are out of date where a newer one comes soon."""


class _Cutter:
    def __init__(
        self, bag: Bag, choice: TopicChoice, request: TopicRequest, tracks: dict[str, Track]
    ) -> None:
        self.bag, self.choice, self.request, self.tracks = bag, choice, request, tracks
        self.cameras = {name: tracks[topic] for name, topic in choice.cameras.items()}
        self.leading = next(iter(self.cameras.values()))
        self.numbers = {
            "observation.state": numbers(bag, [tracks[t] for t in choice.states]),
            "action": numbers(bag, [tracks[t] for t in choice.actions]),
        }
        beats = tracks[choice.progress].stamps.tolist() if choice.progress else []
        self.spans = spans(tracks[choice.subgoal], FOREVER, beats) if choice.subgoal else []

    def cut(self) -> Cut:
        stamps = self.leading.stamps
        try:
            fps = self.request.fps or times.common_rate(stamps)
        except ValueError as e:
            raise DatasetError(f"{self.bag.path}: {self.leading.topic}: {e}") from e
        windows = (part for whole in self._windows() for part in self._without_pauses(whole, SECOND // fps))
        laid_out = (self._excerpt(w, times.timeline(stamps, fps, w.start, w.end)) for w in windows)
        excerpts = tuple(excerpt for excerpt in laid_out if excerpt is not None)
        if not excerpts:
            raise DatasetError(
                f"{self.bag.path}: no two frames in a row have all topics asked for: "
                "is the bag cut short, or do their clocks differ (--clock)?"
            )
        names = {feature: _names(parts) for feature, parts in self.numbers.items() if parts}
        boards = self.tracks[self.choice.storyboard].payloads if self.choice.storyboard else []
        return Cut(self.choice, fps, names, excerpts, Storyboards(boards))

    def _windows(self) -> Iterator[_Window]:
        """Yield the time of each episode: the whole bag, or one instruction or storyboard to the next."""
        if self.request.task is not None:
            yield _Window(0, FOREVER, self.request.task.strip())
        elif self.choice.instruction is not None:
            track = self.tracks[self.choice.instruction]
            edges = pairwise([*track.stamps.tolist(), FOREVER])
            yield from (_Window(*edge, task) for edge, task in zip(edges, track.payloads, strict=True))
        elif self.choice.subgoal is not None:
            for _, group in groupby(self.spans, key=lambda span: span.id):
                first, *others = group
                yield _Window(first.start, (others or [first])[-1].end, first.goal.task.strip())

    def _without_pauses(self, window: _Window, period: int) -> Iterator[_Window]:
        """Cut a window where a camera was silent for longer than PAUSE, as where a clock was set forward."""
        leading = self.leading.stamps
        inside = leading[(leading >= window.start) & (leading < window.end)]
        pauses: list[tuple[int, int, str]] = []
        for track in self.cameras.values() if len(inside) else ():
            stamps = np.append(track.stamps, inside[-1])
            for at in np.flatnonzero(np.diff(stamps) > PAUSE):
                pause_start, after = stamps[at : at + 2].tolist()
                if pause_start < inside[-1] and after > inside[0]:
                    pauses.append((pause_start, after, track.topic))
        part = window
        for pause_start, after, topic in sorted(pauses):
            text = (
                "%s: %s: nothing for %.1f s, %.1f s into the episode, which is cut there: was the recording "
                "paused, or a clock set? the other --clock may tell"
            )
            seconds = (after - pause_start) / SECOND, max(0, pause_start - int(inside[0])) / SECOND
            log.warning(text, self.bag.path, topic, *seconds)
            if pause_start + period > part.start:
                yield replace(part, end=pause_start + period)
            part = replace(window, start=max(part.start, after), fresh=(pause_start + after) // 2)
        yield part

    def _excerpt(self, window: _Window, frames: Timeline) -> Excerpt | None:
        """Lay an episode out on its time line; None where it is shorter than two frames."""
        if not window.task:
            topic = self.choice.instruction or self.choice.subgoal
            raise DatasetError(f"{self.bag.path}: {topic}: an empty instruction: pass --task TEXT")
        held = [*self.numbers["observation.state"], *list(self.cameras.values())[1:]]
        late = [_late(track.stamps, frames.moments, window) for track in held]
        late += [_late(part.stamps, frames.next_moments, window) for part in self.numbers["action"]]
        first = max(late, default=0)
        if first > STALE_S * SECOND // frames.period:
            text = "%s: %r: %d frames are left out, for not every topic has spoken"
            log.warning(text, self.bag.path, window.task, first)
        frames = frames.since(first)
        if len(frames) < 2:
            log.warning("%s: %r is shorter than two frames: left out", self.bag.path, window.task)
            return None
        for track in (*self.cameras.values(), *self.numbers["observation.state"]):
            age, at = times.staleness(track.stamps, frames.moments)
            if age > STALE_S:
                text = "%s: %s: nothing for %.1f s, %.1f s into the episode: its last value is repeated"
                log.warning(text, self.bag.path, track.topic, age, at)
        pictures = {n: t.order[as_of(t.stamps, frames.moments)] for n, t in self.cameras.items()}
        pictures[next(iter(pictures))] = self.leading.order[frames.pictures]
        moments = {"observation.state": frames.moments, "action": frames.next_moments}
        rows = {
            feature: np.concatenate([p.values[as_of(p.stamps, moments[feature])] for p in parts], axis=1)
            for feature, parts in self.numbers.items()
            if parts
        }
        window_spans = tuple(s for s in self.spans if s.start < window.end and s.end > window.start)
        return Excerpt(window.task, frames.moments, pictures, rows, window_spans)


def _late(stamps: Stamps, moments: Stamps, window: _Window) -> int:
    """Count the frames before the first message of a topic; after a pause, before the first since."""
    first = int(np.searchsorted(stamps, window.fresh))
    if first == len(stamps) or not len(moments) or stamps[first] > moments[0] + STALE_S * SECOND:
        first = 0
    return int(np.count_nonzero(as_of(stamps, moments) < first))


def _names(parts: list[Numbers]) -> tuple[str, ...]:
    """Name the dimensions, with the topic in front where the names alone are numbers or not unique."""
    plain = [name for part in parts for name in part.names]
    if len(set(plain)) == len(plain) and not any(name.isdigit() for name in plain):
        return tuple(plain)
    return tuple(f"{p.topic.strip('/').replace('/', '_')}.{name}" for p in parts for name in p.names)
