"""Models that fail, die or meet a bug: no episode costs another one, and nothing is asked twice."""

import json
import logging
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGKILL

import numpy as np
import pytest
from support.provenance import named
from support.steady import Steady, contents

from goalreel import Edit, Failure, Image, ModelSet, Plan, Step, Task, Verdict, annotate
from goalreel.annotator import job
from goalreel.annotator.annotate import build_records
from goalreel.annotator.guards import (
    GIVEN_UP,
    REFUSED_IN_A_ROW,
    CircuitBreaker,
    ModelUnavailableError,
    spoiled,
)
from goalreel.annotator.job import Summary
from goalreel.annotator.plan import plan_task
from goalreel.datasets.records import FOLDER, LOCAL, Records, Shard
from goalreel.errors import BackendError
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.models.model_set import Lazy
from goalreel.types import Attempt, Segment, Storyboard, StoryboardStep

NAMES = named("steady", "steady", "steady", max_attempts=2)


class Server(Steady):
    """Steady, but for the planner if it is `out`, for edits of `odd` and `refuses`, and after so many."""

    def __init__(self, out=False, odd="", edits=1000, refuses: Collection[str] = (), **more) -> None:
        super().__init__(**more)
        self.out, self.odd, self.edits, self.refuses = out, odd, edits, refuses

    def plan(self, tasks):
        if self.out:
            raise BackendError("cannot reach the planner")
        return super().plan(tasks)

    def draw(self, edit):
        if edit.task_id in self.refuses:
            return Failure(stage="edit", message="the server answered 400: no", refused=True)
        if edit.task_id == self.odd or self.asked["edit"] >= self.edits:
            return Failure(stage="edit", message="no reply from the editor")
        return super().draw(edit)


def work(root: Path, out: Path, model: Steady, size: int = 1, remote=(), **run) -> Summary:
    model_set = ModelSet(model, model, model, NAMES, frozenset(remote))
    return annotate(root, out, model_set, batch_size=size, in_flight=2 * size if size > 1 else 1, **run)


@pytest.fixture(scope="module")
def whole(sharded_dataset, tmp_path_factory) -> Path:
    """Annotated by a server that never failed."""
    out = tmp_path_factory.mktemp("whole") / "out"
    assert work(sharded_dataset, out, Server()).clean
    return out


def test_an_episode_whose_model_failed_is_tried_again(sharded_dataset, whole, tmp_path):
    first = work(sharded_dataset, tmp_path / "out", Server(odd="episode_000001"))
    assert first.failures == {1: "step 1: the editor failed: no reply from the editor"}
    assert (first.annotated, first.not_begun, first.stopped) == (3, 0, None), "one odd episode is no outage"
    assert not first.clean
    part = work(sharded_dataset, tmp_path / "part", Server(odd="episode_000001"), size=4)
    assert (part.annotated, part.stopped) == (3, None), "nor is a call that is answered in part"
    work(sharded_dataset, tmp_path / "out", Server(), episodes=[0])
    server = Server()
    second = work(sharded_dataset, tmp_path / "out", server)
    assert (second.annotated, second.resumed, second.clean) == (1, 3, True)
    assert server.asked == {"edit": 1, "judge": 1}, "its plan was kept"
    assert contents(tmp_path / "out") == contents(whole)


def test_episodes_that_a_server_refuses_do_not_keep_the_others_waiting(sharded_dataset, tmp_path):
    server = Server(refuses=[f"episode_{i:06d}" for i in range(3)])
    for found in ((1, 0), (0, 1)):
        summary = work(sharded_dataset, tmp_path / "out", server)
        assert (summary.annotated, summary.resumed) == found
        assert (sorted(summary.failures), summary.not_begun, summary.stopped) == ([0, 1, 2], 0, None)
    assert summary.failures[1] == "step 1: the editor failed: the server answered 400: no"


