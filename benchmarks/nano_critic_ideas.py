"""Two ideas for the nano Critic: an overlay as its third picture, and near misses by relabelling.

Each arm goes on from the same checkpoint for the same number of steps, on made candidates of the same
training episodes, and is scored on validation episodes: made candidates, the shipped editor's own pictures,
and relabelled ones. `start` is the checkpoint as it was. Answers are kept in --out: run again to go on.

    plain        the corpus as `goalreel corpus make --kind verdicts` makes it
    overlay      the same rows, with source and candidate laid over each other as a third picture
    relabelled   the same, but --share of its wrong candidates are true targets of another sub-goal

OMP_NUM_THREADS=1 python benchmarks/nano_critic_ideas.py --json
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

os.environ.setdefault("MUJOCO_GL", "egl")

import typer

from goalreel.checkpoints import located
from goalreel.datasets.corpora.kind import RowKind
from goalreel.datasets.corpora.write import Corpus, write_corpus
from goalreel.evaluation.measured import Measured
from goalreel.models import presets
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.models.registry import Role
from goalreel.models.trio import Trio
from goalreel.planners.agents.dialects import OwnDialect
from goalreel.tabletop.bench.critic import judge_all, measure_critic
from goalreel.tabletop.bench.edit import Edited, edit_all
from goalreel.tabletop.bench.scenes import SIZE, walks
from goalreel.tabletop.lessons.conversations import verdict_lesson
from goalreel.tabletop.lessons.kinds import VERDICTS
from goalreel.tabletop.lessons.rows import VerdictRow
from goalreel.tabletop.lessons.verdicts import verdict_rows
from goalreel.tabletop.sim.splits import seeds
from goalreel.training.config import read_config
from goalreel.training.language import last_checkpoint, train
from goalreel.training.language_config import LanguageConfig

ARMS = ("plain", "overlay", "relabelled")
OVERLAID: RowKind[VerdictRow] = replace(
    VERDICTS, lesson=partial(verdict_lesson, dialect=OwnDialect(overlay=True))
)
FIRST = 60_000
"""First training episode: none that `scripts/train_nano.py` takes."""
SHARD = 50
SHOWN = "balanced_accuracy_made", "balanced_accuracy_editor", "rejected_near_miss", "rejected_relabelled"


def main(
    out: Annotated[Path, typer.Option(help="Corpora, Critics and answers.")] = Path("out/nano_critic_ideas"),
    start: Annotated[str, typer.Option(help="Checkpoint that all arms go on from.")] = "nano-critic",
    steps: Annotated[int, typer.Option(min=1, help="Of 16 rows.")] = 1_800,
    train_episodes: Annotated[int, typer.Option(min=1, help="Training episodes.")] = 6_000,
    share: Annotated[float, typer.Option(min=0, max=1, help="Of wrong rows, relabelled.")] = 0.25,
    episodes: Annotated[int, typer.Option(min=1, help="Validation episodes.")] = 100,
    seed: Annotated[list[int] | None, typer.Option(help="Again for more.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
) -> None:
    shares = {"plain": 0.0, "overlay": 0.0, "relabelled": share}
    corpora = {arm: _corpus(out / "corpora" / arm, arm, shares[arm], train_episodes) for arm in ARMS}
    scenes = walks(seeds("validation", episodes), _tell)
    made = list(verdict_rows([w.seed for w in scenes], SIZE))
    other = [
        r for r in verdict_rows([w.seed for w in scenes], SIZE, relabelled=1) if r.mistake == "relabelled"
    ]
    journal = Journal(out / "answers")
    edited = edit_all(scenes, _trio(located(start), "plain", {"editor"}).kept(journal).editor, _tell)
    found = {"start": _score(_trio(located(start), "plain", {"critic"}).kept(journal), made, other, edited)}
    for number in seed or [0]:
        for arm in ARMS:
            folder = _trained(out / "runs" / f"{arm}-{number}", corpora[arm], start, steps, number)
            trio = _trio(str(folder), arm, {"critic"}).kept(journal)
            found[f"{arm} {number}"] = _score(trio, made, other, edited)
            _tell(f"{arm} {number}: {_line(found[f'{arm} {number}'])}", 1, 1)
    if as_json:
        typer.echo(
            json.dumps({arm: {k: v.model_dump() for k, v in score.items()} for arm, score in found.items()})
        )
        return
    typer.echo(f"| | {' | '.join(SHOWN)} |\n|---|{'---|' * len(SHOWN)}")
    for arm, score in found.items():
        typer.echo(f"| {arm} | {_line(score)} |")


def _corpus(folder: Path, arm: str, share: float, episodes: int) -> Path:
    kind = OVERLAID if arm == "overlay" else VERDICTS
    every = seeds("train", episodes, FIRST)
    corpus = Corpus(
        kind=kind,
        split="train",
        shards={f"train-{i:05d}": every[i : i + SHARD] for i in range(0, episodes, SHARD)},
        make=partial(verdict_rows, size=SIZE, relabelled=share),
        asked={"arm": arm, "share": share, "episodes": episodes, "first": FIRST},
        about=f"{episodes} episodes, made by `benchmarks/nano_critic_ideas.py`.",
    )
    write_corpus(corpus, folder, progress=lambda done, total: _tell(f"corpus {arm}", done, total or done))
    return folder / "sharegpt" / f"{kind.name}.json"


def _trained(folder: Path, corpus: Path, start: str, steps: int, seed: int) -> Path:
    config = read_config(
        "nano-critic-own", LanguageConfig, corpus=[corpus], model=start, steps=steps, seed=seed
    )
    if not (folder / "README.md").exists():
        train(config, folder, resume=last_checkpoint(folder / "checkpoints") is not None)
    return folder


def _trio(critic: str, arm: str, roles: set[Role]) -> Trio:
    options = "max_new_tokens=512" + ("&overlay=1" if arm == "overlay" else "")
    return load(presets.load("nano", critic=f"hf:{critic}?{options}"), roles=roles)


def _score(
    trio: Trio, made: Sequence[VerdictRow], other: Sequence[VerdictRow], edited: Sequence[Edited]
) -> dict[str, Measured]:
    found = measure_critic(judge_all(made, edited, trio.critic, _tell))
    relabelled = measure_critic(judge_all(other, [], trio.critic, _tell))
    return found | {"rejected_relabelled": relabelled["rejected_relabelled"]}


def _line(score: Mapping[str, Measured]) -> str:
    return " | ".join(_shown(score[name]) for name in SHOWN)


def _shown(found: Measured) -> str:
    if found.value is None or found.low is None or found.high is None:
        return "none"
    return f"{100 * found.value:.1f} ({100 * found.low:.0f} - {100 * found.high:.0f})"


def _tell(stage: str, done: int, total: int) -> None:
    if done == total or done % 160 == 0:
        typer.echo(f"{stage} {done}/{total}", err=True)


if __name__ == "__main__":
    typer.run(main)
