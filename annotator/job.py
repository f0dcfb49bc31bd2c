"""The episodes of one run under way: from the source through the models to finished storyboards."""

import logging
from collections.abc import Iterator, Sequence

from goalreel.annotator.align import align
from goalreel.annotator.guard import Guarded, reported
from goalreel.annotator.options import Options
from goalreel.annotator.outage import Outage, Watched, fixed_roles, spoiled
from goalreel.batch import Limits, run
from goalreel.datasets.episode import Episode
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError, UserError
from goalreel.models.journal import Journal
from goalreel.models.recorded import Recorded
from goalreel.models.trio import Trio
from goalreel.types import Storyboard, Task

log = logging.getLogger(__name__)


class Job:
    """The episodes under way. Models that read recordings find them open in the source."""

    def __init__(
        self,
        source: Source,
        recorded: Recorded,
        models: Trio,
        options: Options,
        limits: Limits | None,
        journal: Journal,
    ) -> None:
        self.failures: dict[int, str] = {}
        self.finished = 0
        """Episodes that came to an end, be it a failure."""
        self.stopped: str | None = None
        self._fixed = fixed_roles(models)
        self._source, self._camera, self._options = source, recorded.camera, options
        self._open: dict[str, Episode] = {}
        self._limits = limits
        watched = Watched(models, self._fixed)
        self._guarded = guarded = Guarded(Trio(watched, watched, watched, models.names))
        self._models = Trio(guarded, guarded, guarded, models.called, models.remote).kept(journal)
        self._layout = recorded.layout

    def run(self, indices: Sequence[int]) -> Iterator[tuple[Episode, Storyboard]]:
        """Storyboards as they finish, until all are or a model is out.

        An episode that cannot be read, planned, rendered or aligned is a failure, and so are those under way
        when a model is out.
        """
        try:
            yield from self._finished(indices)
        except Outage as e:
            self.stopped = str(e)
            log.error("%s", e)
            for episode in list(self._open.values()):
                self._fail(episode.index, f"under way when the run {e}")

    def _finished(self, indices: Sequence[int]) -> Iterator[tuple[Episode, Storyboard]]:
        boards = run(
            self._tasks(indices),
            self._models.planner,
            self._models.editor,
            self._models.critic,
            max_attempts=self._models.called.max_attempts,
            on_unverified=self._options.on_unverified,
            keep=self._models.called.keep,
            limits=self._limits,
            remote=self._models.remote,
        )
        for board in boards:
            episode = self._open.pop(board.task.id)
            try:
                if bug := self._guarded.bugs.get(episode.id):
                    raise DatasetError(bug)
                aligned = self._aligned(board, episode)
            except UserError as e:
                self._fail(episode.index, str(e))
            except OSError:
                raise
            except Exception as e:  # noqa: BLE001  (what nobody foresaw in one episode must not stop the others)
                self._fail(episode.index, reported(e, episode.id))
            else:
                self.finished += 1
                yield episode, aligned

    def _aligned(self, board: Storyboard, episode: Episode) -> Storyboard:
        if lost := spoiled(board, self._fixed):
            raise DatasetError(lost)
        if any(step.segment is not None for step in board.steps):
            return board
        return align(board, episode, self._camera, self._layout)

    def _tasks(self, indices: Sequence[int]) -> Iterator[Task]:
        for index in indices:
            try:
                episode = self._source.episode(index)
                episode.check(self._camera)
                first = episode.frames(self._camera, [0])[0]
            except UserError as e:
                self._fail(index, str(e))
                continue
            except OSError:
                raise
            except Exception as e:  # noqa: BLE001  (what nobody foresaw in one episode must not stop the others)
                self._fail(index, reported(e, f"episode {index}"))
                continue
            self._open[episode.id] = episode
            seed = self._options.seed + index
            yield Task(id=episode.id, instruction=episode.instruction, image=first, seed=seed)

    def _fail(self, index: int, message: str) -> None:
        log.error("episode %d is left without annotation: %s", index, message)
        self.failures[index] = message
        self.finished += 1
