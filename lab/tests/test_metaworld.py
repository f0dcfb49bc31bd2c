"""Scores on Meta-World: truths made by hand, and one recording of the simulator."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from goalreel_lab.metaworld.run import true_steps
from goalreel_lab.metaworld.score import Annotation, NamedStep, judge, make_report, score_episode
from goalreel_lab.metaworld.tasks import TaskSpec, split_tasks, tasks
from goalreel_lab.metaworld.truth import (
    BodyTruth,
    Contact,
    RecordingTruth,
    contact_cuts,
    contacts,
    read_truth,
)

FPS = 10
N = 60
SPEC = TaskSpec(
    kind="grasp",
    say=("put the puck on the shelf", "pick up the puck and place it on the shelf"),
    objects={"puck": "obj", "door": "door", "stick": "stick", "wall": "wall"},
    places=("shelf",),
)


def flags(*spans):
    values = np.zeros(N, bool)
    for start, end in spans:
        values[start:end] = True
    return tuple(values.tolist())


def body(touched=(), held=(), met=(), moving=(), movable=True):
    """A body that moves evenly by 20 cm in each of the spans `moving`."""
    position = np.zeros(N)
    for start, end in moving:
        position[start:] += np.clip(np.arange(N - start) / (end - start), 0, 1) * 0.2
    pose = tuple((float(x), 0.0, 0.0) for x in position) if movable else ((),) * N
    return BodyTruth(movable=movable, touched=flags(*touched), held=flags(*held), met=flags(*met), pose=pose)


def recording(bodies, success=(), opening=None, home_at=None):
    hand = [(0.0, 0.0, 0.2)] + [(0.3, 0.3, 0.2)] * (N - 1)
    if home_at is not None:
        hand[home_at:] = [(0.01, 0.0, 0.2)] * (N - home_at)
    return RecordingTruth(
        task="shelf-place-v3",
        seed=0,
        instruction=SPEC.say[1],
        ending="retreat",
        hand=tuple(hand),
        opening=opening or (1.0,) * 20 + (0.4,) * 20 + (1.0,) * 20,
        success=flags(*success),
        bodies={"obj": body(), "door": body(), "stick": body(), "wall": body(movable=False)} | bodies,
    )


PLACED = recording({"obj": body([(20, 40)], [(21, 40)], moving=[(22, 38)])}, success=[(39, 60)], home_at=55)
"""The puck is grasped at 20 and let go, on the shelf, at 40; the hand is home at 55."""
PUSHED = recording({"door": body([(30, 50)], moving=[(32, 50)])}, success=[(48, 60)], opening=(0.3,) * N)
"""A door is pushed with a closed hand."""
STICK = recording(
    {
        "stick": body([(10, 60)], [(10, 60)], moving=[(20, 50)]),
        "door": body(met=[(30, 50)], moving=[(30, 50)]),
    }
)
"""A stick is held to the end, and pushes the door."""


@pytest.mark.parametrize(
    ("name", "episode", "start", "end", "why"),
    [
        ("grasp the puck", PLACED, 0, 21, ""),
        ("put the puck on the shelf", PLACED, 21, 60, ""),
        ("place the puck on the shelf, then go home", PLACED, 21, 60, ""),
        ("carry the puck", PLACED, 21, 36, ""),
        ("reach the puck", PLACED, 0, 20, ""),
        ("release the puck", PLACED, 21, 45, ""),
        ("close the gripper", PLACED, 0, 25, ""),
        ("open the gripper", PLACED, 25, 50, ""),
        ("return to the home position", PLACED, 40, 60, ""),
        ("pick up something", PLACED, 0, 21, ""),
        ("close the door", PUSHED, 0, 60, ""),
        ("grasp the stick", STICK, 0, 11, ""),
        ("push the door with the stick", STICK, 11, 60, ""),
        ("grasp the puck", PLACED, 0, 10, "does not hold it at the end"),
        ("grasp the door", PUSHED, 0, 40, "does not hold it at the end"),
        ("pick up the return", PLACED, 0, 21, "nothing here is called 'the return'"),
        ("put down the puck", PLACED, 21, 30, "still holds it"),
        ("move the puck to the shelf", PLACED, 21, 30, "the relation does not hold"),
        ("move the door", PLACED, 0, 60, "does not touch it"),
        ("push the puck", STICK, 0, 60, "nothing touches it"),
        ("close the door", PUSHED, 0, 40, "not done at the end"),
        ("press the door", PUSHED, 0, 40, "not done in this step"),
        ("reach the puck", PLACED, 0, 10, "is not at it"),
        ("release the puck", PLACED, 21, 30, "still on it"),
        ("retreat from the door", PLACED, 21, 60, "was not on it"),
        ("try to pick up the puck", PLACED, 0, 21, "holds it at the end"),
        ("try to pick up the door", PLACED, 0, 21, "does not touch it"),
        ("open the gripper", PLACED, 0, 25, "does not do so"),
        ("go home", PLACED, 21, 45, "not where it began"),
        ("put the puck on the shelf, then go home", PLACED, 21, 50, "not where it began"),
        ("ponder the puck", PLACED, 0, 60, "no verb"),
    ],
)
def test_a_true_name_is_not_contradicted_and_another_is(name, episode, start, end, why):
    said = judge(NamedStep(name, start, end), SPEC, episode, FPS).contradiction
    assert bool(said) == bool(why)
    assert why in said


def test_contact_goes_on_over_a_gap_and_a_graze_is_none():
    episode = recording({"obj": body([(10, 20), (22, 30), (50, 51)]), "wall": body([(0, 60)], movable=False)})
    assert contacts(episode, FPS) == [Contact("obj", 10, 30)]
    steps = [NamedStep("reach the puck", 0, end) for end in (21, 40)]
    assert [not judge(step, SPEC, episode, FPS, slack_s=0).contradiction for step in steps] == [True, False]


@pytest.mark.parametrize(
    ("touches", "cuts"),
    [
        ([], []),
        ([Contact("a", 10, 30)], [10]),
        ([Contact("a", 10, 60)], [10]),
        ([Contact("a", 0, 30)], []),
        ([Contact("a", 10, 30), Contact("b", 40, 50)], [10, 30, 40]),
        ([Contact("a", 10, 50), Contact("b", 20, 30)], [10, 20]),
    ],
)
def test_cuts_are_where_contact_changes_but_for_the_last_retreat(touches, cuts):
    assert contact_cuts(touches, N) == cuts


def test_an_episode_is_scored():
    names = (NamedStep("grasp the puck", 0, 21), NamedStep("put the puck in the wall", 21, 60))
    score = score_episode(Annotation(cuts=(22, 55), names=names), SPEC, PLACED, FPS)
    assert score.boundary == (1, 2, 1)
    assert (score.names, len(score.false), score.contacts, len(score.missed)) == (2, 0, 1, 0)
    silent = score_episode(Annotation(cuts=(), names=(), failed=True), SPEC, PLACED, FPS)
    assert (silent.names, silent.contacts, len(silent.missed)) == (0, 1, 1)
    untrue = (NamedStep("grasp the door", 0, 21),)
    wrong = score_episode(Annotation(cuts=(21,), names=untrue), SPEC, PLACED, FPS)
    report = make_report("develop", 1, [score, replace(silent, inverted=True), replace(wrong, asked=True)])
    assert report.cut_f1.value == pytest.approx(4 / (3 + 3))
    assert report.false_claims.value == pytest.approx(1 / 3)
    assert report.coverage.value == pytest.approx(1 / 3)
    counts = (report.asked, report.inverted, report.failures, len(report.untrue), len(report.unnamed))
    assert counts == (1, 1, 1, 1, 2)


def test_an_untrue_name_covers_no_contact_and_observed_goals_are_judged_at_their_frames():
    name = NamedStep("put the puck on the shelf", 0, 30)
    score = score_episode(Annotation(cuts=(), names=(name,)), SPEC, PLACED, FPS)
    assert (len(score.false), len(score.missed)) == (1, 1)
    steps = (
        NamedStep("grasp the puck", 0, 30),
        NamedStep("put the puck on the shelf", 21, 39),  # the hand lets go in the next frame
        NamedStep("put the puck on the shelf", 21, 30),
        NamedStep("ponder the puck", 0, 30),
    )
    score = score_episode(Annotation(cuts=(), names=(), observed=steps), SPEC, PLACED, FPS)
    assert (score.observed, score.observed_untrue, score.observed_early) == (3, 1, 1)
    report = make_report("develop", 1, [score])
    assert (report.observed, report.observed_untrue.value) == (3, pytest.approx(1 / 3))


def test_the_split_is_fixed():
    splits = {split: split_tasks(split) for split in ("develop", "choose", "report")}
    assert [len(names) for names in splits.values()] == [30, 10, 10]
    assert set().union(*splits.values()) == tasks().keys()
    report = "basketball coffee-push dial-turn drawer-close hand-insert pick-place-wall push-back push reach"
    assert splits["report"] == tuple(f"{name}-v3" for name in (*report.split(), "window-open"))
    for names in splits.values():
        assert {tasks()[name].kind for name in names} == {"grasp", "push", "articulated"}


@pytest.mark.parametrize(
    ("success", "last"), [((50, 60), "put the block on the shelf"), ((), "touch the block")]
)
def test_a_labelled_recording_has_the_true_steps_between_its_contacts(success, last):
    obj = body(touched=((10, 15), (25, 60)), moving=[(25, 50)])
    truth = recording({"obj": obj}, [success] if success else [])
    steps = [("reach for the block", 0), ("touch the block", 10), ("reach for the block", 15), (last, 25)]
    assert [(name, start) for name, start, _ in true_steps(truth, FPS)] == steps


@pytest.mark.process
@pytest.mark.long
def test_a_task_is_recorded_once_and_scored(tmp_path, monkeypatch):
    """Marked long, as it imports lerobot and the simulator."""
    pytest.importorskip("metaworld", reason="needs metaworld: pip install 'goalreel-lab'")
    from goalreel.cli.main import app
    from goalreel_lab.metaworld import sim as record

    command = ["eval", "metaworld", "--split", "develop", "--tasks", "button-press-v3", "--seeds", "1"]
    command += ["--size", "32", "--data", str(tmp_path), "--json"]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    report = json.loads(first.stdout.splitlines()[-1])
    assert (report["tasks"], report["episodes"], report["contacts"], report["failures"]) == (1, 1, 1, 0)
    assert report["true_cuts"] == 1
    assert 0 <= report["cut_f1"] <= 1
    monkeypatch.setattr(record, "record_task", lambda *_: pytest.fail("recorded again"))
    again = CliRunner().invoke(app, command)
    assert json.loads(again.stdout.splitlines()[-1]) == report
    detailed = json.loads(CliRunner().invoke(app, [*command, "--details"]).stdout.splitlines()[-1])
    assert len(detailed["unnamed"]) == report["contacts"] - report["contacts_named"]
    assert len(detailed["untrue"]) == report["false_names"]

    (folder,) = tmp_path.iterdir()
    (episode,) = read_truth(folder).episodes
    assert episode.success[-1]
    assert episode.instruction == "press the button"
    assert all(not any(b.held) for b in episode.bodies.values())
    assert len(contacts(episode, FPS)) == 1


@pytest.mark.process
@pytest.mark.parametrize("module", [pytest.param("metaworld.sim", marks=pytest.mark.lab), "corpora.prompts"])
def test_a_simulation_without_a_display_renders_by_egl(module):
    code = f"import goalreel_lab.{module}, mujoco.gl_context; print(mujoco.gl_context.GLContext.__module__)"
    environ = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "MUJOCO_GL")}
    out = subprocess.check_output([sys.executable, "-W", "ignore", "-c", code], env=environ, text=True)
    assert out.strip() == "mujoco.egl"
