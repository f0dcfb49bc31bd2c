"""Other people's recordings, made from one of the tabletop's: other numbers, names of features and words.

What the arm does stays the expert's, so that the ground truth stays what it is.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from goalreel.datasets.writing.language import EVENTS, PERSISTENT
from goalreel.tabletop.grammar import JOINS, TabletopEpisode, join, sample_episode
from goalreel.tabletop.scene import COLOURS, colour
from goalreel.tabletop.truth import Truth, read_truth, write_truth

_LABELS = [PERSISTENT, EVENTS]
WIDEST = 0.08
"""The gap between the open fingers (m)."""

type Phrasing = Callable[[TabletopEpisode], str | None]
"""The instruction of an episode; None where it cannot be asked for in that way."""


def _as_asked(episode: TabletopEpisode) -> str:
    return episode.instruction


@dataclass(frozen=True)
class Variant:
    """How recordings differ; the defaults are the tabletop's own."""

    words: Phrasing = _as_asked
    mirrored: bool = False
    """The gripper's numbers grow as it closes, in state and action."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Other names of features."""


def vary(root: Path, out: Path, variant: Variant) -> list[int]:
    """Copy the recording at `root` to `out` as a variant has it; gives the episodes that have its words.

    The others keep their words. The true sub-tasks are left out; statistics stay those of `root`.

    Raises:
        FileNotFoundError: `root` is no tabletop recording.
        DatasetError: its ground truth is damaged.
    """
    truth = read_truth(root)
    phrases = [variant.words(sample_episode(episode.seed)) for episode in truth.episodes]
    texts = [new or old.instruction for new, old in zip(phrases, truth.episodes, strict=True)]
    shutil.copytree(root, out)
    for path in sorted(out.glob("data/*/*.parquet")):
        _rewrite(path, variant)
    for path in sorted(out.glob("meta/episodes/*/*.parquet")):
        _retell(path, texts)
    _write_tasks(out / "meta/tasks.parquet", texts)
    for path in (out / "meta/info.json", out / "meta/stats.json"):
        values = json.loads(path.read_text())
        features = values.get("features", values)
        renamed = {variant.names.get(k, k): value for k, value in features.items() if k not in _LABELS}
        path.write_text(json.dumps({**values, "features": renamed} if "features" in values else renamed))
    episodes = (e.model_copy(update={"instruction": t}) for e, t in zip(truth.episodes, texts, strict=True))
    write_truth(out, Truth(phases=truth.phases, episodes=tuple(episodes)))
    return [index for index, text in enumerate(phrases) if text is not None]


def _rewrite(path: Path, variant: Variant) -> None:
    """Mirror the gripper's numbers, let each episode have a task of its own, and rename features."""
    with pq.ParquetFile(path) as file:
        groups = [file.read_row_group(group).drop_columns(_LABELS) for group in range(file.num_row_groups)]
    with pq.ParquetWriter(path, _renamed(groups[0], variant).schema) as writer:
        for table in groups:
            columns = {"task_index": table["episode_index"]}
            if variant.mirrored:
                columns["observation.state"] = _mirrored(table["observation.state"], WIDEST)
                columns["action"] = _mirrored(table["action"], 0.0)
            for name, column in columns.items():
                table = table.set_column(table.column_names.index(name), table.field(name), column)
            writer.write_table(_renamed(table, variant))


def _renamed(table: pa.Table, variant: Variant) -> pa.Table:
    return table.rename_columns([variant.names.get(name, name) for name in table.column_names])


def _mirrored(column: pa.ChunkedArray, widest: float) -> pa.Array:
    values = np.array(column.to_pylist(), np.float32)
    values[:, -1] = widest - values[:, -1]
    return pa.array(values.tolist(), column.type)


def _retell(path: Path, texts: Sequence[str]) -> None:
    """Write the task of each episode of a file of `meta/episodes`."""
    table = pq.read_table(path)
    tasks = pa.array([[texts[i]] for i in table["episode_index"].to_pylist()], table["tasks"].type)
    index = table.column_names.index("tasks")
    pq.write_table(table.set_column(index, table.field("tasks"), tasks), path)


def _write_tasks(path: Path, texts: Sequence[str]) -> None:
    """Give each episode a task of its own, in the form of the file that is there."""
    schema = pq.read_schema(path)
    columns = {"task_index": range(len(texts)), "task": texts}
    pq.write_table(pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema), path)


def _with(text: str) -> Phrasing:
    return lambda episode: f"{episode.instruction}{text}"


def _look_first(episode: TabletopEpisode) -> str:
    task = episode.instruction
    return f"look at the {episode.scene.bowls[0].name}, then {task[0].lower()}{task[1:]}"


def _other_object(episode: TabletopEpisode) -> str | None:
    """Ask for a block that is on the table, and not for the one that is moved."""
    goals = {name for goal in episode.goals for name in (goal.object, goal.target)}
    return _exchanged(episode, [b.name for b in episode.scene.blocks if b.name not in goals])


def _absent_object(episode: TabletopEpisode) -> str | None:
    """Ask for a block that is not on the table."""
    blocks = {colour(b.name) for b in episode.scene.blocks}
    return _exchanged(episode, [f"{name} block" for name in COLOURS if name not in blocks])


def _exchanged(episode: TabletopEpisode, names: Sequence[str]) -> str | None:
    """The instruction, with another name for the first moved block that it names."""
    for goal in episode.goals:
        if names and goal.object in episode.instruction:
            return episode.instruction.replace(goal.object, names[0])
    return None


def _other_order(episode: TabletopEpisode) -> str | None:
    """Ask for the same, the last first."""
    if len(episode.missions) == 1:
        return None
    return join([m.text for m in reversed(episode.missions)], episode.seed % JOINS)


VARIANTS: Mapping[str, Variant] = {
    "plain": Variant(),
    "mirrored": Variant(mirrored=True),
    "renamed": Variant(names={"observation.state": "state", "action": "actions"}),
    "then_home": Variant(words=_with(", then go home")),
    "return_home": Variant(words=_with(" and return to the home position")),
    "look_first": Variant(words=_look_first),
    "other_object": Variant(words=_other_object),
    "other_order": Variant(words=_other_order),
    "absent_object": Variant(words=_absent_object),
}
"""By name. The last three ask for what is not done: their words are untrue."""
