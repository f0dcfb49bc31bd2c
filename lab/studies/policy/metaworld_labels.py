"""Worth of labels carried over from three examples to a policy of words, on Meta-World.

lab/docs/label-worth.md fixes the question, the arms and the rule. One command; kill it anywhere and run it
again: recordings stay, and every finished policy is a line of JSON.

    python lab/studies/policy/metaworld_labels.py --out out/metaworld_labels
"""

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any
from unittest.mock import patch

import numpy as np
import torch
import typer
from fit import Scale
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from goalreel import Storyboard, read_storyboards
from goalreel.annotator.annotate import annotate
from goalreel.cli.console import progress_bars
from goalreel.datasets.episode import Episode
from goalreel.datasets.source import Source
from goalreel.files import exclusive, write_bytes
from goalreel.planners.examples.carry import choose
from goalreel_lab.metaworld import sim
from goalreel_lab.metaworld.run import true_steps
from goalreel_lab.metaworld.sim import Action, Observation, Workbench
from goalreel_lab.metaworld.tasks import split_tasks
from goalreel_lab.metaworld.truth import read_truth
from goalreel_lab.policy.intervals import difference_of_counts, measure_counts
from goalreel_lab.policy.policy_tasks import ENVIRONMENT, STATE
from goalreel_lab.statistics import json_line, values_table

ARMS = ("truth", "carried", "proposed", "instruction")
EPISODES, EXAMPLES, POSITIONS, LONGEST = 20, 3, 25, 250
"""Recordings of a task, those that are labelled, starts that are tested, and frames of a try."""
NOISE = 0.3
"""Spread of what is added to the expert's directions; what it wanted is learned (DART, 1703.09327)."""
CHUNK, EXECUTED, BATCH, RATE, WIDTH = 10, 5, 128, 1e-3, 128
GAP = 5
"""Frames over which a contact goes on."""


class ShakenBench(Workbench):
    """A workbench whose hand is shaken, and which remembers what a policy needs of its last run."""

    noise = NOISE
    seen: list[tuple[Observation, Action]]

    def _start(self, seed: int) -> None:
        super()._start(seed)
        self.seen, self._rng = [], np.random.default_rng(seed)

    def _step(self, action: Action) -> bool:
        self.seen.append((self._observation.copy(), action))
        return super()._step(action + self.noise * np.append(self._rng.normal(size=3), 0.0))

    def attempt(self, seed: int, act: Callable[[Observation, set[str]], Action]) -> bool:
        """Let a policy act from a start; it is told which bodies the hand touches."""
        self._start(seed)
        touching = set[str]()
        for _ in range(LONGEST):
            if self._step(act(self._observation, touching)):
                return True
            touching, self._touched = self._touched, set()
        return False


def record(folder: Path, task: str) -> None:
    """Record a task with a shaken hand, and beside each episode what the policy is to learn."""
    benches, kept = list[ShakenBench](), list[list[tuple[Observation, Action]]]()

    def bench(name: str, size: int) -> ShakenBench:
        benches.append(ShakenBench(name, size))
        return benches[-1]

    def truth(*args: Any) -> Any:
        kept.append(benches[-1].seen)
        return true_of(*args)

    true_of = sim._truth
    with patch.object(sim, "Workbench", bench), patch.object(sim, "_truth", truth):
        sim.record_task(folder, task, range(2, 2 + 4 * EPISODES, 4), size=96)
    rows = [np.concatenate([np.stack(part) for part in zip(*seen, strict=True)], 1) for seen in kept]
    packed = {str(number): row.astype(np.float32) for number, row in enumerate(rows)}
    np.savez_compressed(folder / "seen.npz", **packed)  # pyrefly: ignore[bad-argument-type]


@dataclass(frozen=True)
class TaskData:
    """A recorded task: what is seen and done in each frame (F, 43), and the words over it, by arm."""

    task: str
    seen: NDArray[np.float32]
    episodes: NDArray[np.int64]
    words: dict[str, list[str]]
    steps: tuple[str, ...]
    """Names of the true steps of most recordings, in order."""


def label(folder: Path, task: str) -> dict[str, Any]:
    """Write down the words over each frame: the truth's, and those carried over from three episodes."""
    truth, source = read_truth(folder), Source.open(folder)
    true = [[*true_steps(episode, truth.fps)] for episode in truth.episodes]
    labelled = choose([source.episode(i) for i in source.indices], EXAMPLES)
    words = {"truth": [[n for n, a, b in steps for _ in range(a, b)] for steps in true]}
    with TemporaryDirectory(prefix="goalreel-labels-") as work:
        table, out = Path(work) / "labels.csv", Path(work) / "annotated"
        rows = [f"{i},{name},{a},{b}" for i in labelled for name, a, b in true[i]]
        table.write_text("\n".join(["episode,name,start_frame,end_frame", *rows]))
        others = sorted({*source.indices} - {*labelled})
        annotate(source, out, episodes=others, examples=table, examples_anyway=True)
        boards = dict(read_storyboards(out))
        for arm, in_doubt in (("carried", False), ("proposed", True)):
            words[arm] = [
                words["truth"][e.index] if e.index in labelled else over_frames(e, boards, in_doubt=in_doubt)
                for e in map(source.episode, source.indices)
            ]
    words["instruction"] = [[e.instruction] * len(e) for e in truth.episodes]
    counts = Counter(tuple(name for name, _, _ in steps) for steps in true)
    return {"words": words, "steps": counts.most_common(1)[0][0], "task": task}


