"""Goals of an episode's frames by its storyboard: spans with a name, a goal picture or none, and a task."""

import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from goalreel.claims import PERSON, ROWS, TITLES
from goalreel.datasets import labels, parquet
from goalreel.datasets.records import Records
from goalreel.errors import DatasetError
from goalreel.extras import version
from goalreel.files import digest
from goalreel.planners.kinematic.description import HAND_MOTIONS
from goalreel.types import MotionPhase, Segment, Status, StoryboardStep


@dataclass(frozen=True, slots=True)
class GoalSpan:
    """The frames `start` to `end` (exclusive) that lead to one sub-goal."""

    start: int
    end: int
    name: str | None
    """Sub-task of the frames; None where it may not be said."""
    picture: str | None
    """Reference of the goal image as the records store it; None where none may be used."""
    done: bool = False
    """Its name may be said, `use_rejected` or not: the step came off."""


@dataclass(frozen=True, slots=True)
class Goals:
    """One annotated episode: its plan in words, its spans in order, and the digest of all of it."""

    episode: int
    instruction: str
    plan: tuple[str, ...]
    """The steps that may be said."""
    spans: tuple[GoalSpan, ...]
    statuses: tuple[Status, ...]
    """One a step, with or without a span."""
    phase_edges: tuple[tuple[int, str | None], ...]
    """The frames at which another phase begins, in the form of `edges`."""
    digest: str
    claims: tuple[str, ...] = ()
    """Each claim of each step in one line: which it is, who made it, who checked it."""
    corrected: bool = False
    """A person changed or flagged its steps, or rejected it: what IN says of them holds no longer."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its sub-tasks, each once, in order."""
        return tuple(dict.fromkeys(span.name for span in self.spans if span.name is not None))

    def with_instruction(self, text: str) -> Self:
        """The same steps of an episode whose instruction has changed; those that repeat it follow."""
        repeated = self.instruction
        spans = tuple(replace(span, name=text) if span.name == repeated else span for span in self.spans)
        plan = tuple(text if step == repeated else step for step in self.plan)
        return replace(self, instruction=text, plan=plan, spans=spans, digest=digest(self.digest, text))

    def edges(self, length: int) -> list[tuple[int, str | None]]:
        """The frames at which another span begins, and its name; None, after a name, where none is said."""
        edges, at = list[tuple[int, str | None]](), 0
        for span in self.spans:
            edges += [(at, None)] if at < span.start else []
            edges.append((span.start, span.name))
            at = span.end
        edges += [(at, None)] if at < length else []
        names = [None, *(name for _, name in edges)]
        return [edge for edge, previous in zip(edges, names, strict=False) if edge[1] or previous]

    def runs(self, length: int) -> list[tuple[int, str | None]]:
        """The episode as (frame count, picture) runs that add up to `length` frames."""
        runs, at = list[tuple[int, str | None]](), 0
        for span in self.spans:
            runs += [(span.start - at, None), (span.end - span.start, span.picture)]
            at = span.end
        return [run for run in [*runs, (length - at, None)] if run[0]]


def read_goals(
    records: Records,
    episodes: Sequence[int],
    lengths: Mapping[int, int],
    use_rejected: bool,
    instruction_of: Callable[[int], str] | None = None,
) -> dict[int, Goals]:
    """Episode -> goals, for those with a record that holds a plan, or that a person has taken its steps from.

    Any other episode stays exactly as it was. Steps without an accepted picture, or tried in vain,
    give neither picture nor name and are left out of the plan, unless `use_rejected`; steps in words alone,
    and labels that the dataset had, keep their name. Steps whose words are in doubt give their picture alone.
    Steps that were never aligned to frames have no span; those that were looked for in the recording and not
    found have no name either. A corrected episode whose words have changed takes its instruction from
    `instruction_of`. The goals are in the order of `episodes`.

    Raises:
        DatasetError: a record does not fit its episode.
    """
    all_goals: dict[int, Goals] = {}
    for episode in episodes:
        if goals := _goals(records, episode, lengths[episode], use_rejected):
            if instruction_of and goals.corrected and records.outdated(episode):
                goals = goals.with_instruction(instruction_of(episode))
            all_goals[episode] = goals
    return all_goals


def _goals(records: Records, episode: int, length: int, use_rejected: bool) -> Goals | None:
    # Before the rest is read: what is corrected meanwhile is built the next time.
    record = records.digest(episode)
    review = records.review(episode) if records.is_corrected(episode) else None
    corrected = review is not None and (
        review.corrected or review.verdict == "reject" or any(step.issues for step in review.steps)
    )
    board = records.outline(episode)
    if board.failure is not None and not corrected:
        return None
    spans, unsaid = list[GoalSpan](), list[Segment]()
    for step in board.steps:
        if step.segment is None:
            continue
        may_show = use_rejected or (step.accepted and step.step.outcome == "done")
        picture = step.goal_image.frame if step.goal_image and may_show else None
        name = step.step.name if _may_be_named(step, use_rejected) else None
        came_off = _may_be_named(step, use_rejected=False)
        spans.append(GoalSpan(step.segment.start, step.segment.end, name, picture, came_off))
        unsaid += [step.segment] if step.step.doubts and name is None else []
    if any(a.end > b.start for a, b in itertools.pairwise(spans)) or (spans and spans[-1].end > length):
        raise DatasetError(
            f"{records.path(episode)}: its segments do not fit the episode's {length} frames: "
            "remove this file and annotate the episode again"
        )
    claims = (claim for step in board.steps for claim in step.claims.items())
    return Goals(
        episode=episode,
        instruction=board.task.instruction,
        plan=tuple(step.step.name for step in board.steps if _may_be_named(step, use_rejected)),
        spans=tuple(spans),
        statuses=tuple(step.status for step in board.steps),
        phase_edges=tuple(_phase_edges(spans, unsaid, board.phases, length)),
        digest=digest(record, str(use_rejected), str(corrected)),
        claims=tuple(f"{TITLES[name]}: {claim.line}" for name, claim in claims),
        corrected=corrected,
    )


