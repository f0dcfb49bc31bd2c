"""TabletopBench on models that know the truth and on models that err: every score moves as it should."""

import numpy as np
import pytest
from support import tabletop_models as models
from support.provenance import named
from support.tabletop_models import quiet, values

from goalreel.image import Image
from goalreel.models.journal import Journal
from goalreel.models.model_set import ModelSet
from goalreel.tabletop.splits import seeds
from goalreel.types import Attempt, Candidate, Storyboard, StoryboardStep, Verdict
from goalreel_lab.bench.bench import HEADLINES, PARTS, Bench
from goalreel_lab.bench.closed import TersePlanner, measure_closed_loop
from goalreel_lab.bench.edit import edit_all, judge_all, measure_critic, measure_edits, measure_rewriting
from goalreel_lab.bench.job import measure_accepted
from goalreel_lab.bench.loop import ATTEMPTS, OracleCritic, measure_loops, run_loops
from goalreel_lab.bench.plan import measure_plans, read_plan, step_of
from goalreel_lab.bench.scenes import SIZE, walks
from goalreel_lab.corpora.prompts import explicit
from goalreel_lab.corpora.verdicts import verdict_rows


@pytest.fixture(scope="module")
def scenes():
    yield walks(seeds("validation", 6), quiet)
    models.close()


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """What followers have done in this file: a simulated course takes seconds."""
    return Journal(tmp_path_factory.mktemp("followed"))


@pytest.fixture(scope="module")
def made(scenes):
    return list(verdict_rows([w.seed for w in scenes], SIZE))


def plans(scenes, how):
    return values(measure_plans(scenes, models.Planner(scenes, how), quiet))


def test_a_plan_scores_by_what_it_lacks(scenes):
    true = measure_plans(scenes, models.Planner(scenes), quiet)
    assert (true["exact"].value, true["exact"].low, true["exact"].high) == (1, 1, 1)
    assert true["f1"].value == true["reaches"].value == true["places"].value == 1
    astray, dropped, turned = (plans(scenes, how) for how in ("astray", "drop", "reverse"))
    assert (astray["exact"], astray["places"]) == (1, 0), "orders that send blocks elsewhere"
    assert dropped["exact"] == dropped["reaches"] == 0
    steps = [len(w.goals) for w in scenes]
    f1 = 2 * sum(n - 1 for n in steps) / sum(2 * n - 1 if n > 1 else 1 for n in steps)
    assert dropped["f1"] == pytest.approx(f1)
    assert turned["f1"] == 1
    assert turned["exact"] == sum(n == 1 for n in steps) / len(scenes) < turned["reaches"] <= 1
    for how in ("wrong", "mute"):
        other = plans(scenes, how)
        assert other["exact"] == other["reaches"] == 0
        assert other["f1"] < 1
    assert other["places"] is None


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({}, {"score": 1, "score_terse": 1, "readable": 1}),
        ({"explicit": 1.0, "terse": 1.0}, {"score": 0, "reached": 0, "untouched": 1}),
        ({"explicit": 1.0, "how": "also"}, {"untouched": 0, "score": 0, "score_terse": 1}),
        ({"terse": 1.0, "how": "fail"}, {"score_terse": 0, "untouched_terse": 0, "score": 1}),
    ],
    ids=["exact", "copies the source", "moves another block too", "no picture"],
)
def test_edits_score_by_what_they_reach_and_what_they_touch(scenes, errors, expected):
    found = values(measure_edits(scenes, edit_all(scenes, models.Editor(scenes, **errors), quiet)))
    assert {key: found[key] for key in expected} == expected
    assert errors.get("how") != "also" or found["reached"] > 0.9


def judged(scenes, made, critic, editor=None):
    edited = edit_all(scenes, editor or models.Editor(scenes, explicit=0.5, terse=0.5), quiet)
    return judge_all(made, edited, critic, quiet)


@pytest.mark.parametrize(
    ("how", "balanced", "area"),
    [("true", 1, 1), ("accept", 0.5, 0.5), ("reject", 0.5, 0.5), ("fail", 0, 0.5), ("random", 0.5, 0.5)],
)
def test_the_critics_scores(scenes, made, how, balanced, area):
    found = values(measure_critic(judged(scenes, made, models.Critic(scenes, made, how))))
    near = 0.2 if how == "random" else 1e-6
    for end in ("",) if how == "random" else ("", "_made", "_editor"):
        assert found[f"balanced_accuracy{end}"] == pytest.approx(balanced, abs=near)
        assert found[f"auc{end}"] == pytest.approx(area, abs=near)
    if how != "random":
        kinds = {row.mistake for row in made if row.mistake}
        assert {found[f"rejected_{kind}"] for kind in kinds} == {float(how in ("true", "reject"))}


def test_a_rewritten_prompt_is_worth_what_the_editor_makes_of_it(scenes, made):
    for terse, rewrites, worth, reseed in (
        (1.0, True, 1.0, 0.0),
        (1.0, False, 0.0, 0.0),
        (0.0, True, None, None),
    ):
        editor = models.Editor(scenes, terse=terse)
        rows = judged(scenes, made, models.Critic(scenes, made, rewrites=rewrites), editor)
        assert values(measure_rewriting(rows, editor, quiet)) == {"rewrite": worth, "reseed": reseed}


def loops(scenes, critic, register="terse", **errors):
    hits = run_loops(scenes, models.Editor(scenes, **errors), critic, quiet, register=register)
    return values(measure_loops(scenes, hits))


