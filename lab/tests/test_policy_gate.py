"""The Critic as a gate: a policy carries out the nano models' storyboard, and each try is looked at."""

import json
from dataclasses import replace

import pytest
from support.cli import fails, goalreel
from support.table_policies import Clumsy, Expert, key_pose_policy
from support.tabletop_models import quiet

from goalreel.models import presets
from goalreel.models.journal import Journal
from goalreel.models.load import load
from goalreel.types import ROLES, Failure
from goalreel_lab.policy.arm_tasks import ArmModels, arm_tasks
from goalreel_lab.policy.arms import GATES
from goalreel_lab.policy.rollout import Bounds, LeRobotActor, no_film
from goalreel_lab.policy.study import tasks


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
