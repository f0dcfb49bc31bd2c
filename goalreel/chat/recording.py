"""Record the conversations and replies of a chat model, word for word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from goalreel.chat.conversation import Chat, Conversation, NoReply, Reply, TokenChat, TokenReply


@dataclass(frozen=True)
class Exchange:
    """One conversation and its reply."""

    conversation: Conversation
    reply: Reply


@dataclass
class RecordingChat:
    """A Chat that answers as `chat` does and records each exchange."""

    chat: Chat
    exchanges: list[Exchange] = field(default_factory=list)

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> Sequence[Reply]:
        """Continue each conversation.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        replies = self.chat.complete(conversations, schema=schema)
        self.exchanges += map(Exchange, conversations, replies)
        return replies


@dataclass
class RecordingTokenChat(RecordingChat):
    """A TokenChat that answers as `tokens` does, which is also `chat`, and records each exchange."""

    tokens: TokenChat = field(kw_only=True)

    def complete_tokens(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> Sequence[TokenReply | NoReply]:
        """Continue each conversation, with the tokens of the replies.

        Raises:
            goalreel.errors.BackendError: the model cannot be called at all.
        """
        replies = self.tokens.complete_tokens(conversations, schema=schema)
        texts = (reply.text if isinstance(reply, TokenReply) else reply for reply in replies)
        self.exchanges += map(Exchange, conversations, texts)
        return replies


def record_chat(chat: Chat) -> RecordingChat:
    """Wrap a chat model in a recorder; a TokenChat stays one."""
    return RecordingTokenChat(chat, tokens=chat) if isinstance(chat, TokenChat) else RecordingChat(chat)
