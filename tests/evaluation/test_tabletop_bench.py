"""TabletopBench on models that know the truth and on models that err: every score moves as it should."""

import os

os.environ.setdefault("MUJOCO_GL", "egl")

import pytest

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from support import tabletop_models as models

from goalreel.datasets.tabletop.grammar import sample_episode
from goalreel.datasets.tabletop.lessons.composition import held_out
from goalreel.datasets.tabletop.lessons.verdicts import verdict_rows
from goalreel.datasets.tabletop.splits import seeds
from goalreel.evaluation.tabletop.bench import PARTS, Bench
from goalreel.evaluation.tabletop.closed import Course, CourseFollower, follow, measure_closed_loop
from goalreel.evaluation.tabletop.critic import judge_all, measure_critic, measure_rewriting
from goalreel.evaluation.tabletop.edit import edit_all, edit_cases, measure_edits
from goalreel.evaluation.tabletop.loop import (
    ATTEMPTS,
    TruePlanner,
    boards,
    measure_loops,
    right_steps,
    run_loops,
)
from goalreel.evaluation.tabletop.plan import chance_of_order, measure_plans, score_plan
from goalreel.evaluation.tabletop.report import HEADLINES
from goalreel.evaluation.tabletop.scenes import SIZE, walks
from goalreel.models.journal import Journal
from goalreel.models.trio import Names, Trio
from goalreel.types import Plan


def quiet(stage, done, total):
    pass


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
    found = measure_plans(scenes, models.Planner(scenes, how), quiet)
    return {key: value.value for key, value in found.items()}


def edits(scenes, **errors):
    edited = edit_all(scenes, models.Editor(scenes, **errors), quiet)
    return {key: value.value for key, value in measure_edits(scenes, edited).items()}


def values(found):
    return {key: m.value for key, m in found.items()}


def test_a_true_plan_is_exact_and_has_its_interval(scenes):
    found = measure_plans(scenes, models.Planner(scenes), quiet)
    assert (found["exact"].value, found["exact"].low, found["exact"].high) == (1, 1, 1)
    assert found["f1"].value == found["reaches"].value == 1


def test_a_plan_that_lacks_a_step_is_neither_exact_nor_enough(scenes):
    found = plans(scenes, "drop")
    assert found["exact"] == found["reaches"] == 0
    steps = [len(w.goals) for w in scenes]
    assert found["f1"] == pytest.approx(
        2 * sum(n - 1 for n in steps) / sum(2 * n - 1 if n > 1 else 1 for n in steps)
    )


def test_a_plan_in_another_order_has_the_same_set_and_counts_where_it_ends_alike(scenes):
    found = plans(scenes, "reverse")
    assert found["f1"] == 1
    single = sum(len(w.goals) == 1 for w in scenes) / len(scenes)
    assert found["exact"] == single
    assert single < found["reaches"] <= 1


def test_an_order_that_nothing_tells_is_a_guess():
    """Of two blocks to sort, one is first; unless the instruction lists them."""
    guessed = [e for e in map(sample_episode, seeds("validation", 300)) if len(e.missions) == 1]
    told = {e.instruction: (len(e.goals), chance_of_order(e)) for e in guessed}
    assert told["sort the blocks by colour"] == (2, 1 / 2)
    assert {chance for text, (_, chance) in told.items() if "into the bowls of their own" in text} == {1.0}
    assert {chance for count, chance in told.values() if count == 1} == {1.0}


def test_a_tower_built_from_the_top_is_not_accepted(scenes):
    (seed, *_) = (s for s in seeds("validation", 300) if is_tower(sample_episode(s).goals))
    (walk,) = walks([seed], quiet)
    steps = tuple(models.said(g) for g in reversed(walk.goals))
    assert not score_plan(walk, Plan(steps=steps)).reaches


def is_tower(goals):
    return [g.kind for g in goals] == ["on", "on"] and goals[1].target == goals[0].object


