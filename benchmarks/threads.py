"""What a second thread is worth to a model on a CPU, on an idle machine and on one where others work as well.

    python benchmarks/threads.py
    python benchmarks/threads.py --batch 8 --busy 2

One JSON line: for each model the median seconds of a call with `one` thread and with `all` that torch takes
by itself, while the machine is left alone (`idle`) and while `--busy` other processes compute; and `ratio`,
those with one thread over those with all. They take turns with the same call. The nano models are asked for a
plan, a picture and a verdict of each of `--batch` scenes; language models of random weights, named by their
millions of parameters, continue a text.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

os.environ.pop("OMP_NUM_THREADS", None)  # which would stay, whatever the size of a model
os.environ.setdefault("MUJOCO_GL", "egl")

import torch
import typer
from transformers import Qwen3Config, Qwen3ForCausalLM

from goalreel import torch_threads
from goalreel.models.load import load
from goalreel.tabletop.bench.edit import EditCase
from goalreel.tabletop.bench.scenes import walk
from goalreel.tabletop.bench.words import prompt_of
from goalreel.tabletop.sim.sentences import state_of
from goalreel.tabletop.sim.splits import seeds
from goalreel.types import Candidate, Edit, Task

LANGUAGE = {(512, 8): 20, (1024, 12): 12, (1536, 24): 6}
"""The new tokens of a language model, by width and layers."""
PROMPT = 300

type Call = Callable[[], object]


def language(width: int, layers: int, new: int) -> tuple[float, Call]:
    config = Qwen3Config(
        vocab_size=2000,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 128,
        head_dim=64,
    )
    model = Qwen3ForCausalLM(config).eval()
    ids = torch.randint(0, 2000, (1, PROMPT), generator=torch.Generator().manual_seed(0))

    @torch.inference_mode()
    def call() -> None:
        with torch_threads.threads_for([model]):
            model.generate(ids, min_new_tokens=new, max_new_tokens=new, do_sample=False, pad_token_id=0)

    return sum(p.numel() for p in model.parameters()) / 1e6, call


def asked(seed: int) -> tuple[Task, Edit, Candidate]:
    """An episode's task, and the edit and the verdict of its first sub-goal."""
    scenes = walk(seed)
    case, prompt = EditCase(scenes, 0), prompt_of(scenes, 0, "explicit")
    edit = case.edit(prompt)
    candidate = Candidate(
        task_id=edit.task_id,
        step=0,
        source=case.source,
        image=case.target,
        instruction=state_of(case.goal),
        prompt=prompt,
    )
    return scenes.task, edit, candidate


def nano(batch: int) -> dict[str, Call]:
    trio = load("nano")
    tasks, edits, candidates = zip(*map(asked, seeds("validation", batch)), strict=True)
    return {
        "nano planner": lambda: trio.planner.plan(tasks),
        "nano editor": lambda: trio.editor.edit(edits),
        "nano critic": lambda: trio.critic.judge(candidates),
    }


@contextmanager
def others(count: int) -> Iterator[None]:
    """Processes that compute all the time."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def timed(call: Call, rounds: int) -> dict[str, float]:
    """Median seconds with one thread, with all, and their ratio."""
    took: dict[str, list[float]] = {"one": [], "all": []}
    for _ in range(rounds + 1):
        for threads_taken, seconds in took.items():
            torch_threads.SMALL = sys.maxsize if threads_taken == "one" else 0
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
    one, many = (statistics.median(seconds[1:]) for seconds in took.values())  # the first warms up
    return {"one": round(one, 3), "all": round(many, 3), "ratio": round(one / many, 2)}


def main(
    batch: Annotated[int, typer.Option(min=1, help="Scenes a call of the nano models.")] = 1,
    busy: Annotated[int, typer.Option(min=1, help="Other processes.")] = 1,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
) -> None:
    calls = nano(batch)
    for (width, layers), new in LANGUAGE.items():
        size, call = language(width, layers, new)
        calls[f"{size:.0f} M parameters"] = call
    found = {}
    for name, call in calls.items():
        found[name] = {"idle": timed(call, rounds)}
        with others(busy):
            found[name]["busy"] = timed(call, rounds)
    print(json.dumps({"threads": torch.get_num_threads(), "batch": batch, "busy": busy, **found}))


if __name__ == "__main__":
    typer.run(main)
