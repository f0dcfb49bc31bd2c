"""The live view of `goalreel plan`: a plan that takes minutes is shown as it is written."""

import pytest
from support.wait import until

from goalreel.cli.console import PlanDrafts, live_view, progress_bars
from goalreel.progress import begin_reply
from goalreel.types import Failure, Plan, Step, Task

DRAFT = '<think>I could say {"execution_plan": [{"step_name": "draft", "instruction": "x"}]}.</think>'
STEPS = (
    '<answer>{"execution_plan": [{"step_number": 1, "step_name": "open the drawer", "instruction": "x"}',
    ", {'step_number': 2, 'step_name': 'lift Ann's cup', 'instruction': 'x'}, {\"step_na",
)


@pytest.fixture
def shown(capsys, monkeypatch):
    """Waits until the terminal has shown some words; returns all that it has shown."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes stderr for a terminal
    monkeypatch.setenv("COLUMNS", "120")
    seen = ""

    def wait(words: str) -> str:
        def has_words() -> bool:
            nonlocal seen
            seen += capsys.readouterr().err
            return words in seen

        until(has_words)
        return seen

    return wait


def test_a_plan_is_shown_as_it_is_written(shown):
    with live_view() as observe:
        write = begin_reply()
        assert write is not None
        write(DRAFT)
        assert "draft" not in shown(f"planning: 0 steps so far, {len(DRAFT)} characters")
        for piece in STEPS:
            write(piece)
        text = shown(f"planning: 2 steps so far, {len(DRAFT + ''.join(STEPS))} characters")
        assert "open the drawer" in text
        assert "lift Ann's cup" in text
        write = begin_reply()
        assert write is not None
        write(STEPS[0])
        shown(f"planning: 1 step so far, {len(STEPS[0])} characters")
        observe(
            Task(id="t", instruction="tidy up"),
            Plan(steps=(Step(name="the plan's", instruction="x", prompt="y"),)),
        )
        shown("the plan's")
        assert begin_reply() is None, "a critic's reply is not shown"
    assert begin_reply() is None


def test_an_unfinished_plan_leaves_no_step(shown):
    with live_view() as observe:
        write = begin_reply()
        assert write is not None
        write(STEPS[0])
        shown("1 step so far")
        observe(Task(id="t", instruction="tidy up"), Failure(stage="plan", message="it was cut off"))
        assert "open the drawer" not in shown("it was cut off").rpartition("so far")[2]


def test_a_bar_says_which_step_of_a_plan_is_being_written(shown):
    """The longest plan of a batch, until all are whole; a critic's reply is no plan."""
    with progress_bars(plans=True) as progress:
        progress("annotate", 0, 4)
        first, second = begin_reply(), begin_reply()
        first("".join(STEPS))
        second(STEPS[0])
        shown("2. lift Ann's cup")
        first("p_name': 'last', 'x': 1}]}</answer>")
        shown("1. open the drawer")
        watch = begin_reply()
        watch('{"segments": [{"name": "reach for it", "last": 4}, {"na')
        shown("1. reach for it")
    assert begin_reply() is None
    plans = PlanDrafts()
    plans.begin()(STEPS[0])
    assert str(plans) == "1. open the drawer"
    plans.begin()('{"previous_step_success": tr')
    assert str(plans) == ""


def test_nothing_listens_where_nobody_looks(monkeypatch):
    """stderr is no terminal; then it is one, and nobody asked for plans."""
    for options in ({"replies": True, "plans": True}, {"replies": False, "plans": False}):
        with live_view(replies=options["replies"]):
            assert begin_reply() is None
        with progress_bars(plans=options["plans"]):
            assert begin_reply() is None
        monkeypatch.setenv("FORCE_COLOR", "1")
