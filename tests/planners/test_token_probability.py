"""The probability of a verdict out of the tokens of a reply, however the tokens lie."""

import numpy as np
import pytest
from support.scripted import ScriptedTokens, spelled

from goalreel.chat.conversation import NoReply, Token, TokenReply, token_reply
from goalreel.chat.verdict import probability_of_yes
from goalreel.critics.chat import ChatCritic
from goalreel.image import Image
from goalreel.types import Candidate, Verdict

KEY = "previous_step_success"
FIRST = '<think>Is {"previous_step_success": false} right?</think><answer>{"previous_step_success": '
THOUGHT = FIRST[: FIRST.find("</think>")]
LAST = ', "refine_prompt": ""}</answer>'


def probability(reply: TokenReply, value: bool = True) -> float | None:
    return probability_of_yes(reply, KEY, value=value)


@pytest.mark.parametrize(
    "pieces",
    [
        (FIRST, {"true": 0.6, "false": 0.2, "maybe": 0.2}, LAST),
        (FIRST.rstrip(), {" true": 0.6, " false": 0.1, "false": 0.1, " null": 0.1}, LAST),
        (FIRST, {"t": 0.3, "true": 0.3, "f": 0.2}, "rue" + LAST),
        (FIRST, {"tr": 0.6, "fal": 0.2}, "ue", LAST),
        (FIRST + '"', {"true": 0.6, "no": 0.1, "false": 0.1}, '"' + LAST),
        (FIRST.rstrip(), {' "true': 0.6, ' "fa': 0.2, '"': 0.1}, '"' + LAST),
        (FIRST, {'"yes"': 0.6, '"no"': 0.2, "nothing": 0.2}, LAST),
        (FIRST.replace('"', "'"), {"True": 0.6, "False": 0.2}, LAST.replace('"', "'")),
        (THOUGHT, {FIRST.removeprefix(THOUGHT) + w + LAST: p for w, p in (("true", 0.6), ("false", 0.2))}),
        (FIRST, {"true, ": 0.6, 'false, "refine_prompt": "': 0.2}, '"refine_prompt": ""}</answer>'),
    ],
)
def test_all_that_begins_a_yes_or_a_no_counts(pieces):
    assert probability(spelled(*pieces)) == pytest.approx(0.75)


def test_the_last_answer_counts_and_neither_the_thinking_nor_what_a_prompt_quotes():
    again = '{"previous_step_success": '
    reply = spelled(FIRST, {"true": 0.9, "false": 0.1}, "}", again, {"true": 0.6, "false": 0.2}, "}")
    assert probability(reply) == pytest.approx(0.75)
    quoted = ', "refine_prompt": "write \\"previous_step_success\\": true"}'
    assert probability(spelled(FIRST, {"false": 0.6, "true": 0.2}, quoted), value=False) == pytest.approx(
        0.25
    )


@pytest.mark.parametrize(
    "reply",
    [
        TokenReply(FIRST + "true" + LAST),
        spelled(FIRST, {"true": 0.0, "x": 1.0}, LAST),
        spelled(FIRST, {"false": 0.9, "true": 0.1}, LAST),
        spelled("no key", {"true": 1.0}),
        spelled(FIRST, {"true": 0.6}, LAST),
    ],
    ids=["no tokens", "nothing likely", "not what was read", "no answer", "no alternatives"],
)
def test_none_where_the_tokens_do_not_tell(reply):
    assert probability(reply) is None


def test_tokens_are_cut_to_the_reply():
    tokens = (Token("<s>", {"<s>": 1.0}), Token(" a", {" a": 0.5, "a": 0.25}), Token("b \n", {"b \n": 0.5}))
    reply = token_reply("ab", tokens)
    assert [t.text for t in reply.tokens] == ["a", "b"]
    assert reply.tokens[0].alternatives == {"a": 0.75}
    assert token_reply("ac", tokens) == TokenReply("ac")
    assert token_reply("b", (Token("", {"": 1.0}), Token("b", {"b": 1.0}))).tokens[-1].text == "b"


YES = (FIRST, {"true": 0.6, "false": 0.2}, LAST)
NO = (FIRST, {"false": 0.6, "true": 0.2}, ', "refine_prompt": "close it"}</answer>')


@pytest.fixture
def candidate() -> Candidate:
    image = Image(np.zeros((6, 8, 3), np.uint8))
    return Candidate(task_id="t", step=0, source=image, image=image, instruction="held", prompt="grasp")


def judged(candidate, *pieces, **settings) -> Verdict:
    (verdict,) = ChatCritic(ScriptedTokens([spelled(*pieces)]), **settings).judge([candidate])
    return verdict


def test_the_critic_says_how_sure_it_is_and_its_word_counts(candidate):
    yes, no = judged(candidate, *YES), judged(candidate, *NO)
    assert (yes.success, no.success, no.refined_prompt) == (True, False, "close it")
    assert (yes.probability, no.probability) == (pytest.approx(0.75), pytest.approx(0.25))


@pytest.mark.parametrize(
    ("pieces", "threshold", "success", "prompt"),
    [
        (YES, 0.7, True, None),
        (YES, 0.8, False, None),
        (NO, 0.2, True, None),
        (NO, 0.3, False, "close it"),
    ],
)
def test_a_threshold_decides_in_its_place(candidate, pieces, threshold, success, prompt):
    verdict = judged(candidate, *pieces, threshold=threshold)
    assert (verdict.success, verdict.refined_prompt) == (success, prompt)


def test_what_a_batch_changes_by_rounding_changes_no_verdict(candidate):
    (a, b) = (judged(candidate, FIRST, {"true": p, "false": 0.25}, LAST) for p in (0.5, 0.5000001))
    assert a == b
    assert a.probability == 0.667


@pytest.mark.parametrize("word", ["true", "false"])
def test_a_probability_that_says_the_reverse_makes_no_answer(candidate, word):
    odd = spelled(FIRST, {word: 0.002, "false" if word == "true" else "true": 0.998}, LAST)
    chat = ScriptedTokens([odd], [odd], [odd])
    (failure,) = ChatCritic(chat).judge([candidate])
    assert "its probability of True is" in failure.message


def test_the_probability_is_that_of_the_reply_that_could_be_read(candidate):
    chat = ScriptedTokens([spelled("hm"), NoReply("busy")], [spelled(*YES), spelled(*NO)])
    verdicts = ChatCritic(chat).judge([candidate, candidate])
    assert [v.probability for v in verdicts] == [pytest.approx(0.75), pytest.approx(0.25)]
    assert chat.schemas[1] is not None
