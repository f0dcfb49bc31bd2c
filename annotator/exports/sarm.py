"""A copy of an annotated dataset with the stages that lerobot's reward model SARM is trained on.

Columns of meta/episodes and files as `lerobot.data_processing.sarm_annotations` writes them and
`lerobot.rewards.sarm` reads them (lerobot 0.6). The dense stages are the sub-tasks that a policy may be told
of; the sparse one is the whole episode, called "task", as in lerobot's own automatic mode, which
`annotation_mode="dense_only"` expects.
"""

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from goalreel.annotator.exports.annotated import Annotated, Exported
from goalreel.datasets.labels import STAGE_PREFIXES, WHOLE
from goalreel.datasets.parquet import array
from goalreel.datasets.source import Source
from goalreel.datasets.writing.files import dataset_files, episode_files, pass_file
from goalreel.datasets.writing.goals import Goals
from goalreel.datasets.writing.language import put_column
from goalreel.datasets.writing.meta import rewrite
from goalreel.errors import DatasetError
from goalreel.files import write_bytes
from goalreel.progress import OnProgress

log = logging.getLogger(__name__)


class SarmStage(NamedTuple):
    """A stage of an episode, in frames from its first; `end` is the first frame after it."""

    name: str
    start: int
    end: int


def stages(goals: Goals, length: int) -> tuple[SarmStage, ...]:
    """List the stages of an episode of `length` frames: its spans with a name.

    lerobot's reader (`find_stage_and_tau`) takes a span's `end` as its last frame, on which the stage is
    complete: the same target as the next stage's beginning. On frames between two spans the stage before
    stays complete. On frames after the last span it would take the whole task for complete, a failed attempt
    too, so a span without length ends the episode: then they are frames between two spans.
    """
    sequence = tuple(SarmStage(s.name, s.start, s.end) for s in goals.spans if s.name is not None)
    if sequence and sequence[-1].end < length - 1:
        sequence += (SarmStage(sequence[-1].name, length - 1, length - 1),)
    return sequence


def proportions(episodes: Iterable[Sequence[SarmStage]]) -> dict[str, float]:
    """Map each name to its share of an episode, in the order of the stages; they add up to 1.

    As lerobot's `compute_temporal_proportions`: the mean share of a stage in the episodes that have it, then
    scaled. The times are exact, and a stage that an episode has twice counts with both.
    """
    shares, having = defaultdict[str, float](float), Counter[str]()
    plans = Counter[tuple[str, ...]]()
    for episode in episodes:
        frames = Counter[str]()
        for stage in episode:
            frames[stage.name] += stage.end - stage.start
        for name, count in frames.items():
            shares[name] += count / frames.total()
            having[name] += 1
        plans[tuple(stage.name for stage in episode)] += 1
    mean = {name: share / having[name] for name, share in shares.items()}
    total = sum(mean.values())
    return {name: mean[name] / total for name in in_order(plans.elements())}


def in_order(episodes: Iterable[Sequence[str]]) -> list[str]:
    """List the names of all episodes, each once, in the order of most episodes.

    >>> in_order([["reach", "grasp", "place"], ["grasp", "lift", "place"]])
    ['reach', 'grasp', 'lift', 'place']
    """
    plans = Counter(tuple(dict.fromkeys(names)) for names in episodes)
    pair_counts = Counter[tuple[str, str]]()
    for plan, number in plans.items():
        for pair in combinations(plan, 2):
            pair_counts[pair] += number
    after: defaultdict[str, list[str]] = defaultdict(list)
    waiting = {name: 0 for plan in plans for name in plan}
    for (first, second), count in pair_counts.items():
        if count > pair_counts[second, first]:
            after[first].append(second)
            waiting[second] += 1
    ordered = []
    while waiting:
        # Where the episodes contradict one another, the one that fewest are to come before.
        name = min(waiting, key=waiting.__getitem__)
        del waiting[name]
        ordered.append(name)
        for follower in after[name]:
            if follower in waiting:
                waiting[follower] -= 1
    return ordered


