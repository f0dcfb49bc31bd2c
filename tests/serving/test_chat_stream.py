"""A stream of a reply, piece by piece, with a model that writes what the test says."""

import asyncio
import json

import pytest
from starlette.exceptions import HTTPException

from goalreel.chat.conversation import ChatRequest, NoReply, TokenReply, Usage, cut_off
from goalreel.errors import BackendError
from goalreel.serving.chat import stream
from goalreel.serving.chat_format import ChatBody

ASKED = ChatRequest(())


class Gone:
    """A request whose client leaves when it is told to."""

    client = None

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}


class Writer:
    """A batcher whose model writes `pieces`, and then ends with `reply`; None never comes."""

    def __init__(self, pieces, reply) -> None:
        self.pieces, self.reply, self.cancelled = pieces, reply, False

    async def ask(self, question, client):
        try:
            for piece in self.pieces:
                question.on_text(piece)
                await asyncio.sleep(0)
            if self.reply is None:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


def run(writer: Writer, **asked) -> list[dict | str]:
    """The data of each event."""
    body = ChatBody(model="m", messages=[{"role": "user", "content": "x"}], stream=True, **asked)

    async def main():
        answer = await stream(Gone(), body, writer, ASKED)
        return [event async for event in answer.body_iterator]

    lines = [event.decode().removeprefix("data: ").strip() for event in asyncio.run(main())]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def pieces(events) -> list[str]:
    deltas = [c["delta"] for e in events if "choices" in e for c in e["choices"]]
    return [d["content"] for d in deltas if d.get("content")]


def test_each_piece_is_sent_as_it_comes():
    events = run(Writer(["a", "b", "c"], TokenReply("abc")))
    assert pieces(events) == ["a", "b", "c"]
    assert events[-1] == "[DONE]"
    assert events[-2]["choices"][0] == {"index": 0, "logprobs": None, "finish_reason": "stop", "delta": {}}
    assert "usage" not in events[0]


def test_tokens_are_counted_behind_the_last_piece():
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    writer = Writer(["a"], TokenReply("a", (), Usage(3, 1)))
    events = run(writer, stream_options={"include_usage": True})
    assert (events[-2]["choices"], events[-2]["usage"]) == ([], usage)
    uncounted = run(Writer(["a"], TokenReply("a")), stream_options={"include_usage": True})[-2]
    assert uncounted["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(
    ("written", "stop", "sent"),
    [
        (["one", " EN", "D two"], "END", "one "),
        (["one END two"], ["two", "END"], "one "),
        (["E", "N", "E", "N", "D", "x"], "END", "EN"),
        (["EN"], "END", "EN"),
        (["END"], "END", ""),
    ],
)
def test_nothing_of_what_stops_a_reply_is_sent(written, stop, sent, counted):
    options = {"stream_options": {"include_usage": True}} if counted else {}
    events = run(Writer(written, TokenReply("".join(written))), stop=stop, **options)
    assert "".join(pieces(events)) == sent
    assert events[-1] == "[DONE]"


def test_a_stopped_reply_is_not_written_to_its_end():
    writer = Writer(["a", "END"], None)
    events = run(writer, stop="END")
    assert (pieces(events), events[-1], writer.cancelled) == (["a"], "[DONE]", True)


def test_a_reply_that_is_cut_off_ends_so():
    events = run(Writer(["a"], cut_off("a")))
    assert events[-2]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    "failure", [BackendError("the card fell off the bus"), NoReply("the card fell off the bus")]
)
def test_what_fails_behind_the_first_piece_is_an_event(failure):
    *_, last = run(Writer(["a"], failure))
    assert "the card fell off the bus" in last["error"]["message"]
    assert last["error"]["type"] == "server_error"


def test_a_client_that_leaves_takes_its_request_back():
    async def before():
        request, writer = Gone(), Writer([], None)
        body = ChatBody(model="m", messages=[{"role": "user", "content": "x"}], stream=True)
        asked = asyncio.ensure_future(stream(request, body, writer, ASKED))
        await asyncio.sleep(0.01)
        request.left.set()
        with pytest.raises(HTTPException):
            await asked
        await asyncio.sleep(0)
        return writer.cancelled

    async def between():
        writer = Writer(["a"], None)
        body = ChatBody(model="m", messages=[{"role": "user", "content": "x"}], stream=True)
        events = (await stream(Gone(), body, writer, ASKED)).body_iterator
        await anext(events)
        await events.aclose()
        await asyncio.sleep(0)
        return writer.cancelled

    assert asyncio.run(before())
    assert asyncio.run(between())
