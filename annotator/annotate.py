"""Annotate a recorded LeRobot dataset: episodes in, storyboards committed one by one, a new dataset out."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from goalreel import __version__
from goalreel.annotator.align import align
from goalreel.batch import Limits, run
from goalreel.datasets.build import build
from goalreel.datasets.episode import Episode
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.copies import check_apart
from goalreel.editors.hindsight import HindsightEditor
from goalreel.errors import DatasetError
from goalreel.loop import OnUnverified
from goalreel.models import presets
from goalreel.models.load import build_critic, build_editor, build_planner
from goalreel.planners.difference import DifferenceCritic
from goalreel.planners.kinematic import KinematicPlanner, Layout
from goalreel.types import Plan, Storyboard, Task

log = logging.getLogger(__name__)

type Progress = Callable[[str, int, int], None]
"""Told (stage, done, total) as the work goes on."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides the result; kept in OUT, and a second run must agree with it."""

    preset: str = "hindsight"
    planner: str | None = None
    editor: str | None = None
    critic: str | None = None
    camera: str | None = None
    subgoal_key: str = "observation.images.subgoal"
    granularity: Literal["subtask", "phase"] = "subtask"
    layout: str | None = None
    max_attempts: int | None = None
    on_unverified: OnUnverified = "continue"
    use_unverified: bool = False
    seed: int = 0

    def models(self) -> presets.Preset:
        """The preset with this run's own choices in their places.

        Raises:
            ValueError: there is no such preset.
        """
        mine = {k: getattr(self, k) for k in ("planner", "editor", "critic", "max_attempts")}
        return presets.load(self.preset, **mine)


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
    preset = settings.models()
    wanted = source.select(episodes)
    check_apart(root, out)
    summary = Summary(out=out, camera=camera)
    # Another version may cut or name otherwise: a resumed run must not mix the two.
    facts = {**asdict(settings), **preset.model_dump(), "camera": camera, "goalreel": __version__}
    with Records.open(out, facts, source.fingerprint()) as records:
        done = records.done()
        summary.resumed = len(done & set(wanted))
        todo = [i for i in wanted if i not in done]
        job = _Job(source, camera, settings, preset, limits)
        for board in job.run(todo):
            records.commit(job.index(board), board)
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
    """The episodes under way: tasks out of recordings, and recordings for the back ends that look at them."""

    def __init__(
        self,
        source: Source,
        camera: str,
        settings: Settings,
        preset: presets.Preset,
        limits: Limits | None,
    ) -> None:
        self.failures: dict[int, str] = {}
        self._source, self._camera, self._seed = source, camera, settings.seed
        self._open: dict[str, Episode] = {}
        layout = Layout.parse(settings.layout) if settings.layout else None
        self._kinematic = KinematicPlanner(
            self._open, settings.granularity, layout, camera, tuple(source.tasks.values())
        )
        self._run = partial(
            run,
            planner=self._kinematic if preset.planner == "kinematic" else build_planner(preset.planner),
            editor=HindsightEditor(self._open, camera)
            if not preset.predictive
            else build_editor(preset.editor),
            critic=DifferenceCritic()
            if preset.critic == "difference"
            else build_critic(preset.critic, mode=preset.critic_mode, scores=preset.critic_scores),
            max_attempts=preset.max_attempts,
            on_unverified=settings.on_unverified,
            limits=limits,
        )

    def run(self, indices: Sequence[int]) -> Iterator[Storyboard]:
        """Storyboards as they finish; an episode that cannot be read, planned or aligned is a failure."""
        for board in self._run(self._tasks(indices)):
            try:
                aligned = self._aligned(board)
            except (DatasetError, ValueError) as e:
                self._fail(self.index(board), str(e))
            else:
                yield aligned
            self._open.pop(board.task.id)

    def index(self, board: Storyboard) -> int:
        """The episode a storyboard belongs to."""
        return self._open[board.task.id].index

    def _aligned(self, board: Storyboard) -> Storyboard:
        if board.failure is not None:
            raise ValueError(board.failure.message)
        if board.steps[0].segment is not None:
            return board
        read_off = self._kinematic.plan([board.task])[0]
        known = read_off.segments if isinstance(read_off, Plan) else None
        episode = self._open[board.task.id]
        return align(board, episode, self._camera, boundaries=[s.end - 1 for s in known or ()])

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
