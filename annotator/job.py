"""The episodes of one run under way: from the source through the models to finished storyboards.

Episodes are read ahead, aligned and kept in threads of their own, so that models are not kept waiting; models
that are not remote are asked in the caller's thread.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import batched
from typing import TYPE_CHECKING

from goalreel.annotator.align import align
from goalreel.annotator.corrected_plans import use_corrected_plans
from goalreel.annotator.details import with_details
from goalreel.annotator.guards import (
    CircuitBreaker,
    CrashIsolation,
    ModelUnavailableError,
    report_bug,
    rule_roles,
    spoiled,
)
from goalreel.annotator.options import Options
from goalreel.annotator.redaction import without_addresses
from goalreel.claims import attributed, makers
from goalreel.concurrency import prefetch
from goalreel.datasets.episode import Episode, episode_id
from goalreel.datasets.source import Source
from goalreel.drivers import Limits, as_failure, run
from goalreel.errors import BackendError, DatasetError, UserError
from goalreel.image import Image
from goalreel.loop import LoopArguments
from goalreel.middleware import use_known_answers
from goalreel.models.journal import Journal
from goalreel.models.model_set import ModelSet
from goalreel.models.registry import RecordingContext
from goalreel.planners.kinematic.layout import Unsegmentable
from goalreel.progress import OnCount
from goalreel.types import Failure, Plan, Request, Stage, Storyboard, Task

if TYPE_CHECKING:
    from goalreel.planners.watch.planner import WatchCost


log = logging.getLogger(__name__)

SAMPLE = 20
"""Episodes whose numbers are read; the others are reckoned from their lengths."""


def watching(source: Source, recorded: RecordingContext, episodes: Sequence[int]) -> "WatchCost":
    """Reckon what it takes to watch `episodes`, each once. No frame is decoded.

    Episodes that cannot be read cost nothing.
    """
    from goalreel.planners.watch.planner import WatchCost, watch_cost

    sample = episodes[:: math.ceil(len(episodes) / SAMPLE)] if episodes else []
    lengths = {row["episode_index"]: row["length"] for row in source.rows}
    total, frames = WatchCost(), 0
    for index in sample:
        try:
            total += watch_cost(source.episode(index), recorded.watched, recorded.layout, recorded.exemplars)
        except (UserError, Unsegmentable):
            continue
        frames += lengths[index]
    return total.times(sum(lengths[i] for i in episodes) / frames) if frames else total


def log_cost_estimate(
    models: ModelSet, source: Source, recorded: RecordingContext, episodes: Sequence[int]
) -> None:
    """Log what a planner that watches will cost; nothing for another."""
    if models.names is None or models.names.preset.model_name("planner").kind != "watch":
        return
    cost = watching(source, recorded, episodes)
    log.warning(
        "watching %d episode(s) takes at least %d call(s) to the planner, with %d contact sheet(s) and about "
        "%s tokens of text; the critic is asked at least once a step",
        len(episodes),
        cost.calls,
        cost.pictures,
        f"{cost.text_tokens:,}",
    )


THREADS = 2
"""Threads that align and keep; each decodes an episode's frames."""
AHEAD = BEHIND = 16
"""Episodes that are read before they are begun with, and that wait to be aligned and kept."""


@dataclass(frozen=True)
class _Lost:
    """An episode that came to nothing, and why."""

    message: str


type OnFinished[Kept] = Callable[[Episode, Storyboard], Kept]
"""Makes a finished storyboard safe; called in any thread."""


