"""A planner that shares the GPU's memory makes all plans first and is freed; the result is the same."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.provenance import named

from goalreel import (
    Edit,
    Failure,
    Image,
    ModelSet,
    Options,
    Plan,
    Step,
    Task,
    Verdict,
    annotate,
    open_dataset,
)
from goalreel.annotator.plan import plan_task
from goalreel.datasets.episode import episode_id
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.models.model_set import Lazy
from goalreel.storyboard_io import load_storyboard
from goalreel.types import Candidate

NAMES = named(planner="p", editor="e", critic="c", max_attempts=2)


class Memory:
    """Three models that say when they are loaded, asked and freed."""

    def __init__(self, unplanned: str = "") -> None:
        self.events: list[str] = []
        self.unplanned = unplanned

    def model_set(self) -> ModelSet:
        def lazy(role: str) -> Lazy:
            return Lazy(lambda: self.loaded(role), lambda: self.events.append(f"free {role}"))

        return ModelSet(lazy("planner"), lazy("editor"), lazy("critic"), NAMES, planner_apart=True)

    def loaded(self, role: str) -> "Memory":
        self.events.append(f"load {role}")
        return self

    def note(self, event: str) -> None:
        if self.events[-1] != event:
            self.events.append(event)

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        self.note("plan")
        plan = Plan(steps=(Step(name="a", instruction="i", prompt="p"),))
        return [Failure(stage="plan", message="no") if t.id == self.unplanned else plan for t in tasks]

    def edit(self, edits: Sequence[Edit]) -> list[Image]:
        self.note("edit")
        return [Image(np.random.default_rng(e.seed).integers(0, 256, (48, 48, 3), np.uint8)) for e in edits]

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        return [Verdict(success=True) for _ in candidates]


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr("goalreel.models.model_set.has_gpu", lambda: True)


FREED = ["load planner", "plan", "free planner", "load editor", "load critic", "edit"]


def test_all_episodes_are_planned_before_another_model_is_loaded(sharded_dataset, tmp_path, monkeypatch):
    def run(out: Path) -> list[str]:
        memory, source = Memory(), open_dataset(sharded_dataset)
        heard: list[tuple[str, int, int]] = []
        annotate(
            source,
            out,
            memory.model_set(),
            Options(),
            batch_size=2,
            progress=lambda *progress: heard.append(progress),
        )
        planned = [done for stage, done, _ in heard if stage == "plan"]
        assert planned == sorted(planned)
        assert not planned or planned[-1] == len(source.indices)
        return memory.events

    together = run(tmp_path / "together")
    assert together[:3] == ["load planner", "load editor", "load critic"]
    monkeypatch.setattr("goalreel.models.model_set.has_gpu", lambda: True)
    assert run(tmp_path / "apart") == FREED
    pages = [sorted((tmp_path / out / "data").rglob("*.parquet")) for out in ("together", "apart")]
    assert [p.read_bytes() for p in pages[0]] == [p.read_bytes() for p in pages[1]]


@pytest.mark.usefixtures("gpu")
def test_a_plan_that_failed_does_not_load_the_planner_again(sharded_dataset, tmp_path):
    memory = Memory(unplanned=episode_id(1))
    source = open_dataset(sharded_dataset)
    summary = annotate(source, tmp_path / "out", memory.model_set(), Options())
    assert memory.events == FREED
    assert list(summary.failures) == [1]


@pytest.mark.usefixtures("gpu")
def test_a_single_task_frees_the_planner_too(tmp_path):
    memory = Memory()
    task = Task(id="t", instruction="go", image=Image(np.zeros((48, 48, 3), np.uint8)))
    seen: list[str] = []
    board = plan_task(
        task,
        tmp_path / "out",
        memory.model_set(),
        observe=lambda request, answer: seen.append(type(answer).__name__),
    )
    assert memory.events == FREED
    assert seen == ["Plan", "Image", "Verdict"]
    assert load_storyboard(tmp_path / "out") == board


@pytest.mark.parametrize(
    ("planner", "critic", "editor", "apart"),
    [
        ("hf:a/p", "hf:a/c", "flux2-klein-4b", True),
        ("hf:a/p?quantize=fp8", "hf:a/p", "flux2-klein-4b", True),
        ("hf:a/p", "hf:a/p", "flux2-klein-4b", False),
        ("openai:p@http://h/v1", "hf:a/c", "flux2-klein-4b", False),
        ("hf:a/p", "openai:c@http://h/v1", "server:http://h", False),
        ("hf:a/p", "openai:c@http://h/v1", "flux2-klein-4b", True),
    ],
)
def test_a_planner_is_freed_where_it_is_in_memory_with_others(planner, critic, editor, apart):
    model_set = load(presets.load("klein", planner=planner, critic=critic, editor=editor), roles=())
    assert model_set.planner_apart == apart
