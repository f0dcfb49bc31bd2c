"""The seed's way of running the loop against the batch driver: same checkpoints, tasks and seeds.

    python benchmarks/loop.py --json      # tiny checkpoints, on the CPU, or the GPU if there is one

The seed is InterleaveThinker's published demo, transcribed here. It runs one trajectory after the other and
one call at a time, and passes pictures through PNG files. Random weights give no sensible replies, so the
number of new tokens is fixed, and plans and verdicts are scripted after each real call: both ways do the same
work.

Keys of --json: `speedup` (storyboards an hour, ours over the seed's), `orchestration_share` (of our wall
time outside model calls), `storyboards_per_hour`, `model_seconds` (by kind of call), `device`, `threads`.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from common import ScriptedModels, argument_parser, parse, report
from support import tiny, tiny_pipelines

from goalreel.chat.conversation import Chat, Message
from goalreel.chat.hf import HfChat
from goalreel.drivers import Limits, run
from goalreel.editors.catalogue import Entry
from goalreel.editors.diffusers import DiffusersEditor
from goalreel.image import Image
from goalreel.loop import LoopArguments, attempt_seed
from goalreel.types import Candidate, Edit, Editor, Request, Stage, Task

MAX_ATTEMPTS = 3


def build(folder: Path, batch: int, tokens: int) -> tuple[HfChat, Editor]:
    """Build the tiny checkpoints, saved and loaded; every reply has exactly `tokens` new tokens."""
    chat = HfChat.load(tiny.tiny_vlm(folder / "vlm"), batch_size=batch, max_new_tokens=tokens)
    chat.model.generation_config.min_new_tokens = tokens
    path = tiny_pipelines.tiny_pipeline("Flux2KleinPipeline", folder / "editor")
    arguments = {"max_sequence_length": 64}
    entry = Entry(kinds=("edit",), steps=4, guidance={"guidance_scale": 1.0}, arguments=arguments)
    return chat, DiffusersEditor.load(path, entry=entry, batch_size=batch)


class TimedModels(ScriptedModels):
    """Real model calls, timed; their answers are replaced by the scripted plans and verdicts."""

    def __init__(self, chat: Chat, editor: Editor) -> None:
        self._chat, self._editor, self.edits = chat, editor, 0
        self.seconds: defaultdict[Stage, float] = defaultdict(float)  # wall time inside model calls

    def work(self, stage: Stage, requests: Sequence[Request]) -> None:
        """Let the chat model reply to every request."""
        with self._call(stage):
            self._chat.complete([(_message(request),) for request in requests])

    def edit(self, edits: Sequence[Edit]) -> list[Image]:
        """Draw with the real editor; a failed edit ends the benchmark."""
        with self._call("edit"):
            drawn = self._editor.edit(edits)
        self.edits += len(edits)
        pictures = [picture for picture in drawn if isinstance(picture, Image)]
        assert len(pictures) == len(edits), drawn
        return pictures

    @contextmanager
    def _call(self, stage: Stage) -> Iterator[None]:
        start = time.perf_counter()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.seconds[stage] += time.perf_counter() - start


def _message(request: Request) -> Message:
    images = (request.source, request.image) if isinstance(request, Candidate) else (request.image,)
    text = request.instruction if isinstance(request, Task) else request.prompt
    return Message("user", (*(image for image in images if image is not None), text))


def seeds_way(models: TimedModels, tasks: Sequence[Task], folder: Path) -> None:
    """Run the published loop: a trajectory at a time, a call at a time, pictures through files."""
    for task in tasks:
        source = folder / f"{task.id}.png"
        source.write_bytes(task.image.png() if task.image else b"")
        for index, step in enumerate(models.plan([task])[0].steps):
            prompt, target = str(step.prompt), source
            for attempt in range(MAX_ATTEMPTS):
                image = Image.decode(source.read_bytes())
                seed = attempt_seed(task.seed, index, attempt)
                edit = Edit(
                    task_id=task.id, step=index, attempt=attempt, image=image, prompt=prompt, seed=seed
                )
                target = folder / f"{task.id}_{index}_{attempt}.png"
                target.write_bytes(models.edit([edit])[0].png())
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


def our_way(models: TimedModels, tasks: Sequence[Task], batch: int) -> None:
    """Run the batch driver, without measuring backgrounds: the seed does not."""
    limits = Limits(batch, in_flight=2 * batch)
    loop: LoopArguments = {"max_attempts": MAX_ATTEMPTS, "background": "ignore"}
    boards = list(run(tasks, models, models, models, limits=limits, **loop))
    if len(boards) != len(tasks):
        raise SystemExit(f"{len(tasks)} tasks but {len(boards)} storyboards")


def measure(options: argparse.Namespace) -> dict[str, object]:
    """Run both ways once over the same tasks, after one warm-up call of each kind and size."""
    with tempfile.TemporaryDirectory() as folder:
        chat, editor = build(Path(folder), options.batch, options.tokens)
        rng = np.random.default_rng(0)
        pictures = [Image(rng.integers(0, 256, (96, 96, 3), np.uint8)) for _ in range(options.tasks)]
        words = "put the blocks in the bowls"
        tasks = [Task(id=f"task-{i}", instruction=words, image=p, seed=i) for i, p in enumerate(pictures)]
        for size in (1, options.batch):  # warm up
            our_way(TimedModels(chat, editor), tasks[:size], size)
        runs = {}
        for name in ("seed", "ours"):
            models = TimedModels(chat, editor)
            start = time.perf_counter()
            if name == "seed":
                seeds_way(models, tasks, Path(folder))
            else:
                our_way(models, tasks, options.batch)
            runs[name] = (time.perf_counter() - start, models)
    (seed_s, seed), (our_s, ours) = runs["seed"], runs["ours"]
    if seed.edits != ours.edits:
        raise SystemExit(f"not the same work: {seed.edits} edits against {ours.edits}")
    return {
        "speedup": seed_s / our_s,
        "orchestration_share": 1 - sum(ours.seconds.values()) / our_s,
        "storyboards_per_hour": 3600 * len(tasks) / our_s,
        "model_seconds": dict(ours.seconds),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--tasks", type=int, default=16, help="storyboards each way")
    parser.add_argument("--batch", type=int, default=16, help="the batch driver's limit")
    parser.add_argument("--tokens", type=int, default=48, help="new tokens a reply")
    options = parse(parser, argv, tasks=2, batch=2, tokens=2)
    report(measure(options), options.json)


if __name__ == "__main__":
    main()