def test_a_server_that_refuses_everything_is_out_in_the_end():
    ids = [f"e{i}" for i in range(REFUSED_IN_A_ROW)]
    edits = [Edit(task_id=i, step=0, attempt=0, image=None, prompt="p", seed=0) for i in ids]
    server = Server(refuses=ids)
    watched = ModelSet(server, server, server, NAMES).with_middleware(CircuitBreaker(()))
    for edit in edits[:-1]:
        watched.editor.edit([edit])
    with pytest.raises(ModelUnavailableError, match="the server answered 400"):
        watched.editor.edit([edits[-1]])
    server = Server(odd=ids[0])
    watched = ModelSet(server, server, server, NAMES).with_middleware(CircuitBreaker(()))
    for edit in edits[1:]:
        watched.editor.edit([edits[0], edit])  # a call that is answered in part is no outage


class Formless(Steady):
    """Its critic never gives the form, about all or about one episode."""

    def __init__(self, odd: str = "") -> None:
        super().__init__(steps=8)
        self.odd = odd

    def judge(self, candidates):
        lost = Failure(stage="judge", message="no usable answer in 3 replies", reply="{}")
        answers = zip(candidates, super().judge(candidates), strict=True)
        return [lost if self.odd in c.task_id else answer for c, answer in answers]


@pytest.mark.parametrize("episodes", [[0], [0, 1], [0, 1, 2, 3]])
def test_a_critic_that_never_gives_the_form_stops_the_run(episodes, sharded_dataset, tmp_path):
    server = Formless()
    summary = work(sharded_dataset, tmp_path / "out", server, episodes=episodes)
    assert summary.stopped.startswith("stopped: the critic answered none of its last")
    assert server.asked["judge"] <= 2 * GIVEN_UP + 1


def test_a_model_is_given_up_about_one_odd_episode_alone(sharded_dataset, tmp_path, caplog):
    server = Formless(odd="episode_000001")
    summary = work(sharded_dataset, tmp_path / "out", server)
    assert (summary.annotated, list(summary.failures), summary.stopped) == (3, [1], None)
    assert server.asked["judge"] == 3 * 8 + GIVEN_UP + summary.examination.asked
    assert f"the critic gave no usable answer {GIVEN_UP} times in a row" in caplog.text


def test_calls_that_one_hiccup_costs_are_no_outage():
    size, together = 8, threading.Barrier(8)

    class Restarting(Server):
        def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
            together.wait(60)
            return super().plan(tasks)

    server = Restarting(out=True)
    watched = ModelSet(server, server, server, NAMES).with_middleware(CircuitBreaker(()))

    def wave(number: int) -> set[type | None]:
        tasks = [[Task(id=f"{number} {i}", instruction="x")] for i in range(size)]
        with ThreadPoolExecutor(size) as pool:
            errors = [f.exception() for f in [pool.submit(watched.planner.plan, asked) for asked in tasks]]
        return {error and type(error) for error in errors}

    assert wave(0) == wave(1) == {BackendError}
    server.out = False
    assert wave(2) == {None}
    server.out = True
    assert wave(3) == wave(4) == {BackendError}
    assert ModelUnavailableError in wave(5)


@pytest.mark.parametrize(
    ("server", "counts", "said"),
    [
        ({"out": True}, (0, 3, 1), "the planner answered none of its last 3 calls (cannot reach"),
        ({"edits": 1}, (1, 3, 0), "the editor answered none of its last"),
    ],
    ids=["planner", "editor"],
)
def test_a_dead_model_stops_the_run_and_the_same_call_goes_on(
    server, counts, said, sharded_dataset, whole, tmp_path
):
    out = tmp_path / "out"
    first = work(sharded_dataset, out, Server(**server))
    assert (first.annotated, len(first.failures), first.not_begun) == counts
    assert first.stopped.startswith(f"stopped: {said}")
    assert (out / "meta/info.json").is_file() == bool(counts[0]), "what there is can be looked at"
    if counts[0]:
        assert "under way when the run stopped" in first.failures[3]
        assert list((out / LOCAL / "answers").iterdir()), "what was planned is not asked again"
    assert work(sharded_dataset, out, Server()).clean
    assert contents(out) == contents(whole)


