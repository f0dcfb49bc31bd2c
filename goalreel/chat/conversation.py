"""The base class of chat models, what goes in and out, and how it is asked until its answers are readable."""

import logging
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal

from goalreel.chat.json_reply import MAX_REPLY, Problem, clean, valid
from goalreel.errors import BackendError
from goalreel.image import Image
from goalreel.types import Failure

log = logging.getLogger(__name__)

_SYSTEM_REFUSED = re.compile(
    r"(?<!safety )\bsystem\b.{0,60}(not |un)(support|allow|enabl|accept|permit|expect)"
    r"|(not support|unsupported|invalid|unexpected|unknown).{0,60}(?<!safety )\bsystem\b"
    r"|developer instruction is not|roles? must alternate|only user and assistant"
    r"|should be 'user' or 'assistant'"
)

type MessagePart = str | Image


@dataclass(frozen=True)
class Message:
    """One turn; text and images in the order in which the model reads them."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[MessagePart, ...]


type Conversation = tuple[Message, ...]


def refuses_system(text: str) -> bool:
    """Tell whether a server or a chat template says that it knows no system role."""
    return _SYSTEM_REFUSED.search(text.casefold()) is not None


def fold_system(conversation: Conversation) -> Conversation:
    """Put system text in front of the user's turn that follows, for a chat template without such a role."""
    folded: list[Message] = []
    pending: tuple[MessagePart, ...] = ()
    for message in conversation:
        if message.role == "system":
            pending += (*message.parts, "\n\n")
        elif message.role == "user":
            folded.append(Message("user", pending + message.parts))
            pending = ()
        else:
            folded.append(message)
    return (*folded, Message("user", pending[:-1])) if pending else tuple(folded)


_PICTURE_TOKENS, _TOKEN_PIXELS = 32, 2048
"""The fewest tokens of a picture, and the most pixels of one of a small picture: half of what models take."""


