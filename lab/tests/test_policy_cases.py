"""The cases of the policy study: the page has the table that its result files give."""

import json

import cases
import pytest

from goalreel.errors import InputError


def test_the_page_has_the_table_of_its_result_files():
    assert cases.table(cases.read_rows(cases.RESULTS)) in cases.PAGE.read_text(encoding="utf-8")


@pytest.mark.process  # matplotlib starts fc-list where it has no cache of fonts yet
def test_one_command_fills_in_what_was_measured(tmp_path):
    results, page, figure = tmp_path / "results", tmp_path / "page.md", tmp_path / "figure.png"
    results.mkdir()
    pilot = {"g_minus_a1_mix": 21.46, "g_minus_a1_mix_low": 14.2, "g_minus_a1_mix_high": 29}
    (results / "scarce.json").write_text(json.dumps({"episodes": 200, "seeds": 1, **pilot}))
    world = {
        f"g_minus_a1_mix.heldout_tasks{end}": value for end, value in (("", 3), ("_low", -1), ("_high", 7))
    }
    exact = {f"g_minus_x_exact{end}": value for end, value in (("", -11.5), ("_low", -19), ("_high", -4))}
    (results / "exact.json").write_text(json.dumps({"episodes": 200, "seeds": 3, **exact}))
    (results / "metaworld.json").write_text(json.dumps({"tasks": 30, "positions": 25, "seeds": 3, **world}))
    page.write_text(f"before\n{cases.MARK}\nold\n{cases.END}\nafter\n")
    cases.main(results, page, figure)
    text = page.read_text()
    assert "| +21.5 (+14 to +29) | 200 x 1 | **yes**; one training seed |" in text
    assert "| +3.0 (-1 to +7) | 250 x 3 | not shown |" in text
    assert "| -11.5 (-19 to -4) | 200 x 3 | **no**, a loss |" in text
    assert text.count("| | | not measured yet |") == len(cases.read_rows(results)) - 3
    assert (text.partition("<")[0], text.rpartition(">")[2], "old" in text) == (
        "before\n",
        "\nafter\n",
        False,
    )
    assert figure.stat().st_size > 1000
    cases.main(results, page, figure)
    assert page.read_text() == text
    (results / "gate.json").write_text('{"gate_minus_open": 5}')
    with pytest.raises(InputError, match=r"gate\.json: not the line that a command prints"):
        cases.read_rows(results)
