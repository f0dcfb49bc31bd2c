"""The check of one model of a preset: load it, ask it, and write down how it fared."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from goalreel.chat.ask import Question
from goalreel.chat.conversation import Chat, Conversation, NoReply, Reply
from goalreel.chat.dialects import Dialect
from goalreel.chat.json_reply import Problem
from goalreel.chat.recording import RecordingChat, record_chat
from goalreel.errors import UserError, first_line
from goalreel.extras import absent
from goalreel.image import Image
from goalreel.models.load import ChatRole, dialect_of
from goalreel.models.names import ModelName
from goalreel.settings import Frozen
from goalreel.types import Failure, Plan, Role, Verdict

_GONE = re.compile(
    r"\b404\b|not found|no such model|does not exist|(not a valid|invalid|unknown) model"
    r"|no folder|no \w+ called",
    re.IGNORECASE,
)


class ReplyHeard(Frozen):
    """One reply of a chat model, and what it was read as: a plan's number of steps, or `yes` or `no`."""

    text: str
    read_as: str | None = None
    problem: str | None = None
    """Why it could not be read."""


class RoleTrial(Frozen):
    """How one model fared. `problem` is why it could not be used, None where it could."""

    role: Role
    model: str
    how: str = ""
    """How a chat model was asked: dialect, sampling, and what else decides its answer."""
    note: str | None = None
    load_s: float | None = None
    ask_s: float | None = None
    question: str = ""
    """The first conversation with a chat model, as text."""
    replies: tuple[ReplyHeard, ...] = ()
    gave: str = ""
    problem: str | None = None

    @property
    def gone(self) -> bool:
        """Whether the problem is that there is no model of that name."""
        return self.problem is not None and bool(_GONE.search(self.problem))


@dataclass
class RoleCheck:
    """The check of one model."""

    role: Role
    name: str
    how: str = ""
    note: str | None = None
    load_s: float | None = None
    ask_s: float | None = None
    problem: str | None = None
    question: Question | Failure | None = None
    recording: RecordingChat | None = None

    def ready(self, more: str) -> Dialect | None:
        """Note how the model is asked; None where it is no chat model."""
        role: ChatRole = "planner" if self.role == "planner" else "critic"
        dialect = dialect_of(self.name, role)
        if dialect is not None:
            temperature = ModelName.parse(self.name).options.get("temperature", "0 (greedy)")
            self.how = f"dialect {dialect.name}, temperature {temperature}, {more}"
            self.note = dialect.note
        return dialect

    def record(self, chat: Chat) -> Chat:
        """Record the exchanges with a chat model."""
        self.recording = record_chat(chat)
        return self.recording

    def call[A: Plan | Image | Verdict](self, load: Callable[[], Callable[[], A | Failure]]) -> A | None:
        """Load the model and ask it; None where it cannot be used, with the problem."""
        started = time.perf_counter()
        try:
            ask = load()
            self.load_s = time.perf_counter() - started
            started = time.perf_counter()
            answer = ask()
            self.ask_s = time.perf_counter() - started
        except (UserError, OSError) as e:
            self.problem = first_line(e)
            return None
        except ModuleNotFoundError as e:
            self.problem = absent(e)
            if self.problem is None:
                raise
            return None
        if isinstance(answer, Failure):
            self.problem = answer.message
            return None
        return answer

    def outcome(self, gave: str) -> RoleTrial:
        """How the model fared; `gave` is what its answer comes to."""
        exchanges = self.recording.exchanges if self.recording is not None else []
        conversation = self.question.conversation if isinstance(self.question, Question) else ()
        return RoleTrial(
            role=self.role,
            model=ModelName.parse(self.name).public(),
            how=self.how,
            note=self.note,
            load_s=self.load_s,
            ask_s=self.ask_s,
            question=_as_text(conversation),
            replies=tuple(self._read(exchange.reply) for exchange in exchanges),
            gave=gave,
            problem=self.problem,
        )

    def _read(self, reply: Reply) -> ReplyHeard:
        if isinstance(reply, NoReply):
            return ReplyHeard(text=reply.cut_off or "", problem=reply.reason)
        match self.question.read(reply) if isinstance(self.question, Question) else None:
            case Problem(message=message):
                return ReplyHeard(text=reply, problem=message)
            case Plan(steps=steps):
                return ReplyHeard(text=reply, read_as=str(len(steps)))
            case Verdict(success=success):
                return ReplyHeard(text=reply, read_as="yes" if success else "no")
        return ReplyHeard(text=reply)


def _as_text(conversation: Conversation) -> str:
    turns = []
    for message in conversation:
        parts = [p if isinstance(p, str) else f"[{p.size[0]} x {p.size[1]} picture]" for p in message.parts]
        turns.append(f"--- {message.role}\n" + "\n".join(parts))
    return "\n".join(turns)
