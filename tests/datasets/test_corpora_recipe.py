"""The recipe, stage by stage: what becomes a row, what does not, and for which reason."""

import re
from collections import Counter
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from support.pages import text_of
from support.scripted import ScriptedChat
from support.told import attempt, board, failed, step, unplanned, words

from goalreel.chat.plan import parse_plan
from goalreel.chat.verdict import parse_verdict
from goalreel.critics.chat import ChatCritic
from goalreel.datasets.corpora import critic_rows, planner_rows, recipe, trajectories
from goalreel.datasets.corpora.critic_rows import critique_row, judgement
from goalreel.datasets.corpora.recipe import cut_of, easy_fault, select
from goalreel.datasets.corpora.rows import from_columns, messages_of, to_columns
from goalreel.datasets.corpora.trajectories import HumanVerdict, StepSample, outline
from goalreel.planners.chat import ChatPlanner
from goalreel.types import PictureScores, Registration, ReplanContext, Verdict


def seen(told, marks, said=None):
    """The outline of a storyboard, its samples scored with (semantics, quality) each, None for none."""
    each = outline(told, "t", said)
    samples = (
        trajectories.scored(s, None if m is None else PictureScores(*m, "why", "look"))
        for s, m in zip(each.samples, marks, strict=True)
    )
    return each.model_copy(update={"samples": tuple(samples)})


def test_a_storyboard_is_cut_into_its_attempts_and_every_loss_has_a_reason():
    told = board(
        step("a", attempt("do a", False), failed("do a, really"), attempt("do a now", True)),
        words("b"),
        step("c", failed("do c")),
        step("d"),
    )
    each = outline(told, "t")
    assert [(s.step, s.attempt, s.prompt) for s in each.samples] == [(0, 0, "do a"), (0, 2, "do a now")]
    assert each.dropped == {"no_picture": 2, "words_only": 1, "not_tried": 1}
    assert outline(unplanned(), "t").dropped == {"no_plan": 1}


def test_a_picture_that_no_critic_saw_is_a_sample_only_with_a_persons_verdict():
    moved = Registration(shift=(40.0, 0.0), outcome="rejected")
    rejected = attempt("do a", False).model_copy(update={"registration": moved})
    told = board(step("a", rejected, attempt("do a now", True)))
    each = outline(told, "t")
    assert ([s.attempt for s in each.samples], each.dropped) == ([1], {"background_moved": 1})
    judged = outline(told, "t", {(0, 0): HumanVerdict(success=False, reasoning="it moved")})
    assert ([s.attempt for s in judged.samples], judged.dropped) == ([0, 1], {})


def test_a_sample_starts_where_the_loop_did_and_from_white_where_it_drew():
    told = board(step("a", attempt("x", True)), words("b"), step("c", attempt("y", False)), image=False)
    first, second = seen(told, [(9, 9), (2, 2)]).samples
    assert trajectories.candidate(told, "t", first).source is None
    row = critique_row(told, "t", first)
    assert row.drawn
    assert row.source.size == row.candidate.size
    assert np.all(row.source.pixels == 255)
    assert (row.first_prompt, row.prompt, row.success, row.trust) == ("do a", "x", True, 0)
    after = critique_row(told, "t", second)
    assert not after.drawn
    assert after.source == told.steps[0].goal_image
    with pytest.raises(ValueError, match="not scored"):
        critique_row(told, "t", outline(told, "t").samples[0])


def test_what_picture_checks_accepted_is_no_verdict_to_learn():
    """`difference` has numbers for how much of the picture changed; nobody compared it with the words."""
    accepted = attempt("x", True, (9, 9))
    checked = accepted.verdict.model_copy(update={"pictures_only": True, "reasoning": "40% changed."})
    drawn = accepted.model_copy(update={"verdict": checked})
    observed = step("a", accepted).model_copy(update={"attempts": (drawn,), "status": "observed"})
    told = board(observed)
    (sample,) = trajectories.by_record(outline(told, "t")).samples
    assert (sample.scores, sample.success) == (None, None)
    (judged,) = seen(told, [(9, 9)]).samples
    assert judgement(judged, [judged]) == Verdict(success=True, reasoning="why look")


@given(st.lists(st.floats(0, 10), min_size=1, max_size=6))
@example([8.0, 7.0])
def test_what_is_kept_ends_high_and_has_not_fallen(overall):
    if recipe.trend_fault(overall) is None:
        assert overall[-1] >= 6
        assert overall[-1] >= overall[0] - 0.5
    else:
        assert overall[-1] < 6 or overall[-1] < overall[0] - 0.5


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30), st.integers(0, 3))
def test_balance_leaves_out_and_never_repeats_nor_touches_a_persons_rows(rows, seed):
    said = HumanVerdict(success=True)
    sample = StepSample(step=0, attempt=0, prompt="", verdict=None)
    picks = [
        recipe.Pick(number, sample.model_copy(update={"said": said if trusted else None, "success": success}))
        for number, (success, trusted) in enumerate(rows)
    ]
    kept = [pick.board for pick in recipe.balanced(picks, seed)]
    assert len(kept) == len(set(kept))
    assert {number for number, (_, trusted) in enumerate(rows) if trusted} <= set(kept)
    sides = [sum(rows[number][0] is side for number in kept) for side in (True, False)]
    if not any(trusted for _, trusted in rows):
        assert sides[0] == sides[1] == min(sum(s for s, _ in rows), sum(not s for s, _ in rows))


