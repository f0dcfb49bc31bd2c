"""Worth of a label to a policy of words: labels spoilt in six ways, and those of four annotators.

lab/docs/label-worth.md fixes the question, the faults, the measures and the rule. One command; kill it
anywhere and run it again: every finished policy is a line of JSON.

    python lab/studies/policy/labels.py --out out/labels
    python lab/studies/policy/labels.py --out out/labels --report
"""

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any

import demos
import numpy as np
import torch
import typer
from demos import THINGS, Demos, poses_of
from fit import Scale, fit
from label_faults import FAULTS, Labels, Numbers, tell, without_target
from lerobot.policies.act.modeling_act import ACTPolicy
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from goalreel.annotator.statistics import Measurement
from goalreel.cli.console import progress_bars
from goalreel.cli.options import SPLITS
from goalreel.files import exclusive
from goalreel.progress import OnProgress
from goalreel.tabletop.env import STATE_NAMES, Tabletop, teleport
from goalreel.tabletop.scene import HALF, SubGoal, shows
from goalreel.tabletop.splits import SEEDS, seeds
from goalreel_lab.policy.intervals import difference_of_counts, measure_counts
from goalreel_lab.policy.policy_tasks import ENVIRONMENT, STATE, key_poses, sample_task, sub_task
from goalreel_lab.policy.rollout import Acts, Bounds, GoalCue, roll
from goalreel_lab.policy.study import tasks
from goalreel_lab.statistics import json_line, values_table

RATES, SIZES = (0.1, 0.25, 0.5), (1000, 4000)
WRONG_NAMES, LOST_CUTS = 0.39, 0.69
"""WGO-Bench's best published labeller: names that are wrong; cuts that are not found (F1 0.306)."""
CHECKED = ("truth", "wgo_bench", "rules_subtask")
"""Conditions whose policies of the first seed also act in the simulator."""
PAIR, PAIR_SEEDS = ("truth", "carried"), 5
"""Conditions that get so many more seeds in the end."""
ALONG, ACROSS, HIGH, TURNED = 0.019, 0.0165, 0.015, np.radians(20)
"""Largest misses of a grasp along and across the hand and of a pose's height (m), and of its turn (rad)."""
PROFILES = Path(__file__).with_name("results") / "label_annotators.json"
"""By annotator, the labels of measured steps, a digit a frame (OWN and so on), and how many are so."""


class WordsActor:
    """The policy; its two key poses are chosen together, as the arm sets out from home."""

    acts: Acts = "key_poses"

    def __init__(self, policy: ACTPolicy, scale: Scale) -> None:
        self._policy, self._scale = policy.eval(), scale
        self._poses: list[Numbers] = []

    def reset(self) -> None:
        self._poses = []

    @torch.inference_mode()
    def chunk(self, told: Tensor) -> Numbers:
        """Choose key poses, (N, 2, 6)."""
        inputs = {STATE: torch.zeros(len(told), len(STATE_NAMES)), ENVIRONMENT: told}
        return (self._policy.predict_action_chunk(inputs) * self._scale.std + self._scale.mean).numpy()

    def act(self, env: Tabletop, cue: GoalCue) -> Numbers:
        if not self._poses:
            self._poses = [*self.chunk(torch.from_numpy(tell(poses_of(env), cue.words))[None])[0]]
        return self._poses.pop(0)


@dataclass(frozen=True)
class Moment:
    """A sub-goal of a test task, before it is done: what stands where, and the expert's key poses."""

    task: int
    goal: SubGoal
    poses: Numbers
    actions: Numbers

    def right(self, chosen: Numbers) -> bool:
        """Tell if these key poses (2, 6) take the block and set it down where the sub-goal asks for it.

        The fingers close on a block that lies between them, and centre it across the hand. Along the hand it
        stays off centre, and so it is when the hand opens, at the height where it comes to rest.
        """
        yaws = [np.arctan2(pose[4], pose[3]) / 2 for pose in (*chosen, self.actions[0])]
        turn = abs((4 * (yaws[0] - yaws[2]) + np.pi) % (2 * np.pi) - np.pi) / 4
        hand, opened = (np.array([[np.cos(y), np.sin(y)], [-np.sin(y), np.cos(y)]]) for y in yaws[:2])
        along, across = hand @ (chosen[0, :2] - self.actions[0, :2])
        high = np.abs(chosen[:, 2] - self.actions[:, 2]).max() > HIGH
        if abs(along) > ALONG or abs(across) > ACROSS or turn > TURNED or high:
            return False
        layout = {name: at[1:4].astype(float) for name, at in zip(THINGS, self.poses, strict=True) if at[0]}
        here = np.array([*(chosen[1, :2] - along * opened[0]), self.actions[1, 2] - 0.005], float)
        blocks = [at for name, at in layout.items() if name != self.goal.object and name.endswith("block")]
        crowded = any(np.abs(at - here).max() < 1.6 * HALF for at in blocks)
        closes = chosen[0, 5] < 0 <= chosen[1, 5]
        return bool(closes and shows(layout | {self.goal.object: here}, self.goal) and not crowded)


