"""The table of steps: what pandas reads is what the records say."""

import pandas as pd
import pytest
from support.cli import fails, goalreel

from goalreel.annotator.exports import SCHEMA, cell, plain
from goalreel.annotator.show import read_storyboards
from goalreel.datasets.source import Source


@pytest.mark.parametrize(("name", "read"), [("t.csv", pd.read_csv), ("t.parquet", pd.read_parquet)])
def test_a_row_a_step(in_hindsight, tmp_path, name, read):
    for _ in range(2):
        goalreel("export", in_hindsight, "--out", tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name], "nothing else is left"
    table, fps = read(tmp_path / name), Source.open(in_hindsight).fps
    assert list(table) == SCHEMA.names
    steps = [
        (i, n, board, s) for i, board in read_storyboards(in_hindsight) for n, s in enumerate(board.steps)
    ]
    assert len(table) == len(steps) > 0
    for row, (episode, number, board, step) in zip(table.itertuples(), steps, strict=True):
        assert (row.episode, row.step, row.instruction) == (episode, number, board.task.instruction)
        assert (row.name, row.sub_goal, row.status) == (step.step.name, step.step.instruction, step.status)
        assert (row.start_frame, row.end_frame) == (step.segment.start, step.segment.end)
        assert row.end_s == pytest.approx(step.segment.end / fps)
        assert row.goal_image == f"frame:{step.goal_image.frame}"
        verdict = step.attempts[step.chosen].verdict
        assert (verdict.success, verdict.pictures_only) == (True, True)
        assert (pd.isna(row.success), row.reasoning) == (True, verdict.reasoning), "nobody compared the words"
        assert pd.isna(row.outcome), "nobody checked that it came off"
        assert row.word == "in doubt" if step.step.doubts else "observed"
    assert table.failure.isna().all()


def test_no_cell_of_a_csv_file_is_a_formula_and_examples_are_read_from_it():
    for text in ('=HYPERLINK("http://x")', "@SUM(1)", "+1", "-1", "\t=1", "\n=1", "'=1"):
        assert cell(text) == f"'{text}"
        assert plain(cell(text)) == text
    assert (cell("pick up"), cell(-1), plain("'tis")) == ("pick up", -1, "'tis")


def test_what_cannot_be_exported_is_one_clear_line(in_hindsight, video_dataset, tmp_path):
    said = fails("export", in_hindsight, "--out", tmp_path / "t.xlsx")
    assert "name a file that ends in .csv or .parquet" in said
    said = fails("export", video_dataset, "--out", tmp_path / "t.csv")
    assert "no annotated episode: run goalreel annotate first" in said
    assert list(tmp_path.iterdir()) == []
