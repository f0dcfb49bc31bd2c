"""What full-size models cost on this GPU: memory, tokens, edits and verdicts a second, storyboards an hour.

    python benchmarks/full_size.py --json                  # on a CUDA GPU of 80 GB, in about 7 minutes
    python benchmarks/full_size.py --tiny --json           # tiny sizes, on the CPU too

The classes and shapes are those of preset `klein`: Qwen3-VL-8B as Planner and Critic, FLUX.2-klein 4B and 9B
as editors. The weights are random, as speed does not depend on them, and each reply has a fixed number of
tokens. goalreel's own agents, editor and batch driver ask the models. Each random reply is replaced by a plan
of two to four steps or by a verdict; two verdicts in five reject. The tokenizer is a small one, so prompts
have more tokens than with the published one.

`--out FILE` is written after every part, so that a run that is cut keeps what it has. A part that fails, or
for which `--minutes` are over, is named in `errors`, and the next one goes on. One model stands for Planner
and Critic where they are not in memory together, since both have one shape.

Keys of --json: `parts` (the results by part), `errors` (by part), `device`, `memory_gb` (of the device),
`versions`, `settings`, `seconds` (of the whole run). In a part:

- `load_s` (building a model on the device; nothing is read from a disk), `weights_gb`, `resident_gb` (before
  the part), `peak_gb` (at most during the part, with what was resident), `part_s`
- `tokens_per_s`, `items_per_s` and `call_s`, each by batch size; `reply_tokens`, `size` (width, height)
- `storyboards_per_hour` (loading left out; the reference's from its models' time alone, for as many edits a
  task as the batch driver had),
  `tasks`, `edits_per_task`, `calls`, `model_s` (by stage)
"""

import argparse
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from common import argument_parser, parse, report
from loop import seeds_way
from parts import full_models
from parts.full_agents import Plans, Stages, whole
from parts.full_models import Klein, Models, free

from goalreel.batch import Limits, run
from goalreel.errors import UserError
from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.middleware import AskAdapter, ask_models
from goalreel.types import Candidate, Edit, Planner, Task

MAX_ATTEMPTS = 3


def picture(seed: int, size: tuple[int, int]) -> Image:
    """Draw noise of (width, height)."""
    return Image(np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), np.uint8))


