"""A chat back end that answers from a list and keeps what it was asked."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from goalreel.chat.conversation import Chat, Conversation, NoReply, Token, TokenReply

type Reply = str | NoReply | TokenReply
type Batch = Sequence[Reply] | Exception | Callable[[Sequence[Conversation]], Sequence[Reply]]


class TextChat(Chat):
    """Answers with what `replies` says."""

    @abstractmethod
    def replies(self, conversations: Sequence[Conversation], *, schema: object = None) -> Sequence[Reply]: ...

    def answer(self, requests):
        said = self.replies([r.conversation for r in requests], schema=requests[0].schema)
        return [TokenReply(reply) if isinstance(reply, str) else reply for reply in said]


class ScriptedChat(TextChat):
    """Call i gets batch i: its replies, the error it raises, or what it makes of the conversations."""

    def __init__(self, *batches: Batch) -> None:
        self._batches = list(batches)
        self.calls: list[list[Conversation]] = []
        self.schemas: list[object] = []

    def replies(self, conversations, *, schema=None):
        self.calls.append(list(conversations))
        self.schemas.append(schema)
        batch = self._batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return batch(conversations) if callable(batch) else batch


class ScriptedTokens(ScriptedChat):
    """Its replies have tokens; it is to be asked for nothing else."""

    def answer(self, requests):
        assert all(request.tokens for request in requests)
        return super().answer(requests)


def spelled(*pieces: str | Mapping[str, float]) -> TokenReply:
    """A reply of tokens: a text that was certain, or alternatives of which the first was taken."""
    tokens = [Token(p, {p: 1.0}) if isinstance(p, str) else Token(next(iter(p)), p) for p in pieces]
    return TokenReply("".join(t.text for t in tokens), tuple(tokens))


def words(conversation: Conversation) -> str:
    """All text of a conversation; each image stands as [WxH]."""
    parts = [p for message in conversation for p in message.parts]
    return "\n".join(p if isinstance(p, str) else f"[{p.size[0]}x{p.size[1]}]" for p in parts)
