"""The studies in lab/studies/: each runs from nothing to its results, small."""

import json

import pytest


@pytest.mark.lab
@pytest.mark.process
def test_the_policy_study_goes_from_nothing_to_results_and_tables(tmp_path, capsys):
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    from studies.policy import report, study

    study.main(
        tmp_path,
        scenes=2,
        checks=1,
        conditions="seen",
        backbone_steps=2,
        steps=2,
        sizes="0",
        repeats=1,
        split="validation",
        episodes=1,
        others=2,
        arms="text,picture",
        workers=1,
    )
    results = sorted((tmp_path / "results").glob("*.json"))
    runs = {"text", "picture", "picture_alone", "checks", "checks_alone", "predicted"}
    assert {path.name.partition("-")[0] for path in results} == runs
    assert json.loads(results[0].read_text())["values"]
    report.main(tmp_path, steps=2, split="validation", drawn=tmp_path / "curves.png")
    printed = capsys.readouterr().out
    titles = ("A1, the present", "G+ - G-, success", "| G - A1, reached |", "| G, all, 0 |", "cm off")
    assert all(title in printed for title in titles)
    assert (tmp_path / "curves.png").stat().st_size > 1000
