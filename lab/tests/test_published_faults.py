"""What goes wrong in `goalreel eval ueval`: judges, folders, data, terminals; and what is not asked twice."""

import json

import pytest
from support import published as bench
from support.chat_server import ChatServer, Reply, error, said

from goalreel.errors import DatasetError, InputError, UserError
from goalreel.files import exclusive
from goalreel.storyboard_io import save_storyboard
from goalreel.types import Failure, Storyboard, Task
from goalreel_lab.published.benchmark import AnswerPart, BenchAnswer, JudgeFacts, Sample
from goalreel_lab.published.judging import DEAF, Asker, build_judge
from goalreel_lab.published.run import PublishedConfig, run_benchmark
from goalreel_lab.published.ueval import UEval

ANSWER = BenchAnswer((AnswerPart("a text", None),))
YES = said('{"criteria_met": true}')


def sample(name, *criteria):
    return Sample(name, "space", name, row={"prompt": name, "text_rubrics": criteria, "image_rubrics": []})


def asker(server, folder, *, concurrency=1):
    name = f"openai:j@{server.url}"
    return Asker(build_judge(name, JudgeFacts("j", 0.0, 9), concurrency=concurrency), folder)


def asks(samples):
    return [(s.id, inquiry) for s in samples for inquiry in UEval().inquiries(s, ANSWER, {})]


@pytest.mark.parametrize("reply", [Reply(body=b"<html>"), said(""), error(400, "policy")])
def test_a_judge_that_never_replies_ends_the_run(tmp_path, reply):
    many = [sample(str(n), "c") for n in range(2 * DEAF)]
    with ChatServer(lambda _: reply) as judge, pytest.raises(UserError, match="the judge does not answer"):
        asker(judge, tmp_path).ask(asks(many))
    assert DEAF <= len(judge.requests) <= len(many)


def test_a_judge_that_answered_before_may_refuse_and_a_reply_is_not_asked_for_again(tmp_path):
    """Else a run whose last open questions are all refused could never be finished."""
    first, rest = sample("good", "c"), [sample(f"bad {n}", "c") for n in range(DEAF)]
    with ChatServer(lambda r: error(400, "policy") if "bad" in r.text else YES) as judge:
        assert asker(judge, tmp_path).ask(asks([first])) == [True]
        assert asker(judge, tmp_path).ask(asks([first, *rest])) == [True, *[None] * DEAF]
    with ChatServer(lambda _: said("") if len(judge.requests) == 1 else YES) as judge:
        for _ in range(2):
            assert asker(judge, tmp_path / "again").ask(asks([sample("1", "c")])) == [True]
        assert len(judge.requests) == 2


def finished(tmp_path):
    """An `--out` whose three answers have no plan, and its data."""
    data, out = bench.ueval_data(tmp_path / "data"), tmp_path / "out"
    for one in UEval().samples(data):
        board = Storyboard(
            task=Task(id=one.id, instruction="?"), failure=Failure(stage="plan", message="no plan")
        )
        save_storyboard(board, out / "samples" / one.id)
    return PublishedConfig(UEval(), data, out, only="judge")


def settle(order, **changes):
    """Write the settings that a run with these models would have left."""
    _write(order, {"benchmark": "ueval", "task": None, "data": "?"})
    with pytest.raises(InputError, match="another data") as caught:
        run_benchmark(order, None)
    found = str(caught.value).split("(?, now ")[1].split(")")[0]
    models = {"editor": "flux2-klein-9b", "max_attempts": 5, "background": "ignore"}
    _write(order, {"benchmark": "ueval", "task": None, "data": found, **models, **changes})


def _write(order, settings):
    (order.out / "settings.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("text", ["[]", "{", '"x"'])
def test_a_damaged_or_a_busy_folder_is_one_line(tmp_path, text):
    order = finished(tmp_path)
    with exclusive(order.out / "answers", order.out), pytest.raises(DatasetError, match="another goalreel"):
        run_benchmark(order, None)
    settle(order)
    (order.out / "samples/3/storyboard.json").write_text(text)
    with pytest.raises((DatasetError, InputError), match=r"samples/3"):
        run_benchmark(order, None)
    (order.out / "settings.json").write_text(text)
    with pytest.raises(DatasetError, match=r"settings.json: damaged"):
        run_benchmark(order, None)


@pytest.mark.parametrize(
    ("settings", "judge", "expected"),
    [
        ({}, "gemini-2.5-pro", []),
        ({}, "gemini-2.5-pro?temperature=0", ["The judge was asked at temperature 0, not 1."]),
        ({"max_attempts": 3}, "gemini-2.5-pro", ["The paper's T is 5; here it is 3."]),
        ({}, "gpt-4o", ["Another judge: the paper's was gemini-2.5-pro"]),
        ({"background": "correct"}, "gemini-2.5-pro", ["The paper has no check of the background"]),
        ({"editor": "flux2-klein-4b"}, "gemini-2.5-pro", ["The row's editor is FLUX.2-klein-9B"]),
    ],
)
def test_what_differs_from_the_paper_is_said_and_nothing_else(tmp_path, settings, judge, expected):
    """The data's count, the words of ours, and the samples without a plan are said of every one of these."""
    order = finished(tmp_path)
    settle(order, **settings)
    model, _, query = judge.partition("?")
    name = f"openai:{model}@http://127.0.0.1:1/v1" + (f"?{query}" if query else "")
    report = run_benchmark(order, None, build_judge(name, order.benchmark.judge))
    always = (
        "The judge was asked in goalreel's",
        "The data have 3 samples",
        "3 samples have no plan",
        "UEval's",
    )
    notes = [note for note in report.notes if not note.startswith(always)]
    assert len(report.notes) - len(notes) == len(always)
    assert len(notes) == len(expected)
    assert all(note.startswith(start) for note, start in zip(notes, expected, strict=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"id": ""},
        {"prompt": None},
        {"text_rubrics": "It has two steps."},
        {"text_rubrics": [{"tags": []}]},
        {"image_rubrics": [None]},
    ],
)
def test_a_row_of_ueval_in_another_shape_is_refused(tmp_path, changes):
    row = {"id": "..", "task": "space", "prompt": "p", "text_rubrics": [], "image_rubrics": []}
    (tmp_path / "rows.json").write_text(json.dumps([row]))
    assert [one.id for one in UEval().samples(tmp_path)] == ["__"], "no id leads out of the folder"
    (tmp_path / "rows.json").write_text(json.dumps([row | changes]))
    with pytest.raises(InputError, match="is not in the published shape"):
        UEval().samples(tmp_path)
