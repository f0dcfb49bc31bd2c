"""What a new seed is worth to the editor: does it draw otherwise where the prompt leaves room, and the same
where it does not? Every validation sub-goal in both registers, with several seeds.

OMP_NUM_THREADS=1 python benchmarks/nano_seeds.py --json
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Annotated

os.environ.setdefault("MUJOCO_GL", "egl")

import typer

from goalreel.checkpoints import NANO
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.image import Image
from goalreel.tabletop.bench.asking import in_batches
from goalreel.tabletop.bench.edit import EditCase, edit_cases
from goalreel.tabletop.bench.scenes import disturbed, walk
from goalreel.tabletop.bench.words import REGISTERS, prompt_of
from goalreel.tabletop.lessons.rows import Register
from goalreel.tabletop.sim.splits import seeds
from goalreel.types import Editor, Failure


@dataclass(frozen=True)
class Score:
    first: float
    """Share of sub-goals that the first seed draws right."""
    any: float
    """... that at least one seed does."""
    differ: float
    """Share of pairs of seeds of which one picture shows an object gone, or elsewhere than the other."""
    subgoals: int


def main(
    editor: Annotated[str, typer.Option(help="A folder with a diffusers pipeline.")] = str(NANO / "editor"),
    episodes: Annotated[int, typer.Option(min=1, help="Validation episodes.")] = 20,
    count: Annotated[int, typer.Option("--seeds", min=2, help="Seeds of every prompt.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
) -> None:
    model = DiffusersEditor.load(editor, device="cpu")
    asked = edit_cases(walk(seed) for seed in seeds("validation", episodes))
    scores = {register: _score(model, asked, register, count) for register in REGISTERS}
    if as_json:
        typer.echo(json.dumps({register: asdict(score) for register, score in scores.items()}))
        return
    for register, score in scores.items():
        typer.echo(f"{register:8} {score}")


def _score(editor: Editor, asked: Sequence[EditCase], register: Register, count: int) -> Score:
    requests = [
        case.edit(prompt_of(case.walk, case.index, register), attempt)
        for case in asked
        for attempt in range(count)
    ]
    answers = in_batches(editor.edit, requests, "edit", lambda *_: None)
    each = [answers[i : i + count] for i in range(0, len(answers), count)]
    right = [[case.judge(a).right for a in drawn] for case, drawn in zip(asked, each, strict=True)]
    pairs = [
        _differ(case, *pair)
        for case, drawn in zip(asked, each, strict=True)
        for pair in combinations(drawn, 2)
    ]
    return Score(
        first=round(sum(r[0] for r in right) / len(asked), 3),
        any=round(sum(map(any, right)) / len(asked), 3),
        differ=round(sum(pairs) / len(pairs), 3),
        subgoals=len(asked),
    )


def _differ(case: EditCase, one: Image | Failure, other: Image | Failure) -> bool:
    a, b = (case.read(picture) for picture in (one, other))
    if a is None or b is None:
        return a is not b
    return a.keys() != b.keys() or bool(disturbed(a, b, ()))


if __name__ == "__main__":
    typer.run(main)
