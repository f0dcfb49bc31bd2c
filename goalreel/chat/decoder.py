"""Many callers' replies from one model in this process: continuous batching."""

import logging
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


class HfDecoder:
    """Continuous batching: a reply that ends leaves its place at once to another one.

    Where the model's cache cannot be mixed, replies that begin together stay together. It must be used in one
    thread.
    """

    def __init__(self, chat: "HfChat") -> None:
        self._chat = chat
        self._lanes: list[Lane] = []
        self._again: list[ReplyRow] = []
        """Rows to begin again, for which there was no memory."""
        self._device = ExitStack()

    @property
    def busy(self) -> bool:
        """True while a reply is under way."""
        return bool(self._lanes or self._again)

    def room(self, limit: int) -> int:
        """Return how many more requests to take, where `limit` may be under way."""
        under_way = sum(len(lane.rows) for lane in self._lanes) + len(self._again)
        return max(0, min(limit, self._chat.batch_size) - under_way)

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
        """Write one token of each reply, answer those that are whole; return how many were in turn."""
        self._drop_abandoned()
        rows = sum(len(lane.rows) for lane in self._lanes)
        with threads_for([self._chat.model]):
            for lane in list(self._lanes):
                self._step(lane)
            room = self._chat.batch_size
            repeats, self._again = self._again[:room], self._again[room:]
            if repeats:
                self._begin(repeats)
        self._lanes = [lane for lane in self._lanes if lane.rows]
        if not self.busy:
            self._device.close()
        return rows

    def _begin(self, rows: Sequence[ReplyRow]) -> None:
        def read(part: Sequence[ReplyRow]) -> None:
            lane = self._chat.lane(part)
            self._chat.step(lane)
            self._add(lane)

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

    def _drop_abandoned(self) -> None:
        for lane in self._lanes:
            try:
                with torch.inference_mode():
                    lane.drop([row for row in lane.rows if row.work.abandoned])
            except torch.OutOfMemoryError:
                self._begin_again(lane)
        self._lanes = [lane for lane in self._lanes if lane.rows]
        self._again = [row for row in self._again if not row.work.abandoned]

    @torch.inference_mode()
    def _add(self, lane: Lane) -> None:
        """Let a lane's rows join others, where they mix."""
        if not lane.rows:
            return
        other = next((other for other in self._lanes if other.rows and other.mixes and lane.mixes), None)
        if other is None:
            self._lanes.append(lane)
            return
        try:
            other.join(lane)
        except torch.OutOfMemoryError:
            self._begin_again(other, lane)


def _fail(rows: Sequence[ReplyRow], error: BackendError) -> None:
    log.warning("failed for %d request(s): %s", len(rows), error)
    for row in rows:
        if not row.work.abandoned and not row.answered:
            row.answer(error)
