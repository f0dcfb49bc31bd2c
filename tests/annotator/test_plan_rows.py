"""`goalreel plan --prompts`: rows in, storyboards out; kills and bad rows."""

import json
from collections import Counter

import pytest
from support.cli import fails, invoke
from support.steady import Steady

from goalreel.annotator import plan_rows as module
from goalreel.annotator.plan_rows import PlanConfig, plan_rows, read_rows
from goalreel.drivers import Limits
from goalreel.errors import DatasetError, InputError
from goalreel.models.model_set import ModelSet, Provenance
from goalreel.models.presets import Preset
from goalreel.storyboard_io import load_storyboard
from goalreel.types import Failure


def preset(editor):
    return Preset(planner="hf:p", editor=editor, critic="hf:c", max_attempts=2)


@pytest.fixture
def models(monkeypatch):
    """Editor -> the models that stand for its preset; made when they are first asked for."""
    made = {}

    def load(chosen, roles):
        model = made.setdefault(chosen.editor, Steady(2, 128))
        return ModelSet(model, model, model, Provenance(chosen))

    monkeypatch.setattr(module, "load", load)
    return made


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"put {i} away"}) + "\n" for i in range(12)))
    return read_rows(path)[0]


def order(rows, editor, **more):
    return PlanConfig(rows, preset(editor), limits=Limits(4, 4), **more)


def boards(out):
    return {path.name: load_storyboard(path) for path in (out / "storyboards").iterdir()}


def test_every_row_gets_a_storyboard_and_a_second_run_asks_nothing(rows, models, tmp_path):
    out = tmp_path / "out"
    summary = plan_rows(order(rows, "a"), out)
    assert (summary.planned, summary.resumed, summary.failures) == (12, 0, {})
    assert {board.task.instruction for board in boards(out).values()} == {row.prompt for row in rows}
    assert "put 11 away" in (out / "index.html").read_text()
    report = json.loads((out / "report.json").read_text())
    assert report["end_checked"] == Counter(board.end_checked for board in boards(out).values())
    assert set(report["end_checked"]) == {"nobody", "model hf:c"}
    assert report["claims"]["what"]["checked"] == {"nobody": sum(report["steps"].values())}
    stored = (out / "storyboards" / rows[3].id / "row.json").read_text()
    assert json.loads(stored) == {"prompt": rows[3].prompt}
    assert not any((out / "answers").glob("*.json"))
    models.clear()
    assert plan_rows(order(rows, "a"), out).resumed == 12
    assert not models["a"].asked


def test_a_run_that_was_stopped_goes_on_where_it_was(rows, models, tmp_path):
    whole = plan_rows(order(rows, "a"), tmp_path / "whole")
    asked = models["a"].asked["plan"]
    models["a"] = first = Steady(2, 128, dies_at=6)
    with pytest.raises(KeyboardInterrupt):
        plan_rows(order(rows, "a"), tmp_path / "out")
    models["a"] = second = Steady(2, 128)
    summary = plan_rows(order(rows, "a"), tmp_path / "out")
    assert boards(tmp_path / "out") == boards(tmp_path / "whole")
    assert first.asked["plan"] + second.asked["plan"] == asked
    assert summary.planned + summary.resumed == whole.planned


def test_a_row_that_comes_to_nothing_costs_no_other_one(rows, models, tmp_path):
    class Refuses(Steady):
        def plan(self, tasks):
            refused = Failure(stage="plan", message="no plan")
            return [
                refused if t.instruction == "put 5 away" else a
                for t, a in zip(tasks, super().plan(tasks), strict=True)
            ]

    models["a"] = Refuses()
    summary = plan_rows(order(rows, "a"), tmp_path / "out")
    assert summary.failures == {rows[5].id: "no plan"}
    assert summary.planned == 11
    models["a"] = Steady()
    assert plan_rows(order(rows, "a"), tmp_path / "out").planned == 1
    with pytest.raises(DatasetError, match="made with other options"):
        plan_rows(order(rows, "a", seed=1), tmp_path / "out")


BAD = (
    ("not json", "it is no JSON object"),
    ("[" * 200_000, "it is no JSON object"),
    ("[1]", "it is no JSON object"),
    ('{"prompt": " "}', "it has no prompt"),
    ('{"prompt": "x", "id": "../x"}', "its id can be no folder's name"),
    ('{"prompt": "x", "image": "../p.png"}', "there is no image ../p.png"),
    ('{"prompt": "go", "id": "one"}', "the id one is that of line 1 too"),
)


def test_rows_are_read_in_both_forms_and_bad_lines_counted_and_left_out(tmp_path):
    path, picture = tmp_path / "rows.jsonl", tmp_path / "cup.png"
    picture.touch()
    theirs = '{"id": 7, "user_input": "draw a cup", "user_input_image": %s}'
    good = ['{"prompt": "go", "id": "one"}', theirs % "null", theirs.replace("7", "8") % '"cup.png"', ""]
    path.write_text("\n".join([*good, *(line for line, _ in BAD)]))
    rows, faults = read_rows(path, tmp_path)
    assert [(row.id, row.picture) for row in rows] == [("one", None), ("7", None), ("8", picture)]
    assert [row.prompt for row in rows] == ["go", "draw a cup", "draw a cup"]
    assert list(faults) == [5, 6, 7, 8, 9, 10, 11]
    for reason, (_, words) in zip(faults.values(), BAD, strict=True):
        assert words in reason
    with pytest.raises(InputError, match="holds no prompt"):
        path.write_text("[]")
        read_rows(path)


def test_what_does_not_fit_together_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "go"}\n')
    start = ("plan", "--out", tmp_path / "out")
    assert "leave FRAME and INSTRUCTION" in fails(*start, "--prompts", path, "open the drawer")
    assert "goes with --prompts" in fails(*start, "frame.png", "open the drawer", "--images", tmp_path)
    assert invoke(*start, "--prompts", path, "--batch-size", 0).exit_code == 2
