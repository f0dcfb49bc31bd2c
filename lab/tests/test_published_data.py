"""The data of UEval and WISE as published, what their judges say, and the paper's tables."""

import re
from pathlib import Path

import pytest
from support import published as bench

from goalreel.errors import InputError
from goalreel.models import presets
from goalreel_lab.published.benchmark import AnswerPart, BenchAnswer, JudgeFacts, Marked, Sample
from goalreel_lab.published.judging import build_judge
from goalreel_lab.published.report import KLEIN, QWEN, row_for, tables, tables_of
from goalreel_lab.published.run import BENCHMARKS
from goalreel_lab.published.ueval import UEval, read_met
from goalreel_lab.published.wise import COLUMNS, WEIGHTS, Wise, read_scores

ANSWER = BenchAnswer((AnswerPart("a text", None),))


@pytest.mark.parametrize("suffix", ["json", "jsonl", "parquet"])
@pytest.mark.parametrize("old", [False, True])
def test_ueval_is_read_in_every_form_that_it_was_published_in(tmp_path, suffix, old):
    data = bench.ueval_data(tmp_path, old=old, suffix=suffix)
    (data / ".cache" / "huggingface").mkdir(parents=True)
    (data / ".cache" / "huggingface" / "notes.json").write_text("[]")
    samples = UEval().samples(data)
    assert [(s.id, s.group) for s in samples] == [("1", "space"), ("paper_2", "paper"), ("3", "art")]
    assert samples[0].instruction == "How does space work? Explain it."
    assert samples[0].row["prompt"].endswith("both visually and textually.")
    assert samples[2].row["text_rubrics"] == ["It has two steps.", "It names the brush."]
    assert samples[1].row["text_rubrics"] == []
    bench.ueval_data(tmp_path / "again")
    with pytest.raises(InputError, match="stands there twice"):
        UEval().samples(tmp_path)


@pytest.mark.parametrize(
    ("reply", "mark"),
    [
        ('{"criteria_met": true}', True),
        ('Surely.\n```json\n{"explanation": "no", "criteria_met": false}\n```', False),
        ('{"criteria_met": "Not sure"}', "not sure"),
        ('{"criteria_met": "unknown"}', "not sure"),
        ('{"criteria_met" : "true"}', True),
        ('{"criteria_met": true} or rather {"criteria_met": false}', None),
        ('{"criteria_met": 1}', None),
        ("It is true.", None),
        ("Consistency: 2\nRealism: 1", None),
        ("Consistency: 2\nRealism: 1\nAesthetic Quality: 3", None),
        ("Consistency: 1.5\nRealism: 1\nAesthetic Quality: 1", None),
        ("Consistency: 2\nRealism: 1\nAesthetic Quality: 1\nConsistency: 0", None),
    ],
)
def test_one_criterion_of_ueval_and_marks_of_wise_that_cannot_be_told(reply, mark):
    assert read_met(reply) is mark or read_met(reply) == mark
    assert read_scores(reply) is None


def test_wise_has_the_columns_of_wise_legacy_and_an_answer_without_a_picture_scores_nothing(tmp_path):
    assert {name: len(numbers) for name, numbers in COLUMNS.items()} == {
        **{"cultural": 400, "time": 167, "space": 133},
        **{"biology": 100, "physics": 100, "chemistry": 100},
    }
    sample = Sample("7", "cultural", "a tree", row={"Prompt": "a tree", "Explanation": "?"})
    assert Wise().inquiries(sample, ANSWER, {}) == []
    found = Wise().scores([Marked(sample, ANSWER, {})])
    assert (found["cultural"].value, found["overall"].value, found["unjudged"].value) == (0, 0, 0)
    for text, said in (
        ('[{"prompt_id": 1001, "Prompt": "p", "Explanation": "e"}]', "not in 1-1000"),
        ('{"prompt_id": 1}', "not in the shape"),
    ):
        (tmp_path / "data.json").write_text(text)
        with pytest.raises(InputError, match=said):
            Wise().samples(tmp_path)


def test_the_papers_rows_hang_together_and_follow_the_editor():
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
    assert row_for("flux2-klein-9b") == row_for("diffusers:/models/FLUX.2-klein-4B") == KLEIN
    assert row_for("qwen-image-edit-2511") == QWEN
    assert row_for("server:http://there:8000") is None
    assert row_for("flux2-klein-9b", "instruction") == "FLUX.2-klein-9B"


def test_what_a_headline_number_takes_follows_from_the_preset_and_the_measured_speed():
    """Plans of 680 tokens a step, and one attempt a step or as many as the preset makes."""
    root, number = Path(__file__).parents[2], r"([\d.,]+)"
    speed = (root / "docs/results/models.md").read_text()
    (tokens,) = re.findall(rf"tokens a second of a plan, batch 1 and 8 \| \S+ and {number}", speed)
    (verdicts,) = re.findall(rf"verdicts a second, batch 1 and 8 \| \S+ and {number}", speed)
    (edits,) = re.findall(rf"edits a second, .* and {number} \|\n", speed)
    row = rf"\| N {number}, S {number} \| {number}; {number} to {number} \| {number} to {number} \|"
    rows = re.findall(row, (root / "lab/docs/benchmarks.md").read_text())
    assert len(rows) == 3
    for texts in rows:
        n, steps, plans, *found = (float(text.replace(",", "")) for text in texts)
        calls = [n * steps * attempts for attempts in (1, presets.read("klein").max_attempts)]
        planned = n * steps * 680 / float(tokens)
        hours = [(planned + c / float(edits) + c / float(verdicts)) / 3600 for c in calls]
        assert (plans, found) == (n, pytest.approx([*calls, *hours], rel=0.05))


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
    from goalreel.chat.openai import OpenAIChat

    judge = build_judge(name, JudgeFacts("j", 0.5, 77), concurrency=3)
    assert isinstance(judge.chat, OpenAIChat)
    assert (judge.chat.temperature, judge.chat.max_tokens) == (temperature, tokens)
    assert judge.temperature == temperature
    assert judge.name.startswith(f"{shown}?")
    assert (judge.local, judge.concurrency) == (False, 3)
