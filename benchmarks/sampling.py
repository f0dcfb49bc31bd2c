"""What padding costs when rows are shown at random, as transformers groups them, and as we do.

    python benchmarks/sampling.py
    python benchmarks/sampling.py runs/corpora/plans.json runs/corpora/continuations.json

ShareGPT files of a corpus; without one, those of 800 simulated episodes are made. One JSON line: `padded`,
how many tokens are computed for one of a row, in steps of 16 rows; `seconds`, what share of the time with
random rows the shipped nano Planner's loss and gradient take with ours, on some steps of each.
"""

import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from itertools import batched
from pathlib import Path
from typing import Annotated

os.environ.setdefault("MUJOCO_GL", "egl")

import torch
import typer
from transformers.trainer_pt_utils import get_length_grouped_indices

from goalreel.checkpoints import NANO
from goalreel.tabletop.lessons.corpus import CorpusKind, CorpusOrder, make_corpus
from goalreel.training.config import read_config
from goalreel.training.conversations import Collator, TrainingRow, read_rows
from goalreel.training.language_config import LanguageConfig
from goalreel.training.loading import load
from goalreel.training.sampling import LengthSampler, length

SIZE = 16
TIMED = 8
"""Steps of each order, spread over it."""
KINDS: dict[CorpusKind, int] = {"plans": 600, "continuations": 200}


def corpus(folder: Path) -> list[Path]:
    """Rows as the nano Planner's last lesson has them."""
    for kind, episodes in KINDS.items():
        make_corpus(CorpusOrder(kind, "train", episodes), folder / kind)
    return [folder / kind / "sharegpt" / f"{kind}.json" for kind in KINDS]


def orders(rows: Sequence[TrainingRow]) -> dict[str, list[tuple[int, ...]]]:
    """The whole steps of an epoch."""
    lengths = [length(row) for row in rows]
    rank = {each: i for i, each in enumerate(sorted(set(lengths)))}  # theirs takes numbers
    indices = {
        "random": random.Random(0).sample(range(len(rows)), len(rows)),
        "group_by_length": get_length_grouped_indices(
            [rank[each] for each in lengths], SIZE, generator=torch.Generator().manual_seed(0)
        ),
        "ours": list(LengthSampler(lengths, SIZE, 0)),
    }
    return {how: [s for s in batched(order, SIZE) if len(s) == SIZE] for how, order in indices.items()}


def padding(steps: Sequence[Sequence[int]], tokens: Sequence[int]) -> float:
    """Tokens computed for one of a row."""
    counts = [[tokens[i] for i in step] for step in steps]
    return round(sum(SIZE * max(step) for step in counts) / sum(map(sum, counts)), 2)


def main(files: Annotated[list[Path] | None, typer.Argument()] = None) -> None:
    with tempfile.TemporaryDirectory() as made:
        rows = read_rows(files or corpus(Path(made)))
        model, processor = load(NANO / "planner", read_config("nano-planner", LanguageConfig))
        collate = Collator(processor)
        tokens = [int(collate([row])["attention_mask"].sum()) for row in rows]
        shown = orders(rows)
        spent = dict.fromkeys(("random", "ours"), 0.0)
        for turn in range(TIMED):
            for how in spent:
                steps = shown[how]
                batch = collate([rows[i] for i in steps[turn * len(steps) // TIMED]])
                del batch["weights"]
                started = time.perf_counter()
                model(**batch).loss.backward()
                spent[how] += time.perf_counter() - started
    told = {
        "rows": len(rows),
        "padded": {how: padding(steps, tokens) for how, steps in shown.items()},
        "seconds": round(spent["ours"] / spent["random"], 2),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    typer.run(main)
