"""CoMM: data in the published shape, a made-up clone's prompts, export, the six means."""

import json

import pytest
from support.miniatures import COMM_ROW, COMM_STEPS, comm_clone, comm_data, flat, picture, words

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel_lab.published.benchmark import AnswerPart, BenchAnswer
from goalreel_lab.published.comm import Comm, read_descriptions, read_document, read_fidelity


@pytest.fixture
def clone(tmp_path):
    return comm_clone(tmp_path / "clone")


def answer(*parts):
    return BenchAnswer(
        tuple(AnswerPart(text, None if value is None else flat(value)) for text, value in parts)
    )


def shown(inquiry):
    system, user = inquiry.conversation
    assert (system.role, user.role) == ("system", "user")
    parts = [int(p.pixels[0, 0, 0]) if isinstance(p, Image) else p for p in user.parts]
    return system.parts[0], parts


def test_task_4_asks_about_the_title_in_our_words_without_a_clone(tmp_path, clone, caplog):
    data = comm_data(tmp_path, [COMM_ROW], pictures=())
    (sample,) = Comm(clone, task=4).samples(data)
    assert (sample.id, sample.group) == ("site_tea-1", "task4")
    assert sample.instruction == "Please explain about making tea?"
    assert sample.task(0).image is None
    assert "making tea" in Comm(task=4).samples(data)[0].instruction
    assert "its own are read from its repository (--clone)" in caplog.text


def test_task_3_goes_on_after_the_first_half(tmp_path, clone):
    (sample,) = Comm(clone, task=3).samples(comm_data(tmp_path, [COMM_ROW]))
    assert sample.group == "task3"
    assert sample.instruction == "Please explain about making tea?"
    assert [(step.instruction, step.image) for step in sample.done] == [
        ("Fill the pot.", flat(1)),
        ("Step 2", flat(2)),
        ("Boil it.", None),
    ]
    assert sample.task(0).image == flat(2)
    assert sample.row["model_input"] == (
        "See a beginning about making tea: (1) Fill the pot. <IMAGE> (2) <IMAGE> Boil it. Now finish it."
    )


def test_a_row_that_cannot_be_used_is_counted(tmp_path, clone, caplog):
    many = [[words("x"), *[picture("a/1.png")] * 10], [words("y"), picture("a/1.png")]]
    rows = [
        COMM_ROW,
        {**COMM_ROW, "data_id": "gone", "step_info": [[picture("a/404.png")], COMM_STEPS[0]]},
        {**COMM_ROW, "data_id": "out", "step_info": [[picture("../secret.png")], COMM_STEPS[0]]},
        {**COMM_ROW, "data_id": "page", "step_info": [[picture("a/page.png")], COMM_STEPS[0]]},
        {**COMM_ROW, "data_id": "one", "step_info": COMM_STEPS[:1]},
        {**COMM_ROW, "data_id": "words", "step_info": [COMM_STEPS[3], COMM_STEPS[3]]},
        {**COMM_ROW, "data_id": "many", "step_info": many},
        COMM_ROW,
    ]
    comm_data(tmp_path, rows)
    (tmp_path / "images/secret.png").write_bytes(flat(1).png())
    (tmp_path / "secret.png").write_bytes(flat(1).png())
    (tmp_path / "images/a/page.png").write_text("<html>404</html>")
    (sample,) = Comm(clone).samples(tmp_path)
    assert sample.id == "site_tea-1"
    for line in (
        "3 of 8 rows left out: with given pictures that are not in images/",
        "1 of 8 rows left out: of one step",
        "1 of 8 rows left out: without pictures",
        "1 of 8 rows left out: with 10 given pictures or more",
        "1 of 8 rows left out: with the data_id of a row before",
    ):
        assert line in caplog.text


def test_the_judge_of_task_3_reads_input_and_output_with_numbered_pictures(tmp_path, clone):
    comm = Comm(clone)
    (sample,) = comm.samples(comm_data(tmp_path, [COMM_ROW]))
    made = answer(("Add tea.", 30), ("Wait.", None), ("Pour.", 50))
    document, descriptions = comm.inquiries(sample, made, {})
    given = [
        *("INPUT:", "(1)", "Fill the pot.", "<Img_0>", 1, "</Img_0>"),
        *("(2)", "<Img_1>", 2, "</Img_1>", "Boil it.", "Now finish it."),
    ]
    assert shown(document) == (
        "document_completeness_image_coherence {no: JSON}",
        [
            *(*given, "OUTPUT:", "(1)", "Add tea.", "<Img_2>", 30, "</Img_2>"),
            *("(2)", "Wait.", "(3)", "Pour.", "<Img_3>", 50, "</Img_3>"),
        ],
    )
    assert shown(descriptions) == (
        "texts_to_image_descriptions {no: JSON}",
        [
            *(*given, "OUTPUT:", "(1)", "Add tea.", "<Img_2>", "</Img_2>"),
            *("(2)", "Wait.", "(3)", "Pour.", "<Img_3>", "</Img_3>"),
        ],
    )


