"""The study of what goal images are worth to a policy: data, backbone, policies and rollouts.

One command, on a CPU or a GPU. Run it again to resume: what is made, trained or measured stays.
docs/results/policy-study.md has its results.

    python dev/studies/policy/study.py --out out/policy_study
"""

import io
import json
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated

import demos
import numpy as np
import torch
import typer
from backbone import Reader, off_by, train
from editor_vae import round_trip
from fit import ARMS, Bank, TrainedArm, bank, fit, home, misses, save

from goalreel.cli.console import progress_bars
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED, SPLITS, choose_names
from goalreel.errors import InputError
from goalreel.files import exclusive, write_bytes
from goalreel.models import presets
from goalreel.progress import OnProgress
from goalreel.tabletop.policy.arms import GoalArm
from goalreel.tabletop.policy.rollout import Bounds
from goalreel.tabletop.policy.study import PolicyOrder, measure
from goalreel.tabletop.sim.policy_tasks import CONDITIONS, Condition
from goalreel.tabletop.sim.splits import Split, seeds

BATCH, RATE = 64, 1.5e-3
"""Of the backbone."""
POLICY_BATCH, POLICY_RATE = 128, 1e-3
KEEP_EVERY = 200
"""Steps of the backbone between two checkpoints."""
PICTURES, FORMS = 128, {"plain": False, "bordered": True}
"""Unseen pictures that the backbone is measured on, and whether they are shown as goals."""
CURVE = "curve.json"
"""Written last beside a policy."""
type StudyRun = tuple[TrainedArm, tuple[GoalArm, ...], bool]
"""Of a measurement: the policy that acts, its arms, and whether words come with a picture."""
type StudyJob = Callable[[], None]
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
        _settled(out, {"scenes": scenes, "checks": checks, "backbone_steps": backbone_steps})
        paths = demos.make(out / "demos", seeds("train", scenes), pool, progress)
        validation = demos.make(out / "validation", seeds("validation", checks), pool, progress)
        _backbone(out / "backbone.pt", paths, validation, backbone_steps, progress)
        features = [partial(_features, out, "bank", path, 0.5) for path in paths]
        features += [partial(_features, out, "validation_bank", path, 0.0) for path in validation]
        _all(pool, features, "features", progress)
        seeded = range(repeats)
        _all(
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
        _all(pool, rolls, "rollouts", progress)


def _sizes(text: str) -> list[int]:
    """Whole numbers from 0 on, separated by commas."""
    if not all(size.strip().isdecimal() for size in text.split(",")):
        raise InputError(f"--sizes {text}: give whole numbers of samples, 0 for all, such as 1000,5000,0")
    return [int(size) for size in text.split(",")]


def _settled(out: Path, settings: dict[str, int]) -> None:
    """Refuse a folder whose demonstrations or backbone are of other settings: they would pass for these."""
    path = out / "settings.json"
    if path.exists() and (earlier_settings := json.loads(path.read_text())) != settings:
        differences = ", ".join(
            f"{key} {earlier_settings.get(key)}"
            for key in settings
            if earlier_settings.get(key) != settings[key]
        )
        raise InputError(f"{out} was made with {differences}: choose another --out")
    write_bytes(path, json.dumps(settings).encode())


def _all(pool: Executor, jobs: Sequence[StudyJob], stage: str, progress: OnProgress) -> None:
    """Run jobs side by side, the first of them first."""
    for done, job in enumerate(as_completed([pool.submit(job) for job in jobs]), 1):
        job.result()
        progress(stage, done, len(jobs))


def _write(path: Path, value: object) -> None:
    packed = io.BytesIO()
    torch.save(value, packed)
    write_bytes(path, packed.getvalue())


def _backbone(
    path: Path, parts: Sequence[Path], validation: Sequence[Path], steps: int, progress: OnProgress
) -> None:
    """Train it; how far it reads blocks from where they stand on unseen scenes lies beside it, in cm."""
    torch.manual_seed(0)
    checkpoint = torch.load(path, map_location="cpu", weights_only=True) if path.exists() else None
    if checkpoint is None or checkpoint["done"] < steps:
        for done, _, state in train(Reader(), demos.read(parts), steps, BATCH, RATE, checkpoint):
            if done % KEEP_EVERY == 0 or done == steps:
                _write(path, state)
            progress("backbone", done, steps)
    result = path.with_suffix(".json")
    if not result.exists():
        unseen = demos.read(validation)
        rows = np.arange(0, len(unseen.pictures), max(1, len(unseen.pictures) // PICTURES))[:PICTURES]
        reader = _reader(path.parent)
        off = {
            name: 100 * float(np.median(off_by(reader, unseen, rows, goals))) for name, goals in FORMS.items()
        }
        write_bytes(result, json.dumps(off).encode())


def _reader(out: Path) -> Reader:
    reader = Reader()
    reader.load_state_dict(torch.load(out / "backbone.pt", map_location="cpu", weights_only=True)["reader"])
    return reader


def _features(out: Path, name: str, part: Path, drawn: float) -> None:
    path = out / name / f"{part.stem}.pt"
    if not path.exists():
        torch.set_num_threads(1)
        features = bank(_reader(out), demos.read([part]), round_trip(), int(part.stem), drawn)
        _write(path, {f.name: getattr(features, f.name) for f in fields(features)})


def _bank(folder: Path) -> Bank:
    parts = sorted(folder.glob("*.pt"))
    return Bank.join([Bank(**torch.load(part, map_location="cpu", weights_only=True)) for part in parts])


def _policy_folder(out: Path, arm: TrainedArm, size: int, seed: int, steps: int) -> Path:
    return out / "policies" / f"{arm}-{size or 'all'}-{seed}-{steps}"


def _policy(out: Path, arm: TrainedArm, size: int, seed: int, steps: int) -> None:
    """Train one policy; its curve of mistakes on validation scenes lies beside it."""
    folder = _policy_folder(out, arm, size, seed, steps)
    if (folder / CURVE).exists():
        return
    torch.set_num_threads(1)
    data, checks = _bank(out / "bank"), _bank(out / "validation_bank")
    curve = []
    count = min(size or len(data), len(data))
    for step, loss, policy, scale in fit(data, arm, count, seed, steps, POLICY_BATCH, POLICY_RATE):
        if step % max(1, steps // 10) == 0 or step == steps:
            curve.append({"step": step, "loss": loss, **misses(policy, scale, checks, arm)})
        if step == steps:
            save(policy, scale, _reader(out), home(), folder)
    write_bytes(folder / CURVE, json.dumps({"samples": count, "curve": curve}).encode())


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
        order = PolicyOrder(
            policies=dict.fromkeys(arms, policy),
            arms=arms,
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
