"""A copy of an annotated dataset with the stages that lerobot's reward model SARM is trained on.

Columns of meta/episodes and files as `lerobot.data_processing.sarm_annotations` writes them and
`lerobot.rewards.sarm` reads them (lerobot 0.6). The dense stages are the sub-tasks that a policy may be told
of; the sparse one is the whole episode, called "task", as in lerobot's own automatic mode, which
`annotation_mode="dense_only"` expects.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from goalreel.annotator.exports.annotated import Annotated, Exported
from goalreel.annotator.exports.stages import SarmStage, proportions, stages
from goalreel.datasets.labels import STAGE_PREFIXES, WHOLE
from goalreel.datasets.writing.copies import dataset_files, episode_files, pass_file
from goalreel.datasets.writing.meta import rewrite
from goalreel.datasets.writing.schema import put_column
from goalreel.errors import DatasetError
from goalreel.files import write_bytes
from goalreel.progress import OnProgress

log = logging.getLogger(__name__)

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
    source, fps = annotated.source, annotated.source.fps
    lengths = dict(zip(source.indices, source.rows.column("length"), strict=True))

    def dense_stages(episode: int) -> tuple[SarmStage, ...]:
        goals = annotated.goals.get(episode)
        return stages(goals, lengths[episode]) if goals else ()

    def stages_of(episode: int, prefix: str) -> Sequence[SarmStage]:
        return dense_stages(episode) if prefix == "dense_" else (SarmStage(WHOLE, 0, lengths[episode]),)

    dense = sum(bool(dense_stages(episode)) for episode in annotated.goals)
    if not dense:
        raise DatasetError(f"{dataset}: no completed step to train on, so there are no stages")
    if without := len(lengths) - len(annotated.missing) - dense:
        log.warning(
            "%s: %d of %d episodes have no stages: SARM's dense head will learn that nothing is done in them",
            dataset,
            without,
            len(lengths) - len(annotated.missing),
        )
    if source.numbers.state not in ((), ("observation.state",)):
        names = " or ".join(source.numbers.state)
        log.warning("%s: SARM looks for observation.state: set its state_key to %s", dataset, names)
    rewritten = episode_files(source.root)
    files = [path for path in dataset_files(source.root) if path not in rewritten]
    with annotated.folder(out) as part:
        for done, path in enumerate(files, start=1):
            pass_file(path, part / path.relative_to(source.root), source.root)
            progress("copy", done, len(files))
        for done, path in enumerate(rewritten, start=1):
            target = part / path.relative_to(source.root)
            rewrite(path, target, lambda table: _with_stages(table, stages_of, fps))
            progress("write", done, len(rewritten))
        _write_proportions(part, "sparse", {WHOLE: 1.0})
        _write_proportions(part, "dense", proportions(filter(None, map(dense_stages, annotated.goals))))
    return annotated.exported


def _with_stages(
    table: pa.Table, stages_of: Callable[[int, str], Sequence[SarmStage]], fps: float
) -> pa.Table:
    """Rows of meta/episodes with the columns of stages, of the same types in every file.

    `stages_of` gives those of an episode and a prefix; none become null.
    """
    episodes = map(int, table["episode_index"].to_pylist())
    stage_lists = [{prefix: stages_of(episode, prefix) for prefix in STAGE_PREFIXES} for episode in episodes]
    for prefix in STAGE_PREFIXES:
        for name, (kind, value) in _COLUMNS.items():
            lists = [[value(stage, fps) for stage in of[prefix]] or None for of in stage_lists]
            values = pa.array(lists, kind)
            table = put_column(table, pa.field(prefix + name, kind), pa.chunked_array([values]))
    return table


def _write_proportions(root: Path, kind: str, shares: Mapping[str, float]) -> None:
    """Write plain ASCII: lerobot reads the file in the encoding of its machine."""
    path = root / "meta" / f"temporal_proportions_{kind}.json"
    write_bytes(path, json.dumps(shares, indent=2).encode())