class AnnotationJob:
    """The episodes under way. Models that read recordings find them open in the source."""

    def __init__(
        self,
        source: Source,
        recorded: RecordingContext,
        models: ModelSet,
        options: Options,
        limits: Limits | None,
        journal: Journal,
        plans: Mapping[int, Plan] | None = None,
    ) -> None:
        self.failures: dict[int, str] = {}
        self.finished = 0
        """Episodes that came to an end, be it a failure."""
        self.stopped: str | None = None
        self._rules = rule_roles(models)
        self._source, self._camera, self._options = source, recorded.camera, options
        self._open: dict[str, Episode] = {}
        self._limits = limits
        self._isolation = CrashIsolation()
        self._preset = models.provenance.preset
        self._makers = makers(models.provenance.identities().get)
        corrected = {episode_id(index): plan for index, plan in (plans or {}).items()}
        self._model_set = models
        self._unplanned: dict[str, Failure] = {}
        """Failures of plans that were made first, by their tasks."""
        self._models = models.with_middleware(
            CircuitBreaker(self._rules),
            self._isolation,
            journal.middleware(models.provenance.identified().keys()),
            use_corrected_plans(corrected),
            use_known_answers(self._failed_plan),
        )
        self._layout = recorded.layout

    def run[Kept](
        self,
        indices: Sequence[int],
        keep: OnFinished[Kept],
        on_planned: OnCount = lambda done, total: None,
    ) -> Iterator[Kept]:
        """Yield what `keep` gives for each storyboard as it is finished, until all are or a model is out.

        An episode that cannot be read, planned, rendered or aligned is a failure, and so are those under way
        when a model is out. What `keep` raises is raised here. Where all plans are made first
        (`ModelSet.plans_first`), `on_planned` hears of them.
        """
        with _threads() as pool:
            under_way: list[tuple[Episode, Future[Kept | _Lost]]] = []
            try:
                if self._model_set.plans_first:
                    self._plan_first(indices, on_planned)
                for board in self._boards(indices):
                    episode = self._open.pop(board.task.id)
                    under_way.append((episode, pool.submit(self._finish, board, episode, keep)))
                    yield from self._through(under_way, limit=BEHIND)
            except ModelUnavailableError as e:
                self.stopped = str(e)
                log.error("%s", e)
            yield from self._through(under_way, limit=0)
        for episode in self._open.values():
            self._fail(episode.index, f"under way when the run {self.stopped}")

    def _plan_first(self, indices: Sequence[int], on_planned: OnCount) -> None:
        """Make all plans, which the journal keeps, and give the planner's memory to the other models."""
        size, done = (self._limits or Limits()).batch_size, 0
        with closing(prefetch(self._read, indices, AHEAD)) as read:
            opened = (pair for pair in zip(indices, read, strict=True) if not isinstance(pair[1], _Lost))
            for batch in batched(opened, size):
                tasks = [self._task(i, *result) for i, result in batch if not isinstance(result, _Lost)]
                try:
                    plans = self._models.planner.plan(tasks)
                except BackendError as e:
                    plans = [as_failure("plan", e)] * len(tasks)
                answers = dict(zip((task.id for task in tasks), plans, strict=True))
                self._unplanned |= {id: plan for id, plan in answers.items() if isinstance(plan, Failure)}
                done += len(batch)
                on_planned(done, len(indices))
        self._model_set.free_planner()
        self._model_set.prepare(roles=("editor", "critic"))

    def _failed_plan(self, stage: Stage, request: Request) -> Failure | None:
        """A plan that failed once is not asked for again."""
        return self._unplanned.get(request.id) if isinstance(request, Task) else None

    def _through[Kept](
        self, under_way: list[tuple[Episode, Future[Kept | _Lost]]], limit: int
    ) -> Iterator[Kept]:
        """Take out what is through; wait until no more than `limit` remain."""
        for entry in list(under_way):
            episode, future = entry
            if not future.done() and len(under_way) <= limit:
                continue
            under_way.remove(entry)
            match future.result():
                case _Lost(message):
                    self._fail(episode.index, message)
                case kept:
                    self.finished += 1
                    yield kept

    def _boards(self, indices: Sequence[int]) -> Iterator[Storyboard]:
        loop: LoopArguments = {**self._preset.loop_arguments, "on_unverified": self._options.on_unverified}
        with closing(prefetch(self._read, indices, AHEAD)) as read:
            yield from run(
                self._tasks(indices, read),
                self._models.planner,
                self._models.editor,
                self._models.critic,
                limits=self._limits,
                remote=self._models.remote,
                **loop,
            )

    def _finish[Kept](self, board: Storyboard, episode: Episode, keep: OnFinished[Kept]) -> Kept | _Lost:
        aligned = _or_lost(partial(self._aligned, board, episode), episode.id)
        if isinstance(aligned, _Lost):
            return aligned
        aligned = with_details(aligned, episode, self._layout, self._options.detail_names)
        return keep(episode, attributed(without_addresses(aligned, self._preset), self._makers))

    def _aligned(self, board: Storyboard, episode: Episode) -> Storyboard:
        if reason := self._isolation.bugs.get(episode.id) or spoiled(board, self._rules):
            raise DatasetError(reason)
        if any(step.segment is not None for step in board.steps):
            return board
        return align(board, episode, self._camera, self._layout)

    def _tasks(self, indices: Sequence[int], read: Iterator[tuple[Episode, Image] | _Lost]) -> Iterator[Task]:
        for index, result in zip(indices, read, strict=True):
            if isinstance(result, _Lost):
                self._fail(index, result.message)
                continue
            episode, first = result
            self._open[episode.id] = episode
            yield self._task(index, episode, first)

    def _task(self, index: int, episode: Episode, first: Image) -> Task:
        seed = self._options.seed + index
        return Task(id=episode.id, instruction=episode.instruction, image=first, seed=seed)

    def _read(self, index: int) -> tuple[Episode, Image] | _Lost:
        """An episode and its first frame."""
        return _or_lost(partial(self._first_frame, index), f"episode {index}")

    def _first_frame(self, index: int) -> tuple[Episode, Image]:
        episode = self._source.episode(index)
        episode.check(self._camera)
        return episode, episode.frames(self._camera, [0])[0]

    def _fail(self, index: int, message: str) -> None:
        log.error("episode %d is not annotated: %s", index, message)
        self.failures[index] = message
        self.finished += 1


def _or_lost[Result](work: Callable[[], Result], where: str) -> Result | _Lost:
    """Do the work for one episode. An error costs that episode alone, but for one of the file system."""
    try:
        return work()
    except UserError as e:
        return _Lost(str(e))
    except OSError:
        raise
    except Exception as e:  # noqa: BLE001  (what nobody foresaw in one episode must not stop the others)
        return _Lost(report_bug(e, where))


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """Threads that do all that they were given, unless it is Ctrl-C: then what they have begun."""
    pool = ThreadPoolExecutor(THREADS, "goalreel-finish")
    try:
        yield pool
    except KeyboardInterrupt:
        pool.shutdown(cancel_futures=True)
        raise
    finally:
        pool.shutdown()