def test_a_critic_that_knows_and_rewrites_closes_the_gap(scenes):
    found = loops(scenes[:5], models.Critic(scenes), terse=0.7)
    assert found["steps_1"] < 0.6
    assert found["steps_5"] == found["steps_5_oracle"] == found["boards_2"] == 1
    assert found["gap_closed"] == 1
    assert found["over_control"] > 20
    assert found["steps_1"] < found["steps_5_reseed"]


def test_a_critic_that_accepts_everything_closes_nothing_and_without_errors_there_is_no_gap(scenes):
    found = loops(scenes[:5], models.Critic(scenes, how="accept"), terse=0.7)
    assert {found[f"gap_closed_{t}"] for t in ATTEMPTS[1:]} == {0.0}
    assert found["steps_5"] == found["steps_1"]
    found = loops(scenes[:2], models.Critic(scenes))
    assert (found["steps_1"], found["gap_closed"]) == (1, None)


def test_the_perfect_critic_says_what_went_wrong(scenes):
    walk = scenes[0]
    task, goal, (before, after) = walk.task, walk.goals[0], (m.layout for m in walk.moments[:2])

    def refined(picture):
        facts = {"task_id": task.id, "step": 0, "source": task.image, "instruction": "x", "prompt": "x"}
        return OracleCritic({task.id: walk}).judge([Candidate(image=picture, **facts)])[0].refined_prompt

    assert refined(task.image) == explicit(goal, before, after, f"Really move the {goal.object}.")
    assert refined(walk.moments[1].picture) is None
    dark = Image(np.zeros((SIZE, SIZE, 3), np.uint8))
    assert refined(dark) == explicit(goal, before, after, " ".join(f"Do not lose the {n}." for n in before))


def test_a_plan_said_tersely_wants_the_same(scenes):
    known = {walk.task.id: walk for walk in scenes}
    tasks = [walk.task for walk in scenes]
    said = models.Planner(scenes).plan(tasks)
    terse = TersePlanner(models.Planner(scenes), known).plan(tasks)
    for walk, plan, other in zip(scenes, said, terse, strict=True):
        assert read_plan(other, walk.names) == read_plan(plan, walk.names) == list(walk.goals)
        assert [s.instruction for s in other.steps] == [s.instruction for s in plan.steps]
        assert all("Leave the" in s.prompt for s in plan.steps)
        assert all(len(s.prompt) < 60 for s in other.steps)
    mute = models.Planner(scenes, "mute")
    assert TersePlanner(mute, known).plan(tasks) == mute.plan(tasks), "what cannot be made out stays"


def test_the_closed_loop_falls_behind_when_the_plan_does(scenes, journal):
    few = scenes[:3]
    for how, success, gap in (("true", 1, 0), ("drop", 0, 100)):
        model_set = ModelSet(models.Planner(few, how), models.Editor(few), models.Critic(few))
        found = values(measure_closed_loop(few, model_set, 1, journal, quiet))
        assert (found["success"], found["truth"], found["gap"]) == (success, 1, gap)
        assert (found["accepted"], found["accepted_untrue"]) == (1, 0)
        assert found["untrue_examined"] == 1, "a few questions tell nothing"
        assert found["boards_untrue"] == 1 - success, "each step is right, and one is missing"


def test_a_second_run_asks_no_model_twice(scenes, tmp_path):
    few = scenes[:2]
    editor, critic = models.Editor(few, terse=0.5), models.Critic(few)
    model_set = ModelSet(models.Planner(few), editor, critic, named()).with_journal(Journal(tmp_path))
    first = measure_loops(few, run_loops(few, model_set.editor, model_set.critic, quiet))
    asked = editor.asked, critic.asked
    assert measure_loops(few, run_loops(few, model_set.editor, model_set.critic, quiet)) == first
    assert (editor.asked, critic.asked) == asked
    other = ModelSet(models.Planner(few), editor, critic, named(editor="another"))
    edit_all(few, other.with_journal(Journal(tmp_path)).editor, quiet)
    assert editor.asked > asked[0]


def test_all_parts_together_have_the_headlines(scenes, journal):
    few = scenes[:2]
    made = list(verdict_rows([w.seed for w in few], SIZE))
    model_set = ModelSet(models.Planner(few), models.Editor(few, terse=1.0), models.Critic(few, made))
    parts = [part for part in PARTS if part != "live"]  # which has a file of its own
    found = values(Bench(few, model_set, 2, journal, quiet, lambda *_: []).run(parts))
    right = ("plan.exact", "edit.score", "critic.balanced_accuracy", "loop.boards_5", "loop_terse.gap_closed")
    assert {key: found[key] for key in HEADLINES} == dict.fromkeys(right, 1) | {"closed_loop.gap": 0}
    assert found["loop.gap_closed"] is None
    assert found["loop_terse.boards_1"] == 0
    assert found["closed_loop_terse.gap"] == 0, "the Critic mends them"


def test_of_accepted_pictures_those_that_do_not_show_their_step_count():
    (scene,) = walks([30], quiet)  # one goal
    right, before = scene.moments[1].picture, scene.moments[0].picture

    def board(*pictures: Image, success: bool = True) -> Storyboard:
        steps = []
        for i, picture in enumerate(pictures):
            verdict = Verdict(success=success)
            attempt = Attempt(prompt="p", seed=0, image=picture, verdict=verdict)
            status = "accepted" if success else "rejected"
            steps.append(StoryboardStep(step=step_of(scene, i), attempts=(attempt,), status=status, chosen=0))
        return Storyboard(task=scene.task, steps=tuple(steps))

    def values(board: Storyboard) -> list[float | None]:
        return [m.value for m in measure_accepted([scene], [board]).values()]

    assert len(scene.goals) == 1
    assert values(board(right)) == [1, 0, 0]
    assert values(board(before)) == [1, 1, 1]
    assert values(board(before, success=False)) == [0, None, None]