def _phase_edges(
    spans: Sequence[GoalSpan], unsaid: Sequence[Segment], phases: Sequence[MotionPhase], length: int
) -> Iterator[tuple[int, str | None]]:
    """Yield where another phase begins: of sub-tasks with a name, and of the hand in segments `unsaid`."""
    edges = {edge for p in (*spans, *(p.segment for p in phases)) for edge in (p.start, p.end)}
    last: MotionPhase | None = None
    for at in sorted(edge for edge in edges if edge < length):
        has_name = any(span.start <= at < span.end and span.name is not None for span in spans)
        doubtful = any(span.start <= at < span.end for span in unsaid)
        phase = next((p for p in phases if p.segment.start <= at < p.segment.end), None)
        if phase is not None and not (doubtful if phase.name in HAND_MOTIONS else has_name):
            phase = None
        if phase is not last:
            yield at, phase.name if phase else None
        last = phase


def _may_be_named(step: StoryboardStep, use_rejected: bool) -> bool:
    """Tell if a policy may be told that this is what happened."""
    # The owner's labels, and a person's words, hold whether or not a picture was accepted.
    words_hold = step.usable or step.claims.what.by in (ROWS, PERSON)
    done = step.step.outcome == "done" and words_hold and not step.step.doubts
    return not step.unaligned and (use_rejected or done)


TASKS = Path("meta") / "tasks.parquet"


def task_indices(source_tasks: Mapping[int, str], goals: Iterable[Goals]) -> dict[str, int]:
    """Text -> task index. IN's tasks keep theirs; the sub-tasks follow in the order of `goals`."""
    indices = {text: index for index, text in sorted(source_tasks.items(), reverse=True)}
    following = max(source_tasks, default=-1) + 1
    for episode in goals:
        for text in episode.names:
            if text not in indices:
                indices[text] = following
                following += 1
    return indices


def frame_tasks(
    goals: Goals, indices: Mapping[str, int], old: NDArray[np.int64], tasks: Mapping[int, str], replace: bool
) -> NDArray[np.int64]:
    """The task index of each frame of an episode, (n,), in frame order like `old`, the one that it has.

    A frame without a sub-task that may be said keeps its own. So does one whose task in `tasks` is empty, and
    every frame of an episode with several: those are its owner's. With `replace` none keeps its own: without
    a sub-task it has the instruction, where `indices` have it.
    """
    texts = {index: (tasks.get(index) or "").strip() for index in np.unique(old).tolist()}
    if not replace and labels.has_several(texts.values()):
        return old
    new = old.copy()
    if replace and goals.instruction in indices:
        new[:] = indices[goals.instruction]
    for span in goals.spans:
        if span.name is not None:
            new[span.start : span.end] = indices[span.name]
    kept = [] if replace else [index for index, text in texts.items() if not text]
    return np.where(np.isin(old, kept), old, new)


def listed(goals: Goals, indices: Mapping[str, int], old: Sequence[str]) -> list[str]:
    """The tasks that meta/episodes lists of an episode, the instruction first, from those of IN (`old`)."""
    first = [goals.instruction] if goals.instruction in indices else []
    return list(dict.fromkeys([*first, *old, *goals.names]))


def tasks_file(source_tasks: Mapping[int, str], indices: Mapping[str, int]) -> bytes:
    """meta/tasks.parquet with IN's tasks and the new ones, byte for byte as pandas writes it for lerobot.

    pandas itself is not needed; where it is installed, the file names its version as pandas would.
    """
    texts = dict(source_tasks) | {index: text for text, index in indices.items() if index not in source_tasks}
    rows = sorted(texts.items())
    schema = pa.schema([("task_index", pa.int64()), ("task", pa.string())], {"pandas": _pandas_metadata()})
    columns = [parquet.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)]
    table = pa.Table.from_arrays(columns, schema=schema)
    file = io.BytesIO()
    pq.write_table(table, file, compression="snappy")
    return file.getvalue()


def _pandas_metadata() -> str:
    """Metadata that tell pandas that the column `task` is the index."""

    def column(name: str | None, kind: str, dtype: str, metadata: object = None) -> dict[str, object]:
        types = {"pandas_type": kind, "numpy_type": dtype}
        return {"name": name, "field_name": name, **types, "metadata": metadata}

    return json.dumps(
        {
            "index_columns": ["task"],
            "column_indexes": [column(None, "unicode", "object", {"encoding": "UTF-8"})],
            "columns": [column("task_index", "int64", "int64"), column("task", "unicode", "object")],
            "attributes": {},
            "creator": {"library": "pyarrow", "version": pa.__version__},
            "pandas_version": version("pandas"),
        }
    )
