"""The episodes of one run under way: from the source through the models to their records.

Episodes are read ahead, aligned and kept in threads of their own, so that models are not kept waiting; models
that are not remote are asked in the caller's thread.
"""

import json
import logging
import math
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path

from goalreel.annotator.align import align, with_details
from goalreel.annotator.existing_words import corrected_plans
from goalreel.annotator.guards import (
    GuardedModels,
    ModelUnavailableError,
    accepted_steps,
    report_bug,
    rule_roles,
    watches,
)
from goalreel.annotator.options import Options, RunOptions
from goalreel.claims import ClaimTotals, add_counts, count, count_details
from goalreel.concurrency import prefetch
from goalreel.critics.examination import Examination
from goalreel.critics.known_true import KnownTrue, accepted_by_people, observed
from goalreel.datasets.episode import Episode, episode_id
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError, UserError
from goalreel.models.journal import Journal
from goalreel.models.model_set import Lazy, ModelSet
from goalreel.models.registry import RecordingContext
from goalreel.planners.examples.carry import Measurement
from goalreel.planners.kinematic.layout import Unsegmentable
from goalreel.planners.kinematic.robot import Robot
from goalreel.progress import OnProgress
from goalreel.terms import LabelForm
from goalreel.types import ROLES, Candidate, Status, Storyboard, Task


@dataclass
class Summary:
    """Summary of a run. `steps` counts the steps of the episodes annotated in this run by status."""

    out: Path
    camera: str
    annotated: int = 0
    """Episodes recorded in this run."""
    incomplete: int = 0
    """Those of them with a step that has no accepted picture."""
    resumed: int = 0
    """Episodes that had a record already, and keep it."""
    not_begun: int = 0
    """Episodes that the run did not get to before it stopped."""
    steps: Counter[str] = field(default_factory=Counter)
    dataset_steps: Counter[Status] = field(default_factory=Counter)
    """Steps by status of all episodes that no person corrected, those of earlier runs too.

    Empty where no dataset was written. A picture that a person took away is no failure.
    """
    end_checked: Counter[str] = field(default_factory=Counter)
    """Checkers of the end against the whole instruction (`Storyboard.end_checked`) -> episodes."""
    doubtful: int = 0
    """Steps whose words may be untrue: no name is written for their frames."""
    claims: ClaimTotals = field(default_factory=dict)
    """Their claims by maker and by checker (`goalreel.claims.count`)."""
    details: ClaimTotals = field(default_factory=dict)
    """Their details by maker and by checker."""
    unaligned: int = 0
    """Steps that were looked for in a recording and not found, whatever their status."""
    failures: dict[int, str] = field(default_factory=dict)
    """Episode -> why it was not recorded. The same call tries it again."""
    examination: Examination | None = None
    """The critic's answers to control questions; None where it was asked none."""
    stopped: str | None = None
    """Reason why the run ended early; None where it went through."""
    shard: str | None = None
    """Such as "2/3" where the run was a part of one: then the dataset is not written yet."""
    robot: Robot | None = None
    """The robot as it was understood."""
    labels: Mapping[LabelForm, int] = field(default_factory=dict)
    """The form of existing labels that the planner takes -> episodes."""
    measured: Sequence[Measurement] = ()
    """Boundaries of labelled episodes that were found again, of each instruction."""
    to_label: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Instruction -> episodes whose labels would serve the others best, where rules planned."""

    @property
    def ended(self) -> int:
        """Episodes that are done with, be it as a failure."""
        return self.annotated + self.resumed + len(self.failures)

    def add_board(self, board: Storyboard | None) -> None:
        """Count an episode that was recorded, or None for one that keeps its record."""
        if board is None:
            self.resumed += 1
            return
        self.annotated += 1
        self.incomplete += not board.complete
        self.steps.update(step.status for step in board.steps)
        self.end_checked[board.end_checked] += 1
        self.doubtful += sum(bool(step.step.doubts) for step in board.steps)
        add_counts(self.claims, count(board.steps))
        add_counts(self.details, count_details(board.steps))
        self.unaligned += sum(step.unaligned for step in board.steps)

    @property
    def clean(self) -> bool:
        """No episode and no step failed, in this run or an earlier one, and none is left to do."""
        failed = self.steps["failed"] or self.dataset_steps["failed"]
        return not (self.failures or self.not_begun or self.stopped or failed)

    def as_json(self) -> str:
        more = {
            "out": str(self.out),
            "failed": len(self.failures),
            "robot": self.robot and self.robot.settings(),
            "measured": [asdict(one) for one in self.measured],
            "examination": self.examination and self.examination.summary(),
        }
        return json.dumps({**vars(self), **more})


log = logging.getLogger(__name__)

SAMPLE = 20
"""Episodes whose numbers are read; the others are reckoned from their lengths."""


def log_cost_estimate(
    models: ModelSet, source: Source, recorded: RecordingContext, episodes: Sequence[int]
) -> None:
    """Log what it takes to watch `episodes`, each once; nothing for a planner that does not watch.

    No frame is decoded. Episodes that cannot be read cost nothing.
    """
    if not watches(models):
        return
    from goalreel.planners.watch.planner import WatchCost, watch_cost

    cost, frames, lengths = WatchCost(), 0, source.lengths
    for index in episodes[:: math.ceil(len(episodes) / SAMPLE)]:
        with suppress(UserError, Unsegmentable):
            cost += watch_cost(source.episode(index), recorded.watched, recorded.layout, recorded.examples)
            frames += lengths[index]
    if frames:
        cost = cost.times(sum(lengths[i] for i in episodes) / frames)
    log.warning(
        "watching %d episode(s) takes at least %d call(s) to the planner, with %d contact sheet(s) and about "
        "%s tokens of text%s",
        len(episodes), cost.calls, cost.pictures, f"{cost.text_tokens:,}",
        "" if "critic" in rule_roles(models) else "; the critic is asked at least once a step",
    )  # fmt: skip


def log_spent(models: ModelSet) -> None:
    """Log the calls and tokens that watching and judging have taken; nothing where nobody counts them."""
    for doing, role in (("watching", "planner"), ("judging", "critic")):
        model = getattr(models, role)
        chat = getattr(model.loaded if isinstance(model, Lazy) else model, "chat", None)
        if spent := getattr(chat, "spent", None):
            tokens = f"{spent['prompt']:,} tokens in and {spent['reply']:,} out"
            tokens = tokens if spent["prompt"] else "tokens that its server does not count"
            log.warning("%s took %d call(s) to the %s, with %s", doing, spent["calls"], role, tokens)


def known_true(source: Source, recorded: RecordingContext, records: Records) -> KnownTrue:
    """Offer a critic's examiner the real frames of steps, then one picture that people accepted."""
    frames = observed(recorded.recordings, recorded.camera)
    recorded_before = sorted(records.recorded())

    def by_people() -> Iterator[Candidate]:
        for index in filter(records.is_corrected, recorded_before):
            from goalreel.annotator.show import episode_view

            yield from accepted_by_people(episode_view(source.episode(index), records).storyboard)

    accepted = by_people()
    return lambda candidate, plan: chain(frames(candidate, plan), islice(accepted, 1))


