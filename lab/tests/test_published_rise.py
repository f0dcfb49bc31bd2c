"""RISE: data in the published shape, the judge's questions from a made-up clone, and both rules."""

import json

import pytest
from support.miniatures import RISE_ROWS, flat, rise_clone, rise_data

from goalreel.errors import InputError
from goalreel_lab.published.benchmark import AnswerPart, BenchAnswer, Marked
from goalreel_lab.published.rise import Rise, read_binary, read_score


def answer(*values):
    return BenchAnswer(tuple(AnswerPart("step", flat(value)) for value in values))


@pytest.fixture
def clone(tmp_path):
    return rise_clone(tmp_path / "clone")


def questions(clone, sample, marks=None):
    asked = Rise(clone).inquiries(sample, answer(200, 250), marks or {})
    for inquiry in asked:
        (message,) = inquiry.conversation
        assert message.role == "user"
    return {
        inquiry.name: (
            str(inquiry.conversation[0].parts[0]),
            [int(picture.pixels[0, 0, 0]) for picture in inquiry.conversation[0].parts[1:]],
        )
        for inquiry in asked
    }


@pytest.mark.parametrize("pictures", ["data", "."])
def test_a_sample_is_one_picture_and_an_instruction(tmp_path, pictures):
    samples = Rise().samples(rise_data(tmp_path, pictures=pictures))
    assert [s.id for s in samples] == [row["index"] for row in RISE_ROWS]
    assert [s.group for s in samples] == ["temporal", *["causal"] * 2, *["spatial"] * 3, *["logical"] * 2]
    assert all(s.instruction.count("<image>") == len(s.images) == 1 for s in samples)
    assert "Do 3" in samples[3].instruction
    assert samples[3].task(0).image == flat(3)


EXPECTED = {
    "temporal_reasoning_1": [("consist", 0), ("reasoning",), ("generation",)],
    "causal_reasoning_1": [("consist", 1), ("reasoning_w_input", 1), ("generation",)],
    "causal_reasoning_2": [None, ("reasoning",), ("generation",)],
    "spatial_reasoning_1": [("spatial_cons", 3), ("spatial_ref",), ("spatial_qual",)],
    "spatial_reasoning_2": [("spatial_cons", 104), ("spatial_ref_img", 104), ("spatial_qual",)],
    "spatial_reasoning_3": [("spatial_cons", 5), ("spatial_ref_w_input", 5), ("spatial_qual",)],
    "logical_reasoning_1": [("logical_cons_ans", 6), ("logical_txt",), None],
    "logical_reasoning_2": [("logical_cons", 107), ("logical_img", 107), None],
}
"""Prompt of consistency, reasoning and quality, and the pictures that go before the answer's last."""


def test_each_kind_of_row_has_its_prompt_and_its_pictures(tmp_path, clone):
    samples = Rise().samples(rise_data(tmp_path))
    for sample in samples:
        asked = questions(clone, sample)
        named = {name: (text.split(":")[0], seen) for name, (text, seen) in asked.items()}
        kinds = zip(("consistency", "reasoning", "quality"), EXPECTED[sample.id], strict=True)
        wanted = {kind: (f"prompt_{case[0]}", [*case[1:], 250]) for kind, case in kinds if case}
        assert named == wanted, sample.id
    text, _ = questions(clone, samples[0])["reasoning"]
    assert text == "prompt_reasoning: Do 0 / a {instruct} tree / {other}", "marks are filled once"
    assert questions(clone, samples[0], {"reasoning": 4, "quality": None}).keys() == {"consistency"}
    assert Rise(clone).inquiries(samples[0], answer(), {}) == []


@pytest.mark.parametrize(
    ("reply", "score", "binary"),
    [
        ("So, **Final Score:** **4**", 4, 5),
        ("**Final Scores**: 3, 4", 3, 5),
        ("The Final Score follows. **Final Score:** 5", 5, 5),
        ("Final Score: 1", 1, 5),
        ("**Final Score**: **0**", None, 1),
        ("Final Score: 6", None, 5),
        ("Score 4", None, None),
        ("Final Score: five", None, None),
    ],
)
def test_a_score_is_read_or_there_is_none(reply, score, binary):
    assert (read_score(reply), read_binary(reply)) == (score, binary)


def marked(samples, *marks, made=None):
    return [Marked(s, made or answer(1), m) for s, m in zip(samples, marks, strict=True)]


def test_both_rules(tmp_path):
    """By hand: 1 of 1 temporal; of causal the free one is complete by the new rule alone; half of logical."""
    full = {"consistency": 5, "reasoning": 5, "quality": 5}
    samples = Rise().samples(rise_data(tmp_path))
    marks = [
        *(full, {**full, "quality": 4}, {"reasoning": 5, "quality": 5}),
        *({**full, "reasoning": 1}, full, {**full, "quality": None}),
        *({"consistency": 5, "reasoning": 5}, {"consistency": 1, "reasoning": 5}),
    ]
    scores = Rise().scores(marked(samples, *marks))
    values = {key: score.value for key, score in scores.items()}
    assert values == pytest.approx(
        {
            **{"temporal": 100, "causal": 50, "spatial": 50, "logical": 50, "overall": 400 / 7},
            **{"temporal_prefix": 100, "causal_prefix": 0, "spatial_prefix": 50, "logical_prefix": 50},
            **{"overall_prefix": 300 / 7, "reasoning": 600 / 7, "consistency": 500 / 6, "plausibility": 95},
            **{"unjudged": 1, "unanswered": 0},
        }
    )
    assert scores["overall"].low is not None


def test_an_answer_without_a_picture_has_failed_and_no_judge_is_not_a_failure(tmp_path, caplog):
    samples = Rise().samples(rise_data(tmp_path))[:2]
    scores = Rise().scores([*marked(samples[:1], {}, made=answer()), *marked(samples[1:], {})])
    assert scores["temporal"].value == scores["overall"].value == 0
    assert scores["causal"].value is None
    assert (scores["unanswered"].value, scores["unjudged"].value) == (1, 1)
    assert Rise().scores([])["overall"].value is None
    Rise().export([(samples[0], answer())], tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.png"))
    assert "1 answers have no picture" in caplog.text


CAUSAL = {"index": "a", "category": "causal_reasoning", "instruction": "x", "image": "../y", "reference": "z"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("not json", "cannot be read as JSON"),
        ([1], "is not a list of rows"),
        ([{"index": "a_1"}], "row 0 has no category"),
        ([{**CAUSAL, "index": "../a"}], "not those of RISE"),
        ([{**CAUSAL, "category": "a"}], "not those of RISE"),
        ([{**CAUSAL, "category": "logical_reasoning"}], "has none of reference_txt, reference_img"),
        ([CAUSAL], r"no picture ../y \(of a\): unpack data.zip"),
    ],
)
def test_data_of_another_shape_is_one_line(tmp_path, rows, message):
    with pytest.raises(InputError, match="two rows of one index"):
        Rise().samples(rise_data(tmp_path, [RISE_ROWS[0]] * 2))
    (tmp_path / "datav2_total_w_subtask.json").write_text(rows if isinstance(rows, str) else json.dumps(rows))
    with pytest.raises(InputError, match=rf"\A.*{message}.*\Z"):
        Rise().samples(tmp_path)