class Benchmark:
    """The parts of the measurement. Each returns its results; models stay in memory for the next."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.models = Models(options)
        self.quantized = False
        self.edits = 1.0
        """A task's, in the batch driver's last run."""
        self.frame = (80, 64) if options.tiny else (640, 480)
        self.tasks = [
            Task(id=f"t{i}", instruction=f"put block {i} in bowl {i}", image=picture(i, self.frame), seed=i)
            for i in range(options.tasks)
        ]

    @property
    def parts(self) -> dict[str, Callable[[], dict[str, Any]]]:
        """The parts by name, the most important first."""
        four, nine = "klein-4b", "klein-9b"
        return {
            "load_chat": self.load_chat,
            "plan": self.plan,
            "judge": self.judge,
            "load_4b": partial(self.load_editor, four),
            "edit_4b": partial(self.edit, four),
            "loop_4b": partial(self.loop, four),
            "reference_4b": partial(self.loop, four, "reference"),
            "fp8_load": self.quantize,
            "fp8_plan": self.plan,
            "fp8_judge": self.judge,
            "fp8_edit_4b": partial(self.edit, four),
            "fp8_loop_4b": partial(self.loop, four),
            "load_9b": partial(self.load_editor, nine),
            "edit_9b": partial(self.edit, nine),
            "loop_9b": partial(self.loop, nine),
            "reference_9b": partial(self.loop, nine, "reference"),
            "together_9b": partial(self.loop, nine, "together"),
        }

    def load_chat(self) -> dict[str, Any]:
        """Build the chat model."""
        start = time.perf_counter()
        model, _ = self.models.chat_model("chat")
        self.synchronize()
        load_s = time.perf_counter() - start
        attention = str(model.config._attn_implementation)
        return {"load_s": load_s, "weights_gb": full_models.weights_gb(model), "attention": attention}

    def load_editor(self, name: Klein) -> dict[str, Any]:
        """Build an editor; the chat model is built anew if it is quantised."""
        if self.quantized:
            self.quantized = False
            self.models.clear()
            self.models.chat_model("chat")
        start = time.perf_counter()
        editor = self.models.editor(name)
        self.synchronize()
        return {"load_s": time.perf_counter() - start, "weights_gb": full_models.weights_gb(editor)}

    def quantize(self) -> dict[str, Any]:
        """Quantise the weights that are in memory."""
        self.quantized = True
        start = time.perf_counter()
        self.models.quantize("klein-4b")
        self.synchronize()
        load_s = time.perf_counter() - start
        model, editor = self.models.chat_model("chat")[0], self.models.editor("klein-4b")
        chat_gb, editor_gb = full_models.weights_gb(model), full_models.weights_gb(editor)
        return {"load_s": load_s, "chat_gb": chat_gb, "editor_gb": editor_gb}

    def plan(self) -> dict[str, Any]:
        """Plan tasks, one and a batch, with half the tokens of a plan."""
        tasks = (self.tasks * self.options.batch)[: self.options.batch]

        def ask(tokens: int, number: int) -> object:
            return whole(self.models.planner(tokens).plan(tasks[:number]))

        return self._replies(ask, max(1, self.options.plan_tokens // 2))

    def judge(self) -> dict[str, Any]:
        """Judge candidates of the editor's size, one and a batch."""
        size = self.frame if self.options.tiny else (1184, 880)
        candidates = [
            Candidate(
                task_id=f"t{i}",
                step=0,
                source=picture(i, size),
                image=picture(i + 100, size),
                instruction=f"block {i} is in bowl {i}",
                prompt=f"put block {i} in bowl {i}",
            )
            for i in range(self.options.batch)
        ]
        tokens = self.options.verdict_tokens
        return self._replies(
            lambda tokens, n: whole(self.models.critic(tokens).judge(candidates[:n])), tokens
        )

    def _replies(self, ask: Callable[[int, int], object], tokens: int) -> dict[str, Any]:
        """Time `ask(tokens, number)`."""
        call_s = self._times(lambda n: ask(min(4, tokens), n), lambda n: ask(tokens, n))
        return {
            "call_s": call_s,
            "reply_tokens": tokens,
            "items_per_s": rates(call_s),
            "tokens_per_s": rates(call_s, tokens),
        }

    def edit(self, name: Klein) -> dict[str, Any]:
        """Edit pictures, one and a batch."""
        editor = self.models.editor(name)
        edits = [
            Edit(task_id=f"t{i}", step=0, attempt=0, image=picture(i, self.frame), prompt=f"edit {i}", seed=i)
            for i in range(self.options.batch)
        ]

        def ask(number: int) -> list[Image]:
            return whole(editor.edit(edits[:number]))

        call_s = self._times(ask, ask)
        return {"call_s": call_s, "items_per_s": rates(call_s), "size": ask(1)[0].size}

    def loop(
        self, name: Klein, way: Literal["plan first", "together", "reference"] = "plan first"
    ) -> dict[str, Any]:
        """Make storyboards: after all plans; with all three models in memory; or by the reference's loop."""
        together = way == "together"
        editor, critic = self.models.editor(name), self.models.critic(self.options.verdict_tokens)
        planner = self.models.planner(self.options.plan_tokens, "planner" if together else "chat")
        stages = Stages(AskAdapter(ask_models(planner, editor, critic)))
        tasks = self.tasks[:1] if way == "reference" else self.tasks
        start = time.perf_counter()
        if way == "reference":
            with tempfile.TemporaryDirectory() as folder:
                seeds_way(stages, tasks, Path(folder))
        else:
            plans: Planner = stages if together else Plans(stages, tasks, self.options.batch)
            limits = Limits(self.options.batch, 2 * self.options.batch)
            deque(run(tasks, plans, stages, stages, max_attempts=MAX_ATTEMPTS, limits=limits), maxlen=0)
        seconds, edits = (time.perf_counter() - start) / len(tasks), stages.requests["edit"] / len(tasks)
        if way == "reference":  # as much work as the batch driver had, and no time for files of noise
            attempt_s = (stages.seconds["edit"] + stages.seconds["judge"]) / stages.requests["edit"]
            seconds = stages.seconds["plan"] / len(tasks) + attempt_s * self.edits
        else:
            self.edits = edits
        return {
            "tasks": len(tasks),
            "edits_per_task": edits,
            "calls": sum(stages.calls.values()),
            "model_s": dict(stages.seconds),
            "storyboards_per_hour": 3600 / seconds,
        }

    def _times(self, warm: Callable[[int], object], ask: Callable[[int], object]) -> dict[str, float]:
        """Time one call of each batch size, after a call that warms up."""
        call_s = {}
        for number in (1, self.options.batch):
            warm(number)
            start = time.perf_counter()
            ask(number)
            call_s[str(number)] = time.perf_counter() - start
        return call_s

    def synchronize(self) -> None:
        """Wait until the device is done."""
        if self.models.device == "cuda":
            torch.cuda.synchronize()


