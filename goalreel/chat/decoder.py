"""Many callers' replies from one model in this process: short replies do not wait for long ones."""

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import torch

from goalreel.chat.conversation import ReplyWork
from goalreel.chat.decoding import OUT_OF_MEMORY, Lane, ReplyRow
from goalreel.errors import BackendError
from goalreel.torch_support import threads_for

if TYPE_CHECKING:
    from goalreel.chat.hf import HfChat

log = logging.getLogger(__name__)

LONG = 256
"""Tokens from which a reply is long: where others wait, it leaves its place to one of them."""
LONG_SHARE = 0.25
"""The share of the time that long replies have while there are short ones."""
LONG_BATCHES = 4
"""Batches of long replies that may be under way; further ones keep their places."""


class HfDecoder:
    """Continuous batching: a reply that ends leaves its place at once to another one.

    Long replies are decoded apart from the others. Where the model's cache cannot be mixed, replies that
    begin together stay together, and such lanes take turns. It must be used in one thread.
    """

    def __init__(self, chat: "HfChat") -> None:
        self._chat = chat
        self._short: list[Lane] = []
        self._long: list[Lane] = []
        self._again: list[ReplyRow] = []
        """Rows to begin again, for which there was no memory."""
        self._device = ExitStack()
        self._short_seconds = self._long_seconds = 0.0
        """Spent while there were both."""

    @property
    def busy(self) -> bool:
        """True while a reply is under way."""
        return bool(self._short or self._long or self._again)

    def room(self, limit: int) -> int:
        """Return how many more requests to take, where `limit` may be under way besides the long ones."""
        places = min(limit, self._chat.batch_size)
        if _count(self._short) >= places:
            self._set_apart()
        return max(0, places - _count(self._short) - len(self._again))

    def start(self, works: Sequence[ReplyWork]) -> None:
        """Read the conversations of requests, and write the first token of each reply."""
        rows = [self._chat.row(work) for work in works]
        try:
            if not self.busy:  # offloaded weights stay on the device until there is nothing to do
                self._device.enter_context(self._chat.on_device())
        except BackendError as e:
            _fail(rows, e)
            return
        with threads_for([self._chat.model]):
            self._begin(rows)

    def step(self) -> int:
        """Write one token of some replies, answer those that are whole; return how many were in turn."""
        self._drop_abandoned()
        if not (self._short and self._long):
            self._short_seconds = self._long_seconds = 0.0
        is_behind = self._long_seconds <= LONG_SHARE * (self._short_seconds + self._long_seconds)
        lanes = self._long if self._long and (is_behind or not self._short) else self._short
        started, rows = time.monotonic(), _count(lanes)
        with threads_for([self._chat.model]):
            for lane in list(lanes):
                self._step(lane)
                if not lane.rows:
                    lanes.remove(lane)
            repeats, self._again = self._again[: self._chat.batch_size], self._again[self._chat.batch_size :]
            if repeats:
                self._begin(repeats)
        if not self.busy:
            self._device.close()
        if lanes is self._long:
            self._long_seconds += time.monotonic() - started
        else:
            self._short_seconds += time.monotonic() - started
        return rows

    def _begin(self, rows: Sequence[ReplyRow]) -> None:
        def read(part: Sequence[ReplyRow]) -> None:
            lane = self._chat.lane(part)
            self._chat.step(lane)
            self._add(self._short, lane)

        try:
            self._chat.attempt(rows, read)
        except BackendError as e:
            _fail(rows, e)

    def _step(self, lane: Lane) -> None:
        try:
            self._chat.step(lane)
        except torch.OutOfMemoryError:
            if len(lane.rows) == 1:
                lane.rows.pop().answer(OUT_OF_MEMORY)
                torch.cuda.empty_cache()
            else:
                self._begin_again(lane)
        except RuntimeError as e:
            rows, lane.rows = lane.rows, []
            _fail(rows, self._chat.failure(e))

    def _begin_again(self, *lanes: Lane) -> None:
        """Write the replies of lanes anew in smaller batches, as memory ran out."""
        rows = [row for lane in lanes for row in lane.rows]
        for lane in lanes:
            lane.rows = []
        torch.cuda.empty_cache()
        self._chat.batch_size = max(1, min(self._chat.batch_size, len(rows)) // 2)
        log.warning("out of memory: going on with batches of %d", self._chat.batch_size)
        for row in rows:
            row.restart()
        self._again += rows

    def _set_apart(self) -> None:
        """Move long replies to their own lanes, as far as there is room for them."""
        room = LONG_BATCHES * self._chat.batch_size - _count(self._long)
        for lane in list(self._short):
            rows = [row for row in lane.rows if len(row.ids) >= LONG][: max(0, room)]
            if len(rows) == len(lane.rows):
                self._short.remove(lane)
            elif rows and lane.mixes:
                try:
                    with torch.inference_mode():
                        lane = lane.split(rows)
                except torch.OutOfMemoryError:
                    self._short.remove(lane)
                    self._begin_again(lane)
                    continue
            else:
                continue
            room -= len(rows)
            self._add(self._long, lane)

    def _drop_abandoned(self) -> None:
        for lanes in (self._short, self._long):
            for lane in list(lanes):
                try:
                    with torch.inference_mode():
                        lane.drop([row for row in lane.rows if row.work.abandoned])
                except torch.OutOfMemoryError:
                    self._begin_again(lane)
                if not lane.rows:
                    lanes.remove(lane)
        self._again = [row for row in self._again if not row.work.abandoned]

    @torch.inference_mode()
    def _add(self, lanes: list[Lane], lane: Lane) -> None:
        if not lane.rows:
            return
        other = next((other for other in lanes if other.mixes and lane.mixes), None)
        if other is None:
            lanes.append(lane)
            return
        try:
            other.join(lane)
        except torch.OutOfMemoryError:
            lanes.remove(other)
            self._begin_again(other, lane)


def _count(lanes: Sequence[Lane]) -> int:
    return sum(len(lane.rows) for lane in lanes)


def _fail(rows: Sequence[ReplyRow], error: BackendError) -> None:
    log.warning("failed for %d request(s): %s", len(rows), error)
    for row in rows:
        if not row.work.abandoned and not row.answered:
            row.answer(error)
