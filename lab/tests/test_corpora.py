"""Training corpora and frames of a robot at work: labels are true, and what is held out stays out."""

from collections import Counter

import numpy as np
import pytest

from goalreel.tabletop.env import HOME_TIP, Tabletop, teleport
from goalreel.tabletop.grammar import read_order, sample_episode, state_of
from goalreel.tabletop.scene import KINDS, SubGoal, shows
from goalreel.tabletop.splits import seeds
from goalreel.types import Failure
from goalreel_lab.corpora.composition import held_out
from goalreel_lab.corpora.edits import MADE, edit_rows, make, vary
from goalreel_lab.corpora.grounding import DISTURBED, compare
from goalreel_lab.corpora.live import FAULTS, HOME, UNDERWAY, carried_out, failed, frame_of, live_rows
from goalreel_lab.corpora.plans import plan_rows, walk
from goalreel_lab.corpora.prompts import TERSE, explicit, terse
from goalreel_lab.corpora.verdicts import Judge, drawn_by, editor_rows, verdict_rows
from goalreel_lab.variety import view_of

TRAIN = seeds("train", 10, first=400)
VALIDATION = seeds("validation", 10, first=400)
SOME = VALIDATION[:7]


@pytest.fixture(scope="module")
def verdicts():
    return list(verdict_rows(VALIDATION))


@pytest.fixture(scope="module")
def edits():
    return list(edit_rows(VALIDATION))


def layout_when(origin) -> tuple[Tabletop, SubGoal]:
    """The scene of a row's origin, made anew."""
    episode = sample_episode(origin.seed)
    env = Tabletop(episode.scene)
    for goal in episode.goals[: origin.done]:
        teleport(env, goal)
    return env, episode.goals[origin.done]


def test_training_never_shows_what_is_held_out():
    seeds = [s for s in range(120) if held_out(sample_episode(s).goals)]
    assert len(seeds) > 5
    assert list(plan_rows(seeds)) == list(edit_rows(seeds)) == list(verdict_rows(seeds)) == []
    for row in plan_rows(TRAIN, 64):
        assert row.origin.held_out == held_out(row.goals) == ()


def test_a_plan_is_the_episodes_sub_goals_in_words_if_there_is_a_way_to_its_end():
    rows = list(plan_rows(VALIDATION))
    assert [row.origin.seed for row in rows] == list(VALIDATION)
    for row in rows:
        episode = sample_episode(row.origin.seed)
        assert (row.goals, row.instruction) == (episode.goals, episode.instruction)
        assert [step.instruction for step in row.plan.steps] == [state_of(goal) for goal in row.goals]
    for row in rows[:3]:
        with Tabletop(_scene(row)) as env:
            assert np.array_equal(row.image.pixels, env.render("front", 128))
    whole, stuck = 128, 129
    assert 0 < len(list(edit_rows([stuck], 64))) < 2 * len(sample_episode(stuck).goals)
    assert [row.origin.seed for row in plan_rows([whole, stuck, whole + 2], 64)] == [whole, whole + 2]


def test_an_edits_pictures_are_of_its_origin(edits):
    for row in edits[::9]:
        env, goal = layout_when(row.origin)
        with env:
            assert row.goal == goal
            assert np.array_equal(env.render("front", 128), row.source.pixels)
            if goal.kind != "out_of":
                teleport(env, goal)
                assert env.holds(goal)
                assert np.array_equal(env.render("front", 128), row.target.pixels)


def test_both_registers_of_every_sub_goal(edits):
    goals = sum(len(sample_episode(seed).goals) for seed in VALIDATION)
    assert Counter(row.register for row in edits) == {"terse": goals, "explicit": goals}
    for row in edits:
        names = [o.name for o in (*_scene(row).blocks, *_scene(row).bowls)]
        if row.register == "explicit":
            assert read_order(row.prompt, names) == row.goal
            assert all(name in row.prompt for name in names)
            assert "It goes " in row.prompt
        else:
            assert len(row.prompt) < 60
            assert "Leave" not in row.prompt


def _scene(row):
    return sample_episode(row.origin.seed).scene


@pytest.mark.parametrize("kind", KINDS)
def test_terse_orders_leave_something_open_and_an_explicit_one_says_from_where_to_where(kind):
    rng = np.random.default_rng(0)
    orders = {terse(SubGoal(kind, "red block", "blue bowl"), rng) for _ in range(200)}
    others = {terse(SubGoal(kind, "green block", "purple bowl"), rng) for _ in range(200)}
    assert len(orders) == len(TERSE[kind]) == len(others)
    assert 1 <= len([text for text in orders if "red block" in text and "blue bowl" in text]) <= 2
    before = {"red block": np.array([0.40, -0.25, 0.025]), "blue bowl": np.array([0.6, 0.1, 0])}
    after = before | {"red block": np.array([0.6, 0.1, 0.033])}
    goal = SubGoal(kind, "red block", "blue bowl")
    assert explicit(goal, before, after, "Mind this.") == (
        f"{goal.text[0].upper()}{goal.text[1:]}. Mind this. "
        "It goes from the back far left to the front right. "
        "Leave the blue bowl, the table, the camera and the light as they are."
    )