def verdicts(told, marks, said=None):
    samples = seen(told, marks, said).samples
    return [judgement(s, samples) for s in samples]


def test_the_answer_to_learn_has_the_order_that_made_a_better_picture():
    told = board(step("a", attempt("x", False), attempt("y", False), attempt("z", True)))
    first, second, third = verdicts(told, [(2, 8), (1, 8), (9, 9)])
    assert first == Verdict(success=False, reasoning="I see that it is amiss.", refined_prompt="z")
    assert second.refined_prompt == "z"
    assert third == Verdict(success=True, reasoning="I see that it is well.")
    assert verdicts(told, [(2, 8), (4, 8), (9, 9)])[0].refined_prompt == "y"


def test_a_luckier_seed_is_no_better_order_and_noise_is_no_better_picture():
    told = board(step("a", attempt("x", False), attempt("x", True)))
    assert verdicts(told, [(2, 8), (9, 9)])[0] == "no_better_prompt"
    told = board(step("a", attempt("x", False), attempt("y", False)))
    assert verdicts(told, [(4, 4), (4.4, 4.4)])[0] == "no_better_prompt"


def test_where_the_critic_was_wrong_the_scorer_gives_the_words():
    told = board(step("a", attempt("x", True)))
    assert verdicts(told, [(2, 9)]) == ["no_better_prompt"]
    told = board(step("a", attempt("x", False)))
    assert verdicts(told, [(9, 9)]) == [Verdict(success=True, reasoning="why look")]
    (sample,) = seen(told, [(9, 9)]).samples
    mute = sample.model_copy(update={"scores": PictureScores(9, 9)})
    assert judgement(mute, [mute]) == "no_reasoning"


def test_what_a_person_said_stands_over_the_scorer_and_no_filter_drops_it():
    told = board(step("a", attempt("x", True), attempt("y", True)))
    said = {(0, 0): HumanVerdict(success=False, reasoning="It leans.", correction="wrong_picture")}
    each = seen(told, [(9, 9), (0, 1)], said)
    assert [s.trust for s in each.samples] == [1, 0]
    assert (each.samples[0].success, each.samples[0].scores.overall) == (False, 0)
    chosen = select([each])
    words = Verdict(success=False, reasoning="It leans.")
    assert [(p.sample.attempt, p.verdict) for p in chosen.sft] == [(0, words)]
    assert chosen.dropped["trends"] == {"low_quality": 1}
    row = critique_row(told, "t", chosen.sft[0].sample)
    assert (row.trust, row.success, row.semantics) == (1, False, 0)


def test_the_iteration_tells_nothing_of_the_verdict_and_the_filter_can_be_left_out():
    """A first prompt is the plan's: if the first attempts were mostly wrong, the question would tell."""
    twice = seen(board(step("a", attempt("x", False), attempt("y", True))), [(2, 2), (9, 9)])
    once = seen(board(step("a", attempt("x", True))), [(9, 9)])
    failing = seen(board(step("a", attempt("x", True), attempt("y", False))), [(9, 9), (2, 2)])
    chosen = select([twice] * 6 + [once] * 2 + [failing], rl_variance=100.0)
    assert Counter((p.sample.attempt, p.sample.success) for p in chosen.sft) == {(0, False): 2, (0, True): 2}
    assert chosen.dropped["trends"] == {"negative_trend": 2}
    free = select([twice] * 6 + [once] * 2 + [failing], rl_variance=100.0, filtered=False)
    assert not free.dropped["trends"]


def test_the_critic_is_asked_what_it_is_trained_on_and_rows_come_back():
    told = board(step("a", attempt("x", False), attempt("y", True)), image=False)
    samples = seen(told, [(2, 2), (9, 9)]).samples
    for sample in samples:
        verdict = judgement(sample, samples)
        row = critic_rows.judgement_row(told, "t", sample, verdict)
        conversation, reply = critic_rows.judgement_lesson(row)
        assert conversation == critic_rows.critique_lesson(row)[0]
        chat = ScriptedChat([reply])
        assert ChatCritic(chat).judge([critic_rows.candidate_of(row)]) == [verdict]
        assert chat.calls == [[conversation]]
        assert from_columns(critic_rows.JUDGEMENTS, to_columns(critic_rows.JUDGEMENTS, row)) == row


