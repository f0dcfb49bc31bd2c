"""Record the conversations and replies of a chat model, word for word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goalreel.chat.conversation import Chat, Conversation, NoReply, Reply, TokenReply, request_replies


@dataclass(frozen=True)
class Exchange:
    """One conversation and its reply."""

    conversation: Conversation
    reply: Reply


@dataclass
class RecordingChat:
    """A Chat that answers as `chat` does, with tokens where it gives any, and records each exchange."""

    chat: Chat
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def blind(self) -> str | None:
        """The same of `chat`, as `OpenAIChat` has it."""
        return getattr(self.chat, "blind", None)

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> Sequence[Reply]:
        """Continue each conversation, as `Chat` says."""
        replies = self.chat.complete(conversations, schema=schema)
        self.exchanges += map(Exchange, conversations, replies)
        return replies

    def complete_tokens(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> Sequence[TokenReply | NoReply]:
        """Continue each conversation, as `TokenChat` says."""
        replies = request_replies(self.chat, conversations, schema, tokens=True)
        texts = (reply.text if isinstance(reply, TokenReply) else reply for reply in replies)
        self.exchanges += map(Exchange, conversations, texts)
        return replies