def moments(split: SPLITS, episodes: int, progress: OnProgress) -> list[Moment]:
    """Walk through the first tasks of `seen` as the expert would."""
    found: list[Moment] = []
    for seed in SEEDS[split]:
        task = found[-1].task + 1 if found else 0
        if task == episodes:
            break
        episode, met = sample_task("seen", seed), []
        with Tabletop(episode.scene) as env:
            try:
                for goal in episode.goals:
                    met.append(Moment(task, goal, poses_of(env), key_poses(env, goal)))
                    teleport(env, goal)
            except ValueError:
                continue
        found += met
        progress("tasks", task + 1, episodes)
    return found


@dataclass(frozen=True)
class Job:
    """A policy to train and to measure: a fault and its rate, an annotator, or `truth`."""

    name: str
    rate: float
    samples: int
    seed: int

    def run(
        self, data: Demos, split: SPLITS, tests: Sequence[Moment], checks: int, steps: int
    ) -> dict[str, Any]:
        """Train it on the spoilt labels; let it choose key poses in the test tasks, and act in `checks`."""
        began, labels = time.process_time(), Labels(data, self.samples, self.seed)
        profiles = json.loads(PROFILES.read_text())
        if self.rate:
            labels.spoil(self.name, self.rate)
        elif self.name in profiles:
            rows = [[*map(int, digits)] for count, digits in profiles[self.name] for _ in range(count)]
            labels.copy_from(np.array(rows))
        elif self.name == "wgo_bench":
            labels.spoil("other", WRONG_NAMES)
            labels.spoil("shifted", LOST_CUTS)
        actor = WordsActor(*fit(labels.samples(), self.seed, steps))

        def choose(words_of: Callable[[Numbers], Numbers]) -> Numbers:
            told = [tell(moment.poses, words_of(sub_task(moment.goal))) for moment in tests]
            return actor.chunk(torch.from_numpy(np.stack(told)))

        chosen = choose(np.asarray)
        if self.name == "rules_event":
            chosen[:, 0] = choose(without_target)[:, 0]
        right = [1] * (tests[-1].task + 1)
        for moment, poses in zip(tests, chosen, strict=True):
            right[moment.task] &= moment.right(poses)
        result = {"mislabelled": labels.mislabelled, "right": right, "acted": []}
        if self.name in CHECKED and (self.samples, self.seed) == (SIZES[-1], 0):
            for walk in tasks("seen", split, checks, 0, lambda *_: None):
                cues = [GoalCue(goal.text, sub_task(goal)) for goal in walk.goals]
                result["acted"].append(int(roll(walk, actor, cues, Bounds(1)).success))
        return vars(self) | result | {"cpu_s": round(time.process_time() - began, 1)}


def jobs(training_seeds: int) -> list[Job]:
    """List all policies, in the order of the page."""
    conditions = [(name, 0.0) for name in ("truth", "rules_event", "rules_subtask", "carried", "wgo_bench")]
    conditions += [(fault, rate) for rate in reversed(RATES) for fault in FAULTS]
    found = [Job(*c, size, seed) for seed in range(training_seeds) for size in SIZES for c in conditions]
    more = range(training_seeds, training_seeds + PAIR_SEEDS)
    return found + [Job(name, 0.0, SIZES[-1], seed) for seed in more for name in PAIR]


