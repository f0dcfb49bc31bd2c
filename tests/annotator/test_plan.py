"""`goalreel plan` apart from its models: the folder it writes, and answers that survive a kill."""

from collections.abc import Sequence

import numpy as np
import pytest

import goalreel
from goalreel.drivers import run
from goalreel.image import Image
from goalreel.models.journal import Journal
from goalreel.models.model_set import ModelSet
from goalreel.types import Candidate, Edit, Failure, Plan, Step, Storyboard, Task, Verdict

TASK = Task(id="task", instruction="tidy up", image=Image(np.zeros((24, 32, 3), np.uint8)))


class Counting:
    """Deterministic models that count their calls; `dies_at` raises at that edit."""

    def __init__(self, dies_at: int | None = None):
        self.calls = {"plan": 0, "edit": 0, "judge": 0}
        self.dies_at = dies_at

    def plan(self, tasks: Sequence[Task]) -> list[Plan | Failure]:
        self.calls["plan"] += len(tasks)
        steps = tuple(Step(name=f"s{i}", instruction=f"i{i}", prompt=f"p{i}") for i in range(3))
        return [Plan(steps=steps) for _ in tasks]

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        if self.calls["edit"] == self.dies_at:
            raise KeyboardInterrupt
        self.calls["edit"] += len(edits)
        return [Image(np.random.default_rng(e.seed).integers(0, 256, (24, 32, 3), np.uint8)) for e in edits]

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict | Failure]:
        self.calls["judge"] += len(candidates)
        return [Verdict(success=int(c.image.pixels[0, 0, 0]) % 2 == 0) for c in candidates]


def board(model: Counting, journal: Journal | None = None) -> Storyboard:
    model_set = ModelSet(model, model, model)
    if journal:
        model_set = model_set.with_middleware(
            journal.middleware(dict.fromkeys(("plan", "edit", "judge"), "m"))
        )
    return next(run([TASK], model_set.planner, model_set.editor, model_set.critic, max_attempts=3))


def test_a_killed_run_asks_no_model_twice(tmp_path):
    whole = Counting()
    expected = board(whole)
    journal, first = Journal(tmp_path), Counting(dies_at=3)
    with pytest.raises(KeyboardInterrupt):
        board(first, journal)
    second = Counting()
    assert board(second, journal) == expected
    assert second.calls["plan"] == 0
    for kind in ("edit", "judge"):
        assert first.calls[kind] + second.calls[kind] == whole.calls[kind]


def test_a_damaged_answer_is_asked_again(tmp_path):
    journal = Journal(tmp_path)
    expected = board(Counting(), journal)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-9])
    again = Counting()
    assert board(again, journal) == expected
    assert again.calls["plan"] == 1


def test_failures_are_worth_a_retry(tmp_path):
    class Fails(Counting):
        def edit(self, edits):
            return [Failure(stage="edit", message="out of memory")] * len(edits)

    journal = Journal(tmp_path)
    assert {s.status for s in board(Fails(), journal).steps} == {"failed"}
    assert {s.status for s in board(Counting(), journal).steps} <= {"verified", "unverified"}


def test_other_models_other_answers(tmp_path):
    journal, model = Journal(tmp_path), Counting()
    for key in ("a", "b", "a"):
        ModelSet(model, model, model).with_middleware(journal.middleware({"plan": key})).planner.plan([TASK])
    assert model.calls["plan"] == 2


def test_a_storyboard_is_saved_and_loaded(tmp_path):
    made = board(Counting())
    goalreel.save_storyboard(made, tmp_path)
    assert goalreel.load_storyboard(tmp_path) == made
    assert (tmp_path / "images/first.png").is_file()
    assert (tmp_path / "images/step_01_attempt_1.png").is_file()


@pytest.mark.parametrize("name", ["../outside.png", "/etc/hostname", "images/none.png"])
def test_pictures_outside_the_folder_are_refused(name, tmp_path):
    goalreel.save_storyboard(board(Counting()), tmp_path / "in")
    (tmp_path / "outside.png").write_bytes(TASK.image.png())
    path = tmp_path / "in" / "storyboard.json"
    path.write_text(path.read_text().replace("images/first.png", name))
    with pytest.raises(ValueError, match="no picture"):
        goalreel.load_storyboard(tmp_path / "in")
