"""The Critic agent on a scripted chat: what it is shown, how sure it is, and that doubt accepts nothing."""

import re

import cv2
import numpy as np
import pytest
from support.places import DATA, SHARED
from support.scripted import ScriptedChat, ScriptedTokens, spelled, words

from goalreel.annotator.options import Options
from goalreel.chat.conversation import NoReply, Token, TokenReply, cut_off, token_reply
from goalreel.chat.dialects import OWN, interleavethinker
from goalreel.chat.dialects.own import ObservedDialect
from goalreel.chat.verdict import probability_of_yes
from goalreel.critics.chat import ChatCritic
from goalreel.critics.motion import MotionCritic
from goalreel.datasets.source import Source
from goalreel.drivers import run
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models.load import build_critic, load
from goalreel.planners.kinematic.layout import Layout
from goalreel.types import Candidate, Failure, Task, Verdict

REPLIES = DATA / "replies"
YES = '<think>Held.</think><answer>{"previous_step_success": true, "refine_prompt": ""}</answer>'
NO = '<think>Open.</think><answer>{"previous_step_success": false, "refine_prompt": "close it"}</answer>'


def candidate(source: bool = True, **given) -> Candidate:
    values = {"instruction": "the block is held", "prompt": "grasp the block", **given}
    before = Image(np.zeros((6, 8, 3), np.uint8)) if source else None
    return Candidate(task_id="t", step=0, source=before, image=Image(np.ones((6, 9, 3), np.uint8)), **values)


def test_judges_a_batch_in_one_call_from_both_images():
    chat = ScriptedChat([YES, NO], [YES])
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
    chat.blind = "its server counts too few tokens"
    assert ChatCritic(chat).judge([candidate()])[0].unseen


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


def test_broken_use_is_refused():
    with pytest.raises(InputError, match="strict or fast"):
        ChatCritic(ScriptedChat(), mode="lenient")
    for threshold in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match="between 0 and 1"):
            ChatCritic(ScriptedChat(), threshold=threshold)
    with pytest.raises(ValueError, match="no critic called"):
        build_critic("nonsense")


# What the recording itself says against a goal frame, on pictures made by hand.


GROUND = np.random.default_rng(0).integers(60, 180, (60, 80, 3), np.uint8)
WAY = np.concatenate([np.linspace(0, 1, 20), np.ones(10), np.linspace(1, 0.5, 15), np.full(10, 0.5)])
"""Out, a grasp, back halfway, a release: then the arm stays, or goes home."""
HOME = np.linspace(0.5, 0, 10)
SHUT = (24, 50)


class Filmed:
    """An arm, a black bar at x; a red block that it takes along while the hand is shut."""

    id, instruction, fps = "a", "move the block", 10.0
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()

    def __init__(self, x, shut=SHUT, carries=True, blurred=(), reach=40):
        self.x, self.carries, self.blurred, self.reach = np.asarray(x), carries, blurred, reach
        hand = np.zeros(len(x))
        hand[shut[0] : shut[1]] = 1
        self.state = np.column_stack([self.x, hand]).astype(np.float32)
        self.action = np.zeros((len(x), 0), np.float32)
        self.timestamps = (np.arange(len(x)) / 10).astype(np.float32)
        self.shut = shut

    def frames(self, camera, indices):
        return [Image(self.picture(i), frame=f"{camera}#{i}") for i in indices]

    def picture(self, i):
        picture = GROUND.copy()
        held = self.x[min(max(i, self.shut[0]), self.shut[1])] if self.carries else self.x[self.shut[0]]
        block, arm = round(10 + 50 * held), round(10 + 50 * self.x[i])
        picture[44:54, block : block + 10] = (220, 40, 40)
        picture[: self.reach, arm : arm + 12] = 0
        return cv2.GaussianBlur(picture, (0, 0), 0.45) if i in self.blurred else picture


def verdict(source: Image, image: Image, film: Filmed | None = None) -> Verdict:
    candidate = Candidate(task_id="a", step=0, source=source, image=image, instruction="i", prompt="p")
    layout = Layout.parse("gripper=1,position=0:1,closed=high")
    return MotionCritic({"a": film} if film else {}, layout).judge([candidate])[0]


SWING = 0.65 - 0.35 * np.cos(np.linspace(0, np.pi, 15))
FAST = [*np.linspace(0, 0.3, 20), *np.full(10, 0.3), *SWING, *np.full(10, 1.0)]
BACK = [*WAY, *np.linspace(0.5, WAY[6], 8), WAY[6], WAY[6]]
"""The arm is back where it passed before, so its own picture cancels out."""
FILMED = {
    "a hand that has gone home shows what it did": ({"x": [*WAY, *HOME]}, 64, ""),
    "one that has not left may cover it": (
        {"x": [*WAY, *HOME], "reach": 60}, 54, "Cannot see: the hand covers what changed."
    ),
    "and a later frame tells, once the hand is away": ({"x": [*WAY, *HOME], "reach": 60}, 64, ""),
    "nor is it a fault where the thing shows": ({"x": [*WAY, *HOME], "reach": 40}, 54, ""),
    "or shows in part": ({"x": [*WAY, *HOME], "reach": 49}, 54, ""),
    "a grasp that moved nothing": ({"x": BACK, "carries": False}, 64, "Nothing changed but the arm."),
    "what is carried fast": ({"x": FAST}, 37, ""),
    "and blurred": (
        {"x": FAST, "blurred": (37,)}, 37, "moving at full speed, and the picture is blurred."
    ),
}  # fmt: skip
"""A film, the frame of its goal, and the end of what is said against it."""


