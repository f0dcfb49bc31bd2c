"""HfDecoder: replies that leave and join at any time are those that the model gives one at a time."""

import pytest
import torch
from support import tiny
from support.conversations import BUILDERS, CONVERSATIONS

from goalreel.chat import decoder as decoding
from goalreel.chat.conversation import ChatRequest, DecodingChat, NoReply, TokenReply
from goalreel.chat.decoding import OUT_OF_MEMORY
from goalreel.chat.hf import HfChat
from goalreel.errors import BackendError


class Work:
    """A request whose pieces and answer are kept."""

    def __init__(self, conversation, **how) -> None:
        self.pieces: list[str] = []
        self.request = ChatRequest(conversation, on_text=self.pieces.append, **how)
        self.reply: TokenReply | NoReply | BackendError | None = None
        self.abandoned = False

    def answer(self, answer) -> None:
        assert self.reply is None
        self.reply = answer


@pytest.fixture(scope="module", params=BUILDERS)
def chat(request, tmp_path_factory):
    path = BUILDERS[request.param](tmp_path_factory.mktemp(request.param))
    return HfChat.load(path, device="cpu", max_new_tokens=24, batch_size=4)


@pytest.fixture
def qwen(tmp_path):
    return HfChat.load(tiny.tiny_vlm(tmp_path / "vlm"), device="cpu", max_new_tokens=24, batch_size=4)


def finish(decoder, steps: int = 10_000) -> None:
    while decoder.busy and steps:
        decoder.step()
        steps -= 1
    assert not decoder.busy


def test_a_long_reply_leaves_its_place_to_those_that_wait(qwen, monkeypatch):
    """Else as many requests without an end as there are places would hold up everybody."""
    monkeypatch.setattr(decoding, "LONG", 4)
    decoder = qwen.decoder()
    decoder.start([Work(conversation) for conversation in CONVERSATIONS[:2]])
    rooms = [decoder.room(2)]
    while len(rooms) < 5:
        decoder.step()
        rooms.append(decoder.room(2))
    assert rooms == [0, 0, 0, 2, 2], "two replies are long from their fourth token on"


def test_replies_that_leave_and_join_at_any_time_are_those_of_one_at_a_time(chat, monkeypatch):
    """Each has a limit of its own, one begins every three steps, and long ones are set apart."""
    monkeypatch.setattr(decoding, "LONG", 6)
    assert isinstance(chat, DecodingChat)
    limits = (24, 3, 17, 8, 24, 1, 12)
    asked = [(CONVERSATIONS[i % 5], limit) for i, limit in enumerate(limits)]
    alone = []
    for conversation, limit in asked:
        one = Work(conversation, tokens=True, max_tokens=limit)
        chat.attempt([chat.row(one)], chat._write)
        alone.append(one)
    decoder, works = chat.decoder(), [Work(c, tokens=True, max_tokens=limit) for c, limit in asked]
    for work in works:
        while not decoder.room(2):
            decoder.step()
        decoder.start([work])
        for _ in range(3):
            decoder.step()
    finish(decoder)
    for work, one in zip(works, alone, strict=True):
        assert work.reply == one.reply
        assert work.reply.usage == one.reply.usage
        assert "".join(work.pieces) == (work.reply.cut_off or "")


def test_rows_of_these_classes_mix(chat):
    lane = chat.lane([chat.row(Work(CONVERSATIONS[0]))])
    assert lane.mixes


def test_where_rows_cannot_mix_short_replies_are_answered_before_long_ones(qwen, monkeypatch):
    expected = qwen.complete(CONVERSATIONS[:3])
    monkeypatch.setattr(decoding.Lane, "_can_mix", lambda _: False)
    decoder = qwen.decoder()
    works = [Work(CONVERSATIONS[0]), Work(CONVERSATIONS[1], max_tokens=2), Work(CONVERSATIONS[2])]
    decoder.start(works[:2])
    while works[1].reply is None:
        decoder.step()
    assert works[0].reply is None
    decoder.start(works[2:])
    finish(decoder)
    assert [work.reply for work in (works[0], works[2])] == [expected[0], expected[2]]


