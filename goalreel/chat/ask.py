"""Ask a chat model a batch of questions until each answer is readable, a bounded number of times."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from goalreel.chat.conversation import Chat, ChatRequest, Conversation, Message, NoReply, TokenReply, plain
from goalreel.chat.json_reply import MAX_REPLY, Problem, clean, valid
from goalreel.errors import BackendError
from goalreel.types import Failure

log = logging.getLogger(__name__)

THOUGHTFUL = "in full, in the form asked for: <think>...</think><answer>%s</answer>"
_ECHO = 8_000  # characters of a bad reply that the correction repeats to the model


@dataclass(frozen=True)
class Question[T]:
    """A conversation, the reader of its replies, and how a bad reply is to be written again."""

    conversation: Conversation
    read: Callable[[str], T | Problem]
    again: str
    """Ends the turn that corrects a bad reply: "Answer again, {again}"."""
    with_probability: Callable[[T, TokenReply], T | Problem] | None = None
    """Adds a probability to the answer from the tokens of the reply; the model is asked for them."""


def ask[T](
    chat: Chat,
    questions: Sequence[Question[T] | Failure],
    *,
    stage: Literal["plan", "judge"],
    replies: int,
    schema: Mapping[str, Any],
) -> list[T | Failure]:
    """Answer i belongs to question i; a question that is already a Failure stays one.

    Unreadable answers, and those that were cut off, are asked for again, in one batch: each with the question
    and, if there was one, the last bad reply and its problem. A conversation that the server refuses is not
    sent again. After `replies` replies a Failure holds the last one. Only repeats carry the schema, as
    enforcing it keeps a model from thinking aloud first.

    Raises:
        BackendError: the model could not be called the first time. A later error costs no readable answer.
        ValueError: the back end did not give one reply to each conversation, or `replies` is below 1.
    """
    if replies < 1:
        raise ValueError(f"replies must be at least 1, got {replies}")
    unread = {i: q for i, q in enumerate(questions) if isinstance(q, Question)}
    turns = {i: q.conversation for i, q in unread.items()}
    answers: dict[int, T | Failure] = {i: q for i, q in enumerate(questions) if isinstance(q, Failure)}
    raw: dict[int, str] = {}
    for number in range(replies):
        if not turns:
            break
        requests = [
            ChatRequest(turn, schema if number else None, unread[i].with_probability is not None)
            for i, turn in turns.items()
        ]
        for i, reply in zip(list(turns), _answers(chat, requests, repeated=number > 0), strict=True):
            answer = Problem(reply.reason) if isinstance(reply, NoReply) else _read(unread[i], reply)
            if not isinstance(answer, Problem):
                answers[i] = answer
                del turns[i]
                continue
            nth, problem = number + 1, answer.message
            log.info("%s: reply %d of at most %d cannot be used: %s", stage, nth, replies, problem)
            text = reply.text if isinstance(reply, TokenReply) else reply.cut_off
            if text is not None:
                raw[i] = valid(text[:MAX_REPLY])
                echo = _echo(clean(raw[i]))
                log.info("the reply: %s", echo)
                again = f"This answer cannot be used: {problem}.\n\nAnswer again, {unread[i].again}"
                turns[i] = (
                    *unread[i].conversation,
                    Message("assistant", (echo,)),
                    Message("user", (plain(again),)),
                )
            message, refused = clean(problem), isinstance(reply, NoReply) and reply.refused
            if refused:
                del turns[i]
            else:
                message = f"no usable answer in {nth} {'reply' if nth == 1 else 'replies'}: {message}"
            answers[i] = Failure(stage=stage, message=message, reply=raw.get(i), refused=refused)
    return [answers[i] for i in range(len(questions))]


def _read[T](question: Question[T], reply: TokenReply) -> T | Problem:
    answer = question.read(reply.text)
    if question.with_probability is None or isinstance(answer, Problem):
        return answer
    return question.with_probability(answer, reply)


def _answers(chat: Chat, requests: Sequence[ChatRequest], repeated: bool) -> Sequence[TokenReply | NoReply]:
    """Send one batch. A repeat that fails as a whole gives no reply to each question in it."""
    try:
        replies = chat.answer(requests)
    except BackendError as e:
        if not repeated:
            raise
        return [NoReply(str(e) or type(e).__name__)] * len(requests)
    if len(replies) != len(requests):
        raise ValueError(f"the chat model was sent {len(requests)} requests and gave {len(replies)} replies")
    return replies


def _echo(reply: str) -> str:
    if len(reply) > _ECHO:
        reply = f"{reply[: _ECHO // 2]}\n[...]\n{reply[-_ECHO // 2 :]}"
    return plain(reply) if reply.strip() else "(empty)"
