"""Policies under kinds of goals: what they are given, who acts, how arms are compared."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.cli import fails, goalreel
from support.table_policies import Clumsy, Expert, key_pose_policy, step_policy
from support.tabletop_models import quiet

from goalreel.annotator.statistics import Measurement
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.tabletop.env import Tabletop
from goalreel.types import ROLES, Failure
from goalreel_lab.policy.arm_tasks import ArmModels, arm_tasks
from goalreel_lab.policy.arms import GATES, SILENT, cues_of, pictures_of
from goalreel_lab.policy.intervals import compare, difference_of_seeds, measure_seeds
from goalreel_lab.policy.policy_tasks import sub_task
from goalreel_lab.policy.rollout import Bounds, GoalCue, LeRobotActor, Rolled, no_film, roll
from goalreel_lab.policy.study import tasks


@pytest.fixture(scope="module")
def walks():
    return tasks("seen", "validation", 3, 0, quiet)


def test_every_arm_tells_what_its_name_says(walks):
    walk = max(walks, key=lambda w: len(w.goals))
    for arm in ("instruction", "text", "true", "placebo", "black"):
        pictures = pictures_of(arm, walks, None)[walks.index(walk)]
        cues = cues_of(arm, walk, pictures, with_words=True)
        assert len(cues) == len(walk.goals)
        for i, cue in enumerate(cues):
            whole = arm == "instruction"
            assert cue.text == (walk.episode.instruction if whole else walk.goals[i].text)
            assert (cue.picture is not None) == (arm in ("true", "placebo"))
            if arm == "true":
                assert cue.picture == walk.moments[i + 1].picture
            if arm == "placebo":
                assert cue.picture not in [m.picture for m in walk.moments]
    alone = cues_of("true", walk, pictures_of("true", walks, None)[walks.index(walk)], with_words=False)
    assert all(c.text == "" and (c.words == SILENT).all() for c in alone)


def test_the_expert_succeeds_films_are_of_every_step_and_who_fails_is_told_of_no_other_goal(walks):
    for walk in walks:
        filmed, count = [], len(walk.goals)
        cues = cues_of("text", walk, [], True)
        ended = roll(
            walk, Expert(walk.goals), cues, Bounds(1), lambda _, cue, told=filmed: told.append(cue.text)
        )
        assert ended == Rolled(reached=count, goals=count, exact=count, success=True, first_right=True)
        assert len(filmed) > 30 * count
        assert list(dict.fromkeys(filmed)) == [goal.text for goal in walk.goals]
    walk = max(walks, key=lambda w: len(w.goals))
    ended = roll(walk, Clumsy(walk.goals), cues_of("text", walk, [], True), Bounds(2))
    assert (ended.reached, ended.success, ended.first_right) == (0, False, True)


def test_a_checkpoint_of_lerobot_sees_goals_and_hears_words(walks, tmp_path):
    key_pose_policy(policy := tmp_path / "policy")
    actor = LeRobotActor.load(policy, "bordered")
    assert (actor.acts, actor.sees_goals) == ("key_poses", True)
    one, two = walks[0].goals[0], walks[1].goals[0]

    def actions(actor, env, cue):
        actor.reset()
        return actor.act(env, cue)

    with Tabletop(walks[0].episode.scene) as env:
        told = GoalCue(one.text, sub_task(one), walks[0].moments[1].picture)
        first = actions(actor, env, told)
        assert first.shape == (6,)
        assert (actions(actor, env, told) == first).all()
        assert (actions(actor, env, replace(told, picture=None)) != first).any()
        assert (actions(actor, env, replace(told, words=sub_task(two))) != first).any()
        large = Image(np.zeros((200, 200, 3), np.uint8))
        assert actor.act(env, GoalCue("", SILENT, large)).shape == (6,)
        told = GoalCue("", SILENT, walks[0].moments[1].picture)
        plain = actions(LeRobotActor.load(policy, "plain"), env, told)
        for form in ("difference", "beside"):
            assert (actions(LeRobotActor.load(policy, form), env, told) != plain).any(), (
                "made of the live view"
            )


def test_a_policy_that_does_not_fit_is_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match="holds no LeRobot policy"):
        LeRobotActor.load(tmp_path, "plain")
    key_pose_policy(tmp_path / "torn")
    weights = tmp_path / "torn/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match="is not a LeRobot policy that can be loaded"):
        LeRobotActor.load(tmp_path / "torn", "plain")
    (tmp_path / "config.json").write_text('{"type": "nothing"}')
    with pytest.raises(InputError, match="is not a LeRobot policy that can be loaded"):
        LeRobotActor.load(tmp_path, "plain")
    refused: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("actions", {"action": 7}, r"actions of the policy are \(7,\)"),
        ("camera", {"camera": "kitchen"}, r"wants observation\.images\.kitchen"),
        ("wide", {"size": (64, 96)}, r"observation.images.front is 96x64: .* are square"),
        ("state", {"state": 3}, r"wants observation.state \(3,\)"),
    )
    for name, changes, why in refused:
        key_pose_policy(tmp_path / name, **changes)
        with pytest.raises(InputError, match=why):
            LeRobotActor.load(tmp_path / name, "plain")


def ends(*reached, goals=2):
    return [
        Rolled(reached=r, goals=goals, exact=r // 2, success=r == goals, first_right=r > 0) for r in reached
    ]


def test_arms_are_compared_task_by_task():
    values = compare({"text": [ends(2, 0, 1, 2)], "true": [ends(2, 2, 2, 2)], "placebo": [ends(0, 0, 0, 0)]})
    assert values["text.success"].value == 0.5
    assert values["text.reached"].value == 5 / 8
    assert values["text.exact"].value == 2 / 8
    assert values["true_minus_text_exact"].value == pytest.approx(25)
    assert values["text.length"].value == 5 / 4
    assert values["text.first_right"].value == 0.75
    assert values["true_minus_text"].value == 50
    assert values["true_minus_text_reached"].value == pytest.approx(37.5)
    assert values["placebo_minus_text"].value == -50
    assert values["true_minus_text"].low < 50 < values["true_minus_text"].high
    assert not {"predicted_minus_true", "text_minus_instruction"} & values.keys()


def test_seeds_that_disagree_are_less_certain_than_tasks_that_do_and_differences_are_paired():
    alike, apart = [ends(2, 0) * 20] * 4, [ends(2, 2) * 20, ends(0, 0) * 20] * 2
    narrow, wide = (measure_seeds(e, "success") for e in (alike, apart))
    assert narrow.value == wide.value == 0.5
    assert wide.low < narrow.low - 0.2
    assert measure_seeds([ends(1, 2), ends(2, 2)], "reached").value == 7 / 8
    better, worse = [ends(2, 2), ends(2, 0)], [ends(0, 2), ends(0, 0)]
    assert difference_of_seeds(better, worse, "success").value == 50
    assert difference_of_seeds(better, better, "reached") == Measurement(value=0, low=0, high=0)
    with pytest.raises(ValueError, match="not the same seeds and tasks"):
        difference_of_seeds(better, worse[:1], "success")


def test_the_command_prints_what_the_issue_asks_for_and_does_nothing_twice(tmp_path, monkeypatch):
    step_policy(tmp_path / "policy")
    words = ("eval", "policy", "--policy", tmp_path / "policy", "--arms", "text,true,placebo")
    words += ("--episodes", 2, "--max-steps", 3, "--out", tmp_path / "out", "--json")
    said = goalreel(*words)
    found = json.loads(said.splitlines()[-1])
    assert {"true_minus_text", "true_minus_text_low", "placebo_minus_text", "true.length"} <= found.keys()
    assert found["policies"] == dict.fromkeys(("text", "true", "placebo"), "policy")
    monkeypatch.setattr(LeRobotActor, "act", lambda *_: pytest.fail("asked again"))
    assert goalreel(*words) == said


def test_differently_trained_policies_are_compared_over_tasks_and_training_seeds(tmp_path):
    for name in ("one", "two"):
        step_policy(tmp_path / name)
    named = [f"{arm}={tmp_path / name}" for arm in ("g:true", "mix:text") for name in ("one", "two")]
    words = [word for text in named for word in ("--policy", text)]
    limits = ("--episodes", 2, "--max-steps", 3, "--out", tmp_path / "out")
    found = json.loads(goalreel("eval", "policy", *words, *limits, "--json").splitlines()[-1])
    assert {"g.success", "mix.success", "g_minus_mix", "g_minus_mix_low"} <= found.keys()
    assert not {"true.success", "text.success"} & found.keys()
    assert (found["seeds"], found["policies"]["mix"]) == (2, "one, two")
    assert "give all as many checkpoints (g 2, mix 1)" in fails("eval", "policy", *words[:6], *limits)
    twice = "g:true=a", "--policy", "g:text=b"
    assert "one NAME" in fails("eval", "policy", "--policy", *twice, *limits)
    assert "true is no name" in fails("eval", "policy", "--policy", "true:text=a", *limits)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--policy a --arms guess", "no arm 'guess': choose from instruction, text"),
        ("--policy a --arms placebo --episodes 1", "it needs two tasks at least"),
        ("--policy true=here --arms text,true", "no --policy for the arm text"),
        ("--policy a --policy black=b --arms text,true", "that arm is not among --arms"),
        ("--policy nowhere --arms text,true", "nowhere holds no LeRobot policy"),
    ],
)
def test_what_cannot_be_measured_is_named(tmp_path, words, why):
    assert why in fails("eval", "policy", *words.split(), "--out", tmp_path)


@pytest.fixture(scope="module")
def walk():
    return tasks("seen", "validation", 1, 0, quiet)[0]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    model_set = load(presets.load("nano", max_attempts=1), roles=ROLES)
    journal = Journal(tmp_path_factory.mktemp("answers"))
    return ArmModels(model_set.with_journal(journal), model_set.planner, model_set.critic)


def carried_out(walk, models, arm, actor, tries=1):
    (task,) = arm_tasks(arm, [walk], models, True, Bounds(tries))
    return task.carry_out(actor, no_film)


def test_who_is_right_needs_one_try_a_step_however_it_is_looked_at(walk, models):
    is_open, truth = (carried_out(walk, models, arm, Expert(walk.goals)) for arm in ("open", "truth"))
    assert (is_open.success, is_open.looks, is_open.stopped) == (True, 0, False)
    assert (truth.success, truth.looks, truth.replans) == (True, len(walk.goals), 0)
    assert is_open.steps == truth.steps > 30 * len(walk.goals)


def test_who_fails_tries_again_and_after_a_new_plan_the_task_stops(walk, models, monkeypatch):
    planner, continued = models.planner, []
    continue_plan = planner.continue_plan
    monkeypatch.setattr(planner, "continue_plan", lambda rest: continued.append(rest) or continue_plan(rest))
    is_open, gate, truth = (carried_out(walk, models, arm, Clumsy(walk.goals), tries=2) for arm in GATES)
    assert (is_open.success, is_open.stopped) == (False, False)
    for end in (gate, truth):
        assert (end.success, end.stopped, end.replans, end.looks) == (False, True, 1, 4)
        assert (end.false_stops, end.false_passes, end.unanswered) == (0, 0, 0)
        assert end.steps > 2 * is_open.steps / len(walk.goals)
    assert len(continued) == 2


class Silent:
    """A Critic whose replies nobody can read."""

    def judge(self, candidates):
        return [Failure(stage="judge", message="no JSON", reply="hm")] * len(candidates)


def test_a_look_without_an_answer_is_no_pass(walk, models):
    end = carried_out(walk, replace(models, live_critic=Silent()), "gate", Clumsy(walk.goals))
    assert (end.stopped, end.looks, end.unanswered, end.false_passes) == (True, 2, 2, 0)


def test_the_command_measures_all_three_ways_and_does_nothing_twice(tmp_path, monkeypatch):
    key_pose_policy(tmp_path / "policy")
    words = ("eval", "policy", "--policy", tmp_path / "policy", "--arms", "open,gate,truth", "--episodes", 1)
    words = (*words, "--tries", 1, "--max-attempts", 1, "--out", tmp_path / "out")
    said = goalreel(*words, "--json")
    found = json.loads(said.splitlines()[-1])
    assert {
        "gate_minus_open",
        "gate_minus_open_low",
        "truth_minus_gate",
        "gate_over_open_steps",
    } <= found.keys()
    assert (found["gate.unanswered"], found["open.false_stops"], found["seeds"]) == (0, None, 1)
    monkeypatch.setattr(LeRobotActor, "act", lambda *_: pytest.fail("asked again"))
    assert goalreel(*words, "--json") == said
    assert "only reads recordings" in fails(*words, "--preset", "hindsight")