def test_half_of_the_candidates_are_right_and_every_mistake_is_made():
    rows = list(verdict_rows(seeds("validation", 20, first=600), 64))
    counts = Counter(row.mistake for row in rows)
    assert set(counts) == {None, *MADE}
    assert 0.49 < counts[None] / len(rows) < 0.52
    assert min(counts.values()) > 0.04 * len(rows)


def test_every_mistake_is_what_it_is_called():
    """Checked on the simulator's own state, which the maker left in the environment."""
    checked = Counter()
    for done in walk(VALIDATION, 128, stream=9):
        for mistake in MADE:
            made = make(done, mistake)
            if made is None:
                continue
            checked[mistake] += 1
            now = done.env.layout() if mistake != "nothing_moved" else done.layout
            shifted = {n for n in now if np.linalg.norm(now[n] - done.layout[n]) > DISTURBED}
            holds, block = shows(now, done.goal), done.goal.object
            true = {
                "nothing_moved": not shifted and not holds,
                "wrong_object": bool(shifted) and block not in shifted and not holds,
                "wrong_place": shifted == {block} and not holds,
                "near_miss": shifted == {block} and not holds,
                "also_moved": holds and bool(shifted - {block}),
                "vanished": set(done.layout) - set(made.layout) != set(),
                "deformed": bool(made.misshapen) and holds,
            }
            assert true[mistake], (mistake, done.origin)
            faint = np.abs(made.image.pixels.astype(int) - done.target.pixels).max(-1) > 40
            assert faint.sum() >= 20
            assert not compare(done.layout, made.layout, done.goal, made.misshapen).success(done.goal)
    assert min(checked[m] for m in MADE) >= 5


def test_a_relabelled_row_asks_for_a_sub_goal_one_word_away_that_can_be_reached(verdicts):
    rows = list(verdict_rows(VALIDATION, relabelled=1.0))
    changed = [row for row in rows if row.mistake == "relabelled"]
    assert len(changed) > 0.8 * len(rows) / 2
    rights = {(r.origin.seed, r.origin.done): r for r in verdicts if r.mistake is None}
    words = Counter()
    for row in changed:
        env, goal = layout_when(row.origin)
        with env:
            before = env.layout()
            assert not shows(before, row.goal)
            assert row.source == rights[row.origin.seed, row.origin.done].source
            teleport(env, goal)
            assert np.array_equal(env.render("front", 128), row.candidate.pixels)
            assert not shows(env.layout(), row.goal)
        env, _ = layout_when(row.origin)
        with env:
            teleport(env, row.goal)
            assert compare(before, env.layout(), row.goal).success(row.goal)
        differs = [n for n in ("kind", "object", "target") if getattr(row.goal, n) != getattr(goal, n)]
        words.update(differs)
        assert len(differs) == 1
        assert not held_out([row.goal])
        assert row.instruction == state_of(row.goal)
        assert not row.verdict.success
        assert read_order(row.verdict.refined_prompt, list(before)) == row.goal
        fault = "did not move" if differs == ["object"] else goal.object
        assert fault in row.verdict.reasoning
    assert set(words) == {"kind", "object", "target"}


def test_a_verdict_names_places_first_and_then_the_fault_and_follows_from_its_seed(verdicts):
    for row in verdicts:
        names = [o.name for o in (*_scene(row).blocks, *_scene(row).bowls)]
        places, _, rest = row.verdict.reasoning.partition(". ")
        assert [part.startswith(tuple(names)) for part in places.split("; ")] == [True] * len(names)
        assert row.verdict.success == (row.mistake is None) == rest.endswith("All else is as it was.")
        if row.mistake is None:
            assert row.verdict.refined_prompt is None
        else:
            assert read_order(row.verdict.refined_prompt, names) == row.goal
    text = {row.mistake: row.verdict.reasoning for row in verdicts}
    for mistake, said in (("vanished", "gone"), ("deformed", "misshapen"), ("nothing_moved", "did not move")):
        assert said in text[mistake]
    seed = VALIDATION[3]
    assert list(verdict_rows([seed])) == [row for row in verdicts if row.origin.seed == seed]
    assert list(edit_rows([seed])) == list(edit_rows([seed]))


