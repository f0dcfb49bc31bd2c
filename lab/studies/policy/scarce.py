"""Are goal images worth it where few demonstrations have words? Part 1 of the fixed experiments.

One command, on a CPU or a GPU. Kill it anywhere and run it again: 50 scenes, 50 steps of the backbone, 100
steps of a policy or a task are the most that is done twice. lab/docs/policy-experiments.md fixes what is
asked, and what refutes it.

    python lab/studies/policy/scarce.py --out out/scarce --runs g,a1_mix --seeds 1  # the pilot
    python lab/studies/policy/scarce.py --out out/scarce --worded 250,1000,4000  # the whole
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import demos
import typer
import yaml
from demos import THINGS, Demos
from fit import Bank, TrainedArm
from numpy.typing import NDArray
from pieces import prepare, run_jobs, train_policy
from rich.console import Console
from scarce_examples import ScarceArm, ScarceExamples

from goalreel.annotator.statistics import json_line, values_table
from goalreel.cli.console import progress_bars
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, SPLITS, choose_names
from goalreel.errors import InputError
from goalreel.files import exclusive, write_bytes
from goalreel.image import Image
from goalreel.models import presets
from goalreel.progress import OnProgress
from goalreel.tabletop.grammar import state_of
from goalreel.tabletop.scene import SceneLayout
from goalreel.tabletop.splits import Split
from goalreel.training.config import config_file
from goalreel_lab.corpora.prompts import explicit
from goalreel_lab.corpora.rows import EditRow, Origin
from goalreel_lab.nano.config import EditorConfig
from goalreel_lab.nano.editor_training import train
from goalreel_lab.policy.arms import GoalArm
from goalreel_lab.policy.intervals import SeedEnds, compare
from goalreel_lab.policy.policy_tasks import sub_goal_of
from goalreel_lab.policy.rollout import Bounds
from goalreel_lab.policy.study import PolicyConfig, PolicyEntry, measure


@dataclass(frozen=True)
class ScarceRun:
    """One arm of the table: its training data, and what is shown to it when tested."""

    trained: ScarceArm
    shown: GoalArm
    own_editor: bool = False


RUNS = {
    "g": ScarceRun("goals", "true"),
    "g_plus": ScarceRun("goals", "predicted"),
    "g_own": ScarceRun("goals", "predicted", own_editor=True),
    "a1_mix": ScarceRun("mix", "text"),
    "a1_n": ScarceRun("worded", "text"),
    "a1_auto": ScarceRun("auto", "text"),
    "p": ScarceRun("goals", "placebo"),
}
HEADLINES = ("g_plus_minus_a1_mix", "g_minus_a1_mix")


def main(
    out: Annotated[Path, typer.Option(help="Everything is kept here.")] = Path("out/scarce"),
    worded: Annotated[str, typer.Option(help="Sub-goals with words; comma-separated.")] = "1000",
    runs: Annotated[str, typer.Option(help="Arms; comma-separated.")] = ",".join(RUNS),
    seeds: Annotated[int, typer.Option(min=1, help="Training seeds.")] = 3,
    scenes: Annotated[int, typer.Option(min=1, help="Training scenes, about ten sub-goals each.")] = 2000,
    checks: Annotated[int, typer.Option(min=1, help="Validation scenes of the learning curves.")] = 50,
    backbone_steps: Annotated[int, typer.Option(min=1, help="Steps of 64 pictures.")] = 2000,
    steps: Annotated[int, typer.Option(min=1, help="Steps of 128 samples, of every policy.")] = 6000,
    editor_share: Annotated[
        float, typer.Option(min=0.0001, max=1, help="Of the steps of the editor from the worded sub-goals.")
    ] = 1,
    split: Annotated[SPLITS, typer.Option(help="Of the tasks.")] = "test",
    episodes: Annotated[int, typer.Option(min=1, help="Tasks.")] = 200,
    workers: Annotated[int, typer.Option(min=1, help="Processes at once.")] = 2,
    json_output: Annotated[bool, typer.Option("--json", help="A line of JSON for each size.")] = False,
) -> None:
    """Make what is missing, train the arms, carry out the tasks, and print the differences."""
    with ExitStack() as stack:
        stack.enter_context(one_line_errors(INTERRUPTED))
        sizes = _sizes(worded)
        chosen = choose_names(runs, tuple(RUNS), "arm")
        progress = stack.enter_context(progress_bars())
        spawn = multiprocessing.get_context("spawn")
        pool = stack.enter_context(ProcessPoolExecutor(workers, spawn))
        stack.enter_context(exclusive(out, out))
        prepare(out, scenes, checks, backbone_steps, pool, progress)
        trained = dict.fromkeys(RUNS[name].trained for name in chosen)
        jobs = [
            partial(train_arm, out, arm, size, seed, steps)
            for size in sizes
            for seed in range(seeds)
            for arm in trained
        ]
        run_jobs(pool, jobs, "policies", progress)
        for size in sizes:
            rolled: dict[str, SeedEnds] = {}
            for name in chosen:
                order = _order(out, name, size, seeds, steps, split, episodes, editor_share, progress)
                rolled |= measure(order, progress).rolled
            values = compare(rolled)
            settings = {"worded": size, "seeds": seeds, "steps": steps, "split": split, "episodes": episodes}
            result = json_line(settings, values)
            write_bytes(out / "results" / f"{size}-{seeds}-{steps}-{split}-{episodes}.json", result.encode())
            if json_output:
                typer.echo(result)
            else:
                Console().print(values_table(f"{size} sub-goals with words", values, HEADLINES))


def _sizes(text: str) -> list[int]:
    if not all(size.strip().isdecimal() and int(size) for size in text.split(",")):
        raise InputError(f"--worded {text}: give whole numbers of sub-goals, such as 250,1000,4000")
    return [int(size) for size in text.split(",")]


def _folder(out: Path, arm: ScarceArm, size: int, seed: int, steps: int) -> Path:
    return out / "policies" / f"{arm}-{size}-{seed}-{steps}"


def train_arm(out: Path, arm: ScarceArm, size: int, seed: int, steps: int) -> None:
    """Train one policy, from where its training stands.

    Raises:
        InputError: there are not more demonstrations than are to have words.
    """

    def lessons(data: Bank) -> ScarceExamples:
        if size >= len(data):
            raise InputError(
                f"--worded {size}: there are {len(data)} sub-goals, and some are to have no words"
            )
        return ScarceExamples(data, arm, size)

    cues: TrainedArm = "picture" if arm == "goals" else "text"
    train_policy(out, _folder(out, arm, size, seed, steps), lessons, cues, seed, steps)


def _order(
    out: Path,
    name: str,
    size: int,
    seeds: int,
    steps: int,
    split: Split,
    episodes: int,
    editor_share: float,
    progress: OnProgress,
) -> PolicyConfig:
    """Say what is measured in one arm; the editor from the worded sub-goals is trained first."""
    run = RUNS[name]
    folders = tuple(_folder(out, run.trained, size, seed, steps) for seed in range(seeds))
    preset = presets.load("nano")
    if run.own_editor:
        paths: Sequence[Path] = sorted((out / "demos").glob("*.npz"))
        rows = tuple(editor_rows(demos.read(paths), size))
        editor = train_editor(rows, out / "editors" / f"{size}-{editor_share:g}", editor_share, progress)
        preset = presets.load("nano", editor=f"diffusers:{editor}")
    return PolicyConfig(
        entries=[PolicyEntry(run.shown, folders, name)],
        condition="seen",
        split=split,
        episodes=episodes,
        first=0,
        preset=preset,
        form="bordered",
        words=True,
        bounds=Bounds(),
        out=out / "rollouts",
    )


def editor_rows(demos: Demos, count: int) -> Iterator[EditRow]:
    """Make the explicit order and its goal image of the first `count` demonstrations."""
    for i in range(min(count, len(demos.live))):
        live, target = demos.live[i], demos.goal[i]
        goal = sub_goal_of(demos.sub_tasks[i])
        prompt = explicit(goal, _layout(demos.poses[live]), _layout(demos.poses[target]))
        pictures = Image(demos.pictures[live]), Image(demos.pictures[target])
        yield EditRow(pictures[0], prompt, "explicit", state_of(goal), goal, pictures[1], Origin(0, 0))


def _layout(poses: NDArray) -> SceneLayout:
    """Read a row of `Demos.poses` as positions (3,) in m."""
    return {name: pose[1:4] for name, pose in zip(THINGS, poses, strict=True) if pose[0]}


def train_editor(rows: Sequence[EditRow], out: Path, share: float, progress: OnProgress) -> Path:
    """Train the shipped editor's configuration from scratch on `rows`; go on where `out` stands.

    Args:
        share: of the steps of its parts, for a try.
    """
    settings = yaml.safe_load(config_file("nano-editor").read_text(encoding="utf-8"))
    for part in ("vae", "denoiser"):
        settings[part]["steps"] = max(1, round(share * settings[part]["steps"]))
    config = EditorConfig.model_validate(settings | {"compile": False})
    return train(config, out, resume=True, rows=rows, progress=progress)


if __name__ == "__main__":
    typer.run(main)
