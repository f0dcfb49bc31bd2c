"""The seam between the agents that think and what answers them: conversations in, texts out, batch first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from goalreel.image import Image

type MessagePart = str | Image


@dataclass(frozen=True)
class Message:
    """One turn; text and images in the order in which the model is to read them."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[MessagePart, ...]


type Conversation = tuple[Message, ...]


@dataclass(frozen=True)
class NoReply:
    """The back end gave no text for one conversation, and why: one line, without any secret."""

    reason: str
    refused: bool = False
    """The model is well, but will not take this very conversation."""


type Reply = str | NoReply
"""What the back end gave for one conversation."""


@dataclass(frozen=True)
class Token:
    """One token of a reply."""

    text: str
    alternatives: Mapping[str, float]
    """What could have stood here -> its probability: the likeliest few, the token itself among them."""


@dataclass(frozen=True)
class Spoken:
    """A reply with its tokens, whose texts put together are the reply; none where the back end gave none."""

    text: str
    tokens: tuple[Token, ...] = ()


class Chat(Protocol):
    """A vision-language model. Answer i belongs to conversation i; one bad one never fails the others."""

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> Sequence[Reply]:
        """Continue each conversation. `schema`: a JSON schema the back end may enforce, if it can.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        ...


@runtime_checkable
class TokenChat(Chat, Protocol):
    """A Chat that can also say how likely each token of its replies was."""

    def complete_tokens(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> Sequence[Spoken | NoReply]:
        """Continue each conversation, as `complete` does.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        ...
