"""Annotate a recorded LeRobot dataset: episodes in, storyboards committed one by one, a new dataset out."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from goalreel.annotator import presets
from goalreel.annotator.batch import Limits, run
from goalreel.annotator.loop import OnUnverified
from goalreel.annotator.types import Storyboard, Task
from goalreel.datasets.build import build
from goalreel.datasets.episode import Episode
from goalreel.datasets.errors import DatasetError
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.copies import check_apart

log = logging.getLogger(__name__)

type Progress = Callable[[str, int, int], None]
"""Told (stage, done, total) as the work goes on."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides the result; kept in OUT, and a second run must agree with it."""

    preset: str = "hindsight"
    camera: str | None = None
    subgoal_key: str = "observation.images.subgoal"
    granularity: Literal["subtask", "phase"] = "subtask"
    layout: str | None = None
    max_attempts: int | None = None
    on_unverified: OnUnverified = "continue"
    use_unverified: bool = False
    seed: int = 0


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


def annotate(
    root: Path,
    out: Path,
    settings: Settings,
    *,
    episodes: Sequence[int] | None = None,
    limits: Limits | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Summary:
    """Annotate `episodes` (default: all) of the dataset in `root` into the new dataset `out`.

    Finished episodes are saved at once; run again after a kill, it goes on where it stopped. An episode
    that cannot be read is left unannotated and reported in the summary. `root` is never written to.

    Raises:
        DatasetError: the dataset as a whole cannot be read, or `out` cannot be written.
        ValueError: the settings name no such preset or layout.
    """
    source = Source.open(root)
    camera = source.camera(settings.camera)
    preset = presets.load(settings.preset)
    wanted = source.select(episodes)
    check_apart(root, out)
    summary = Summary(out=out, camera=camera)
    facts = {
        **asdict(settings),
        "camera": camera,
        "max_attempts": settings.max_attempts or preset.max_attempts,
    }
    with Records.open(out, facts, source.fingerprint()) as records:
        done = records.done()
        summary.resumed = len(done & set(wanted))
        todo = [i for i in wanted if i not in done]
        job = _Job(source, camera, settings, facts["max_attempts"], limits)
        for board in job.run(todo):
            records.commit(job.close(board), board)
            summary.annotated += 1
            summary.steps.update(s.status for s in board.steps)
            progress("annotate", summary.annotated + len(job.failures), len(todo))
        summary.failures = job.failures
        build(
            root,
            out,
            records,
            camera_key=settings.subgoal_key,
            camera=camera,
            use_unverified=settings.use_unverified,
            progress=lambda done, total: progress("write", done, total),
        )
    return summary


class _Job:
    """The episodes under way: tasks out of recordings, and recordings for the hindsight back ends."""

    def __init__(
        self, source: Source, camera: str, settings: Settings, max_attempts: int, limits: Limits | None
    ) -> None:
        self.failures: dict[int, str] = {}
        self._source, self._camera, self._seed = source, camera, settings.seed
        self._open: dict[str, Episode] = {}
        self._run = partial(
            run,
            **_back_ends(presets.load(settings.preset), settings, self._open, camera),
            max_attempts=max_attempts,
            on_unverified=settings.on_unverified,
            limits=limits,
        )

    def run(self, indices: Sequence[int]) -> Iterator[Storyboard]:
        """A storyboard an episode that could be read and planned, as they finish; the others fail."""
        for board in self._run(self._tasks(indices)):
            if board.failure is None:
                yield board
            else:
                self._fail(self.close(board), board.failure.message)

    def close(self, board: Storyboard) -> int:
        """Forget a finished episode; returns its index."""
        return self._open.pop(board.task.id).index

    def _tasks(self, indices: Sequence[int]) -> Iterator[Task]:
        for index in indices:
            try:
                episode = self._source.episode(index)
                episode.check(self._camera)
                first = episode.frames(self._camera, [0])[0]
            except DatasetError as e:
                self._fail(index, str(e))
                continue
            self._open[episode.id] = episode
            yield Task(id=episode.id, instruction=episode.instruction, image=first, seed=self._seed + index)

    def _fail(self, index: int, message: str) -> None:
        log.error("episode %d is left without annotation: %s", index, message)
        self.failures[index] = message


def _back_ends(
    preset: presets.Preset, settings: Settings, recordings: Mapping[str, Episode], camera: str
) -> dict[str, Any]:
    """Build the planner, editor and critic a preset names."""
    from goalreel.editors.hindsight import HindsightEditor
    from goalreel.planners.difference import DifferenceCritic
    from goalreel.planners.kinematic import KinematicPlanner, Layout

    layout = Layout.parse(settings.layout) if settings.layout else None
    return {
        "planner": KinematicPlanner(recordings, granularity=settings.granularity, layout=layout),
        "editor": HindsightEditor(recordings, camera),
        "critic": DifferenceCritic(),
    }
