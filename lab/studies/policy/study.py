"""The study of what goal images are worth to a policy: data, backbone, policies and rollouts.

One command, on a CPU or a GPU. Run it again to resume: what is made, trained or measured stays.
lab/docs/policy-study.md has its results.

    python lab/studies/policy/study.py --out out/policy_study
"""

import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from fit import ARMS, Bank, StudyExamples, TrainedArm
from pieces import StudyJob, prepare, run_jobs, train_policy

from goalreel.cli.console import progress_bars
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, SPLITS, choose_names
from goalreel.errors import InputError
from goalreel.files import exclusive, write_bytes
from goalreel.models import presets
from goalreel.tabletop.splits import Split
from goalreel_lab.policy.arms import GoalArm
from goalreel_lab.policy.policy_tasks import CONDITIONS, Condition
from goalreel_lab.policy.rollout import Bounds
from goalreel_lab.policy.study import PolicyConfig, PolicyEntry, measure

type StudyRun = tuple[TrainedArm, tuple[GoalArm, ...], bool]
"""Settings of a measurement: the policy that acts, its arms, and whether words come with a picture."""
RUNS: dict[str, StudyRun] = {
    "text": ("text", ("text",), True),
    "picture": ("picture", ("true",), True),
    "instruction": ("instruction", ("instruction",), True),
    "picture_alone": ("picture", ("true",), False),
    "checks": ("picture", ("placebo", "black"), True),
    "checks_alone": ("picture", ("placebo",), False),
    "predicted": ("picture", ("predicted", "predicted_once"), True),
}
COMPARED = ("text", "picture")
"""The two on which it all rests: on more tasks, and for every size."""
SEEN = ("checks", "checks_alone", "predicted")
"""On seen tasks alone: whether pictures are used at all, and what prediction costs."""


def main(
    out: Annotated[Path, typer.Option(help="Everything is kept here.")] = Path("out/policy_study"),
    scenes: Annotated[int, typer.Option(min=1, help="Training scenes, about ten sub-goals each.")] = 2000,
    checks: Annotated[int, typer.Option(min=1, help="Validation scenes of the learning curves.")] = 50,
    conditions: Annotated[str, typer.Option(help="Kinds of tasks; comma-separated.")] = ",".join(CONDITIONS),
    backbone_steps: Annotated[int, typer.Option(min=1, help="Steps of 64 pictures.")] = 2000,
    steps: Annotated[int, typer.Option(min=1, help="Steps of 128 samples, of every policy.")] = 2000,
    sizes: Annotated[str, typer.Option(help="Training samples; comma-separated, 0 for all.")] = "1000,5000,0",
    repeats: Annotated[int, typer.Option(min=1, help="Training seeds.")] = 3,
    split: Annotated[SPLITS, typer.Option(help="Of the rollouts.")] = "test",
    episodes: Annotated[int, typer.Option(min=1, help="Seen tasks for G and A1.")] = 200,
    others: Annotated[int, typer.Option(min=1, help="Tasks for all else.")] = 100,
    arms: Annotated[str, typer.Option(help="Policies to train; comma-separated.")] = ",".join(ARMS),
    rollouts: Annotated[
        bool, typer.Option("--rollouts/--no-rollouts", help="Carry the tasks out, once the policies stand.")
    ] = True,
    workers: Annotated[int, typer.Option(min=1, help="Processes at once.")] = 2,
) -> None:
    """Make the demonstrations, train every arm, carry out the tasks; `report.py` makes the tables."""
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        stack.enter_context(one_line_errors(INTERRUPTED))
        chosen = _sizes(sizes)
        trained = choose_names(arms, ARMS, "policy")
        kinds = choose_names(conditions, CONDITIONS, "condition")
        progress = stack.enter_context(progress_bars())
        pool = stack.enter_context(ProcessPoolExecutor(workers, spawn))
        stack.enter_context(exclusive(out, out))
        prepare(out, scenes, checks, backbone_steps, pool, progress)
        seeded = range(repeats)
        run_jobs(
            pool,
            [
                partial(_policy, out, arm, size, seed, steps)
                for seed in seeded
                for size in sorted(chosen, key=lambda size: size or sys.maxsize, reverse=True)
                for arm in trained
                if size == 0 or arm in COMPARED
            ],
            "policies",
            progress,
        )
        if not rollouts:
            return
        rolls: list[StudyJob] = []
        runs = [run for run, (arm, _, _) in RUNS.items() if arm in trained]
        for condition in kinds:
            for run in runs:
                if condition != "seen" and run in SEEN:
                    continue
                count = episodes if condition == "seen" and run in COMPARED else others
                # Models that predict are asked once for all training seeds.
                groups = [tuple(seeded)] if run == "predicted" else [(seed,) for seed in seeded]
                rolls += [
                    partial(_rolled, out, run, 0, group, steps, condition, split, count) for group in groups
                ]
            if condition == "seen":
                rolls += [
                    partial(_rolled, out, run, size, (seed,), steps, condition, split, others)
                    for size in filter(None, chosen)
                    for seed in seeded
                    for run in COMPARED
                ]
        run_jobs(pool, rolls, "rollouts", progress)


def _sizes(text: str) -> list[int]:
    """Whole numbers from 0 on, separated by commas."""
    if not all(size.strip().isdecimal() for size in text.split(",")):
        raise InputError(f"--sizes {text}: give whole numbers of samples, 0 for all, such as 1000,5000,0")
    return [int(size) for size in text.split(",")]


def _policy_folder(out: Path, arm: TrainedArm, size: int, seed: int, steps: int) -> Path:
    return out / "policies" / f"{arm}-{size or 'all'}-{seed}-{steps}"


def _policy(out: Path, arm: TrainedArm, size: int, seed: int, steps: int) -> None:
    """Train one policy, from where its training stands."""

    def lessons(data: Bank) -> StudyExamples:
        return StudyExamples(data, arm, min(size or len(data), len(data)))

    train_policy(out, _policy_folder(out, arm, size, seed, steps), lessons, arm, seed, steps)


def _rolled(
    out: Path,
    run: str,
    size: int,
    seeds: Sequence[int],
    steps: int,
    condition: Condition,
    split: Split,
    episodes: int,
) -> None:
    torch.set_num_threads(1)
    arm, arms, with_words = RUNS[run]
    for seed in seeds:
        name = f"{run}-{size or 'all'}-{seed}-{steps}-{condition}-{split}-{episodes}"
        path = out / "results" / f"{name}.json"
        if path.exists():
            continue
        policy = _policy_folder(out, arm, size, seed, steps)
        order = PolicyConfig(
            entries=[PolicyEntry(arm_name, (policy,)) for arm_name in arms],
            condition=condition,
            split=split,
            episodes=episodes,
            first=0,
            preset=presets.load("nano"),
            form="bordered",
            words=with_words,
            bounds=Bounds(),
            out=out / "rollouts" / (f"{run}-{steps}-{condition}" if len(seeds) > 1 else name),
        )
        write_bytes(path, measure(order, lambda *_: None).model_dump_json().encode())


if __name__ == "__main__":
    typer.run(main)
