"""Rows as columns of a Hugging Face dataset, and back: pictures as PNG, every row with its seed and state."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from goalreel.datasets.corpora.rows import EditRow, Origin, PlanRow, VerdictRow
from goalreel.datasets.tabletop.predicates import SubGoal
from goalreel.errors import DatasetError
from goalreel.image import Image
from goalreel.types import Plan, Verdict

if TYPE_CHECKING:
    from datasets import Features

type Row = PlanRow | EditRow | VerdictRow
type Kind = Literal["plans", "edits", "verdicts"]

_PICTURES: dict[Kind, tuple[str, ...]] = {
    "plans": ("image",),
    "edits": ("source", "target"),
    "verdicts": ("source", "candidate"),
}


def features(kind: Kind) -> "Features":
    """The columns of a kind of corpus."""
    from datasets import Features, Value
    from datasets import Image as Picture

    text, goal = Value("string"), {name: Value("string") for name in ("kind", "object", "target")}
    own: dict[Kind, dict[str, Any]] = {
        "plans": {"plan": text, "goals": [goal]},
        "edits": {"prompt": text, "register": text, "goal": goal},
        "verdicts": {
            "prompt": text,
            "goal": goal,
            "success": Value("bool"),
            "reasoning": text,
            "refined_prompt": text,
            "mistake": text,
        },
    }
    origin = {"seed": Value("int64"), "done": Value("int32"), "held_out": [text]}
    pictures = {name: Picture() for name in _PICTURES[kind]}
    return Features({**pictures, "instruction": text, **own[kind], **origin})


def to_columns(row: Row) -> dict[str, Any]:
    """The row as plain values; pictures as PNG bytes in the form that `datasets` stores."""
    origin = {"seed": row.origin.seed, "done": row.origin.done, "held_out": list(row.origin.held_out)}
    if isinstance(row, PlanRow):
        goals = [vars(goal) for goal in row.goals]
        own = {"image": row.image, "plan": row.plan.model_dump_json(), "goals": goals}
    elif isinstance(row, EditRow):
        own = {"source": row.source, "target": row.target, "prompt": row.prompt}
        own |= {"register": row.register, "goal": vars(row.goal)}
    else:
        own = {"source": row.source, "candidate": row.candidate, "prompt": row.prompt}
        own |= {"goal": vars(row.goal), "success": row.verdict.success, "mistake": row.mistake}
        own |= {"reasoning": row.verdict.reasoning, "refined_prompt": row.verdict.refined_prompt}
    stored = {n: {"bytes": v.png(), "path": None} if isinstance(v, Image) else v for n, v in own.items()}
    return {"instruction": row.instruction, **stored, **origin}


def from_columns(kind: Kind, values: Mapping[str, Any]) -> Row:
    """The row that `to_columns` made the values from."""
    pictures = {name: Image.decode(values[name]["bytes"]) for name in _PICTURES[kind]}
    origin = Origin(values["seed"], values["done"], tuple(values["held_out"]))
    common = {**pictures, "instruction": values["instruction"], "origin": origin}
    if kind == "plans":
        goals = tuple(SubGoal(**goal) for goal in values["goals"])
        return PlanRow(plan=Plan.model_validate_json(values["plan"]), goals=goals, **common)
    common |= {"prompt": values["prompt"], "goal": SubGoal(**values["goal"])}
    if kind == "edits":
        return EditRow(register=values["register"], **common)
    verdict = Verdict(
        success=values["success"], reasoning=values["reasoning"], refined_prompt=values["refined_prompt"]
    )
    return VerdictRow(verdict=verdict, mistake=values["mistake"], **common)


def read_rows(folder: Path, kind: Kind) -> Iterator[Row]:
    """The rows of a corpus that `goalreel corpus make` wrote, in order; of a killed run, what it finished.

    Raises:
        DatasetError: there are none.
    """
    import pyarrow.parquet as pq

    shards = sorted((folder / "data").glob("[!.]*.parquet"))  # what a killed run left half-written has a dot
    if not shards:
        raise DatasetError(f"{folder} holds no corpus: `goalreel corpus make --kind {kind}` writes one")
    for shard in shards:
        for batch in pq.ParquetFile(shard).iter_batches(batch_size=64):
            yield from (from_columns(kind, values) for values in batch.to_pylist())