def test_the_third_question_needs_the_answer_to_the_second_and_an_answer_something(tmp_path, clone):
    comm = Comm(clone, task=4)
    (sample,) = comm.samples(comm_data(tmp_path, [COMM_ROW]))
    made = answer(("Add tea.", 30), ("Pour.", 50))
    marks = {"document": {"sty": 9.0}, "descriptions": ["tea falls", "a cup", "one too many"]}
    (irs,) = comm.inquiries(sample, made, marks)
    assert shown(irs) == (
        "descriptions_gt_images_consistency {no: JSON}",
        [
            *("<Description_0> tea falls </Description_0>", "<Img_0>", 30, "</Img_0>"),
            *("<Description_1> a cup </Description_1>", "<Img_1>", 50, "</Img_1>"),
            "<Description_2> one too many </Description_2>",
        ],
    )
    assert comm.inquiries(sample, made, {**marks, "irs": None}) == []
    assert comm.inquiries(sample, made, {"document": None, "descriptions": None}) == []
    (document,) = comm.inquiries(sample, answer(("Wait.", None)), {})
    assert document.name == "document"
    assert shown(document)[1][:4] == ["INPUT:", "Please explain about making tea?", "OUTPUT:", "(1)"]
    assert comm.inquiries(sample, answer(), {}) == []


@pytest.mark.parametrize(
    ("score", "mark"), [("7/10", 7), ("NA", 0), (None, 0), (11, None), (True, None), ("good", None)]
)
def test_a_score_is_a_number_to_ten_or_none(score, mark):
    consistency = {"style_consistency": 9, "entity_consistency": 8.5, "trend_consistency": 7}
    coherence = {"pair_scores": {}, "overall_score": {"justification": "{", **consistency}}
    quality, complete = {"Justification": "sharp", "Score": 6}, {"Summarize": "tea", "Score": score}
    scores = {"Image_Coherence": coherence, "Completeness": complete, "Image_Quality": quality}
    reply = f"Here:\n```json\n{json.dumps({'scores': scores}, indent=1)}\n```\nas asked."
    assert read_document(reply) == {"sty": 9, "enti": 8.5, "tren": 7, "comp": mark, "imgq": 6}
    assert read_fidelity(json.dumps({"Consistency": {"overall_score": score}})) == mark


@pytest.mark.parametrize(
    "reply", ["", "no", "{}", "}{", '{"scores": 3}', '{"scores": {}}', '{"a":' * 15_000 + "}"]
)
def test_what_cannot_be_read_is_none_and_descriptions_come_in_the_order_of_their_numbers(reply):
    assert read_document(reply) is read_descriptions(reply) is read_fidelity(reply) is None
    contents = {"Image 10": "last", "Image 2": " first ", "Image 3": 4}
    assert read_descriptions(json.dumps({"Tasks": {"Pictures": contents}})) == ["first", "last"]


BAD = [
    ([], "is not a list of rows"),
    ([COMM_ROW, 3], "row 1 has no data_id"),
    ([{**COMM_ROW, "title": 3}], "row 0 has a title that is no text"),
    ([{**COMM_ROW, "step_info": [3]}], "row 0 has no list of steps in step_info"),
    ([{**COMM_ROW, "step_info": [["x"]]}], "row 0 has a step with something other than texts and images"),
    (
        [{**COMM_ROW, "step_info": [[picture("a/404.png")]] * 2}],
        "no row can be used for Task 3 .*download_images.py",
    ),
]


class Code:
    """What a pickle may smuggle in."""


@pytest.mark.parametrize(
    ("rows", "message"),
    [*BAD, ([Code()], "not a file of plain data"), (None, "no test_data.pth: download it from https")],
)
def test_data_of_another_shape_is_one_line(tmp_path, clone, rows, message):
    with pytest.raises(InputError, match=rf"\A.*{message}.*\Z"):
        Comm(clone).samples(tmp_path if rows is None else comm_data(tmp_path, rows))
