"""The parts of `benchmarks/full_size.py`: building models, planning, judging, editing, whole storyboards."""

import argparse
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from loop import seeds_way
from parts import full_models
from parts.full_agents import Plans, Stages, whole
from parts.full_models import Klein, Models

from goalreel.drivers import Limits, run
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
