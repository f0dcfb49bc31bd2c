"""Studies and benchmarks of the laboratory run from nothing to their results, small."""

import json

import numpy as np
import pytest
from support.benchmarks import check, smoke
from support.places import ROOT

BENCHMARKS = {path.stem: path for path in sorted((ROOT / "lab" / "benchmarks").glob("*.py"))}


@pytest.mark.lab
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_and_prints_what_its_docstring_says(name):
    check(BENCHMARKS[name], smoke(BENCHMARKS[name]))


@pytest.mark.lab
@pytest.mark.process
def test_the_policy_study_goes_from_nothing_to_results(tmp_path):
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    from studies.policy import study

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


@pytest.mark.process
def test_the_study_of_labels_goes_from_nothing_to_a_table_and_does_nothing_twice(
    tmp_path, monkeypatch, capsys
):
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    import labels

    conditions = [("truth", 0.0), ("carried", 0.0), ("wgo_bench", 0.0), ("merged", 0.5)]
    conditions += [("swapped", rate) for rate in labels.RATES]
    monkeypatch.setattr(labels, "jobs", lambda _: [labels.Job(*c, 4000, 0) for c in conditions])
    settings = {"scenes": 2, "training_seeds": 1, "split": "validation", "steps": 2}
    settings |= {"episodes": 2, "checks": 1, "report": False}
    labels.main(tmp_path, **settings, figure=tmp_path / "figure.png")
    found = json.loads(capsys.readouterr().out.splitlines()[0])
    slopes = {f"swapped.lost_for_1_percent_of_{unit}.4000" for unit in ("steps", "frames")}
    assert slopes | {"merged_minus_truth.0.5.4000", "judged_as_simulated"} <= found.keys()
    monkeypatch.setattr(labels.Job, "run", lambda *_: pytest.fail("trained again"))
    labels.main(tmp_path, **settings, figure=None)


def test_a_fault_lies_over_as_many_frames_as_the_page_says():
    import label_faults as faults
    from demos import Demos

    from goalreel.tabletop.scene import SubGoal
    from goalreel_lab.policy.policy_tasks import sub_task

    goals = [SubGoal("inside", f"{c} block", "red bowl") for c in ("red", "green", "blue", "yellow")]
    words, ahead = np.stack([sub_task(goal) for goal in goals]), np.arange(4)
    poses, actions = np.ones((5, len(faults.THINGS), 6), np.float32), np.zeros((4, 2, 6), np.float32)
    steps = Demos(np.empty(0, np.uint8), poses, ahead, ahead, actions, words, words)
    shares = {}
    for fault in faults.FAULTS:
        labels = faults.Labels(steps, 4, 0)
        labels.spoil(fault, 0.5)
        shares[fault] = labels.mislabelled
        assert labels.samples().frames.sum() == 4 * faults.PLACING
    assert shares["wrong_object"] == shares["swapped"] == shares["merged"] == 0.5
    assert shares["split"] == pytest.approx(0.5 * faults.PICKING / faults.PLACING)
    assert 0 <= shares["shifted"] <= 0.5 * faults.SHIFT / faults.PLACING
    assert 0 < shares["invented"] <= 0.5 * faults.INVENTED / faults.PLACING
