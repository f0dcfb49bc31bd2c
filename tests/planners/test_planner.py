"""The Planner agent on a scripted chat: what the model is shown, and what becomes of its replies."""

import json

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from support.arms import sentences
from support.scripted import ScriptedChat, words
from support.told import attempt, board, picture, step

from goalreel.chat.conversation import NoReply, interleave, plain, shrink
from goalreel.errors import BackendError
from goalreel.image import Image
from goalreel.planners.chat import ChatPlanner
from goalreel.planners.rows import RowsPlanner
from goalreel.types import Failure, Plan, ReplanContext, Task


def reply(*names: str, first: int = 1) -> str:
    steps = [
        {"step_number": n, "step_name": name, "instruction": f"{name} is true", "prompt": f"make {name} true"}
        for n, name in enumerate(names, first)
    ]
    return f"<think>x</think><answer>{json.dumps({'execution_plan': steps})}</answer>"


def task(instruction: str = "put the block in the bowl", image: Image | None = None) -> Task:
    return Task(id="t", instruction=instruction, image=image)


def names(plan: Plan | Failure) -> list[str]:
    assert isinstance(plan, Plan), plan
    return [s.name for s in plan.steps]


def test_plans_a_batch_in_one_call_each_from_its_own_reply():
    chat = ScriptedChat([reply("a"), reply("b", "c")])
    plans = ChatPlanner(chat).plan([task("first", picture()), task("second: take the B and the lid")])
    assert (plans[0].missing, plans[1].missing) == ((), ("lid",))
    assert [names(p) for p in plans] == [["a"], ["b", "c"]]
    assert plans[1].steps[0].prompt == "make b true"
    assert len(chat.calls) == 1
    with_image, without = (words(c) for c in chat.calls[0])
    assert "first" in with_image
    assert "[8x6]" in with_image
    assert "second" in without
    assert "6]" not in without


def test_only_what_cannot_be_read_is_asked_again_and_told_why():
    gap = reply("a", "b").replace('"step_number": 2', '"step_number": 3')
    chat = ScriptedChat([reply("a"), gap, "no"], [reply("b"), "still no"], [reply("c")])
    plans = ChatPlanner(chat).plan([task("1"), task("2"), task("3")])
    assert [names(p) for p in plans] == [["a"], ["b"], ["c"]]
    assert [len(c) for c in chat.calls] == [3, 2, 1]
    again = chat.calls[1][0]
    assert [m.role for m in again] == ["system", "user", "assistant", "user"]
    assert again[:2] == chat.calls[0][1]
    assert again[2].parts == (gap,)
    assert "step 3 follows step 1" in words(again[3:])
    assert [m.role for m in chat.calls[2][0]] == ["system", "user", "assistant", "user"], "no growing history"
    assert chat.calls[2][0][2].parts == ("still no",)
    assert chat.schemas[0] is None, "a schema would keep the model from thinking aloud"
    assert "execution_plan" in chat.schemas[1]["properties"]


def test_after_the_last_reply_it_is_a_failure_with_the_raw_reply():
    chat = ScriptedChat(["one"], ["\ud800two\x00"])
    (failure,) = ChatPlanner(chat, replies=2).plan([task()])
    assert failure == Failure(
        stage="plan",
        message='no usable answer in 2 replies: it holds no JSON object with "execution_plan"',
        reply="\ufffdtwo\x00",
    )
    assert Failure.model_validate_json(failure.model_dump_json()) == failure


def test_no_reply_is_asked_again_as_it_was_then_is_a_failure():
    chat = ScriptedChat([NoReply("time limit")], ["hm"], [NoReply("time limit")])
    (failure,) = ChatPlanner(chat).plan([task()])
    assert chat.calls[1] == chat.calls[0]
    assert "time limit" in failure.message
    assert failure.reply == "hm", "the last that was said"
    silent = ScriptedChat([NoReply("time limit")])
    assert ChatPlanner(silent, replies=1).plan([task()])[0].reply is None
    with pytest.raises(ValueError, match="at least 1"):
        ChatPlanner(silent, replies=0).plan([task()])


def test_what_the_server_refuses_is_asked_once():
    chat = ScriptedChat([NoReply("at most 1 image", refused=True), "no"], [reply("a")])
    refused, good = ChatPlanner(chat).plan([task("1"), task("2")])
    assert [len(call) for call in chat.calls] == [2, 1]
    assert refused.refused
    assert refused.message == "at most 1 image"
    assert names(good) == ["a"]


def test_a_back_end_that_dies_while_asking_again_keeps_what_was_read():
    chat = ScriptedChat([reply("a"), "no"], BackendError("out of memory"), BackendError("out of memory"))
    good, bad = ChatPlanner(chat).plan([task("1"), task("2")])
    assert names(good) == ["a"]
    assert "out of memory" in bad.message
    assert bad.reply == "no"
    with pytest.raises(BackendError):
        ChatPlanner(ScriptedChat(BackendError("gone"))).plan([task()])


def test_broken_use_and_broken_back_ends_are_refused():
    with pytest.raises(ValueError, match="sent 2 requests and gave 1"):
        ChatPlanner(ScriptedChat([reply("a")])).plan([task(), task()])
    with pytest.raises(ValueError, match="storyboard has 1"):
        ReplanContext(board(step("s1")), 2)
    assert ChatPlanner(ScriptedChat()).plan([]) == []


def test_a_huge_bad_reply_is_shown_again_in_part_only():
    chat = ScriptedChat(["x" * 300_000], [reply("a")])
    assert names(ChatPlanner(chat).plan([task()])[0]) == ["a"]
    assert len(words(chat.calls[1][0][2:])) < 10_000
    (failure,) = ChatPlanner(ScriptedChat(["x" * 300_000]), replies=1).plan([task()])
    assert len(failure.reply) == 100_000