@pytest.mark.parametrize("name", FILMED)
def test_what_a_recording_says_against_a_goal_frame(name):
    settings, goal, objection = FILMED[name]
    film = Filmed(**settings)
    said = verdict(*film.frames("front", [0, goal]), film)
    assert said.success == (objection == "")
    assert said.success or said.reasoning.endswith(objection)


def test_a_small_thing_that_moved_is_a_change():
    first = cv2.resize(GROUND, (320, 240))
    second = first.copy()
    first[50:58, 40:48] = second[50:58, 200:208] = (220, 40, 40)
    assert verdict(Image(first), Image(second)).success


def test_a_rendered_picture_is_judged_by_its_pixels_alone():
    film = Filmed([*WAY, *HOME])
    source, image = film.frames("front", [0, 54])
    assert verdict(source, Image(image.pixels), film).success


@pytest.mark.long
def test_on_real_frames_it_accepts_what_shows_and_rejects_what_the_arm_hides():
    """Four episodes, looked at by eye (dev/LOG.md, 2026-11-27)."""
    root = SHARED / "droid_new_setup"
    if not root.is_dir():
        pytest.skip(f"no real episodes at {root}")
    source = Source.open(root)
    context = Options().recorded(source)
    models = load("hindsight", recordings=context)
    reasons = []
    for index in (0, 5, 9, 11):
        episode = source.episode(index)
        (first,) = episode.frames(context.camera, [0])
        task = Task(id=episode.id, instruction=episode.instruction, image=first)
        attempts = models.provenance.preset.max_attempts
        (board,) = run([task], models.planner, models.editor, models.critic, max_attempts=attempts)
        reasons += [(index, s.status == "observed" or s.attempts[0].verdict.reasoning) for s in board.steps]
    assert reasons == [(0, True)] * 2 + [(5, True)] * 2 + [(9, True)] + [(11, True)] * 4


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


CLOSED = (FIRST, {"true": 0.6, "false": 0.2}, LAST)
OPEN = (FIRST, {"false": 0.6, "true": 0.2}, ', "refine_prompt": "close it"}</answer>')


@pytest.fixture
def asked() -> Candidate:
    image = Image(np.zeros((6, 8, 3), np.uint8))
    return Candidate(task_id="t", step=0, source=image, image=image, instruction="held", prompt="grasp")


def judged(asked, *pieces, **settings) -> Verdict:
    (verdict,) = ChatCritic(ScriptedTokens([spelled(*pieces)]), **settings).judge([asked])
    return verdict


def test_the_critic_says_how_sure_it_is_and_its_word_counts(asked):
    yes, no = judged(asked, *CLOSED), judged(asked, *OPEN)
    assert (yes.success, no.success, no.refined_prompt) == (True, False, "close it")
    assert (yes.probability, no.probability) == (pytest.approx(0.75), pytest.approx(0.25))


@pytest.mark.parametrize(
    ("pieces", "threshold", "success", "prompt"),
    [
        (CLOSED, 0.7, True, None),
        (CLOSED, 0.8, False, None),
        (OPEN, 0.2, True, None),
        (OPEN, 0.3, False, "close it"),
    ],
)
def test_a_threshold_decides_in_its_place(asked, pieces, threshold, success, prompt):
    verdict = judged(asked, *pieces, threshold=threshold)
    assert (verdict.success, verdict.refined_prompt) == (success, prompt)


def test_what_a_batch_changes_by_rounding_changes_no_verdict(asked):
    (a, b) = (judged(asked, FIRST, {"true": p, "false": 0.25}, LAST) for p in (0.5, 0.5000001))
    assert a == b
    assert a.probability == 0.667


@pytest.mark.parametrize("word", ["true", "false"])
def test_a_probability_that_says_the_reverse_makes_no_answer(asked, word):
    odd = spelled(FIRST, {word: 0.002, "false" if word == "true" else "true": 0.998}, LAST)
    (failure,) = ChatCritic(ScriptedTokens([odd], [odd], [odd])).judge([asked])
    assert "its probability of True is" in failure.message


def test_the_probability_is_that_of_the_reply_that_could_be_read(asked):
    chat = ScriptedTokens([spelled("hm"), NoReply("busy")], [spelled(*CLOSED), spelled(*OPEN)])
    verdicts = ChatCritic(chat).judge([asked, asked])
    assert [v.probability for v in verdicts] == [pytest.approx(0.75), pytest.approx(0.25)]
    assert chat.schemas[1] is not None