def rates(call_s: Mapping[str, float], items: int = 1) -> dict[str, float]:
    """How many items a second are made in calls of each batch size."""
    return {number: int(number) * items / seconds for number, seconds in call_s.items()}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the parts one after the other, and write what there is after each."""
    start = time.perf_counter()
    benchmark = Benchmark(options)
    on_gpu = benchmark.models.device == "cuda"
    if not on_gpu and not options.tiny:
        raise SystemExit("full sizes need a CUDA GPU, and there is none here: use --tiny")
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "memory_gb": torch.cuda.mem_get_info()[1] / 1e9 if on_gpu else None,
        "versions": {name: version(name) for name in ("torch", "transformers", "diffusers", "torchao")},
        "settings": {
            "batch": options.batch,
            "tasks": options.tasks,
            "plan_tokens": options.plan_tokens,
            "verdict_tokens": options.verdict_tokens,
        },
        "parts": {},
        "errors": {},
    }
    for name, part in benchmark.parts.items():
        if options.parts and name not in options.parts.split(","):
            continue
        if time.perf_counter() - start > 60 * options.minutes:
            result["errors"][name] = "no time was left"
        else:
            try:
                result["parts"][name] = _measured(part, on_gpu)
            except (
                UserError,
                RuntimeError,
                ValueError,
                TypeError,
                LookupError,
                AttributeError,
                ImportError,
            ) as e:
                result["errors"][name] = f"{type(e).__name__}: {e}"
                free()
        result["seconds"] = time.perf_counter() - start
        print(name, json.dumps(result["parts"].get(name, result["errors"].get(name))), flush=True)
        if options.out:
            write_bytes(options.out, json.dumps(result, indent=1).encode())
    return result


def _measured(part: Callable[[], dict[str, Any]], on_gpu: bool) -> dict[str, Any]:
    """The part's results and its memory."""
    start, resident = time.perf_counter(), 0.0
    if on_gpu:
        resident = torch.cuda.memory_allocated() / 1e9
        torch.cuda.reset_peak_memory_stats()
    result = part()
    result["part_s"] = time.perf_counter() - start
    if on_gpu:
        result |= {"resident_gb": resident, "peak_gb": torch.cuda.max_memory_allocated() / 1e9}
    return result


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, on the CPU")
    parser.add_argument("--out", type=Path, help="a file for the results, written after every part")
    parser.add_argument("--parts", help="only these parts, with commas between them")
    parser.add_argument("--minutes", type=float, default=8, help="begin no part later than this")
    parser.add_argument("--batch", type=int, default=8, help="requests in one call")
    parser.add_argument("--tasks", type=int, default=8, help="storyboards of the batch driver")
    parser.add_argument("--plan-tokens", type=int, default=256, help="new tokens of a plan")
    parser.add_argument("--verdict-tokens", type=int, default=96, help="new tokens of a verdict")
    options = parse(parser, argv, tiny=True, batch=2, tasks=1, plan_tokens=4, verdict_tokens=4)
    report(measure(options), options.json)


if __name__ == "__main__":
    main()
