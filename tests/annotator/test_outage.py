"""Models that fail: their episodes are not done, an outage ends the run, and all can be tried again."""

import threading
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from goalreel.annotator.guards import (
    REFUSED_IN_A_ROW,
    CircuitBreaker,
    ModelUnavailableError,
    Retry,
    spoiled,
)
from goalreel.annotator.summary import Summary
from goalreel.datasets.records import FOLDER, LOCAL, Records
from goalreel.errors import BackendError
from goalreel.types import Attempt, Segment, Storyboard, StoryboardStep

NAMES = named(planner="steady", editor="steady", critic="steady", max_attempts=2)


class Server:
    """Planner, editor and critic of one step; the roles in `out` cannot be called, nor edits of `odd`."""

    def __init__(
        self,
        out: str = "",
        odd: str = "",
        edits: int = 1000,
        accepts: int = 256,
        refuses: Collection[str] = (),
    ):
        self.asked: Counter[str] = Counter()
        self.refuses = refuses
        self.out, self.odd, self.edits, self.accepts = out, odd, edits, accepts

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        if self.out == "planner":
            raise BackendError("cannot reach the planner")
        self.asked["plan"] += len(tasks)
        return [Plan(steps=(Step(name="a", instruction="i", prompt="p"),)) for _ in tasks]

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        return [self._edit(edit) for edit in edits]

    def _edit(self, edit: Edit) -> Image | Failure:
        if edit.task_id in self.refuses:
            return Failure(stage="edit", message="the server answered 400: no", refused=True)
        if edit.task_id == self.odd or self.asked["edit"] >= self.edits:
            return Failure(stage="edit", message="no reply from the editor")
        self.asked["edit"] += 1
        pixels = np.random.default_rng(edit.seed).integers(0, 256, (48, 48, 3), np.uint8)
        return Image(pixels)

    def judge(self, candidates: Sequence) -> list[Verdict | Failure]:
        return [Verdict(success=int(c.image.pixels[0, 0, 0]) < self.accepts) for c in candidates]


def work(
    root: Path,
    out: Path,
    model: Server,
    size: int = 1,
    retry: Retry | None = None,
    episodes: Sequence[int] | None = None,
) -> Summary:
    source, how = open_dataset(root), {"batch_size": size, "in_flight": size}
    model_set = ModelSet(model, model, model, NAMES)
    return annotate(source, out, model_set, Options(), retry=retry, episodes=episodes, **how)


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


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
    work(sharded_dataset, tmp_path / "out", Server(), episodes=[0])
    server = Server()
    second = work(sharded_dataset, tmp_path / "out", server)
    assert (second.annotated, second.resumed, second.clean) == (1, 3, True)
    assert server.asked == {"edit": 1}, "its plan was kept"
    assert contents(tmp_path / "out") == contents(whole)


def test_episodes_that_a_server_refuses_do_not_keep_the_others_waiting(sharded_dataset, tmp_path):
    server = Server(refuses=[f"episode_{i:06d}" for i in range(3)])
    for found in ((1, 0), (0, 1)):
        summary = work(sharded_dataset, tmp_path / "out", server)
        assert (summary.annotated, summary.resumed) == found
        assert (sorted(summary.failures), summary.not_begun, summary.stopped) == ([0, 1, 2], 0, None)
    assert summary.failures[1] == "step 1: the editor failed: the server answered 400: no"


def test_a_server_that_refuses_everything_is_out_in_the_end():
    edits = [
        Edit(task_id=f"e{i}", step=0, attempt=0, image=None, prompt="p", seed=0)
        for i in range(REFUSED_IN_A_ROW)
    ]
    server = Server(refuses=[edit.task_id for edit in edits])
    watched = ModelSet(server, server, server, NAMES).with_middleware(CircuitBreaker(()))
    for edit in edits[:-1]:
        watched.editor.edit([edit])
    with pytest.raises(ModelUnavailableError, match="the server answered 400"):
        watched.editor.edit([edits[-1]])


def test_calls_that_one_hiccup_costs_are_no_outage():
    size, together = 8, threading.Barrier(8)

    class Restarting(Server):
        def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
            together.wait(60)
            return super().plan(tasks)

    server = Restarting(out="planner")
    watched = ModelSet(server, server, server, NAMES).with_middleware(CircuitBreaker(()))

    def wave(number: int) -> list[BaseException | None]:
        tasks = [[Task(id=f"{number} {i}", instruction="x")] for i in range(size)]
        with ThreadPoolExecutor(size) as pool:
            return [
                future.exception() for future in [pool.submit(watched.planner.plan, asked) for asked in tasks]
            ]

    for number in range(2):
        assert {type(error) for error in wave(number)} == {BackendError}
    server.out = ""
    assert wave(2) == [None] * size
    server.out = "planner"
    for number in range(2):
        assert {type(error) for error in wave(number)} == {BackendError}
    assert ModelUnavailableError in {type(error) for error in wave(2)}