THREADS = 2
"""Threads that align and keep; each decodes an episode's frames."""
AHEAD = BEHIND = 16
"""Episodes that are read before they are begun with, and that wait to be aligned and kept."""

DEATHS = 3
"""Processes that died with an episode under way, after which it is given up."""


@dataclass(frozen=True)
class _Starts:
    """Starts of episodes that have not ended, a file each with a byte a start; a kill leaves them."""

    folder: Path

    def of(self, episode: str) -> int:
        path = self.folder / episode
        return path.stat().st_size if path.is_file() else 0

    def count(self, episode: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / episode).open("ab") as file:
            file.write(b".")

    def forget(self, episode: str) -> None:
        (self.folder / episode).unlink(missing_ok=True)


@dataclass
class AnnotationJob:
    """Annotates episodes, records each when it is finished, and counts it in a summary."""

    source: Source
    recorded: RecordingContext
    models: ModelSet
    options: Options
    run_options: RunOptions
    records: Records
    journal: Journal
    summary: Summary
    progress: OnProgress

    def __post_init__(self) -> None:
        shard = self.run_options.shard
        self._writer = "run" if shard is None else f"{shard.number}-of-{shard.count}"
        self._starts = _Starts(self.records.answers.with_name(f"starts-{self._writer}"))

    def forget_starts(self) -> None:
        """Forget which episodes were under way, as after a run that was killed with all records written."""
        shutil.rmtree(self._starts.folder, ignore_errors=True)

    def run(self, todo: Mapping[int, int | None], run_size: int) -> None:
        """Annotate the episodes `todo`, until all are done or a model is out.

        `todo` maps an episode to the number of accepted pictures in the record that it has, if any. One that
        cannot be read, planned, rendered or aligned is a failure, and so are those under way when a model is
        out. `run_size` is the number of episodes of the whole run (see `CircuitBreaker`).

        Episodes that were under way when a run was killed come first. The last time before `DEATHS` such runs
        they go one at a time, and after that they are failures.

        Raises:
            UserError, OSError: a model cannot be loaded, or the disk is full.
        """
        self._todo, self._ended = todo, 0
        self._open: dict[str, Episode] = {}
        """Episodes under way, by their tasks."""
        models = self.models
        models.prepare(roles=("planner",) if models.plans_first else ROLES)
        truth = known_true(self.source, self.recorded, self.records)
        self._guarded = GuardedModels(
            models,
            self.journal,
            self.run_options.limits,
            self.options.on_rejected,
            run_size,
            corrected_plans(self.records, self.source, todo),
            examiner=models.examiner(self.records.examination, writer=self._writer, known_true=truth),
        )
        self._deaths = {index: deaths for index in todo if (deaths := self._starts.of(episode_id(index)))}
        left = sorted(
            (i for i in todo if self._deaths.get(i, 0) < DEATHS), key=lambda i: -self._deaths.get(i, 0)
        )
        self._alone = [index for index in left if self._deaths.get(index) == DEATHS - 1]
        self._groups = [*([index] for index in self._alone), [i for i in left if i not in self._alone]]
        self.progress("annotate", 0, len(todo))  # planning alone may take minutes
        for index in (index for index, deaths in self._deaths.items() if deaths >= DEATHS):
            self._fail(index, f"the process died {DEATHS} times with it: is there enough memory?")
        try:
            self._annotate()
        finally:
            self.forget_starts()

    def _annotate(self) -> None:
        with ThreadPoolExecutor(THREADS, "goalreel-finish") as pool:
            under_way: list[tuple[Episode, Future[Storyboard | str | None]]] = []
            try:
                with closing(self._boards()) as boards:
                    for board in boards:
                        episode = self._open.pop(board.task.id)
                        under_way.append((episode, pool.submit(self._finish, board, episode)))
                        self._count(under_way, limit=0 if episode.index in self._alone else BEHIND)
                self._count(under_way, limit=0)
            except KeyboardInterrupt:  # only what they have begun
                pool.shutdown(cancel_futures=True)
                raise
        for episode in self._open.values():
            self._fail(episode.index, f"under way when the run {self.summary.stopped}")

    def _boards(self) -> Generator[Storyboard]:
        """Yield the storyboard of each episode, until all are made or a model is out."""
        try:
            if self.models.plans_first:
                self._plan_first()
            for group in self._groups:
                with closing(self._tasks(group)) as tasks:
                    yield from self._guarded.boards(tasks)
        except ModelUnavailableError as e:
            self.summary.stopped = str(e)
            log.error("%s", e)

    def _plan_first(self) -> None:
        done = 0
        for group in self._groups:
            with closing(prefetch(self._read, group, AHEAD)) as read:
                tasks = (result[1] for result in read if not isinstance(result, str))
                for task in self._guarded.plan_first(tasks):
                    done += 1
                    self._starts.forget(task.id)
                    self.progress("plan", done, len(self._todo))
        self.models.free_planner()
        self.models.prepare(roles=("editor", "critic"))

    def _tasks(self, group: Sequence[int]) -> Generator[Task]:
        with closing(prefetch(self._read, group, AHEAD)) as read:
            for index, result in zip(group, read, strict=True):
                if isinstance(result, str):
                    self._fail(index, result)
                    continue
                episode, task = result
                self._open[episode.id] = episode
                yield task

    def _read(self, index: int) -> tuple[Episode, Task] | str:
        self._starts.count(episode_id(index))
        return _or_reason(partial(self._opened, index), f"episode {index}")

    def _opened(self, index: int) -> tuple[Episode, Task]:
        episode, camera = self.source.episode(index), self.recorded.camera
        episode.check(camera)
        (first,) = episode.frames(camera, [0])
        seed = self.options.seed + index
        return episode, Task(id=episode.id, instruction=episode.instruction, image=first, seed=seed)

    def _finish(self, board: Storyboard, episode: Episode) -> Storyboard | str | None:
        """Record an episode; None where it keeps an earlier record, and a text where it came to nothing."""
        aligned = _or_reason(partial(self._aligned, board, episode), episode.id)
        if isinstance(aligned, str):
            return aligned
        aligned = with_details(aligned, episode, self.recorded.layout, self.options.detail_names)
        finished = self._guarded.signed(aligned)
        keeps = accepted_steps(finished) < (self._todo[episode.index] or 0)
        if keeps:
            log.info("episode %d keeps its earlier record, which has more accepted pictures", episode.index)
        else:
            self.records.commit(episode.index, finished)
        self.journal.forget(episode.id)
        return None if keeps else finished

    def _aligned(self, board: Storyboard, episode: Episode) -> Storyboard:
        if reason := self._guarded.problem(board):
            raise DatasetError(reason)
        if any(step.segment is not None for step in board.steps):
            return board
        return align(board, episode, self.recorded.camera, self.recorded.layout)

    def _count(self, under_way: list[tuple[Episode, Future[Storyboard | str | None]]], limit: int) -> None:
        """Count what is through; wait until no more than `limit` remain. What keeping raised is raised."""
        for entry in list(under_way):
            episode, future = entry
            if not future.done() and len(under_way) <= limit:
                continue
            under_way.remove(entry)
            result = future.result()
            self._starts.forget(episode.id)
            match result:
                case str(reason):
                    self._fail(episode.index, reason)
                case board:
                    self._ended += 1
                    self.summary.add_board(board)
                    self.progress("annotate", self._ended, len(self._todo))

    def _fail(self, index: int, message: str) -> None:
        log.error("episode %d is not annotated: %s", index, message)
        self.summary.failures[index] = message
        self._ended += 1


def _or_reason[Result](work: Callable[[], Result], where: str) -> Result | str:
    """Do the work for one episode. An error costs that episode alone, but for one of the file system."""
    try:
        return work()
    except UserError as e:
        return str(e)
    except OSError:
        raise
    except Exception as e:  # noqa: BLE001  (what nobody foresaw in one episode must not stop the others)
        return report_bug(e, where)