@pytest.mark.parametrize("how", ["wrong", "mute"])
def test_a_plan_of_something_else_does_not_count(scenes, how):
    found = plans(scenes, how)
    assert found["exact"] == found["reaches"] == 0
    assert found["f1"] < 1


def test_exact_edits_are_right_and_so_are_the_true_goal_images(scenes):
    found = edits(scenes)
    assert found["score"] == found["score_terse"] == found["readable"] == 1


def test_an_editor_that_copies_the_source_touches_nothing_and_reaches_nothing(scenes):
    found = edits(scenes, explicit=1.0, terse=1.0)
    assert found["score"] == found["reached"] == 0
    assert found["untouched"] == 1


def test_an_editor_that_moves_another_block_too_is_caught_by_what_it_touched(scenes):
    found = edits(scenes, explicit=1.0, how="also")
    assert found["reached"] > 0.9
    assert found["untouched"] == found["score"] == 0
    assert found["score_terse"] == 1


def test_an_edit_without_a_picture_is_wrong(scenes):
    found = edits(scenes, terse=1.0, how="fail")
    assert found["score_terse"] == found["untouched_terse"] == 0
    assert found["score"] == 1


def test_errors_half_of_the_time_are_scored_in_between(scenes):
    found = edits(scenes, explicit=0.5)
    assert 0.2 < found["score"] < 0.8
    kinds = {g.kind for w in scenes for g in w.goals}
    assert {k for k in kinds if found[f"score_{k}"] is not None} == kinds


def test_sub_goals_that_training_never_shows_are_scored_apart():
    found = walks([s for s in seeds("validation", 150) if held_out(sample_episode(s).goals)][:2], quiet)
    new = sum(p.held_out for p in edit_cases(found))
    assert 0 < new < len(edit_cases(found))
    scored = edits(found)
    assert scored["score_held_out"] == scored["score_seen"] == 1


def judged(scenes, made, critic, editor=None):
    edited = edit_all(scenes, editor or models.Editor(scenes, explicit=0.5, terse=0.5), quiet)
    return judge_all(made, edited, critic, quiet)


@pytest.mark.parametrize(
    ("how", "balanced", "area"),
    [("true", 1, 1), ("accept", 0.5, 0.5), ("reject", 0.5, 0.5), ("fail", 0, 0.5)],
)
def test_the_critics_scores(scenes, made, how, balanced, area):
    found = values(measure_critic(judged(scenes, made, models.Critic(scenes, made, how))))
    for end in ("", "_made", "_editor"):
        assert found[f"balanced_accuracy{end}"] == pytest.approx(balanced)
        assert found[f"auc{end}"] == pytest.approx(area)
    kinds = {row.mistake for row in made if row.mistake}
    assert {found[f"rejected_{kind}"] for kind in kinds} == {float(how in ("true", "reject"))}


def test_a_critic_that_guesses_is_near_one_half(scenes, made):
    found = values(measure_critic(judged(scenes, made, models.Critic(scenes, made, "random"))))
    assert 0.3 < found["balanced_accuracy"] < 0.7
    assert 0.3 < found["auc"] < 0.7


def test_a_rewritten_prompt_is_worth_what_the_editor_makes_of_it(scenes, made):
    for rewrites, worth in ((True, 1.0), (False, 0.0)):
        editor = models.Editor(scenes, terse=1.0)
        rows = judged(scenes, made, models.Critic(scenes, made, rewrites=rewrites), editor)
        found = values(measure_rewriting(rows, editor, quiet))
        assert found == {"rewrite": worth, "reseed": 0.0}


def test_nothing_rejected_is_no_rewriting(scenes, made):
    editor = models.Editor(scenes)
    rows = judged(scenes, made, models.Critic(scenes, made), editor)
    assert values(measure_rewriting(rows, editor, quiet)) == {"rewrite": None, "reseed": None}


