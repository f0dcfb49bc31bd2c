"""What a Critic should say before its verdict: where all stands and went, the faults alone, or nothing.

Each way is trained as the Critic's first lesson is, but shorter, on the same made candidates, from the same
Planner on, and scored on validation episodes. Needs what the first stages of `scripts/train_nano.py` make:
the corpus of verdicts and the Planner. Run again to go on.

OMP_NUM_THREADS=1 python benchmarks/nano_grounding.py --json
"""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

os.environ.setdefault("MUJOCO_GL", "egl")

import typer

from goalreel.files import write_bytes
from goalreel.planners.agents.critic import ChatCritic
from goalreel.planners.chat.hf import HfChat
from goalreel.tabletop.bench.critic import judge_all, measure_critic
from goalreel.tabletop.lessons.rows import VerdictRow
from goalreel.tabletop.lessons.verdicts import verdict_rows
from goalreel.tabletop.sim.splits import seeds
from goalreel.training.config import read_config
from goalreel.training.language import train
from goalreel.training.language_config import LanguageConfig
from goalreel.training.results import last_checkpoint
from goalreel.types import Verdict

STEPS = 1_800
LONGEST = 512
"""Tokens of a reply."""
SAID: dict[str, Callable[[str], str]] = {
    "places": lambda thinking: thinking,
    "faults": lambda thinking: thinking.split(". ", 1)[1],
    "nothing": lambda thinking: "",
}
"""What is left of the corpus's thinking, which says places first and then faults."""
SCORES = "accuracy", "balanced_accuracy", "auc"


def main(
    runs: Annotated[Path, typer.Option(help="Where scripts/train_nano.py trains.")] = Path("out/nano"),
    out: Annotated[Path, typer.Option(help="The Critics made here.")] = Path("out/nano_grounding"),
    episodes: Annotated[int, typer.Option(min=1, help="Validation episodes.")] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
) -> None:
    corpus = runs / "corpora" / "verdicts" / "sharegpt" / "verdicts.json"
    for name, said in SAID.items():
        told = corpus.with_name(f"said_{name}.json")  # beside the pictures that it names
        if not told.is_file():
            rows = [_tell(row, said) for row in json.loads(corpus.read_text(encoding="utf-8"))]
            write_bytes(told, json.dumps(rows).encode())
        planner = str(runs / "runs" / "planner")
        config = read_config("nano-critic", LanguageConfig, corpus=[told], model=planner, steps=STEPS)
        if not (out / name / "README.md").exists():
            train(config, out / name, resume=last_checkpoint(out / name / "checkpoints") is not None)
    asked = list(verdict_rows(seeds("validation", episodes), 128))
    scores = {name: _score(out / name, asked) for name in SAID}
    if as_json:
        typer.echo(json.dumps(scores))
        return
    for name, score in scores.items():
        typer.echo(f"{name:8} {score}")


def _tell(row: dict[str, list[dict[str, str]]], said: Callable[[str], str]) -> dict[str, object]:
    *asked, reply = row["messages"]
    thinking, answer = reply["content"].removeprefix("<think>").split("</think>", 1)
    return row | {"messages": [*asked, reply | {"content": f"<think>{said(thinking)}</think>{answer}"}]}


def _score(folder: Path, rows: Sequence[VerdictRow]) -> dict[str, float]:
    critic = ChatCritic(HfChat.load(folder, max_new_tokens=LONGEST))
    judged = judge_all(rows, [], critic, lambda *_: None)
    found = measure_critic(judged)
    accepted = sum(isinstance(j.answer, Verdict) and j.answer.success for j in judged) / len(judged)
    return {name: round(found[f"{name}_made"].value, 3) for name in SCORES} | {"accepted": round(accepted, 3)}


if __name__ == "__main__":
    typer.run(main)