def test_a_cut_lies_after_accepted_steps_only():
    good = [step(name, attempt("x", True)) for name in "abcd"]
    bad = step("e", attempt("x", False))
    assert {cut_of(outline(board(*good, bad), "t"), 0, n) for n in range(60)} == {1, 2, 3, 4}
    assert {cut_of(outline(board(good[0], bad, *good), "t"), 0, n) for n in range(20)} == {1}
    assert cut_of(outline(board(good[0]), "t"), 0, 0) == "one_step"
    assert cut_of(outline(board(bad, good[0]), "t"), 0, 0) == "first_step_not_accepted"
    marked = board(*good, instruction="like <image> and <image>")
    assert cut_of(outline(marked, "t"), 0, 0) == "marks_without_pictures"


def test_a_planner_is_asked_for_the_rest_what_it_is_trained_on():
    told = board(*(step(name, attempt("x", True)) for name in "abc"), words("d"))
    row = planner_rows.continuation_row(told, "t", 2)
    conversation, reply = row.lesson
    behind = told.model_copy(update={"steps": told.steps[:2]})
    chat = ScriptedChat([reply])
    (plan,) = ChatPlanner(chat).continue_plan([ReplanContext(behind, 2, told.steps[1].goal_image)])
    assert chat.calls == [[conversation]]
    assert plan.steps == tuple(s.step for s in told.steps[2:])
    assert '"step_number": 3' in reply
    text = messages_of(row.lesson)[0][1]["content"]
    assert "c is done" not in text
    assert text.count("<image>") == 4
    kind = planner_rows.CONTINUATIONS
    assert from_columns(kind, to_columns(kind, row)) == row


def test_sequences_hold_the_plan_and_a_verdict_on_each_picture():
    told = board(
        step("a", attempt("x", False), attempt("y", True)), words("b"), step("c", attempt("z", True))
    )
    easy, reflection = (planner_rows.sequence_row(told, "t", rejected=kept) for kept in (False, True))
    for row, verdict_count in ((easy, 2), (reflection, 3)):
        messages, images = messages_of(row.lesson)
        assert [m["role"] for m in messages] == ["system", *["user", "assistant"] * (verdict_count + 1)]
        assert len(images) == verdict_count + 1 == sum(m["content"].count("<image>") for m in messages)
        assert parse_plan(messages[2]["content"]).steps == tuple(s.step for s in told.steps)
    messages, images = messages_of(reflection.lesson)
    assert images[1] == told.steps[0].attempts[0].image
    assert parse_verdict(messages[4]["content"]).refined_prompt == "x, really"
    for kind, row in ((planner_rows.EASY, easy), (planner_rows.REFLECTION, reflection)):
        assert from_columns(kind, to_columns(kind, row)) == row


def test_why_a_storyboard_is_no_sequence():
    good, bad = step("a", attempt("x", True)), step("a", attempt("x", False))
    assert easy_fault(seen(board(good, bad), [(9, 9)] * 2)) == "incomplete"
    assert easy_fault(seen(board(good), [(2, 9)])) == "scorer_disagrees"
    assert easy_fault(seen(board(good), [None])) == "unscored"
    assert easy_fault(outline(board(words("a")), "t")) == "words_only"
    assert easy_fault(outline(unplanned(), "t")) == "no_plan"
    assert easy_fault(seen(board(good), [(9, 9)])) is None
    assert recipe.reflection_fault(seen(board(good), [(9, 9)])) == "nothing_rejected"


def test_every_attempt_is_a_row_or_has_a_reason():
    rng = np.random.default_rng(3)
    outlines = []
    for _ in range(40):
        tries = [attempt(f"p{i}", bool(rng.integers(2))) for i in range(rng.integers(1, 5))]
        marks = [None if rng.random() < 0.1 else tuple(rng.uniform(0, 10, 2).tolist()) for _ in tries]
        outlines.append(seen(board(step("a", *tries)), marks))
    chosen = select(outlines, seed=1)
    samples = sum(len(each.samples) for each in outlines)
    stages = ("scores", "trends", "judgements", "sft", "rl")
    dropped = sum(chosen.dropped[stage].total() for stage in stages)
    assert dropped == samples - len(chosen.sft) - len(chosen.rl)
    for picks in (chosen.sft, chosen.rl):
        assert sum(p.sample.success for p in picks) == sum(not p.sample.success for p in picks)
    steps = chosen.parts.total()
    assert chosen.parts["rl"] == steps - round(2 / 3 * steps)
    assert select(outlines, seed=1) == chosen
    everything = select(outlines, seed=1, rl_variance=25)
    assert not everything.rl


def texts_in(kind) -> set[str]:
    """The texts of a union of literals."""
    parts = get_args(getattr(kind, "__value__", kind))
    return set().union(*map(texts_in, parts)) if parts else {kind}


def test_the_documentation_explains_every_reason():
    _, _, table = text_of("docs/reference/corpus-format.md").partition("| reason | meaning |")
    reasons = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    assert sorted(reasons) == sorted(texts_in(trajectories.Reason))