def test_what_nobody_waits_for_is_not_written_to_its_end(qwen):
    steps = []
    decoder = qwen.decoder()
    works = [Work(CONVERSATIONS[0]), Work(CONVERSATIONS[1])]
    decoder.start(works)
    decoder.step()
    works[0].abandoned = True
    with qwen.model.register_forward_pre_hook(lambda _, inputs: steps.append(1)):
        decoder.step()
        assert len(steps) == 1
        works[1].abandoned = True
        decoder.step()
        assert len(steps) == 1
    assert not decoder.busy
    assert [work.reply for work in works] == [None, None]


def fail_once_at(chat, call: int, error: Exception):
    calls = []

    def hook(*_):
        calls.append(1)
        if len(calls) == call:
            raise error

    return chat.model.register_forward_pre_hook(hook)


def test_replies_begin_again_where_memory_runs_out(qwen):
    expected = qwen.complete(CONVERSATIONS[:3])
    decoder, works = qwen.decoder(), [Work(c) for c in CONVERSATIONS[:3]]
    decoder.start(works)
    with fail_once_at(qwen, 5, torch.OutOfMemoryError("CUDA out of memory")):
        finish(decoder)
    assert [work.reply for work in works] == expected
    assert ["".join(work.pieces) for work in works] == [reply.cut_off for reply in expected]
    assert qwen.batch_size == 1
    decoder.start(works := [Work(CONVERSATIONS[0])])
    with fail_once_at(qwen, 2, torch.OutOfMemoryError("CUDA out of memory")):
        finish(decoder)
    assert works[0].reply == OUT_OF_MEMORY


@pytest.mark.parametrize("move", ["_select", "_widen"])
def test_no_reply_is_lost_where_memory_runs_out_as_replies_leave_or_join(qwen, monkeypatch, move):
    """Copies of the cache take memory: where a reply ends, is set apart, or joins those under way."""
    expected = qwen.complete(CONVERSATIONS[:3])
    monkeypatch.setattr(decoding, "LONG", 6)
    original, calls = getattr(decoding.Lane, move), []

    def fails(lane, argument):
        calls.append(move)
        if len(calls) in (1, 3):
            raise torch.OutOfMemoryError("CUDA out of memory")
        original(lane, argument)

    monkeypatch.setattr(decoding.Lane, move, fails)
    decoder = qwen.decoder()
    short = Work(CONVERSATIONS[0], max_tokens=2)
    works = [short, *(Work(c) for c in CONVERSATIONS[:3])]
    for work in works:
        while not decoder.room(2):
            decoder.step()
        decoder.start([work])
        decoder.step()
    finish(decoder)
    assert calls
    assert [work.reply for work in works[1:]] == expected
    assert isinstance(short.reply, NoReply)


def test_a_reply_that_ended_as_memory_ran_out_is_given(qwen, monkeypatch):
    expected, select, calls = qwen.complete(CONVERSATIONS[:3]), decoding.Lane._select, []

    def fails(lane, places):
        calls.append(places)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        select(lane, places)

    monkeypatch.setattr(decoding.Lane, "_select", fails)
    works = [Work(CONVERSATIONS[0], max_tokens=3), Work(CONVERSATIONS[1]), Work(CONVERSATIONS[2])]
    qwen.attempt([qwen.row(work) for work in works], qwen._write)
    assert calls
    assert [work.reply for work in works[1:]] == expected[1:]
    assert isinstance(works[0].reply, NoReply)


def test_a_device_that_fails_fails_what_is_under_way_alone(qwen):
    decoder, works = qwen.decoder(), [Work(c) for c in CONVERSATIONS[:2]]
    decoder.start(works)
    with fail_once_at(qwen, 3, RuntimeError("CUDA error\nmore")):
        finish(decoder)
    assert [str(work.reply) for work in works] == ["the model failed on cpu: CUDA error"] * 2
    decoder.start(works := [Work(CONVERSATIONS[0])])
    finish(decoder)
    assert works[0].reply.cut_off


def test_a_reply_ends_with_the_text_that_stops_it(qwen):
    """It is written no further, and its place is free."""
    whole = qwen.complete([CONVERSATIONS[0]])[0].cut_off
    stop = whole[len(whole) // 3 :][:3]
    work = Work(CONVERSATIONS[0], stop=("never said", stop))
    decoder = qwen.decoder()
    decoder.start([work])
    finish(decoder)
    assert isinstance(work.reply, TokenReply)
    assert stop in work.reply.text
    assert whole.startswith(work.reply.text)
    assert work.reply.usage.reply < 24
