"""Studies and benchmarks of the laboratory run from nothing to their results, small."""

import json

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
def test_the_steering_study_goes_from_nothing_to_a_table_and_does_nothing_twice(
    tmp_path, monkeypatch, capsys
):
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    from studies.policy import steer

    monkeypatch.setattr(steer, "STEPS", steer.EVERY)
    settings = {"scenes": 2, "checks": 1, "training_seeds": 2, "split": "validation", "episodes": 1}
    steer.main(tmp_path, **settings, report=False)
    found = json.loads(capsys.readouterr().out.splitlines()[0])
    assert found["timer_16.seconds"] > found["timer_2.seconds"] > 0
    assert {"critic_minus_timer", "truth_minus_critic_high", "examples.unanswered"} <= found.keys()
    assert found["truth.false_done"] == 0
    monkeypatch.setattr(steer, "carry_out", lambda *_: pytest.fail("carried out again"))
    steer.main(tmp_path, **settings, report=False)


def test_the_best_timer_is_the_one_with_most_successes():
    from studies.policy import steer

    def end(success):
        return {"success": success, "entered": 2, "looks": 2} | dict.fromkeys(
            ("false_done", "lost_s", "seconds", "stopped", "unanswered", "replans"), 1.0
        )

    won = {"timer_8": 1, "critic": 1, "truth": 1}
    tasks = [[{arm: end(won.get(arm, 0)) for arm in steer.ARMS}] * 3, [dict.fromkeys(steer.ARMS, end(0))] * 3]
    values = steer.compare(tasks)
    assert (values["critic_minus_timer"].value, values["examples_minus_timer"].value) == (0, -50)
    assert values["truth.false_done"].value == 0.5