def least_tokens(conversation: Conversation) -> int:
    """Estimate the fewest tokens that the pictures of a conversation take; text may take hardly any."""
    pictures = (part for message in conversation for part in message.parts if isinstance(part, Image))
    return sum(min(_PICTURE_TOKENS, i.size[0] * i.size[1] // _TOKEN_PIXELS) for i in pictures)


@dataclass(frozen=True)
class Usage:
    """The numbers of tokens of a conversation and of its reply."""

    prompt: int
    reply: int


@dataclass(frozen=True)
class NoReply:
    """The reason why one conversation has no whole reply: one line, without any secret."""

    reason: str
    refused: bool = False
    """The model works, but it will never take this very conversation."""
    cut_off: str | None = None
    """The text of a reply that was cut off: for a log or a repeat, never an answer."""
    usage: Usage | None = field(default=None, compare=False)


def cut_off(text: str, usage: Usage | None = None) -> NoReply:
    """Make a NoReply of a reply that reached its length limit after `text`."""
    return NoReply(
        "it was cut off at its length limit: be shorter, or allow more tokens", cut_off=text, usage=usage
    )


type Reply = str | NoReply
"""The text that continues a conversation, or the reason why there is none."""


@dataclass(frozen=True)
class Token:
    """One token of a reply."""

    text: str
    alternatives: Mapping[str, float]
    """Text -> probability of the likeliest tokens at this place, the token itself among them."""


@dataclass(frozen=True)
class TokenReply:
    """A reply and its tokens, whose joined texts are the reply; empty where the back end gave no tokens."""

    text: str
    tokens: tuple[Token, ...] = ()
    usage: Usage | None = field(default=None, compare=False)
    thoughts: str = field(default="", compare=False)
    """Thoughts of the model before it, where the back end tells them apart."""


def token_reply(text: str, tokens: Sequence[Token]) -> TokenReply:
    """Make a reply of its text and its tokens, cut to the text; without tokens if they do not contain it.

    >>> [t.text for t in token_reply("yes", [Token(" yes", {" yes": 1.0}), Token("<end>", {})]).tokens]
    ['yes']
    """
    first = "".join(t.text for t in tokens).rfind(text)
    if first < 0 or not tokens:
        return TokenReply(text)
    ends = accumulate(len(t.text) for t in tokens)
    cut = [_cut(t, end, first, first + len(text)) for t, end in zip(tokens, ends, strict=True)]
    return TokenReply(text, tuple(t for t in cut if t is not None))


def _cut(token: Token, end: int, first: int, last: int) -> Token | None:
    """The part of a token that lies within [first, last), where it ends at `end`; None without one."""
    start = end - len(token.text)
    if start >= last or end < first or (token.text and end == first):
        return None
    text = token.text[max(0, first - start) : last - start]
    chances = {other: p for other, p in token.alternatives.items() if other not in (text, token.text)}
    whole = sum(token.alternatives.get(name, 0.0) for name in {text, token.text})
    return token if text == token.text else Token(text, {text: whole} | chances)


@dataclass(frozen=True)
class ChatRequest:
    """One conversation, and how it is to be answered."""

    conversation: Conversation
    schema: Mapping[str, Any] | None = None
    """A JSON schema that the back end may enforce."""
    tokens: bool = False
    """Ask for the probabilities of the reply's tokens, too."""
    max_tokens: int | None = None
    """The length at which the reply is cut; the model's own limit may be shorter."""


class Chat(ABC):
    """Base class of vision-language models. A subclass answers requests."""

    blind: str | None = None
    """Evidence of the server that the model was not given a picture that was sent; None: there is none."""

    @abstractmethod
    def answer(self, requests: Sequence[ChatRequest]) -> Sequence[TokenReply | NoReply]:
        """Answer each request; a bad one never fails the others. A model may know no probabilities of tokens.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> list[Reply]:
        """Continue each conversation by a text. Raises as `answer`."""
        replies = self.answer([ChatRequest(conversation, schema) for conversation in conversations])
        return [reply.text if isinstance(reply, TokenReply) else reply for reply in replies]


class RecordingChat(Chat):
    """A Chat that answers as `chat` does, and keeps all `replies`."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self.replies: list[TokenReply | NoReply] = []

    def answer(self, requests: Sequence[ChatRequest]) -> Sequence[TokenReply | NoReply]:
        replies = self.chat.answer(requests)
        self.blind = self.chat.blind
        self.replies += replies
        return replies


MARK = "<image>"
"""The place of one image in a text that asks for images. All other text passes through `plain` first."""
MANY = 5
MAX_PIXELS = 384 * 384
"""The area that each of `MANY` pictures has at most (the `max_pixels` of InterleaveThinker's code)."""


def interleave(text: str, images: Sequence[Image]) -> tuple[MessagePart, ...]:
    """Put images at the marks of `text`, in order; from `MANY` on, each has `MAX_PIXELS` at most.

    >>> interleave("Tie it.", ())
    ('Tie it.',)

    Raises:
        ValueError: the number of images differs from the number of marks.
    """
    texts = text.split(MARK)
    if len(texts) - 1 != len(images):
        raise ValueError(f"{len(images)} image(s) for {len(texts) - 1} {MARK} mark(s): give one image a mark")
    if len(images) >= MANY:
        images = [shrink(image, MAX_PIXELS) for image in images]
    parts: list[MessagePart] = [texts[0]]
    for image, following in zip(images, texts[1:], strict=True):
        parts += [image, following]
    return tuple(p for p in parts if not isinstance(p, str) or p.strip())


def plain(text: str) -> str:
    """Make the image marks of a text harmless."""
    return text.replace(MARK, "[image]")


def shrink(image: Image, pixels: int) -> Image:
    """Bring an image to an area of at most `pixels`, its aspect ratio kept; never enlarge it."""
    import cv2

    width, height = image.size
    if width * height <= pixels:
        return image
    size = max(1, math.isqrt(pixels * width // height)), max(1, math.isqrt(pixels * height // width))
    return Image(cv2.resize(image.pixels, size, interpolation=cv2.INTER_AREA).astype("uint8"))


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
    is_told = reply.thoughts.strip() and "think>" not in reply.text + reply.thoughts
    answer = question.read(f"<think>{reply.thoughts[-_ECHO:]}</think>{reply.text}" if is_told else reply.text)
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
