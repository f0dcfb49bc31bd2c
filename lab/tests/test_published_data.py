"""The data of UEval and WISE as published, what their judges say, and the paper's tables."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import published as bench

from goalreel.chat.dialects.source_strings import strings_under
from goalreel.errors import InputError
from goalreel_lab.published.benchmark import AnswerPart, BenchAnswer, JudgeFacts, Marked, Sample
from goalreel_lab.published.judging import build_judge
from goalreel_lab.published.report import KLEIN, QWEN, row_for, tables, tables_of
from goalreel_lab.published.run import BENCHMARKS, open_benchmark
from goalreel_lab.published.ueval import OURS, UEval, read_met
from goalreel_lab.published.wise import COLUMNS, WEIGHTS, Wise, read_scores

ANSWER = BenchAnswer((AnswerPart("a text", None),))


@pytest.mark.parametrize("suffix", ["json", "jsonl", "parquet"])
@pytest.mark.parametrize("old", [False, True])
def test_ueval_is_read_in_every_form_that_it_was_published_in(tmp_path, suffix, old):
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'goalreel[annotate]'")
    data = bench.ueval_data(tmp_path, old=old, suffix=suffix)
    (data / ".cache" / "huggingface").mkdir(parents=True)
    (data / ".cache" / "huggingface" / "notes.json").write_text("[]")
    samples = UEval().samples(data)
    assert [(s.id, s.group) for s in samples] == [("1", "space"), ("paper_2", "paper"), ("3", "art")]
    assert samples[0].instruction == "How does space work? Explain it."
    assert samples[0].row["prompt"].endswith("both visually and textually.")
    assert samples[2].row["text_rubrics"] == ["It has two steps.", "It names the brush."]
    assert samples[1].row["text_rubrics"] == []


def test_ueval_twice_in_one_folder_is_said(tmp_path):
    bench.ueval_data(tmp_path / "a")
    bench.ueval_data(tmp_path / "b")
    with pytest.raises(InputError, match="stands there twice"):
        UEval().samples(tmp_path)


def test_without_a_clone_the_judge_of_ueval_is_asked_in_our_words(tmp_path):
    sample = UEval().samples(bench.ueval_data(tmp_path))[2]
    asked = UEval().inquiries(sample, ANSWER, {})
    assert [inquiry.name for inquiry in asked] == ["text 0", "text 1", "image 0"]
    text = str(asked[1].conversation[1].parts[0])
    assert all(words in text for words in (sample.row["prompt"], "a text", "It names the brush."))
    assert "<<" not in "".join(str(part) for i in asked for m in i.conversation for part in m.parts)
    assert not UEval().judge.official_prompts


def test_a_clone_of_something_else_is_said(tmp_path):
    (tmp_path / "ueval_eval.py").write_text('TEXT_TEMPLATE = "x"')
    sample = Sample("1", "space", "?", row={"prompt": "?", "text_rubrics": ["c"], "image_rubrics": []})
    with pytest.raises(InputError, match="SYSTEM_INSTRUCTION"):
        UEval(tmp_path).inquiries(sample, ANSWER, {})
    with pytest.raises(InputError, match="no such folder"):
        open_benchmark("ueval", tmp_path / "none")
    assert set(OURS) == {
        *("SYSTEM_INSTRUCTION", "TEXT_TEMPLATE", "IMAGE_TEMPLATE_OPEN"),
        *("IMAGE_TEMPLATE_CLOSED", "TEXT_RUBRIC_TEMPLATE", "IMAGE_RUBRIC_TEMPLATE"),
    }


@pytest.mark.parametrize(
    ("reply", "mark"),
    [
        ('{"criteria_met": true}', True),
        ('Surely.\n```json\n{"explanation": "no", "criteria_met": false}\n```', False),
        ('{"criteria_met": "Not sure"}', "not sure"),
        ('{"criteria_met" : "true"}', True),
        ('{"criteria_met": true} or rather {"criteria_met": false}', None),
        ('{"criteria_met": 1}', None),
        ("It is true.", None),
    ],
)
def test_one_criterion(reply, mark):
    assert read_met(reply) is mark or read_met(reply) == mark


@given(st.text())
def test_any_reply_is_read(reply):
    assert read_met(reply) in (True, False, "not sure", None)
    assert read_scores(reply) is None or set(read_scores(reply) or {}) == {
        *("consistency", "realism", "aesthetic quality")
    }


@pytest.mark.parametrize(
    "reply",
    [
        "Consistency: 2\nRealism: 1",
        "Consistency: 2\nRealism: 1\nAesthetic Quality: 3",
        "Consistency: 1.5\nRealism: 1\nAesthetic Quality: 1",
        "Consistency: 2\nRealism: 1\nAesthetic Quality: 1\nConsistency: 0",
    ],
)
def test_marks_of_wise_that_cannot_be_told(reply):
    assert read_scores(reply) is None


def test_wise_has_its_columns_by_number():
    assert {name: len(numbers) for name, numbers in COLUMNS.items()} == {
        **{"cultural": 400, "time": 167, "space": 133},
        **{"biology": 100, "physics": 100, "chemistry": 100},
    }
    assert sum(WEIGHTS.values()) == pytest.approx(1)


def test_an_answer_of_wise_without_a_picture_scores_nothing_and_asks_nobody():
    sample = Sample("7", "cultural", "a tree", row={"Prompt": "a tree", "Explanation": "?"})
    assert Wise().inquiries(sample, ANSWER, {}) == []
    found = Wise().scores([Marked(sample, ANSWER, {})])
    assert (found["cultural"].value, found["overall"].value, found["unjudged"].value) == (0, 0, 0)


def test_other_data_than_wise_legacy_are_refused(tmp_path):
    path = tmp_path / "data.json"
    path.write_text(json.dumps([{"prompt_id": 1001, "Prompt": "p", "Explanation": "e"}]))
    with pytest.raises(InputError, match="not in 1-1000"):
        Wise().samples(tmp_path)
    path.write_text('{"prompt_id": 1}')
    with pytest.raises(InputError, match="not in the shape"):
        Wise().samples(tmp_path)


def test_texts_of_a_dictionary_are_read_in_order_and_nothing_is_run(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        'raise SystemExit\nf([{"text": "one"}, {"text": f"two {x[\'Y\']}", "type": "text"}, {"text": g()}])'
    )
    assert strings_under(path, "text") == ["one", "two {x['Y']}"]


def test_the_papers_rows_hang_together():
    """Each overall of WISE is the weighted mean of its columns, each average of UEval that of its tasks."""
    for table in tables():
        assert all(len(row) == len(table.measures) for row in table.rows.values())
        assert table.benchmark in BENCHMARKS
    (wise,) = tables_of("wise")
    for name, row in wise.rows.items():
        mean = sum(w * v for w, v in zip(WEIGHTS.values(), row, strict=False))
        assert row[-1] == pytest.approx(mean, abs=0.01), name
    first, ablation = tables_of("ueval")
    for name, row in first.rows.items():
        printed = first.row(name)
        mean = sum(row[:-1]) / 8
        assert ("avg_tasks" in printed) == (printed.get("avg_tasks") == pytest.approx(mean, abs=0.11)), name
    assert ablation.row(KLEIN) == {"text": 58.6, "image": 74.0, "avg_items": 66.3}
    assert first.row(KLEIN)["avg_items"] == 66.3
    assert first.row(QWEN)["avg_items"] == 67.2


def test_the_row_follows_the_editor():
    assert row_for("flux2-klein-9b") == row_for("diffusers:/models/FLUX.2-klein-4B") == KLEIN
    assert row_for("qwen-image-edit-2511") == QWEN
    assert row_for("server:http://there:8000") is None


@pytest.mark.parametrize(
    ("name", "shown", "temperature", "tokens"),
    [
        ("openai:j@http://127.0.0.1:1/v1", "openai:j@http://127.0.0.1:1/v1", 0.5, 77),
        ("openai:j@http://127.0.0.1:1/v1?temperature=1", "openai:j@http://127.0.0.1:1/v1", 1.0, 77),
        ("server:http://127.0.0.1:1?max_tokens=9", "server:http://127.0.0.1:1", 0.5, 9),
    ],
)
def test_a_judge_is_asked_as_the_papers_was_where_its_name_says_nothing_else(
    name, shown, temperature, tokens
):
    pytest.importorskip("openai", reason="needs openai: pip install 'goalreel[api]'")
    from goalreel.chat.openai import OpenAIChat

    judge = build_judge(name, JudgeFacts("j", 0.5, 77), concurrency=3)
    assert isinstance(judge.chat, OpenAIChat)
    assert (judge.chat.temperature, judge.chat.max_tokens) == (temperature, tokens)
    assert judge.temperature == temperature
    assert judge.name.startswith(f"{shown}?")
    assert (judge.local, judge.concurrency) == (False, 3)
