"""The paper's ablation (InterleaveThinker, Table 5) at nano scale: what each part of the Critic's training is
worth in the loop. Writes a table with intervals.

Run the same command again to go on: what is trained or measured already is not done again.

    python lab/studies/nano/nano_ablations.py --critiques corpora/rl \\
        --verdicts corpora/verdicts/sharegpt/verdicts.json --plans corpora/plans/sharegpt/plans.json
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("MUJOCO_GL", "egl")

import typer
import yaml
from pydantic import BaseModel

from goalreel.annotator.statistics import Measurement, gap_share, points, share, with_interval
from goalreel.cli.console import progress_bars
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, SPLITS
from goalreel.files import exclusive, write_bytes
from goalreel.models import presets
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.tabletop.splits import Split, seeds
from goalreel.training.config import config_file
from goalreel_lab.bench.loop import run_loops
from goalreel_lab.bench.scenes import walks

ARMS: dict[str, tuple[str, dict[str, float]]] = {
    "sft": ("fine-tuned only", {}),
    "no_step": ("without the step's reward", {"step": 0.0}),
    "no_accuracy": ("without the verdict's reward", {"accuracy": 0.0}),
    "full": ("full", {}),
    "unfiltered": ("full, on all critiques", {}),
    "one_agent": ("full, one agent for both roles", {}),
}
"""Arm -> its name in the table, and what its reward has other than the preset's."""
ATTEMPTS = 5
"""Attempts of a step whose first order is terse: explicit ones leave a Critic little to mend."""
DONE = "README.md"
"""A checkpoint's or a corpus's card, which is written last."""


class ArmSteps(BaseModel):
    """Which steps of every episode are right: at the first attempt, with the Critic, with a perfect one."""

    first: list[list[bool]]
    ours: list[list[bool]]
    oracle: list[list[bool]]


def main(
    critiques: Annotated[Path, typer.Option(help="Critiques as they came; all arms but one filter them.")],
    verdicts: Annotated[Path, typer.Option(help="ShareGPT file: what the one agent learns as a Critic.")],
    plans: Annotated[Path, typer.Option(help="ShareGPT file: what it learns as a Planner.")],
    model: Annotated[
        str, typer.Option(help="The fine-tuned Critic that all but the one agent go on from.")
    ] = ("nano-critic"),
    editor: Annotated[str, typer.Option(help="What draws, in training and after.")] = "diffusers:nano-editor",
    out: Annotated[Path, typer.Option(help="Runs, measures and the table.")] = Path("out/ablations"),
    steps: Annotated[int, typer.Option(min=1, help="Optimizer steps of reinforcement an arm.")] = 300,
    sft_steps: Annotated[int, typer.Option(min=1, help="Steps in which the one agent is fine-tuned.")] = 6500,
    rollout: Annotated[int, typer.Option(min=1, help="Prompts a rollout.")] = 16,
    rate: Annotated[float, typer.Option(min=0, help="Learning rate of reinforcement.")] = 1e-5,
    split: Annotated[SPLITS, typer.Option(help="Where it is measured.")] = "validation",
    episodes: Annotated[int, typer.Option(min=1, help="Episodes measured.")] = 400,
) -> None:
    """Train every arm, measure the loop with each, write OUT/ablations.md."""
    with one_line_errors(INTERRUPTED), exclusive(out, out):
        filtered = out / "filtered"
        if not (filtered / DONE).exists():
            critic = f"hf:{model}?batch_size=64&max_new_tokens=128"
            _goalreel("corpus", "filter-groups", critiques, "--critic", critic, "--out", filtered)
        both = out / "one_agent_sft"
        _train(
            both,
            _config(out, "nano-critic-own", both.name, max_steps=sft_steps),
            (verdicts, plans),
            model,
            [],
        )
        for arm, (_, reward) in ARMS.items():
            if arm == "sft":
                continue
            start = str(both) if arm == "one_agent" else model
            rows = (critiques if arm == "unfiltered" else filtered,)
            batch = min(64, 8 * rollout)
            settings = {"max_steps": steps, "editor": editor, "reward": reward, "learning_rate": rate}
            settings |= {
                "per_device_train_batch_size": batch,
                "gradient_accumulation_steps": 8 * rollout // batch,
            }
            config = _config(out, "nano-critic-grpo", arm, **settings)
            _train(out / arm, config, rows, start, ["--method", "grpo"])
        steps_by_arm = {arm: _measured(out, arm, model, editor, split, episodes) for arm in ARMS}
        table = _table(steps_by_arm, split, episodes)
        write_bytes(out / "ablations.md", table.encode())
        typer.echo(str(out / "ablations.md"))