def test_recorded_episodes_are_tried_again_when_asked(sharded_dataset, whole, tmp_path):
    out = tmp_path / "out"
    first = work(sharded_dataset, out, Server(accepts=0))
    assert (first.annotated, first.incomplete, first.clean) == (4, 4, True)
    assert work(sharded_dataset, out, Server()).resumed == 4
    assert work(sharded_dataset, out, Server(), retry="failed").resumed == 4, "rejected is not failed"
    again = work(sharded_dataset, out, Server(), retry="rejected")
    assert (again.annotated, again.incomplete, again.resumed) == (4, 0, 0)
    assert contents(out) == contents(whole), "no picture of the first run is left"


def test_a_second_try_never_takes_an_accepted_picture_away(sharded_dataset, whole, tmp_path):
    out = tmp_path / "out"
    work(sharded_dataset, out, Server())
    records = Records(out / FOLDER, source="")
    step, middle = records.outline(0).steps[0].model_copy(update={"alignment": None}), 6
    refused = tuple(a.model_copy(update={"verdict": Verdict(success=False)}) for a in step.attempts)
    good = step.model_copy(update={"segment": Segment(start=0, end=middle)})
    bad = {"segment": Segment(start=middle, end=12), "status": "rejected", "attempts": refused}
    board = records.outline(0).model_copy(update={"steps": (good, step.model_copy(update=bad))})
    records.path(0).write_text(board.model_dump_json(indent=1, context={"put_image": lambda i: i.frame}))
    before = records.path(0).read_bytes()
    summary = work(sharded_dataset, out, Server(accepts=0), retry="rejected")
    assert (summary.annotated, summary.resumed) == (0, 4)
    assert records.path(0).read_bytes() == before


def test_what_a_rule_cannot_do_is_final():
    lost = Attempt(prompt="p", seed=0, failure=Failure(stage="edit", message="all frames tried"))
    step = StoryboardStep(step=Step(name="a", instruction="i", prompt="p"), attempts=(lost,), status="failed")
    board = Storyboard(task=Task(id="t", instruction="x"), steps=(step,))
    assert spoiled(board, {"editor"}) is None
    assert spoiled(board, {"planner"}) == "step 1: the editor failed: all frames tried"
    assert not Summary(Path("out"), "front", steps=Counter(failed=1)).clean, "though it is recorded"
    assert not Summary(Path("out"), "front", dataset_steps=Counter(failed=1)).clean, "by an earlier run"


@pytest.mark.parametrize("shards", [False, True], ids=["whole", "shards"])
def test_a_killed_run_asks_no_model_twice(shards, sharded_dataset, tmp_path):
    whole, first, others = Steady(2, 128), Steady(2, 128, dies_at=3), [Steady(2, 128)]
    work(sharded_dataset, tmp_path / "whole", whole, size=2)
    one, two = (Shard(1, 2), Shard(2, 2)) if shards else (None, None)
    with pytest.raises(KeyboardInterrupt):
        work(sharded_dataset, tmp_path / "out", first, size=2, shard=one)
    assert list((tmp_path / "out" / LOCAL / "answers").glob("*.json"))
    work(sharded_dataset, tmp_path / "out", others[0], size=2, shard=one)
    if shards:
        others.append(Steady(2, 128))
        work(sharded_dataset, tmp_path / "out", others[1], size=2, shard=two)
        assert build_records(tmp_path / "out") == []
    assert sum((model.asked for model in others), first.asked) == whole.asked
    assert contents(tmp_path / "out") == contents(tmp_path / "whole"), "and leaves no answer behind"
    assert not (tmp_path / "out" / LOCAL / "answers").exists()


@pytest.mark.process
@pytest.mark.long
def test_an_episode_that_kills_its_process_is_given_up_and_the_others_are_done(sharded_dataset, tmp_path):
    command = [sys.executable, "-m", "support.forked_runs", "deaths", sharded_dataset, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1]) == [-SIGKILL] * 3 + [1], done.stderr
    assert "episode 1 is not annotated: the process died 3 times with it" in done.stderr
    assert Records(tmp_path / "out" / FOLDER).recorded() == {0, 2, 3}
    assert not list((tmp_path / "out" / LOCAL).glob("starts*")), "another run tries it again"


