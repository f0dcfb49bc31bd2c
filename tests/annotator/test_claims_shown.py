"""Every surface that shows a step says who made its claims, who checked them, and what is in doubt."""

import csv
import json
import shutil
from collections import Counter

import pytest
from support.review import change, review_page

from goalreel import Options, annotate, load_models, open_dataset
from goalreel.annotator.exports import export_table
from goalreel.annotator.report.cards import EpisodeView
from goalreel.annotator.report.sheet import Cell, contact_sheet
from goalreel.annotator.report.write import write_report
from goalreel.annotator.show import read_storyboards
from goalreel.claims import Claim
from goalreel.datasets.records import FOLDER, Records

INSTRUCTION = "See that the block gets into the bowl"
DOUBT = "no rule reads the whole instruction"
WHEN, CHECKED = "by rule, not checked", "by rule, checked by person"
WORDS = f"{WHEN}, in doubt"
LINE = (
    "When: by a rule, not checked · Words, outcome: by a rule, not checked, in doubt · "
    "Goal image: from the recording, passed picture checks"
)


@pytest.fixture(scope="module")
def run(video_dataset, tmp_path_factory):
    """(OUT, summary) of the default models, where no rule reads the instruction."""
    out = tmp_path_factory.mktemp("claims") / "out"
    doubtful = shutil.copytree(video_dataset, out.parent / "in")
    source = open_dataset(doubtful)
    source.tasks.update(dict.fromkeys(source.tasks, INSTRUCTION))
    options = Options(task_per_frame=True)
    models = load_models("hindsight", recordings=options.recorded(source))
    return out, annotate(source, out, models, options)


@pytest.fixture(scope="module")
def boards(run):
    return dict(read_storyboards(run[0]))


def test_records_and_the_summary_have_them(run, boards):
    record = json.loads(Records(run[0] / FOLDER, "").path(0).read_bytes())
    claims = record["steps"][0]["claims"]
    assert list(claims) == ["when", "what", "looks", "came_off"]
    assert claims["when"] == {"by": "rule", "checked": "nobody", "doubts": []}
    assert (claims["what"]["by"], DOUBT in claims["what"]["doubts"]) == ("rule", True)
    assert claims["looks"]["by"] == "recording"
    counts = json.loads(run[1].as_json())
    steps = sum(len(board.steps) for board in boards.values())
    nobody = {"nobody": steps}
    assert counts["claims"]["what"] == {"by": {"rule": steps}, "checked": nobody, "doubted": nobody}
    assert counts["claims"]["looks"]["by"] == {"recording": steps}
    assert counts["doubtful"] == steps
    assert counts["end_checked"] == {"nobody": len(boards)}


def test_report_contact_sheet_and_recording_have_them(boards, tmp_path, monkeypatch):
    view = EpisodeView(0, "Episode 0", "x", boards[0], fps=10.0, length=12)
    text = write_report([view], tmp_path, title="t", summary={}).read_text()
    assert LINE in text
    assert f"The words may be untrue: {DOUBT}." in text
    cells: list[Cell] = []
    monkeypatch.setattr("goalreel.annotator.report.sheet.lay_out", lambda *given: cells.extend(given[1]))
    contact_sheet(view)
    texts = [line.text for cell in cells for line in cell.lines]
    assert set(LINE.split(" · ")) <= set(texts)
    assert any(text.endswith("in doubt") for text in texts)
    pytest.importorskip("rerun", reason="needs rerun: pip install 'goalreel[rerun]'")
    from goalreel.annotator.rrd import step_text

    step = next(step for step in boards[0].steps if step.status == "observed")
    text = step_text(1, step, 10.0)
    assert LINE.replace(" · ", "\n") in text
    assert f"The words may be untrue: {DOUBT}." in text
    assert "\n\nin doubt\n\n" in text


def test_the_cards_of_the_dataset_and_of_its_exports_have_them(run, boards, tmp_path):
    steps = sum(len(board.steps) for board in boards.values())
    looks = Counter(step.claims.looks.line for board in boards.values() for step in board.steps)
    card = (run[0] / "README.md").read_text()
    assert f"- Words: {WORDS} ({steps})" in card
    assert all(f"- Goal image: {line} ({number})" in card for line, number in looks.items())
    export_table(run[0], tmp_path / "t.csv")
    with (tmp_path / "t.csv").open() as file:
        rows = list(csv.DictReader(file))
    claimed = {(row["what_by"], row["what_checked"], row["looks_by"]) for row in rows}
    assert claimed == {("rule", "nobody", "recording")}
    assert all(DOUBT in row["what_doubts"] for row in rows)


def test_the_review_page_and_its_queue_follow_a_person(run, tmp_path):
    out = shutil.copytree(run[0], tmp_path / "out")
    page = review_page(out)

    def line(step: dict, name: str) -> str:
        return Claim.model_validate(step["claims"][name]).line

    def listed(text: str = "") -> list[dict]:
        return page.get("/api/episodes", params={"q": text}).json()["rows"]

    before = page.get("/api/episodes/0").json()
    assert {line(step, "what") for step in before["steps"]} == {WORDS}
    assert all(DOUBT in step["doubts"] for step in before["steps"])
    assert DOUBT in before["reasons"]
    (row,) = [row for row in listed() if row["episode"] == 0]
    assert row["words"] == f"words {WORDS}"
    assert listed("checked by person") == []

    first = before["steps"][0]["id"]
    (step,) = change(page, 0, kind="outcome", step=first, outcome="done")["steps"]
    assert line(step, "came_off") == "by person, checked by person"
    assert line(step, "what") == WORDS
    assert DOUBT in step["doubts"], "whether it came off says nothing of the words"
    (step,) = change(page, 0, kind="verdict", verdict="accept")["steps"]
    assert {claim["checked"] for claim in step["claims"].values() if claim} == {"person"}
    assert line(step, "what") == CHECKED
    assert step["doubts"] == []
    board = Records(out / FOLDER, "").outline(0)
    assert {step.status for step in board.steps} == {"accepted"}, "a person compared picture and words"
    assert board.end_checked == "person"
    assert len(listed("checked by person")) == 1

    (step,) = change(page, 0, kind="rename", step=first, name="grasp the block")["steps"]
    assert (line(step, "what"), step["doubts"]) == ("by person, checked by person", [])
    assert line(step, "when") == WHEN, "they said nothing of its frames, and took the verdict back"
