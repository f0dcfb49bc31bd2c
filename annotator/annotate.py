"""Annotate a recorded LeRobot dataset: episodes in, storyboards committed one by one, a new dataset out.

While models that predict are at work, their answers are kept in OUT/meta/goalreel/answers, so that a killed
run asks no model twice. An episode's answers are removed once its record is safe, and the folder with the
last of them.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from goalreel import __version__
from goalreel.annotator.align import align
from goalreel.annotator.guard import Guarded, reported
from goalreel.annotator.outage import Outage, Retry, Watched, spoiled, to_retry
from goalreel.annotator.summary import Summary
from goalreel.batch import Limits, run
from goalreel.datasets.build import SUBGOAL, build
from goalreel.datasets.episode import Episode
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.copies import check_apart
from goalreel.errors import DatasetError, UserError
from goalreel.loop import OnUnverified
from goalreel.models.journal import Journal
from goalreel.models.load import build_planner
from goalreel.models.recorded import Recorded
from goalreel.models.registry import Role
from goalreel.models.trio import Trio
from goalreel.planners.kinematic import Granularity, Layout
from goalreel.progress import OnProgress
from goalreel.types import Plan, Storyboard, Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """What decides the result beside the models; kept in OUT, and a second run must agree with it."""

    camera: str | None = None
    """Of the goal images; None is the first that is not on the wrist."""
    subgoal_key: str = SUBGOAL
    """The feature that the goal images are written to."""
    granularity: Granularity = "subtask"
    layout: str | None = None
    """State dimensions, such as `gripper=6,position=0:3`; None finds them."""
    on_unverified: OnUnverified = "continue"
    use_unverified: bool = False
    """Let steps without an accepted image become training data, image and words."""
    seed: int = 0

    def recorded(self, source: Source) -> Recorded:
        """What models that read recordings are to read: `load(preset, recordings=options.recorded(source))`.

        Raises:
            DatasetError: there is no such camera.
            InputError: the layout cannot be read.
        """
        layout = Layout.parse(self.layout) if self.layout else None
        words = tuple(source.tasks.values())
        return Recorded(source.recording, source.camera(self.camera), words, self.granularity, layout)


def open_dataset(root: Path | str) -> Source:
    """Read the metadata of the LeRobot v3.0 dataset in `root`.

    Raises:
        DatasetError: there is none, or it cannot be read.
    """
    return Source.open(Path(root))


def annotate(
    source: Source,
    out: Path | str,
    models: Trio,
    options: Options | None = None,
    *,
    episodes: Sequence[int] | None = None,
    retry: Retry | None = None,
    limits: Limits | None = None,
    progress: OnProgress = lambda stage, done, total: None,
) -> Summary:
    """Annotate `episodes` (default: all) of the dataset `source` into the new dataset `out`.

    Finished episodes are saved at once; run again after a kill, it goes on where it stopped. An episode
    that cannot be read, whose models failed, or that meets a bug, is left unannotated and reported in the
    summary. When a model answers nobody any more, the run stops, and `Summary.stopped` says so. `retry`
    tries recorded episodes again (see `to_retry`); one that then has fewer accepted pictures keeps its
    record. `source` is never written to.

    Raises:
        DatasetError: the dataset as a whole cannot be read, or `out` cannot be written.
        UserError, OSError: a model cannot be loaded.
    """
    options, out = options or Options(), Path(out)
    recorded = options.recorded(source)
    wanted = source.select(episodes)
    check_apart(source.root, out)
    source.check_data()
    summary = Summary(out=out, camera=recorded.camera)
    with Records.open(out, _facts(models, options, recorded.camera), source.fingerprint()) as records:
        done = records.done()
        again = _again(records, sorted(done & set(wanted)), models, retry)
        todo = [i for i in wanted if i not in done or i in again]
        summary.resumed = len(wanted) - len(todo)
        if todo:
            models.prepare()
        journal = Journal(records.folder / "answers")
        job = _Job(source, recorded, models, options, limits, journal)
        for episode, board in job.run(todo):
            _commit(records, episode.index, board, again.get(episode.index, 0), summary)
            journal.forget(episode.id)
            progress("annotate", job.finished, len(todo))
        summary.failures, summary.stopped = job.failures, job.stopped
        summary.not_begun = len(todo) - job.finished
        if summary.failures or set(source.indices) - done - set(todo):
            journal.remove_if_empty()
        else:
            journal.remove()
        if again:
            records.drop_unused_images()
        if job.stopped and not records.done():
            return summary
        build(
            source,
            out,
            records,
            camera_key=options.subgoal_key,
            camera=recorded.camera,
            use_unverified=options.use_unverified,
            progress=lambda done, total: progress("write", done, total),
        )
    return summary


def _again(records: Records, done: Sequence[int], models: Trio, retry: Retry | None) -> dict[int, int]:
    """Recorded episode to try again -> how many accepted pictures its record has."""
    if retry is None:
        return {}
    boards = ((index, records.outline(index)) for index in done)
    return {index: _accepted(board) for index, board in boards if to_retry(board, retry, _fixed(models))}


def _commit(records: Records, index: int, board: Storyboard, before: int, summary: Summary) -> None:
    """Record an episode, unless its record has more accepted pictures (`before`) than the new storyboard."""
    if _accepted(board) < before:
        log.info("episode %d keeps its record: it has more accepted pictures", index)
        summary.resumed += 1
        return
    records.commit(index, board)
    summary.annotated += 1
    summary.unverified += not board.complete
    summary.steps.update(s.status for s in board.steps)


def _accepted(board: Storyboard) -> int:
    return sum(step.status == "verified" for step in board.steps)


def _fixed(models: Trio) -> frozenset[Role]:
    """The roles of rules, whose failures are no outage; models without a name may be anything."""
    return frozenset() if models.names is None else models.names.unkept


def _facts(models: Trio, options: Options, camera: str) -> dict[str, object]:
    """Everything that decides the result. Another version may cut or name otherwise, so it counts too."""
    names = asdict(models.called)
    del names["unkept"]
    return {**asdict(options), **names, "camera": camera, "goalreel": __version__}


class _Job:
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
        self._fixed = _fixed(models)
        self._source, self._camera, self._options = source, recorded.camera, options
        self._open: dict[str, Episode] = {}
        self._limits = limits
        watched = Watched(models, self._fixed)
        self._guarded = guarded = Guarded(Trio(watched, watched, watched, models.names))
        self._models = Trio(guarded, guarded, guarded, models.called, models.remote).kept(journal)
        self._kinematic = build_planner("kinematic", recorded)

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
        if board.steps[0].segment is not None:
            return board
        read_off = self._kinematic.plan([board.task])[0]
        known = read_off.segments if isinstance(read_off, Plan) else None
        return align(board, episode, self._camera, boundaries=[s.end - 1 for s in known or ()])

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
