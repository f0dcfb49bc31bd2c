"""Frames of a robot at work: what is said of them is what the simulator says."""

from collections import Counter

import numpy as np
import pytest

from goalreel.tabletop.env import HOME_TIP
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.scene import shows
from goalreel.tabletop.splits import seeds
from goalreel_lab.corpora.composition import held_out
from goalreel_lab.corpora.live import FAULTS, HOME, UNDERWAY, carried_out, failed, frame_of, live_rows
from goalreel_lab.corpora.plans import walk
from goalreel_lab.variety import view_of

SOME = seeds("validation", 8, first=400)


@pytest.fixture(scope="module")
def rows():
    return list(live_rows(SOME, 64))


@pytest.fixture(scope="module")
def done():
    """A sub-goal on a table with blocks to spare."""
    some = walk(SOME, 64, stream=9)
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
    assert (
        frame_of(done, carried[0]).change.held
        == frame_of(done, carried[-1]).change.held
        == (done.goal.object,)
    )


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
    assert list(live_rows(SOME[2:3], 64)) == [r for r in rows if r.origin.seed == SOME[2]]
    hidden_from_training = [s for s in range(120) if held_out(sample_episode(s).goals)][:5]
    assert list(live_rows(hidden_from_training, 64)) == []
    views = {row.origin.seed: row.origin.view for row in live_rows(SOME[:3], 64, variety=1.0)}
    assert views == {seed: view_of(seed, 1.0) for seed in views} != {}