def test_reading_an_editors_picture_agrees_with_the_truth():
    right, wrong, asked = Counter(), Counter(), 0
    for done in walk(seeds("validation", 8, first=700), 128, stream=9):
        judge = Judge.of(done)
        for mistake in (None, *MADE) if judge else ():
            truth = vary(done) if mistake is None else make(done, mistake)
            asked += truth is not None
            if truth and (read := judge.read(truth.image)):
                success = compare(done.layout, read.layout, done.goal, read.misshapen).success(done.goal)
                (right if success == (mistake is None) else wrong)[mistake] += 1
    told = right.total() + wrong.total()
    assert told > 0.75 * asked > 75
    assert set(wrong) <= {"deformed"}
    assert wrong.total() <= 0.05 * told
    assert right[None] > 10


def test_an_editors_own_pictures_become_rows_if_they_came(edits):
    asked = []

    def lazy(images, prompts):
        asked.extend(prompts)
        return images

    class Broken:
        """Fails every other edit."""

        def edit(self, edits):
            assert len({e.seed for e in edits}) > 1
            return [e.image if i % 2 else Failure(stage="edit", message="no") for i, e in enumerate(edits)]

    rows = list(editor_rows(SOME, lazy, batch=7))
    assert len(rows) > 0.9 * len(asked) > 20
    assert {row.mistake for row in rows} == {"editor"}
    assert not any(row.verdict.success for row in rows)
    assert all("did not move" in row.verdict.reasoning for row in rows)
    by_source = {row.source: row.target for row in edits}
    right = list(editor_rows(SOME, lambda images, _: [by_source[i] for i in images]))
    assert len(right) == len(asked)
    assert {row.mistake for row in right} == {None}
    assert 0 < len(list(editor_rows(SOME, drawn_by(Broken())))) < len(rows)


LIVE = seeds("validation", 8, first=400)


@pytest.fixture(scope="module")
def rows():
    return list(live_rows(LIVE, 64))


@pytest.fixture(scope="module")
def done():
    """A sub-goal on a table with blocks to spare."""
    some = walk(LIVE, 64, stream=9)
    yield next(d for d in some if len(d.env.blocks) > 3 and d.goal.kind != "out_of")
    some.close()


def tip(done) -> float:
    return float(np.linalg.norm(done.env.observation()[7:10] - HOME_TIP))


def test_a_good_execution_succeeds_at_its_end_and_at_no_moment_before_the_arm_is_home(done):
    moments = carried_out(done, precise=True)
    seen = Counter()
    for moment in [*moments[::3], *moments[-3:]]:
        frame = frame_of(done, moment)
        truth = shows(frame.layout, done.goal) and not done.env.grasped(done.goal.object)
        assert frame.success(done.goal) == (truth and tip(done) < HOME)
        assert (frame.stage == "home") == (tip(done) < HOME)
        seen[frame.stage, frame.success(done.goal)] += 1
    assert frame_of(done, moments[-1]).success(done.goal)
    assert {stage for stage, good in seen if not good} >= set(UNDERWAY)
    assert {stage for stage, good in seen if good} == {"home"}
    carried = [m for m in moments if m.phase == "move"]
    held = {frame_of(done, carried[at]).change.held for at in (0, -1)}
    assert held == {(done.goal.object,)}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_execution_is_called_so(done, fault):
    moments = failed(done, fault)
    assert moments is not None
    end = frame_of(done, moments[-1])
    assert end.stage == "home"
    assert not end.change.held
    moved = np.array([np.linalg.norm(end.layout[n] - done.layout[n]) > 0.02 for n in done.layout])
    own = list(done.layout).index(done.goal.object)
    wanted = {"nothing_moved": (0, False), "also_moved": (1, True), "wrong_object": (0, True)}
    if fault in wanted:
        assert (moved[own], moved.sum() > moved[own]) == wanted[fault]
    elif fault != "dropped":
        assert moved[own]
    assert not end.success(done.goal)


def test_rows_say_what_is_true_in_a_critics_words(rows):
    kinds = Counter(row.mistake for row in rows)
    assert kinds[None] >= 5
    assert all(kinds[stage] for stage in UNDERWAY)
    assert set(kinds) & set(FAULTS)
    for row in rows:
        assert row.verdict.success == (row.mistake is None)
        at_work = row.verdict.reasoning.endswith("The arm is not away.")
        assert at_work == (row.mistake in UNDERWAY)
        assert (row.verdict.refined_prompt is None) == (at_work or row.verdict.success)
    carried = [row.verdict.reasoning for row in rows if row.mistake == "carrying"]
    assert any(" held" in text for text in carried)


def test_live_rows_follow_from_their_seed_look_as_variety_says_and_keep_out_what_is_held_out(rows):
    assert list(live_rows(LIVE[2:3], 64)) == [r for r in rows if r.origin.seed == LIVE[2]]
    hidden_from_training = [s for s in range(120) if held_out(sample_episode(s).goals)][:5]
    assert list(live_rows(hidden_from_training, 64)) == []
    views = {row.origin.seed: row.origin.view for row in live_rows(LIVE[:3], 64, variety=1.0)}
    assert views == {seed: view_of(seed, 1.0) for seed in views} != {}