def test_a_dead_planner_stops_the_run_before_anything_is_written(sharded_dataset, whole, tmp_path):
    summary = work(sharded_dataset, tmp_path / "out", Server(out="planner"))
    assert (summary.annotated, len(summary.failures), summary.not_begun) == (0, 3, 1)
    assert summary.stopped is not None
    assert summary.stopped.startswith("stopped: the planner answered none of its last 3 calls (cannot reach")
    assert not (tmp_path / "out/meta/info.json").exists()
    assert work(sharded_dataset, tmp_path / "out", Server()).clean
    assert contents(tmp_path / "out") == contents(whole)


def test_an_editor_that_dies_leaves_what_was_finished(sharded_dataset, whole, tmp_path):
    first = work(sharded_dataset, tmp_path / "out", Server(edits=1))
    assert (first.annotated, sorted(first.failures), first.not_begun) == (1, [1, 2, 3], 0)
    assert "the editor answered none of its last" in (first.stopped or "")
    assert "under way when the run stopped" in first.failures[3]
    assert (tmp_path / "out/meta/info.json").is_file(), "what there is can be looked at"
    assert list((tmp_path / "out" / LOCAL / "answers").iterdir()), "and what was planned is not asked again"
    assert work(sharded_dataset, tmp_path / "out", Server()).clean
    assert contents(tmp_path / "out") == contents(whole)


def test_a_call_that_is_answered_in_part_is_no_outage(sharded_dataset, tmp_path):
    summary = work(sharded_dataset, tmp_path / "out", Server(odd="episode_000001"), size=4)
    assert (summary.annotated, summary.stopped) == (3, None)


def test_recorded_episodes_are_tried_again_when_asked(sharded_dataset, whole, tmp_path):
    out = tmp_path / "out"
    first = work(sharded_dataset, out, Server(accepts=0))
    assert (first.annotated, first.unverified, first.clean) == (4, 4, True)
    assert work(sharded_dataset, out, Server()).resumed == 4
    assert work(sharded_dataset, out, Server(), retry="failed").resumed == 4, "rejected is not failed"
    again = work(sharded_dataset, out, Server(), retry="unverified")
    assert (again.annotated, again.unverified, again.resumed) == (4, 0, 0)
    assert contents(out) == contents(whole), "no picture of the first run is left"


def test_a_second_try_never_takes_an_accepted_picture_away(sharded_dataset, tmp_path):
    out = tmp_path / "out"
    work(sharded_dataset, out, Server())
    records = Records(out / FOLDER, source="")
    step, middle = records.outline(0).steps[0].model_copy(update={"alignment": None}), 6
    good = step.model_copy(update={"segment": Segment(start=0, end=middle)})
    bad = step.model_copy(update={"segment": Segment(start=middle, end=12), "status": "unverified"})
    bad = bad.model_copy(update={"attempts": _rejected(step.attempts)})
    board = records.outline(0).model_copy(update={"steps": (good, bad)})
    records.path(0).write_text(board.model_dump_json(indent=1, context={"put_image": lambda i: i.frame}))
    before = records.path(0).read_bytes()
    summary = work(sharded_dataset, out, Server(accepts=0), retry="unverified")
    assert (summary.annotated, summary.resumed) == (0, 4)
    assert records.path(0).read_bytes() == before


def _rejected(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    return tuple(a.model_copy(update={"verdict": Verdict(success=False)}) for a in attempts)


def test_what_a_rule_cannot_do_is_final():
    lost = Attempt(prompt="p", seed=0, failure=Failure(stage="edit", message="all frames tried"))
    step = StoryboardStep(step=Step(name="a", instruction="i", prompt="p"), attempts=(lost,), status="failed")
    board = Storyboard(task=Task(id="t", instruction="x"), steps=(step,))
    assert spoiled(board, {"editor"}) is None
    assert spoiled(board, {"planner"}) == "step 1: the editor failed: all frames tried"
    assert not Summary(Path("out"), "front", steps=Counter(failed=1)).clean, "though it is recorded"
    assert not Summary(Path("out"), "front", dataset_steps=Counter(failed=1)).clean, "by an earlier run"