def over_frames(episode: Episode, boards: Mapping[int, Storyboard], *, in_doubt: bool) -> list[str]:
    """List the words over each frame of an annotated episode; those in doubt are left out, or taken."""
    over = [episode.instruction] * len(episode)
    for step in boards[episode.index].steps if episode.index in boards else ():
        if step.segment and step.step.name and (in_doubt or not step.step.doubts):
            frames = range(step.segment.start, step.segment.end)
            over[frames.start : frames.stop] = [step.step.name] * len(frames)
    return over


def prepare(out: Path, task: str) -> TaskData:
    """Record and label a task where it is missing, and read it."""
    folder, labels = out / task, out / f"{task}.json"
    if not (folder / "seen.npz").exists():
        record(folder, task)
    if not labels.exists():
        write_bytes(labels, json.dumps(label(folder, task)).encode())
    found = json.loads(labels.read_text())
    with np.load(folder / "seen.npz") as arrays:
        rows = [arrays[str(i)] for i in range(EPISODES)]
    words = {arm: [*chain.from_iterable(by)] for arm, by in found["words"].items()}
    numbers = np.repeat(np.arange(EPISODES), [len(row) for row in rows])
    return TaskData(task, np.concatenate(rows), numbers, words, tuple(found["steps"]))


def bag(text: str, vocabulary: Sequence[str]) -> list[float]:
    """Say which known words a text has."""
    words = {*re.findall("[a-z]+", text)}
    return [float(word in words) for word in vocabulary]


class Words:
    """The policy's inputs: numbers about zero mean and unit variance, and words."""

    def __init__(self, data: Sequence[TaskData]) -> None:
        texts = {text for task in data for words in task.words.values() for text in words}
        self.vocabulary = sorted({word for text in texts for word in re.findall("[a-z]+", text)})
        seen = np.concatenate([task.seen[:, :39] for task in data])
        self.mean, self.std = seen.mean(0), seen.std(0) + 1e-3

    def inputs(self, seen: NDArray[Any], bags: NDArray[Any]) -> dict[str, Tensor]:
        """Give ACT's inputs of N frames."""
        numbers = ((seen - self.mean) / self.std).astype(np.float32)
        rest = np.concatenate([numbers[:, 4:], bags.astype(np.float32)], 1)
        return {STATE: torch.from_numpy(numbers[:, :4]), ENVIRONMENT: torch.from_numpy(rest)}

    def policy(self) -> ACTPolicy:
        """Make lerobot's ACT, untrained, without pictures."""
        told = 35 + len(self.vocabulary)
        config = ACTConfig(
            input_features={
                STATE: PolicyFeature(FeatureType.STATE, (4,)),
                ENVIRONMENT: PolicyFeature(FeatureType.ENV, (told,)),
            },
            output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
            chunk_size=CHUNK,
            n_action_steps=EXECUTED,
            dim_model=WIDTH,
            n_heads=4,
            dim_feedforward=2 * WIDTH,
            n_encoder_layers=1,
            n_decoder_layers=1,
            pre_norm=True,
            use_vae=False,
            dropout=0.0,
            pretrained_backbone_weights=None,
            device="cpu",
            push_to_hub=False,
        )
        return ACTPolicy(config)


def train(data: Sequence[TaskData], words: Words, arm: str, seed: int, steps: int) -> tuple[ACTPolicy, Scale]:
    """Train a policy on all frames of all tasks under the words of an arm."""
    torch.manual_seed(seed)
    policy = words.policy()
    seen = np.concatenate([task.seen for task in data])
    texts = [text for task in data for text in task.words[arm]]
    known = {text: bag(text, words.vocabulary) for text in {*texts}}
    inputs = words.inputs(seen[:, :39], np.array([known[text] for text in texts]))
    episodes = np.concatenate([number * EPISODES + task.episodes for number, task in enumerate(data)])
    ends = np.flatnonzero(np.diff(episodes, append=-1))
    last = ends[np.searchsorted(ends, np.arange(len(episodes)))][:, None]
    ahead = np.arange(len(episodes))[:, None] + np.arange(CHUNK)
    chunks = torch.from_numpy(seen[np.minimum(ahead, last), 39:])
    scale = Scale.of(chunks)
    inputs |= {"action": (chunks - scale.mean) / scale.std, "action_is_pad": torch.from_numpy(ahead > last)}
    optimizer = torch.optim.AdamW(policy.parameters(), RATE, weight_decay=1e-4)
    generator = torch.Generator().manual_seed(seed)
    policy.train()
    for step in range(1, steps + 1):
        now = min(1.0, step / 100) * max(0.01, 0.5 * (1 + math.cos(math.pi * step / steps)))
        for group in optimizer.param_groups:
            group["lr"] = RATE * now
        rows = torch.randint(len(seen), (BATCH,), generator=generator)
        loss, _ = policy.forward({name: values[rows] for name, values in inputs.items()})
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
    return policy.eval(), scale


