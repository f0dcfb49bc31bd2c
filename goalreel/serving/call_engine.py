"""The engine of a model that answers a whole batch at once."""

import logging
import time
from collections.abc import Callable, Sequence

from goalreel.engine import WorkItem
from goalreel.errors import BackendError

log = logging.getLogger(__name__)


class CallEngine[Q, A]:
    """An engine of whole batches: `call` gives answer i to request i. A BackendError fails its batch."""

    def __init__(
        self,
        name: str,
        call: Callable[[Sequence[Q]], Sequence[A]],
        observe: Callable[[int, float], None] = lambda _size, _seconds: None,
    ) -> None:
        self._name = name
        self._call = call
        self._observe = observe
        self._works: Sequence[WorkItem[Q, A]] = ()

    @property
    def busy(self) -> bool:
        """Whether a batch is to be answered."""
        return bool(self._works)

    def room(self, limit: int) -> int:
        """One batch at a time."""
        return 0 if self._works else limit

    def start(self, works: Sequence[WorkItem[Q, A]]) -> None:
        """Take a batch."""
        self._works = works

    def step(self) -> int:
        """Call the model with the batch."""
        works = [work for work in self._works if not work.abandoned]
        self._works = ()
        if not works:
            return 0
        started = time.monotonic()
        try:
            answers: Sequence[A | BackendError] = self._call([work.request for work in works])
        except BackendError as e:
            log.warning("%s failed for %d request(s): %s", self._name, len(works), e)
            answers = [BackendError(str(e) or "no reason given") for _ in works]
        self._observe(len(works), time.monotonic() - started)  # first: who has an answer finds it counted
        if len(answers) != len(works):
            raise ValueError(f"{self._name}: {len(works)} requests but {len(answers)} answers")
        for work, answer in zip(works, answers, strict=True):
            work.answer(answer)
        return len(works)