class Buggy(Steady):
    """Its editor meets a bug in episode 1, or its critic gives no answer about it."""

    def __init__(self, stage: str) -> None:
        super().__init__()
        self.stage = stage

    def edit(self, edits):
        if self.stage == "edit" and any(edit.task_id == "episode_000001" for edit in edits):
            raise IndexError("list index out of range")
        return super().edit(edits)

    def judge(self, candidates):
        short = self.stage == "judge" and any(c.task_id == "episode_000001" for c in candidates)
        return [] if short else super().judge(candidates)


@pytest.mark.parametrize(
    ("stage", "bug"),
    [
        ("edit", "IndexError: list index out of range"),
        ("judge", "ValueError: 1 requests but 0 answers"),
        ("align", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_bug_costs_one_episode_and_shows_itself(stage, bug, video_dataset, tmp_path, monkeypatch, caplog):
    align = job.align

    def align_with_bug(board, episode, *more):
        return align(board, episode, *more) if episode.index != 1 else 1 / 0

    if stage == "align":
        monkeypatch.setattr(job, "align", align_with_bug)
    with caplog.at_level(logging.ERROR):
        summary = work(video_dataset, tmp_path / "out", Buggy(stage), size=2)
    assert summary.annotated == 2
    assert summary.failures == {1: f"a bug in goalreel: {bug}"}
    assert len([r for r in caplog.records if r.exc_info]) == 1, "later requests of it are not asked"
    monkeypatch.undo()
    assert work(video_dataset, tmp_path / "out", Steady()).annotated == 1, "it is not taken for done"


class Memory(Steady):
    """Three models that say when they are loaded, asked and freed."""

    def __init__(self, unplanned: str = "") -> None:
        super().__init__()
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

    def plan(self, tasks):
        self.note("plan")
        lost = Failure(stage="plan", message="no")
        plans = zip(tasks, super().plan(tasks), strict=True)
        return [lost if task.id == self.unplanned else plan for task, plan in plans]

    def edit(self, edits):
        self.note("edit")
        return super().edit(edits)


FREED = ["load planner", "plan", "free planner", "load editor", "load critic", "edit"]


def test_all_episodes_are_planned_before_another_model_is_loaded(sharded_dataset, tmp_path, monkeypatch):
    def run(out: Path, unplanned: str = "") -> tuple[Memory, Summary]:
        memory, heard = Memory(unplanned), list[tuple[str, int, int]]()
        models = memory.model_set()
        summary = annotate(
            sharded_dataset, out, models, batch_size=2, progress=lambda *news: heard.append(news)
        )
        planned = [done for stage, done, _ in heard if stage == "plan"]
        assert planned == ([1, 2, 3, 4] if memory.events == FREED else [])
        return memory, summary

    together, _ = run(tmp_path / "together")
    assert together.events[:3] == ["load planner", "load editor", "load critic"]
    monkeypatch.setattr("goalreel.models.model_set.has_gpu", lambda: True)
    assert run(tmp_path / "apart")[0].events == FREED
    pages = [sorted((tmp_path / out / "data").rglob("*.parquet")) for out in ("together", "apart")]
    assert [p.read_bytes() for p in pages[0]] == [p.read_bytes() for p in pages[1]]
    memory, summary = run(tmp_path / "one", unplanned="episode_000001")
    assert memory.events == FREED, "a plan that failed does not load the planner again"
    assert list(summary.failures) == [1]


def test_a_single_task_frees_the_planner_too(monkeypatch):
    monkeypatch.setattr("goalreel.models.model_set.has_gpu", lambda: True)
    memory = Memory()
    task = Task(id="t", instruction="go", image=Image(np.zeros((48, 48, 3), np.uint8)))
    plan_task(task, None, memory.model_set())
    assert memory.events == FREED


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
