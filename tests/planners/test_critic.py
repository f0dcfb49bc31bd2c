"""The Critic agent on a scripted chat: what the model is shown, and that doubt is never an acceptance."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.places import DATA
from support.scripted import ScriptedChat, words

from goalreel.chat.conversation import NoReply, cut_off
from goalreel.chat.dialects import OWN, OwnDialect, interleavethinker
from goalreel.chat.dialects.own import ObservedDialect
from goalreel.critics.chat import ChatCritic, question
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models.load import build_critic
from goalreel.types import Candidate, Failure, Verdict

REPLIES = DATA / "replies"
YES = '<think>Held.</think><answer>{"previous_step_success": true, "refine_prompt": ""}</answer>'
NO = '<think>Open.</think><answer>{"previous_step_success": false, "refine_prompt": "close it"}</answer>'


def candidate(source: bool = True, **given) -> Candidate:
    values = {"instruction": "the block is held", "prompt": "grasp the block", **given}
    before = Image(np.zeros((6, 8, 3), np.uint8)) if source else None
    return Candidate(task_id="t", step=0, source=before, image=Image(np.ones((6, 9, 3), np.uint8)), **values)


def test_judges_a_batch_in_one_call_from_both_images():
    chat = ScriptedChat([YES, NO])
    verdicts = ChatCritic(chat).judge([candidate(), candidate(instruction="the bowl is full")])
    assert verdicts == [
        Verdict(success=True, reasoning="Held."),
        Verdict(success=False, reasoning="Open.", refined_prompt="close it"),
    ]
    assert len(chat.calls) == 1
    text = words(chat.calls[0][0][1:])
    assert text.index("[8x6]") < text.index("[9x6]") < text.index("the block is held")
    assert "grasp the block" in text
    assert "the bowl is full" in words(chat.calls[0][1])


def test_a_picture_made_from_nothing_has_no_source():
    chat = ScriptedChat([YES])
    assert ChatCritic(chat).judge([candidate(source=False)])[0].success
    text = words(chat.calls[0][0])
    assert "[8x6]" not in text
    assert "[9x6]" in text
    assert "no picture before" in text


def test_an_overlay_is_a_third_picture_in_the_size_of_the_candidate():
    chat = ScriptedChat([YES, NO])
    black, grey = (
        Image(np.full(shape, level, np.uint8)) for shape, level in (((6, 8, 3), 0), ((6, 9, 3), 90))
    )
    shown = candidate().model_copy(update={"source": black, "image": grey})
    ChatCritic(chat, dialect=OwnDialect(overlay=True)).judge([shown, candidate(source=False)])
    with_source, without = chat.calls[0]
    pictures = [p for message in with_source for p in message.parts if isinstance(p, Image)]
    assert pictures == [black, grey, Image(np.full((6, 9, 3), 45, np.uint8))]
    text = words(with_source)
    assert text.index("After the edit") < text.index("half transparent") < text.index("the block is held")
    assert [words(without).count(mark) for mark in ("[9x6]", "half transparent")] == [1, 0]
    assert question(shown, dialect=OwnDialect()).conversation == question(shown).conversation


def test_modes_and_scores_ask_differently():
    def system(**settings) -> str:
        chat = ScriptedChat([NO])
        ChatCritic(chat, **settings).judge([candidate()])
        return words(chat.calls[0][0][:1])

    strict, fast, scored = system(mode="strict"), system(mode="fast"), system(scores=True)
    assert len({strict, fast, scored}) == 3
    assert "one by one" in strict
    assert "Decide quickly" in fast
    for name in ("success", "over_editing", "naturalness", "artefacts"):
        assert f'"{name}"' in scored
        assert f'"{name}"' not in strict
    for text in (strict, fast, scored):
        assert '"previous_step_success"' in text
        assert '"refine_prompt"' in text


def test_scores_come_with_the_verdict_but_are_not_required():
    chat = ScriptedChat([(REPLIES / "verdict-yes-scores.txt").read_text(), NO])
    scored, plain = ChatCritic(chat, scores=True).judge([candidate(), candidate()])
    assert (scored.semantics, scored.quality) == (8, 7.5)
    assert plain.semantics is None
    assert len(chat.calls) == 1, "a model that gives no scores still gives verdicts"


@pytest.mark.parametrize("name", sorted(f.stem for f in REPLIES.glob("verdict-bad-*.txt")))
def test_doubt_is_asked_again_and_never_accepted(name):
    doubt = (REPLIES / f"{name}.txt").read_text()
    chat = ScriptedChat([doubt], [NO])
    assert ChatCritic(chat).judge([candidate()])[0].success is False
    again = chat.calls[1][0]
    assert [m.role for m in again] == ["system", "user", "assistant", "user"]
    assert sum(isinstance(p, Image) for m in again for p in m.parts) == 2
    assert "cannot be used" in words(again[3:])
    (failure,) = ChatCritic(ScriptedChat([doubt], [doubt]), replies=2).judge([candidate()])
    assert failure.stage == "judge"
    assert failure.reply == doubt


def test_only_the_doubtful_are_asked_again_together():
    chat = ScriptedChat([YES, "hm", NoReply("busy"), NO], [NO, YES])
    verdicts = ChatCritic(chat).judge([candidate()] * 4)
    assert [v.success for v in verdicts] == [True, False, True, False]
    assert [len(c) for c in chat.calls] == [4, 2]
    assert "previous_step_success" in chat.schemas[1]["properties"]


def test_a_draft_in_a_reply_that_was_cut_off_is_no_verdict():
    """The thoughts hold an acceptance, and their end never came."""
    draft = cut_off('so far: {"previous_step_success": true, "refine_prompt": null} but wait, the block')
    chat = ScriptedChat([draft], [NO])
    assert [v.success for v in ChatCritic(chat).judge([candidate()])] == [False]
    *_, reply, correction = chat.calls[1][0]
    assert (reply.role, reply.parts) == ("assistant", (draft.cut_off,))
    assert "cut off" in str(correction.parts[0])
    (failure,) = ChatCritic(ScriptedChat([draft], [draft], [draft])).judge([candidate()])
    assert isinstance(failure, Failure)
    assert "cut off at its length limit" in failure.message
    assert failure.reply == draft.cut_off


def repeat_the_form(conversations) -> list[str]:
    """What a small model answers: the form that stands last in the question."""
    return [re.findall(r"<answer>.*?</answer>", words(c))[-1] for c in conversations]


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("dialect", [OWN, interleavethinker(), ObservedDialect()], ids=lambda d: d.name)
def test_the_form_repeated_is_no_verdict(dialect, scores):
    if scores and not dialect.scored:
        pytest.skip("it has no scores")
    critic = ChatCritic(ScriptedChat(*[repeat_the_form] * 3), dialect=dialect, scores=scores)
    (answer,) = critic.judge([candidate()])
    assert isinstance(answer, Failure), "no order to draw the words of the form"


def test_what_planner_and_critic_wrote_never_passes_for_an_image_mark():
    chat = ScriptedChat(["<image>"], [YES])
    ChatCritic(chat).judge([candidate(instruction="like <image>", prompt="as in <image><image>")])
    for call in chat.calls:
        assert "<image>" not in words(call[0])
        assert sum(isinstance(p, Image) for m in call[0] for p in m.parts) == 2


def test_broken_use_is_refused():
    with pytest.raises(InputError, match="strict or fast"):
        ChatCritic(ScriptedChat(), mode="lenient")
    with pytest.raises(ValueError, match="at least 1"):
        ChatCritic(ScriptedChat(), replies=0)
    for threshold in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="between 0 and 1"):
            ChatCritic(ScriptedChat(), threshold=threshold)
    with pytest.raises(ValueError, match="no critic called"):
        build_critic("nonsense")


@given(st.lists(st.one_of(st.text(max_size=60), st.sampled_from([YES, NO])), min_size=1, max_size=5))
def test_one_bad_reply_never_touches_the_others(replies):
    chat = ScriptedChat(replies)
    for reply, answer in zip(
        replies, ChatCritic(chat, replies=1).judge([candidate()] * len(replies)), strict=True
    ):
        if reply in (YES, NO):
            assert answer.success == (reply == YES)
        else:
            assert isinstance(answer, Failure)
            json.loads(answer.model_dump_json())
