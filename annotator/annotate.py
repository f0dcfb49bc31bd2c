"""Annotate a recorded LeRobot dataset: episodes in, storyboards committed one by one, a new dataset out.

While models that predict are at work, their answers are kept in OUT/meta/goalreel/answers, so that a killed
run asks no model twice. An episode's answers are removed once its record is safe, and the folder before the
dataset is written: it is never pushed or trained on.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from goalreel import __version__
from goalreel.annotator.align import align
from goalreel.annotator.guard import Guarded, reported
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
    """Let unverified images become training data."""
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


@dataclass
class Summary:
    """What a run did. `steps` counts the steps of the episodes annotated in this run by status."""

    out: Path
    camera: str
    annotated: int = 0
    resumed: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    """Episode -> why it has no storyboard."""

    def as_json(self) -> str:
        """One JSON object on one line."""
        return json.dumps(
            {
                "out": str(self.out),
                "camera": self.camera,
                "annotated": self.annotated,
                "resumed": self.resumed,
                "steps": dict(self.steps),
                "failures": self.failures,
            }
        )


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
    limits: Limits | None = None,
    progress: OnProgress = lambda stage, done, total: None,
) -> Summary:
    """Annotate `episodes` (default: all) of the dataset `source` into the new dataset `out`.

    Finished episodes are saved at once; run again after a kill, it goes on where it stopped. An episode
    that cannot be read, or that meets a bug, is left unannotated and reported in the summary. `source` is
    never written to.

    Raises:
        DatasetError: the dataset as a whole cannot be read, or `out` cannot be written.
        UserError, OSError: a model cannot be loaded.
    """
    options, out = options or Options(), Path(out)
    recorded = options.recorded(source)
    wanted = source.select(episodes)
    check_apart(source.root, out)
    summary = Summary(out=out, camera=recorded.camera)
    with Records.open(out, _facts(models, options, recorded.camera), source.fingerprint()) as records:
        done = records.done()
        summary.resumed = len(done & set(wanted))
        todo = [i for i in wanted if i not in done]
        journal = Journal(records.folder / "answers")
        if todo:
            models.prepare()
        job = _Job(source, recorded, models, options, limits, journal)
        for episode, board in job.run(todo):
            records.commit(episode.index, board)
            journal.forget(episode.id)
            summary.annotated += 1
            summary.steps.update(s.status for s in board.steps)
            progress("annotate", summary.annotated + len(job.failures), len(todo))
        summary.failures = job.failures
        journal.remove()
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
        self._source, self._camera, self._options = source, recorded.camera, options
        self._open: dict[str, Episode] = {}
        self._limits = limits
        self._guarded = guarded = Guarded(models)
        self._models = Trio(guarded, guarded, guarded, models.called, models.remote).kept(journal)
        self._kinematic = build_planner("kinematic", recorded)

    def run(self, indices: Sequence[int]) -> Iterator[tuple[Episode, Storyboard]]:
        """Storyboards as they finish; an episode that cannot be read, planned or aligned is a failure."""
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
                yield episode, aligned

    def _aligned(self, board: Storyboard, episode: Episode) -> Storyboard:
        if board.failure is not None:
            raise DatasetError(board.failure.message)
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