_COLUMNS: dict[str, tuple[pa.DataType, Callable[[SarmStage, float], object]]] = {
    "subtask_names": (pa.list_(pa.string()), lambda stage, fps: stage.name),
    "subtask_start_times": (pa.list_(pa.float64()), lambda stage, fps: stage.start / fps),
    "subtask_end_times": (pa.list_(pa.float64()), lambda stage, fps: stage.end / fps),
    "subtask_start_frames": (pa.list_(pa.int64()), lambda stage, fps: stage.start),
    "subtask_end_frames": (pa.list_(pa.int64()), lambda stage, fps: stage.end),
}


def export_sarm(
    dataset: Path, out: Path, *, progress: OnProgress = lambda stage, done, total: None
) -> Exported:
    """Write a copy of the annotated `dataset` into the new folder `out`, with the stages of every episode.

    Videos are linked, all else is copied or new. An episode without a sub-task that may be said, or without
    annotation, has null in the dense columns: lerobot then warns and trains the dense head on no progress
    in all of it. Of a part of a dataset, the copy is that part.

    Raises:
        InputError: `out` is there already.
        DatasetError: the dataset was not annotated by goalreel, has no sub-task that may be said, is not
            written yet or is damaged; the disk is full.
    """
    annotated = Annotated.open(dataset)
    lengths = dict(zip(annotated.source.indices, annotated.source.rows.column("length"), strict=True))
    dense = {e: found for e, goals in annotated.goals.items() if (found := stages(goals, lengths[e]))}
    if not dense:
        raise DatasetError(f"{dataset}: no completed step to train on, so there are no stages")
    whole, state = len(annotated.source.rows) - len(annotated.missing), annotated.source.numbers.state
    if without := whole - len(dense):
        text = (
            "%s: %d of %d episodes have no stages: SARM's dense head will learn that nothing is done in them"
        )
        log.warning(text, dataset, without, whole)
    if state not in ((), ("observation.state",)):
        names = " or ".join(state)
        log.warning("%s: SARM looks for observation.state: set its state_key to %s", dataset, names)
    with annotated.folder(out) as part:
        _copy_files(annotated.source.root, part, progress)
        _write_episodes(annotated.source, part, dense, progress)
        for kind, shares in (("sparse", {WHOLE: 1.0}), ("dense", proportions(dense.values()))):
            # Plain ASCII: lerobot reads the file in the encoding of its machine.
            path = part / "meta" / f"temporal_proportions_{kind}.json"
            write_bytes(path, json.dumps(shares, indent=2).encode())
    return annotated.exported


def _copy_files(root: Path, out: Path, progress: OnProgress) -> None:
    """Pass on all files but those of meta/episodes; a record an episode, they are not listed at once."""
    rewritten = frozenset(episode_files(root))
    total = sum(path not in rewritten for path in dataset_files(root))
    files = (path for path in dataset_files(root) if path not in rewritten)
    for done, path in enumerate(files, start=1):
        pass_file(path, out / path.relative_to(root), root)
        progress("copy", done, total)


def _write_episodes(
    source: Source, out: Path, dense: Mapping[int, Sequence[SarmStage]], progress: OnProgress
) -> None:
    """Write meta/episodes with the stages (by episode, where some may be said)."""
    files = episode_files(source.root)
    for done, path in enumerate(files, start=1):
        target = out / path.relative_to(source.root)
        rewrite(path, target, lambda table: _with_stages(table, dense, source.fps))
        progress("write", done, len(files))


def _with_stages(table: pa.Table, dense: Mapping[int, Sequence[SarmStage]], fps: float) -> pa.Table:
    """Rows of meta/episodes with the columns of stages, of the same types in every file; none become null."""
    rows = list(zip(table["episode_index"].to_pylist(), table["length"].to_pylist(), strict=True))
    whole = [(SarmStage(WHOLE, 0, length),) for _, length in rows]
    for prefix in STAGE_PREFIXES:
        stage_lists = [dense.get(e, ()) for e, _ in rows] if prefix == "dense_" else whole
        for name, (kind, value) in _COLUMNS.items():
            lists = [[value(stage, fps) for stage in of_episode] or None for of_episode in stage_lists]
            values = array(lists, kind)
            table = put_column(table, pa.field(prefix + name, kind), pa.chunked_array([values]))
    return table
