"""Are goal images worth it on Meta-World, where few demonstrations have words? Part 3 of the experiments.

One command, on a CPU or a GPU. Kill it anywhere and run it again: a task's recordings, 50 steps of the
backbone, 100 steps of a policy or a task's tries are the most that is done twice.
lab/docs/policy-experiments.md fixes what is asked, and what refutes it.

    python lab/studies/policy/metaworld_scarce.py
    python lab/studies/policy/metaworld_scarce.py --held-out report  # once, at the end
"""

import json
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer
import yaml
from metaworld_costs import hours_of, seconds_each
from metaworld_demos import UNSEEN_FIRST
from metaworld_pieces import (
    ARMS,
    Study,
    compute_bank,
    make_backbone,
    record_test,
    record_training,
    train_on_frames,
    try_task,
)
from pieces import run_jobs, settle
from rich.console import Console
from rich.table import Table

from goalreel.annotator.statistics import Measurement, json_line, values_table
from goalreel.cli.console import progress_bars
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, choose_names
from goalreel.errors import InputError
from goalreel.files import exclusive, write_bytes
from goalreel.progress import OnProgress
from goalreel_lab.metaworld.tasks import split_tasks
from goalreel_lab.policy.intervals import SeedCounts, difference_of_counts, measure_counts

type HeldOutTasks = Literal["choose", "report", "none"]
HEADLINES = ("g_minus_a1_mix.unseen_positions", "g_minus_a1_mix.heldout_tasks")
EPISODES, POSITIONS, SEEDS, BACKBONE_STEPS, STEPS = 20, 25, 3, 3000, 6000
"""Numbers of the study as it is fixed."""


