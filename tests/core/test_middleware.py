"""The one seam inside: three models as one function, and what is put around it."""

from collections.abc import Sequence

import numpy as np

from goalreel.drivers import run_trajectory
from goalreel.image import Image
from goalreel.loop import storyboard
from goalreel.middleware import AskAdapter, Middleware, ask_models, compose
from goalreel.types import (
    Answer,
    Ask,
    Plan,
    Request,
    Stage,
    Step,
    Task,
    Verdict,
    stage_of,
    task_id_of,
)

TASK = Task(id="t", instruction="put it there", image=Image(np.zeros((4, 4, 3), np.uint8)))


class Models:
    """A plan of one step, a picture, and a yes."""

    def plan(self, tasks):
        return [
            Plan(steps=(Step(name="a", instruction="it is there", prompt="put it there"),)) for _ in tasks
        ]

    def edit(self, edits):
        return [Image(255 - edit.image.pixels) for edit in edits]

    def judge(self, candidates):
        return [Verdict(success=True) for _ in candidates]


def noted(calls: list[str], name: str) -> Middleware:
    def wrap(ask: Ask) -> Ask:
        def answer(stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
            calls.append(f"{name} {stage}")
            return ask(stage, requests)

        return answer

    return wrap


def test_the_innermost_middleware_is_put_around_the_models_first():
    calls: list[str] = []
    ask = compose(ask_models(Models(), Models(), Models()), [noted(calls, "inner"), noted(calls, "outer")])
    assert AskAdapter(ask).judge([]) == []
    assert calls == ["outer judge", "inner judge"]


def test_a_trajectory_runs_to_its_end_by_one_function():
    seen: list[str] = []

    def ask(stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
        seen.append(stage)
        assert [stage_of(request) for request in requests] == [stage]
        assert [task_id_of(request) for request in requests] == ["t"]
        return ask_models(Models(), Models(), Models())(stage, requests)

    assert run_trajectory(storyboard(TASK, max_attempts=2), ask).complete
    assert seen == ["plan", "edit", "judge"]