def _config(out: Path, preset: str, name: str, **changes: Any) -> Path:
    """A preset with some of its settings changed, in a file."""
    settings = yaml.safe_load(config_file(preset).read_text(encoding="utf-8"))
    path = out / f"{name}.yaml"
    write_bytes(path, yaml.safe_dump(settings | changes, sort_keys=False).encode())
    return path


def _train(out: Path, config: Path, corpora: tuple[Path, ...], model: str, options: list[str]) -> None:
    if (out / DONE).exists():
        return
    resume = ["--resume"] if [*out.glob("checkpoints/checkpoint-*")] else []
    if not resume:
        shutil.rmtree(out, ignore_errors=True)
    rows = [word for corpus in corpora for word in ("--corpus", str(corpus))]
    start = [] if model == "nano" else ["--model", model]
    _goalreel("train", "critic", *options, "--config", config, "--out", out, *rows, *start, *resume)


def _measured(out: Path, arm: str, model: str, editor: str, split: Split, episodes: int) -> ArmSteps:
    """Run the loop as `goalreel eval tabletop --parts loop` does, for what the table shows alone."""
    path = out / f"{arm}-{split}-{episodes}.json"
    if not path.exists():
        critic = model if arm == "sft" else out / arm
        # One folder: what the arms ask alike, first attempts above all, is drawn once.
        journal = Journal(out / "answers")
        preset = presets.load("nano", critic=f"hf:{critic}", editor=editor)
        model_set = load(preset, roles={"editor", "critic"}).with_journal(journal)
        with progress_bars() as progress:
            scenes = walks(seeds(split, episodes), progress)
            hits = run_loops(
                *(
                    scenes,
                    model_set.editor,
                    model_set.critic,
                    progress,
                    model_set.provenance.preset.keep,
                    "terse",
                ),
                arms=("ours", "oracle"),
                attempts=(1, ATTEMPTS),
            )
        arm_steps = ArmSteps(
            first=hits["ours", 1], ours=hits["ours", ATTEMPTS], oracle=hits["oracle", ATTEMPTS]
        )
        write_bytes(path, arm_steps.model_dump_json().encode())
    return ArmSteps.model_validate_json(path.read_bytes())


def _table(steps_by_arm: dict[str, ArmSteps], split: str, episodes: int) -> str:
    lines = [
        f"{episodes} episodes of the {split} split: true sub-goals, terse orders, {ATTEMPTS} attempts, 95 % "
        "intervals.\n",
        "| Critic | right steps, % | points ahead of the first | storyboards without a wrong step, % "
        "| of the gap closed, % |\n|---|---|---|---|---|",
    ]
    for arm, (name, _) in ARMS.items():
        rows = steps_by_arm[arm]
        steps = with_interval([(sum(r), len(r)) for r in rows.ours], share)
        pairs = zip(rows.ours, steps_by_arm["sft"].ours, strict=True)
        gain = with_interval([(sum(r), sum(s), len(r)) for r, s in pairs], points)
        boards = with_interval([(all(r), 1) for r in rows.ours], share)
        both = zip(rows.ours, rows.first, rows.oracle, strict=True)
        gap = with_interval([(sum(r), sum(f), sum(c)) for r, f, c in both], gap_share)
        lines.append(
            f"| {name} | {_cell(steps, 100)} | {_cell(gain)} | {_cell(boards, 100)} | {_cell(gap, 100)} |"
        )
    return "\n".join(lines) + "\n"


def _cell(m: Measurement, times: float = 1) -> str:
    if m.value is None:
        return ""
    interval = "" if m.low is None or m.high is None else f" ({times * m.low:.1f} - {times * m.high:.1f})"
    return f"{times * m.value:.1f}{interval}"


def _goalreel(*arguments: object) -> None:
    """Run a command of goalreel's; its failure ends this script, for it has said why."""
    command = [str(Path(sys.executable).with_name("goalreel")), *map(str, arguments)]
    typer.echo(f"$ {' '.join(command[1:])}", err=True)
    if code := subprocess.run(command).returncode:
        raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