class Actor:
    """The policy in one try; the words are those of the true step, which the contacts tell."""

    def __init__(self, words: Words, policy: ACTPolicy, scale: Scale, steps: Sequence[str]) -> None:
        self._words, self._policy, self._scale, self._steps = words, policy, scale, steps
        self._queue: list[Action] = []
        self._step = self._free = 0

    @torch.inference_mode()
    def __call__(self, seen: Observation, touching: set[str]) -> Action:
        """Choose the next action; a new step asks the policy anew."""
        self._free = 0 if touching else self._free + 1
        is_contact = self._step % 2 == 1
        is_over = self._free >= GAP if is_contact else bool(touching)
        if is_over and self._step + 1 < len(self._steps):
            self._step, self._queue = self._step + 1, []
        if not self._queue:
            told = np.array([bag(self._steps[self._step], self._words.vocabulary)])
            chunk = self._policy.predict_action_chunk(self._words.inputs(seen[None], told))[0, :EXECUTED]
            self._queue = list((chunk * self._scale.std + self._scale.mean).double().numpy())
        return self._queue.pop(0)


def run(data: Sequence[TaskData], words: Words, arm: str, seed: int, steps: int) -> dict[str, Any]:
    """Train one policy, and let it try the tasks from starts that were not recorded."""
    began = time.process_time()
    policy, scale = train(data, words, arm, seed, steps)
    solved: dict[str, list[int]] = {}
    for task in data:
        bench = ShakenBench(task.task, 16)
        bench.noise = 0.0
        told = (task.words["instruction"][0],) if arm == "instruction" else task.steps
        tries = range(1, 2 * POSITIONS, 2)
        solved[task.task] = [int(bench.attempt(t, Actor(words, policy, scale, told))) for t in tries]
    return {"arm": arm, "seed": seed, "solved": solved, "cpu_s": round(time.process_time() - began)}


def main(
    out: Annotated[Path, typer.Option(help="Everything is kept here.")] = Path("out/metaworld_labels"),
    split: Annotated[str, typer.Option(help="Tasks: choose or report.")] = "report",
    seeds: Annotated[int, typer.Option(min=1, help="Trainings.")] = 8,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a training.")] = 6000,
    arms: Annotated[str, typer.Option(help="Comma-separated.")] = ",".join(ARMS),
    report: Annotated[bool, typer.Option("--report", help="Tell of what is done, and do no more.")] = False,
) -> None:
    """Record, label, train and try, and print a line of JSON and a table."""
    chosen, path = split_tasks(split), out / f"{split}-{steps}.jsonl"
    torch.set_num_threads(1)
    with exclusive(out, out) if not report else nullcontext(), progress_bars() as progress:
        data = []
        for done, task in enumerate(chosen, 1):
            data.append(prepare(out, task))
            progress("tasks", done, len(chosen))
        words = Words(data)
        lines = read(path)
        known = {(line["arm"], line["seed"]) for line in lines}
        todo = [(a, s) for s in range(seeds) for a in arms.split(",") if (a, s) not in known]
        for done, (arm, seed) in enumerate([] if report else todo, 1):
            with path.open("a") as file:
                file.write(json.dumps(run(data, words, arm, seed, steps)) + "\n")
            progress("policies", done, len(todo))
    values: dict[str, Any] = {}
    by_arm = {arm: {x["seed"]: x["solved"] for x in read(path) if x["arm"] == arm} for arm in ARMS}
    for arm, found in by_arm.items():
        both = sorted(found.keys() & by_arm["truth"].keys())
        if both:
            own, true = ([counts(by[s], chosen) for s in both] for by in (found, by_arm["truth"]))
            values[arm] = measure_counts(np.array(own))
            if arm != "truth":
                values[f"{arm}_minus_truth"] = difference_of_counts(np.array(own), np.array(true))
    same = {
        arm: {
            t.task: np.mean([a == b for a, b in zip(t.words["truth"], t.words[arm], strict=True)])
            for t in data
        }
        for arm in ("carried", "proposed")
    }
    by_task = {
        arm: {t: float(np.mean([solved[t] for solved in found.values()])) for t in chosen}
        for arm, found in by_arm.items()
        if found
    }
    settings = {"split": split, "steps": steps, "seeds": {a: len(f) for a, f in by_arm.items()}}
    typer.echo(json_line(settings | {"by_task": by_task, "frames_as_true": same}, values))
    Console().print(values_table(split, values, ("proposed_minus_truth",)))


def counts(solved: dict[str, list[int]], chosen: Sequence[str]) -> list[tuple[int, int]]:
    return [(sum(solved[task]), len(solved[task])) for task in chosen]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    typer.run(main)