def loops(scenes, critic, **errors):
    hits = run_loops(scenes, models.Editor(scenes, **errors), critic, quiet)
    return values(measure_loops(scenes, hits))


def test_a_critic_that_knows_and_rewrites_closes_the_gap(scenes):
    found = loops(scenes[:5], models.Critic(scenes), terse=0.7)
    assert found["steps_1"] < 0.6
    assert found["steps_5"] == found["steps_5_oracle"] == found["boards_2"] == 1
    assert found["gap_closed"] == 1
    assert found["over_control"] > 20
    assert found["steps_1"] < found["steps_5_reseed"]


def test_a_critic_that_accepts_everything_closes_nothing(scenes):
    found = loops(scenes[:5], models.Critic(scenes, how="accept"), terse=0.7)
    assert {found[f"gap_closed_{t}"] for t in ATTEMPTS[1:]} == {0.0}
    assert found["steps_5"] == found["steps_1"]


def test_without_errors_there_is_no_gap_to_close(scenes):
    found = loops(scenes[:2], models.Critic(scenes))
    assert found["steps_1"] == 1
    assert found["gap_closed"] is None


def test_a_step_is_judged_from_the_picture_it_was_made_of(scenes):
    walk = next(w for w in scenes if len(w.goals) > 2)
    planner = TruePlanner({walk.task.id: walk})
    (board,) = boards([walk], planner, models.Editor([walk]), models.Critic([walk]), 1)
    assert right_steps(walk, board) == [True] * len(walk.goals)
    source = board.steps[1].model_copy(update={"attempts": board.steps[0].attempts})
    again = board.model_copy(update={"steps": (board.steps[0], source, *board.steps[2:])})
    assert right_steps(walk, again)[:2] == [True, False]


def test_the_follower_reaches_true_goals_and_not_without_them(scenes):
    walk = scenes[0]
    true = tuple(m.picture for m in walk.moments[1:])
    assert all(follow(Course(seed=walk.seed, images=true)).held)
    assert not all(follow(Course(seed=walk.seed, images=true[:-1])).held)


@pytest.mark.long
def test_the_closed_loop_falls_behind_when_the_plan_does(scenes, journal):
    few, follower = scenes[:3], CourseFollower(journal)
    for how, success, gap in (("true", 1, 0), ("drop", 0, 100)):
        trio = Trio(models.Planner(few, how), models.Editor(few), models.Critic(few))
        found = values(measure_closed_loop(few, trio, 1, follower, quiet))
        assert found == {"success": success, "truth": 1, "gap": gap}


def test_a_second_run_asks_no_model_twice(scenes, tmp_path):
    few = scenes[:2]
    editor, critic = models.Editor(few, terse=0.5), models.Critic(few)
    trio = Trio(models.Planner(few), editor, critic, Names("p", "e", "c")).kept(Journal(tmp_path))
    first = measure_loops(few, run_loops(few, trio.editor, trio.critic, quiet))
    asked = editor.asked, critic.asked
    assert measure_loops(few, run_loops(few, trio.editor, trio.critic, quiet)) == first
    assert (editor.asked, critic.asked) == asked
    other = Trio(models.Planner(few), editor, critic, Names("p", "another", "c")).kept(Journal(tmp_path))
    edit_all(few, other.editor, quiet)
    assert editor.asked > asked[0]


@pytest.mark.long
def test_all_parts_together_have_the_headlines(scenes, journal):
    few = scenes[:2]
    made = list(verdict_rows([w.seed for w in few], SIZE))
    trio = Trio(models.Planner(few), models.Editor(few, terse=1.0), models.Critic(few, made))
    found = values(Bench(few, trio, 2, journal, quiet).run(PARTS))
    wanted = {"plan.exact": 1, "edit.score": 1, "critic.balanced_accuracy": 1, "loop.gap_closed": 1}
    assert {key: found[key] for key in HEADLINES} == wanted | {"closed_loop.gap": 0}