def main(
    out: Annotated[Path, typer.Option(help="Everything is kept here.")] = Path("out/metaworld_scarce"),
    tasks: Annotated[str, typer.Option(help="Tasks to train on; comma-separated.")] = ",".join(
        split_tasks("develop")
    ),
    held_out: Annotated[HeldOutTasks, typer.Option(help="Tasks that nothing is trained on.")] = "choose",
    arms: Annotated[str, typer.Option(help="Arms; comma-separated.")] = ",".join(ARMS),
    episodes: Annotated[int, typer.Option(min=1, max=UNSEEN_FIRST, help="Recordings of a task.")] = EPISODES,
    worded: Annotated[int, typer.Option(min=1, help="Those of them that have words.")] = 3,
    positions: Annotated[
        int, typer.Option(min=1, max=25, help="Unseen object positions of a task.")
    ] = POSITIONS,
    seeds: Annotated[int, typer.Option(min=1, help="Training seeds.")] = SEEDS,
    backbone_steps: Annotated[int, typer.Option(min=1, help="Steps of 64 pictures.")] = BACKBONE_STEPS,
    steps: Annotated[int, typer.Option(min=1, help="Steps of 64 frames, of every policy.")] = STEPS,
    workers: Annotated[int, typer.Option(min=0, help="Processes at once; 0: all in this one.")] = 2,
    json_output: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Record what is missing, train the arms, try them out, and print the differences."""
    with ExitStack() as stack:
        stack.enter_context(one_line_errors(INTERRUPTED))
        if worded > episodes:
            raise InputError(f"--worded {worded}: a task has {episodes} recordings")
        study = Study(
            out=out,
            training_tasks=tuple(choose_names(tasks, split_tasks("develop"), "task to train on")),
            heldout_tasks=() if held_out == "none" else split_tasks(held_out),
            episodes=episodes,
            worded=worded,
            positions=positions,
            backbone_steps=backbone_steps,
            steps=steps,
        )
        chosen = choose_names(arms, tuple(ARMS), "arm")
        progress = stack.enter_context(progress_bars())
        pool = stack.enter_context(_pool(workers))
        stack.enter_context(exclusive(out, out))
        _prepare(study, pool, progress)
        trainings = [partial(train_on_frames, study, arm, seed) for seed in range(seeds) for arm in chosen]
        run_jobs(pool, trainings, "policies", progress)
        tested = (*study.training_tasks, *study.heldout_tasks)
        tries = [partial(try_task, study, a, s, t) for s in range(seeds) for a in chosen for t in tested]
        run_jobs(pool, tries, "tries", progress)
        _report(study, chosen, seeds, held_out, json_output)


def _pool(workers: int) -> Executor:
    if workers == 0:
        return ThreadPoolExecutor(1)
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))


def _prepare(study: Study, pool: Executor, progress: OnProgress) -> None:
    settle(study.out, {"tasks": list(study.training_tasks), "episodes": study.episodes})
    recordings = [partial(record_training, study, task) for task in study.training_tasks]
    recordings += [
        partial(record_test, study, task) for task in (*study.training_tasks, *study.heldout_tasks)
    ]
    run_jobs(pool, recordings, "recordings", progress)
    make_backbone(study, progress)
    run_jobs(pool, [partial(compute_bank, study)], "features", progress)


def _report(study: Study, arms: Sequence[str], seeds: int, held_out: HeldOutTasks, json_output: bool) -> None:
    groups = {"unseen_positions": study.training_tasks, "heldout_tasks": study.heldout_tasks}
    values: dict[str, Measurement] = {}
    for group, names in groups.items():
        if names:
            counts = {arm: _counts(study, arm, seeds, names) for arm in arms}
            values |= {f"{arm}.{group}": measure_counts(counts[arm]) for arm in arms}
            for other in [arm for arm in arms if arm != "g" and "g" in arms]:
                values[f"g_minus_{other}.{group}"] = difference_of_counts(counts["g"], counts[other])
    by_task = {
        task: {arm: float(_ratio(_counts(study, arm, seeds, [task]))) for arm in arms}
        for task in (*study.training_tasks, *study.heldout_tasks)
    }
    each = seconds_each(study.out)
    settings = {
        "tasks": len(study.training_tasks),
        "held_out": held_out,
        "seeds": seeds,
        "episodes": study.episodes,
        "worded": study.worded,
        "positions": study.positions,
        "backbone_steps": study.backbone_steps,
        "steps": study.steps,
        "by_task": by_task,
        "seconds_each": each,
        "hours_whole": hours_of(each, whole_units()),
    }
    result = json_line(settings, values)
    name = f"{study.worded}-{seeds}-{study.steps}-{study.backbone_steps}-{held_out}-{study.positions}"
    write_bytes(study.out / "results" / f"{name}.json", result.encode())
    if json_output:
        typer.echo(result)
        return
    console = Console()
    console.print(
        values_table(f"{study.worded} of {study.episodes} recordings with words", values, HEADLINES)
    )
    console.print(_tasks_table(by_task, arms))


def _counts(study: Study, arm: str, seeds: int, names: Sequence[str]) -> SeedCounts:
    """Successes and tries of an arm, (seeds, tasks, 2); the positions of a task belong together."""
    rows = []
    for seed in range(seeds):
        ends = [json.loads(study.tries(arm, seed, task).read_text()).values() for task in names]
        rows.append([(sum(solved), len(solved)) for solved in ends])
    return np.array(rows, np.float64)


def _ratio(counts: SeedCounts) -> np.float64:
    return counts[..., 0].sum() / counts[..., 1].sum()


def whole_units() -> dict[str, int]:
    """Count the episodes, steps and tries of the study as it is fixed."""
    trained, tested = len(split_tasks("develop")), len(split_tasks("develop")) + len(split_tasks("choose"))
    policies = len(ARMS) * SEEDS
    return {
        "demonstrations": trained * EPISODES,
        "goals": tested * POSITIONS,
        "backbone": BACKBONE_STEPS,
        "features": trained * EPISODES,
        "policies": policies * STEPS,
        "tries": policies * tested * POSITIONS,
    }


def published_shares() -> dict[str, float]:
    """Read what AVDC publishes, by task; `avdc.yaml` says where, and what differs."""
    return yaml.safe_load((Path(__file__).parent / "avdc.yaml").read_text())


def _tasks_table(by_task: Mapping[str, Mapping[str, float]], arms: Sequence[str]) -> Table:
    """Success by task, in per cent, beside what AVDC publishes of the same task under other conditions."""
    published = published_shares()
    table = Table("task", *arms, "AVDC", box=None)
    for task, shares in by_task.items():
        cells = [*(shares[arm] for arm in arms), published.get(task)]
        table.add_row(task, *("" if cell is None else f"{100 * cell:.1f}" for cell in cells))
    return table


if __name__ == "__main__":
    typer.run(main)
