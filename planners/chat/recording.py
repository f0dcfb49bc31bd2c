"""A chat model that is listened to: what it was asked and what it said, word for word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goalreel.planners.chat.conversation import Chat, Conversation, NoReply, Reply, Spoken, TokenChat


@dataclass(frozen=True)
class Exchange:
    """One conversation and its reply."""

    asked: Conversation
    said: Reply


@dataclass
class OverheardChat:
    """A Chat that answers as `chat` does and keeps what passes."""

    chat: Chat
    heard: list[Exchange] = field(default_factory=list)

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> Sequence[Reply]:
        """Continue each conversation.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        replies = self.chat.complete(conversations, schema=schema)
        self.heard += map(Exchange, conversations, replies)
        return replies


@dataclass
class OverheardTokenChat(OverheardChat):
    """A TokenChat that answers as `tokens` does, which is `chat` too, and keeps what passes."""

    tokens: TokenChat = field(kw_only=True)

    def complete_tokens(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> Sequence[Spoken | NoReply]:
        """Continue each conversation, with the tokens of the replies.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        replies = self.tokens.complete_tokens(conversations, schema=schema)
        said = (reply.text if isinstance(reply, Spoken) else reply for reply in replies)
        self.heard += map(Exchange, conversations, said)
        return replies


def overhear(chat: Chat) -> OverheardChat:
    """Listen to a chat model; a TokenChat stays one."""
    return OverheardTokenChat(chat, tokens=chat) if isinstance(chat, TokenChat) else OverheardChat(chat)
