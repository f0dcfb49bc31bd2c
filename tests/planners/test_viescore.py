"""VIEScore on a scripted chat, and over HTTP: two questions a picture, and None, never a number, in doubt."""

import json
import math

import numpy as np
import pytest
from support.scripted import ScriptedChat, words

from goalreel.chat.conversation import NoReply
from goalreel.critics.viescore import VieScore
from goalreel.image import Image
from goalreel.types import Candidate, PictureScores


def candidate(source: bool = True, prompt: str = "close the drawer") -> Candidate:
    before = Image(np.zeros((6, 8, 3), np.uint8)) if source else None
    after = Image(np.ones((6, 9, 3), np.uint8))
    return Candidate(task_id="t", step=0, source=before, image=after, instruction="it is shut", prompt=prompt)


def marks(reasoning: str = "seen", **given: object) -> str:
    return json.dumps({"reasoning": reasoning, **given})


GOOD = marks("done", success=8, over_editing=9.5)
CLEAN = marks("sharp", naturalness=7, artefacts=4.5)


def test_scores_are_the_lower_of_two_marks_each():
    chat = ScriptedChat([GOOD, marks(success=0, over_editing=10)], [CLEAN, CLEAN])
    first, second = VieScore(chat).score([candidate(), candidate()])
    assert first == PictureScores(8, 4.5, "done", "sharp")
    assert first.overall == pytest.approx(math.sqrt(8 * 4.5))
    assert second.overall == 0


def test_the_order_is_judged_from_both_pictures_and_the_look_from_the_result_alone():
    chat = ScriptedChat([GOOD], [CLEAN])
    assert VieScore(chat).score([candidate(prompt="close the drawer like <image>")])[0] is not None
    order, look = (words(call[0]) for call in chat.calls)
    assert order.index("[8x6]") < order.index("[9x6]") < order.index("close the drawer")
    assert "[8x6]" not in look
    assert "[9x6]" in look
    assert "drawer" not in look
    assert sum(isinstance(p, Image) for m in chat.calls[0][0] for p in m.parts) == 2, "an order has no marks"


def test_the_form_repeated_is_no_score():
    def repeat_the_form(conversations):
        return [words(c)[words(c).rindex("{") :] for c in conversations]

    assert VieScore(ScriptedChat(*[repeat_the_form] * 3)).score([candidate()]) == [None]


def test_a_picture_made_from_nothing_has_nothing_to_keep():
    chat = ScriptedChat([GOOD], [marks(success=6)], [CLEAN, CLEAN])
    made, edited = VieScore(chat).score([candidate(source=False), candidate()])
    assert (made.semantics, edited.semantics) == (6, 8)
    assert "over_editing" not in words(chat.calls[1][0])
    assert "over_editing" in words(chat.calls[0][0])


@pytest.mark.parametrize(
    "bad",
    [
        "a fine picture, 9 of 10",
        marks(success=8),
        marks(success=11, over_editing=9),
        marks(success=-1, over_editing=9),
        marks(success="8", over_editing=9),
        marks(success=True, over_editing=9),
        marks(success=None, over_editing=9),
        marks(success=float("nan"), over_editing=9),
        GOOD[:-4],
        NoReply("busy"),
    ],
)
def test_what_cannot_be_read_is_asked_again_and_is_never_a_number(bad):
    chat = ScriptedChat([bad, GOOD], [GOOD], [CLEAN, CLEAN])
    assert [s.semantics for s in VieScore(chat).score([candidate(), candidate()])] == [8, 8]
    assert [len(c) for c in chat.calls] == [2, 1, 2]
    assert chat.schemas[1]["required"] == ["reasoning", "success", "over_editing"]
    chat = ScriptedChat([bad, GOOD], [bad], [CLEAN])
    none, scores = VieScore(chat, replies=2).score([candidate(), candidate()])
    assert none is None
    assert scores.quality == 4.5
    assert VieScore(ScriptedChat([GOOD], [bad]), replies=1).score([candidate()]) == [None]


def test_the_thinking_is_the_reason_where_none_is_given():
    reply = '<think>It is shut.</think>{"success": 8, "over_editing": 9}'
    (scores,) = VieScore(ScriptedChat([reply], [CLEAN])).score([candidate()])
    assert scores.semantics_reason == "It is shut."
