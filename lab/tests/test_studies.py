"""Studies and benchmarks of the laboratory run from nothing to their results, small."""

import json

import numpy as np
import pytest
from support.benchmarks import check, smoke
from support.places import ROOT

BENCHMARKS = {path.stem: path for path in sorted((ROOT / "lab" / "benchmarks").glob("*.py"))}


@pytest.mark.process
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_and_prints_what_its_docstring_says(name):
    check(BENCHMARKS[name], smoke(BENCHMARKS[name]))


def test_demonstrations_are_the_same_for_ever_and_hold_nothing_back_but_what_is_held_out():
    import demos

    from goalreel.tabletop.scene import SubGoal
    from goalreel_lab.corpora.composition import PAIRS
    from goalreel_lab.policy.policy_tasks import NEW_WORD, sub_task

    made = demos.Demos.join([d for d in map(demos.demonstrate, range(6)) if d is not None])
    again = demos.demonstrate(0)
    assert again is not None
    first = len(again.live)
    assert (made.actions[:first] == again.actions).all()
    assert (made.poses[: len(again.poses)] == again.poses).all()
    kept_back = [sub_task(g) for g in PAIRS] + [
        sub_task(SubGoal("inside", NEW_WORD, f"{c} bowl")) for c in ("red", "green", "blue")
    ]
    assert not any((made.sub_tasks == words).all(axis=1).any() for words in kept_back)
    assert (made.goal == made.live + 1).all()


@pytest.mark.process
def test_the_study_of_labels_goes_from_nothing_to_a_table_and_does_nothing_twice(
    tmp_path, monkeypatch, capsys
):
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
    steps = Demos(poses, ahead, ahead, actions, words)
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
