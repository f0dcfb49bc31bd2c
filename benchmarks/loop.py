"""The seed's way of running the loop against the batch driver: same checkpoints, tasks and seeds, one run.

    python benchmarks/loop.py --json             # tiny checkpoints, on the CPU, or the GPU if there is one
    python benchmarks/loop.py --full --json      # sizes of FLUX.2-klein-4B and Qwen3-VL-8B, on a CUDA GPU

The seed (InterleaveThinker's published demo, transcribed here) runs one trajectory after the other and one
call at a time, and passes pictures through PNG files. Random weights say nothing sensible, so the number of
new tokens is fixed and plans and verdicts are scripted after each real call: both ways do the same work.

Keys of --json: `speedup` (storyboards an hour, ours over the seed's), `orchestration_share` (of our wall
time outside model calls), `seed_orchestration_share`, `storyboards_per_hour`, `seed_storyboards_per_hour`,
`calls`, `seed_calls`, `edits`, `model_seconds` and `seed_model_seconds` (by kind of call: where the time
goes), `gpu_utilisation` and `seed_gpu_utilisation` (mean, 0-1; null without a GPU), `device`, `threads`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from goalreel.batch import Limits, run
from goalreel.image import Image
from goalreel.loop import attempt_seed
from goalreel.planners.chat.conversation import Chat, Message
from goalreel.types import Candidate, Edit, Editor, Plan, Step, Task, Verdict

sys.path.insert(0, str(Path(__file__).parent))  # the model builders beside this file
import loop_models

MAX_ATTEMPTS = 3


@dataclass
class Scripted:
    """Real model calls, timed; what they answer is replaced by a plan and verdicts both ways share."""

    chat: Chat
    editor: Editor
    seconds: Counter[str] = field(default_factory=Counter)
    """Wall time inside model calls, by kind."""
    calls: int = 0
    edits: int = 0

    @contextmanager
    def _call(self, kind: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.seconds[kind] += time.perf_counter() - start
        self.calls += 1

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        with self._call("plan"):
            self.chat.complete([(_say(t.instruction, t.image),) for t in tasks])
        return [_plan(t.id) for t in tasks]

    def edit(self, edits: Sequence[Edit]) -> list[Image]:
        with self._call("edit"):
            pictures = self.editor.edit(edits)
        self.edits += len(edits)
        return [p if isinstance(p, Image) else _stop(p.message) for p in pictures]

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        with self._call("judge"):
            self.chat.complete([(_say(c.prompt, c.source, c.image),) for c in candidates])
        return [_verdict(c) for c in candidates]


def _say(text: str, *images: Image | None) -> Message:
    return Message("user", (*(i for i in images if i is not None), text))


def _plan(task: str) -> Plan:
    count = 2 + zlib.crc32(task.encode()) % 3
    return Plan(
        steps=tuple(Step(name=f"step {i}", instruction=f"{task} {i}", prompt=f"do {i}") for i in range(count))
    )


def _verdict(candidate: Candidate) -> Verdict:
    """About two in five are rejected; a rejection lengthens the prompt, so that a retry is judged anew."""
    said = zlib.crc32(f"{candidate.task_id} {candidate.instruction} {candidate.prompt}".encode())
    return Verdict(success=said % 5 > 1, refined_prompt=f"{candidate.prompt}, carefully")


def _stop(message: str) -> Image:
    raise SystemExit(f"an edit failed: {message}")


def seeds_way(models: Scripted, tasks: Sequence[Task], folder: Path) -> None:
    """The published loop: a trajectory at a time, a call at a time, pictures through files."""
    for task in tasks:
        source = folder / f"{task.id}.png"
        source.write_bytes(task.image.png() if task.image else b"")
        for index, step in enumerate(models.plan([task])[0].steps):
            prompt = step.prompt
            for attempt in range(MAX_ATTEMPTS):
                image = Image.decode(source.read_bytes())
                seed = attempt_seed(task.seed, index, attempt)
                edit = Edit(
                    task_id=task.id, step=index, attempt=attempt, image=image, prompt=prompt, seed=seed
                )
                made = models.edit([edit])[0]
                target = folder / f"{task.id}_{index}_{attempt}.png"
                target.write_bytes(made.png())
                candidate = Candidate(
                    task_id=task.id,
                    step=index,
                    source=Image.decode(source.read_bytes()),
                    image=Image.decode(target.read_bytes()),
                    instruction=step.instruction,
                    prompt=prompt,
                )
                verdict = models.judge([candidate])[0]
                if verdict.success:
                    break
                prompt = verdict.refined_prompt or prompt
            source = target


def our_way(models: Scripted, tasks: Sequence[Task], batch: int) -> None:
    """The batch driver."""
    limits = Limits(batch, in_flight=2 * batch)
    boards = list(run(tasks, models, models, models, max_attempts=MAX_ATTEMPTS, limits=limits))
    if len(boards) != len(tasks):
        raise SystemExit(f"{len(tasks)} tasks but {len(boards)} storyboards")


@dataclass
class Gpu:
    """Mean utilisation while a block runs, from nvidia-smi twice a second."""

    readings: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float | None:
        return float(np.mean(self.readings)) / 100 if self.readings else None

    @contextmanager
    def watch(self) -> Iterator[None]:
        done = threading.Event()
        query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]

        def sample() -> None:
            while not done.wait(0.5):
                said = subprocess.run(query, capture_output=True, text=True).stdout.split()
                self.readings += [float(said[0])] if said else []

        thread = threading.Thread(target=sample) if torch.cuda.is_available() else None
        if thread:
            thread.start()
        yield
        done.set()
        if thread:
            thread.join()


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    """Both ways once over the same tasks, after one warm-up call of each kind and size."""
    with tempfile.TemporaryDirectory() as folder:
        chat, editor, side = loop_models.build(
            Path(folder), arguments.full, arguments.batch, arguments.tokens
        )
        rng = np.random.default_rng(0)
        tasks = [
            Task(
                id=f"task-{i}",
                instruction="put the blocks in the bowls",
                image=Image(rng.integers(0, 256, (side, side, 3), np.uint8)),
                seed=i,
            )
            for i in range(arguments.tasks)
        ]
        for size in (1, arguments.batch):
            our_way(Scripted(chat, editor), tasks[:size], size)
        found = {}
        for name in ("seed", "ours"):
            models, gpu = Scripted(chat, editor), Gpu()
            start = time.perf_counter()
            with gpu.watch():
                if name == "seed":
                    seeds_way(models, tasks, Path(folder))
                else:
                    our_way(models, tasks, arguments.batch)
            found[name] = (time.perf_counter() - start, models, gpu.mean)
    (seed_s, seeds, seed_gpu), (our_s, ours, our_gpu) = found["seed"], found["ours"]
    if seeds.edits != ours.edits:
        raise SystemExit(f"not the same work: {seeds.edits} edits against {ours.edits}")
    return {
        "speedup": seed_s / our_s,
        "orchestration_share": 1 - ours.seconds.total() / our_s,
        "seed_orchestration_share": 1 - seeds.seconds.total() / seed_s,
        "storyboards_per_hour": 3600 * len(tasks) / our_s,
        "seed_storyboards_per_hour": 3600 * len(tasks) / seed_s,
        "calls": ours.calls,
        "seed_calls": seeds.calls,
        "edits": ours.edits,
        "model_seconds": dict(ours.seconds),
        "seed_model_seconds": dict(seeds.seconds),
        "gpu_utilisation": our_gpu,
        "seed_gpu_utilisation": seed_gpu,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=16, help="storyboards each way")
    parser.add_argument("--batch", type=int, default=16, help="the batch driver's limit")
    parser.add_argument("--tokens", type=int, default=48, help="new tokens a reply")
    parser.add_argument("--full", action="store_true", help="full-size architectures; needs a GPU")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    arguments = parser.parse_args()
    if arguments.full and not torch.cuda.is_available():
        raise SystemExit("--full needs a CUDA GPU: there is none here")
    result = measure(arguments)
    for key, value in result.items():
        print(f"{key:28} {value:.3f}" if isinstance(value, float) else f"{key:28} {value}")
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
