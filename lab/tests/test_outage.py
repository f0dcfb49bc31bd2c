"""What models do not answer is not scored as what they can do."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from goalreel.errors import UserError
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
