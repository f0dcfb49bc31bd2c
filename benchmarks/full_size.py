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
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from common import argument_parser, parse, report
from parts.full_models import free
from parts.full_parts import Benchmark

from goalreel.errors import UserError
from goalreel.files import write_bytes


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
