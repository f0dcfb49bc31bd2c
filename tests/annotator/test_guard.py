"""Annotating with models of one's own: answers survive a kill, and a bug costs one episode."""

import logging
import threading
from collections import Counter
from collections.abc import Collection, Sequence
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
from goalreel.models.model_set import Provenance
from goalreel.types import Stage

NAMES = named("steady", "steady", "steady")


class Models:
    """Planner, editor and critic that count what they are asked; the edit number `dies_at` is a Ctrl-C."""

    def __init__(self, dies_at: int | None = None, odd: str = ""):
        self.asked: Counter[str] = Counter()
        self.dies_at, self.odd = dies_at, odd

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        self.asked["plan"] += len(tasks)
        steps = tuple(Step(name=f"s{i}", instruction=f"i{i}", prompt=f"p{i}") for i in range(2))
        return [Plan(steps=steps) for _ in tasks]

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        if self.dies_at is not None and self.asked["edit"] >= self.dies_at:
            raise KeyboardInterrupt
        if any(edit.task_id == self.odd for edit in edits):
            raise IndexError("list index out of range")
        self.asked["edit"] += len(edits)
        return [Image(np.random.default_rng(e.seed).integers(0, 256, (48, 64, 3), np.uint8)) for e in edits]

    def judge(self, candidates: Sequence) -> list[Verdict | Failure]:
        self.asked["judge"] += len(candidates)
        return [Verdict(success=int(c.image.pixels[0, 0, 0]) % 2 == 0) for c in candidates]


def work(
    root: Path, out: Path, models: Models, names: Provenance | None = NAMES, remote: Collection[Stage] = ()
):
    model_set = ModelSet(models, models, models, names, frozenset(remote))
    return annotate(open_dataset(root), out, model_set, Options(), batch_size=2, in_flight=4)


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_a_killed_run_asks_no_model_twice(video_dataset, tmp_path):
    whole, first, second = Models(), Models(dies_at=5), Models()
    work(video_dataset, tmp_path / "whole", whole)
    with pytest.raises(KeyboardInterrupt):
        work(video_dataset, tmp_path / "out", first)
    assert list((tmp_path / "out/.cache/huggingface/goalreel/answers").glob("*.json"))
    work(video_dataset, tmp_path / "out", second)
    for stage in ("plan", "edit", "judge"):
        assert first.asked[stage] + second.asked[stage] == whole.asked[stage], stage
    assert contents(tmp_path / "out") == contents(tmp_path / "whole"), "and leaves no answer behind"
    assert not (tmp_path / "out/.cache/huggingface/goalreel/answers").exists()


def test_remote_models_are_asked_aside_and_give_the_same_bytes(video_dataset, tmp_path):
    class Aside(Models):
        def edit(self, edits):
            threads.add(threading.current_thread())
            return super().edit(edits)

    threads: set[threading.Thread] = set()
    work(video_dataset, tmp_path / "whole", Models())
    work(video_dataset, tmp_path / "out", Aside(), remote=["plan", "edit", "judge"])
    assert threads
    assert threading.current_thread() not in threads
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_what_decides_the_result_is_kept_with_it(video_dataset, tmp_path):
    import json

    work(video_dataset, tmp_path / "out", Models(), None)
    settings = json.loads((tmp_path / "out/meta/goalreel/settings.json").read_text())["settings"]
    assert settings["editor"] == f"{Models.__module__}.Models"
    assert settings["preset"] is None


def test_a_bug_costs_one_episode_and_shows_itself(video_dataset, tmp_path, caplog):
    models = Models(odd="episode_000001")
    with caplog.at_level(logging.ERROR):
        summary = work(video_dataset, tmp_path / "out", models)
    assert summary.annotated == 2
    assert summary.failures == {1: "a bug in goalreel: IndexError: list index out of range"}
    traced = [r for r in caplog.records if r.exc_info]
    assert len(traced) == 1, "once, though later requests of the episode are not asked any more"
    assert "list index out of range" in caplog.text
    assert work(video_dataset, tmp_path / "out", Models()).annotated == 1, "it is not taken for done"


def test_an_episode_that_cannot_be_aligned_for_a_bug(video_dataset, tmp_path, monkeypatch):
    from goalreel.annotator import job as module

    def align(board, episode, camera, boundaries=()):
        if episode.index == 2:
            raise ZeroDivisionError("division by zero")
        return real(board, episode, camera, boundaries)

    real = module.align
    monkeypatch.setattr(module, "align", align)
    summary = work(video_dataset, tmp_path / "out", Models())
    assert summary.failures == {2: "a bug in goalreel: ZeroDivisionError: division by zero"}
    assert summary.annotated == 2


def test_answers_of_the_wrong_kind_are_a_bug(video_dataset, tmp_path):
    class Short(Models):
        def judge(self, candidates):
            return [] if any(c.task_id == "episode_000000" for c in candidates) else super().judge(candidates)

    summary = work(video_dataset, tmp_path / "out", Short())
    assert summary.failures == {0: "a bug in goalreel: ValueError: 1 requests but 0 answers"}


def test_models_go_on_while_an_episode_is_aligned(video_dataset, tmp_path, monkeypatch):
    from goalreel.annotator import job as module

    planned = threading.Event()

    class Last(Models):
        def plan(self, tasks):
            if any(task.id == "episode_000002" for task in tasks):
                planned.set()
            return super().plan(tasks)

    def align(board, episode, camera, boundaries=()):
        assert planned.wait(60), "the last episode was not begun"
        return real(board, episode, camera, boundaries)

    real = module.align
    monkeypatch.setattr(module, "align", align)
    model_set = ModelSet(Last(), Last(), Last(), NAMES)
    summary = annotate(open_dataset(video_dataset), tmp_path / "out", model_set, batch_size=1, in_flight=1)
    assert (summary.annotated, summary.failures) == (3, {})