@pytest.mark.parametrize(
    ("instruction", "images"),
    [("look at <image>", 0), ("from <image> to <image>", 1), ("from <image>", 2), ("no mark", 2)],
)
def test_images_that_do_not_fit_the_marks_fail_their_item_alone(instruction, images):
    chat = ScriptedChat([reply("a")])
    pictured = Task(id="t", instruction=instruction, images=(picture(),) * images)
    bad, good = ChatPlanner(chat).plan([pictured, task("fine")])
    assert bad.stage == "plan"
    assert f"{images} image(s) for" in bad.message
    assert names(good) == ["a"]
    assert len(chat.calls[0]) == 1, "the model never sees it"


def test_continuing_shows_what_is_done_with_its_images_and_the_scene_now():
    chat = ScriptedChat([reply("c", "d", first=3)])
    given = {i: attempt("p", i == 1).model_copy(update={"image": picture(10 + i)}) for i in (1, 2)}
    told = board(*(step(f"s{i}", tried) for i, tried in given.items()), step("s3"))
    told = told.model_copy(update={"task": task(image=picture(10))})
    (plan,) = ChatPlanner(chat).continue_plan([ReplanContext(told, 2, picture(20))])
    assert names(plan) == ["c", "d"]
    text = words(chat.calls[0][0][1:])
    places = [
        text.index(t)
        for t in ("[10x6]", "s1: s1 is done", "[11x6]", "s2: s2 is done", "[12x6]", "s3", "[20x6]")
    ]
    assert places == sorted(places)
    assert "first step has number 3" in text
    assert text.index("Already done") < places[1] < text.index("may no longer fit") < places[5]


def test_what_a_model_wrote_never_passes_for_an_image_mark():
    chat = ScriptedChat(["bad <image>"], [reply("a")])
    ChatPlanner(chat).continue_plan([ReplanContext(board(step("like <image>"), image=False), 0, picture())])
    for conversation in (chat.calls[0][0], chat.calls[1][0]):
        assert "<image>" not in words(conversation)
        assert sum(isinstance(p, Image) for m in conversation for p in m.parts) == 1


@given(
    st.lists(st.sampled_from(["<image>", "<image", ">", "a ", "<<image>>", "🧱"]), max_size=12),
    st.integers(0, 8),
)
def test_interleaving_keeps_every_word_and_every_image_in_order(pieces, count):
    text = "".join(pieces)
    images = [picture(value=i) for i in range(count)]
    if text.count("<image>") != count:
        with pytest.raises(ValueError, match="give one image a mark"):
            interleave(text, images)
        return
    parts = interleave(text, images)
    assert [p for p in parts if isinstance(p, Image)] == images
    assert "".join(p for p in parts if isinstance(p, str)).split() == text.replace("<image>", "").split()
    assert "<image>" not in plain(text)


@given(st.integers(1, 900), st.integers(1, 900))
@example(640, 360)
@example(900, 400)
def test_capped_images_have_the_area_keep_their_shape_and_never_grow(width, height):
    small = shrink(picture(width, height), 384 * 384)
    if width * height <= 384 * 384:
        assert small.size == (width, height)
        return
    exact = 384 * (width / height) ** 0.5, 384 * (height / width) ** 0.5
    assert all(e - 1.001 < s < e + 0.001 for s, e in zip(small.size, exact, strict=True))
    assert small.size[0] * small.size[1] <= 384 * 384


# Labels that a recording has already, as plans.


class Labelled:
    """As much of a labelled Recording as the planner needs: 20 frames at 10 fps."""

    id, fps = "a", 10.0
    timestamps = (np.arange(20) / 10).astype(np.float32)

    def __init__(self, *labels: tuple[float, str]):
        self._labels = labels

    def subtasks(self):
        return self._labels


def plan(*labels: tuple[float, str]):
    task = Task(id="a", instruction="tidy up")
    return RowsPlanner({"a": Labelled(*labels)}).plan([task])[0]


def test_labels_become_steps_word_for_word():
    made = plan((0.0, "Put cup on the shelf."), (1.2, "wiggle & jiggle"))
    assert [s.name for s in made.steps] == ["Put cup on the shelf.", "wiggle & jiggle"]
    assert [s.instruction for s in made.steps] == ["the cup is on the shelf", '"wiggle & jiggle" is done']
    assert made.steps[0].prompt == "Put the cup on the shelf. Keep everything else unchanged."
    assert [(s.start, s.end) for s in made.segments] == [(0, 12), (12, 20)]


@pytest.mark.parametrize("text", sentences("labels with capitals"))
def test_capitals_and_identifiers_of_a_label_stay_as_they_are(text):
    (step,) = plan((0.0, text)).steps
    assert step.name == text
    assert step.instruction == f'"{text}" is done'
    assert step.prompt == f"{text}. Keep everything else unchanged."


def test_a_label_between_two_frames_is_the_nearest_ones_and_holds_until_the_next():
    """One that repeats the instruction is a step too: the last step is often called as the task is."""
    made = plan((0.33, "open the box"), (1.04, ""), (1.5, "tidy up"), (1.7, "close it"))
    assert [(s.start, s.end) for s in made.segments] == [(3, 10), (15, 17), (17, 20)]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ((), "a: it has no sub-task labels: use another --planner"),
        (((0.0, " "),), "no sub-task labels"),
        (((0.0, "go"), (2.2, "stop")), "'stop' at 2.2 s is outside the recording"),
        (((0.0, "go"), (0.04, "stop")), "two sub-task labels at 0.04 s"),
    ],
)
def test_labels_that_cut_nothing_are_a_failure(labels, words):
    made = plan(*labels)
    assert words in made.message
