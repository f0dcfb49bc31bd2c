"""What models do not answer is not scored as what they can do."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from goalreel.annotator.guards import CircuitBreaker, rule_roles
from goalreel.errors import BackendError, UserError
from goalreel.image import Image
from goalreel.models.model_set import ModelSet
from goalreel.storyboard_io import load_storyboard
from goalreel.types import Candidate, Edit, Failure, Plan, Step, Task, Verdict
from goalreel_lab.published.answers import FOLDER, generate
from goalreel_lab.published.benchmark import Sample

PICTURE = Image(np.full((8, 8, 3), 90, np.uint8))
SILENT = Failure(stage="edit", message="ConnectError: connection refused")


class Models:
    """A plan of one step, what `answers` gives for an edit, and a yes."""

    def __init__(self, answers: Callable[[Edit], Image | Failure] = lambda edit: PICTURE) -> None:
        self.answers, self.asked = answers, set[str]()

    def plan(self, tasks: Sequence[Task]) -> Sequence[Plan | Failure]:
        return [Plan(steps=(Step(name="it", instruction="it is there", prompt="put it there"),))] * len(tasks)

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        self.asked |= {edit.task_id for edit in edits}
        return [self.answers(edit) for edit in edits]

    def judge(self, candidates: Sequence[Candidate]) -> Sequence[Verdict | Failure]:
        return [Verdict(success=True)] * len(candidates)

    @property
    def model_set(self) -> ModelSet:
        return ModelSet(self, self, self)


def edit(number: int) -> Edit:
    return Edit(task_id=f"t{number}", step=0, attempt=0, image=PICTURE, prompt="put it there", seed=0)


def strict(models: Models) -> ModelSet:
    return models.model_set.with_middleware(CircuitBreaker(rule_roles(models.model_set), strict=True))


def test_a_model_that_answers_nobody_or_cannot_be_called_ends_the_evaluation(monkeypatch):
    garbage = Failure(stage="edit", message="no picture in the reply", reply="Sure!")
    editor = strict(Models(lambda edit: garbage)).editor
    assert [editor.edit([edit(i)]) for i in range(9)] == [[garbage]] * 9, "an answer, and the model's own"
    editor = strict(Models(lambda edit: SILENT)).editor
    assert [editor.edit([edit(i)]) for i in (0, 1)] == [[SILENT]] * 2
    with pytest.raises(UserError, match="the editor answered none of its last 3 calls"):
        editor.edit([edit(2)])

    def gone(self: Models, tasks: Sequence[Task]) -> Sequence[Plan]:
        raise BackendError("no server at http://x")

    monkeypatch.setattr(Models, "plan", gone)
    with pytest.raises(UserError, match="no server at http://x: finished work is kept; run the same"):
        strict(Models()).planner.plan([Task(id="t", instruction="put it there")])


def test_answers_that_an_outage_cut_short_are_made_again(tmp_path):
    samples = [Sample(id=f"s{i}", group="g", instruction="put it there") for i in range(6)]
    refused = SILENT.model_copy(update={"refused": True})
    dead = Models(lambda edit: refused if edit.task_id == "s0" else SILENT)
    say = {"seed": 0, "concurrency": 1, "progress": lambda stage, done, total: None}
    with pytest.raises(UserError, match="the editor answered none"):
        generate(samples, dead.model_set, tmp_path, **say)
    assert len(list((tmp_path / FOLDER).iterdir())) < 6
    alive = Models()
    generate(samples, alive.model_set, tmp_path, **say)
    boards = [load_storyboard(tmp_path / FOLDER / s.id) for s in samples]
    assert [board.complete for board in boards] == [False, *[True] * 5], "the first was refused, an answer"
    assert alive.asked == {s.id for s in samples[1:]}
    generate(samples, dead.model_set, tmp_path, **say)