def main(
    out: Annotated[Path, typer.Option(help="Everything is kept here.")] = Path("out/labels"),
    scenes: Annotated[int, typer.Option(min=1, help="Training scenes, about ten steps each.")] = 400,
    training_seeds: Annotated[int, typer.Option("--seeds", min=1, help="Trainings.")] = 3,
    split: Annotated[SPLITS, typer.Option(help="Of the tasks.")] = "test",
    episodes: Annotated[int, typer.Option(min=1, help="Tasks.")] = 400,
    checks: Annotated[int, typer.Option(min=1, help="Tasks in which some act in the simulator.")] = 40,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a training.")] = 400,
    report: Annotated[bool, typer.Option("--report", help="Tell of what is done, and do no more.")] = False,
    figure: Annotated[Path | None, typer.Option(help="PNG file to draw success against rates in.")] = None,
) -> None:
    """Train a policy on each kind of labels, and print a line of JSON and a table."""
    path = out / f"{split}.jsonl"
    with exclusive(out, out) if not report else nullcontext(), progress_bars() as progress:
        if not report:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                demos.make(out / "demos", seeds("train", scenes), pool, progress)
            torch.set_num_threads(1)
            data = demos.read(sorted((out / "demos").glob("*.npz")))
            tests = moments(split, episodes, progress)
            known = {_job(line) for line in read(path)}
            for done, job in enumerate(todo := [job for job in jobs(training_seeds) if job not in known], 1):
                line = job.run(data, split, tests, checks, steps)
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                progress("policies", done, len(todo))
    values = compare(read(path))
    typer.echo(json_line({"split": split, "policies": len(read(path))}, values))
    Console().print(values_table(split, values, ("carried_minus_truth.4000",)))
    if figure:
        draw(values, figure)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _job(line: Mapping[str, Any]) -> Job:
    return Job(*(line[field.name] for field in fields(Job)))


def compare(lines: Sequence[dict[str, Any]]) -> dict[str, Measurement]:
    """Measure success and differences to the truth of the same seeds; points lost for 1 % of a fault."""
    values: dict[str, Measurement] = {}
    found = {_job(line): line for line in lines}
    true_of = {job: replace(job, name="truth", rate=0.0) for job in found}
    lost: dict[tuple[str, float, int], NDArray[np.float64]] = {}

    def counts(of: Sequence[Job]) -> NDArray[np.float64]:
        rows = np.array([found[job]["right"] for job in of], float)
        return np.stack([rows, np.ones_like(rows)], -1)

    for name, rate, size in dict.fromkeys((job.name, job.rate, job.samples) for job in found):
        whole = [job for job in found if (job.name, job.rate, job.samples) == (name, rate, size)]
        whole = [job for job in whole if true_of[job] in found]
        if whole:
            own, true = counts(whole), counts([true_of[job] for job in whole])
            lost[name, rate, size] = (true - own)[..., 0]
            ending = f"{f'.{rate:g}' if rate else ''}.{size}"
            values[f"{name}{ending}"] = measure_counts(own)
            values[f"{name}_minus_truth{ending}"] = difference_of_counts(own, true)
            values[f"{name}_seeds{ending}"] = Measurement(value=float(len(own)))
    for fault, size in itertools.product(FAULTS, SIZES):
        if all((fault, rate, size) in lost for rate in RATES):
            least = min(len(lost[fault, rate, size]) for rate in RATES)
            frames = [found[Job(fault, rate, size, 0)]["mislabelled"] for rate in RATES]
            for unit, shares in (("steps", RATES), ("frames", frames)):
                rows = [x * lost[fault, rate, size][:least] for x, rate in zip(shares, RATES, strict=True)]
                slope = np.sum(rows, 0) / sum(x * x for x in shares)
                key = f"{fault}.lost_for_1_percent_of_{unit}.{size}"
                values[key] = measure_counts(np.stack([slope, np.ones_like(slope)], -1))
    same = [np.equal(line["acted"], line["right"][: len(line["acted"])]) for line in lines if line["acted"]]
    if same:
        pairs = np.stack([np.array(same, float), np.ones(np.shape(same))], -1)
        values["judged_as_simulated"] = measure_counts(pairs)
    return values


def draw(values: Mapping[str, Measurement], path: Path) -> None:
    """Draw success against the rate of each fault."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    sizes = [size for size in SIZES if f"truth.{size}" in values]
    figure, axes = plt.subplots(1, len(sizes), figsize=(4.6 * len(sizes), 4), sharey=True, squeeze=False)
    for axis, size in zip(axes[0], sizes, strict=True):
        for place, fault in enumerate(FAULTS):
            keys = [(0.0, f"truth.{size}"), *((rate, f"{fault}.{rate:g}.{size}") for rate in RATES)]
            points = [(100 * rate + place / 2 - 1, values[key]) for rate, key in keys if key in values]
            at, ys = [x for x, _ in points], np.array([[p.value, p.low, p.high] for _, p in points], float).T
            spread = 100 * np.abs(ys[1:] - ys[0])
            axis.errorbar(at, 100 * ys[0], spread, marker="o", ms=3, lw=1, label=fault.replace("_", " "))
        axis.set(title=f"{size:,} samples", xlabel="steps with the fault, %")
    axes[0][0].set_ylabel("success, %")
    axes[0][-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    typer.run(main)
