"""Models of this process that are loaded while the server already answers."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from goalreel.chat.conversation import (
    Chat,
    Conversation,
    Decoder,
    DecodingChat,
    NoReply,
    Reply,
    ReplyWork,
    TokenReply,
)
from goalreel.engine import BatchEngine
from goalreel.errors import BackendError, UserError, first_line
from goalreel.extras import absent
from goalreel.image import Image
from goalreel.types import Edit, Editor, Failure

log = logging.getLogger(__name__)

_LOADS = threading.RLock()
"""Held while a model is loaded: transformers and diffusers change global state then, and one of two models
that are loaded at once may lack weights."""


class LoadingModel[M]:
    """A model that is loaded once, by whoever needs it first."""

    def __init__(self, name: str, build: Callable[[], M]) -> None:
        self.name = name
        self._build = build
        self._model: M | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether it is there."""
        return self._model is not None

    def load(self) -> M:
        """The model, when it is loaded.

        Raises:
            BackendError: it cannot be loaded; the next call tries again.
        """
        if self._model is None:
            with _LOADS:
                if self._model is None:
                    self._model = self._built()
        return self._model

    def _built(self) -> M:
        try:
            return self._build()
        except (UserError, OSError, ModuleNotFoundError) as e:
            missing = absent(e) if isinstance(e, ModuleNotFoundError) else None
            line = missing or first_line(e)
            raise BackendError(f"{self.name} cannot be loaded: {line}") from e


class LoadingEditor(LoadingModel[Editor]):
    """An Editor that is loaded when it is first asked."""

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        """Draw pictures.

        Raises:
            BackendError: it cannot be loaded or called.
        """
        return self.load().edit(edits)


class LoadingChat(LoadingModel[Chat]):
    """A chat model that is loaded when it is first asked, and which is a DecodingChat then."""

    def complete(
        self, conversations: Sequence[Conversation], *, schema: Mapping[str, Any] | None = None
    ) -> Sequence[Reply]:
        """Continue each conversation.

        Raises:
            BackendError: it cannot be loaded or called.
        """
        return self.load().complete(conversations, schema=schema)

    def decoder(self) -> Decoder:
        """Make what answers many callers, and loads the model in its thread."""
        return _LoadingDecoder(self)


class _LoadingDecoder:
    """The decoder of a chat model; requests wait in it until the model is there."""

    def __init__(self, chat: LoadingChat) -> None:
        self._chat = chat
        self._decoder: BatchEngine[Any, TokenReply | NoReply] | None = None
        self._works: Sequence[ReplyWork] = ()

    @property
    def busy(self) -> bool:
        return bool(self._works) or (self._decoder is not None and self._decoder.busy)

    def room(self, limit: int) -> int:
        if self._decoder is not None:
            return self._decoder.room(limit)
        return 0 if self._works else limit

    def start(self, works: Sequence[ReplyWork]) -> None:
        if self._decoder is not None:
            self._decoder.start(works)
        else:
            self._works = works

    def step(self) -> int:
        if self._decoder is None:
            works, self._works = self._works, ()
            try:
                chat = self._chat.load()
            except BackendError as e:
                for work in works:
                    work.answer(e)
                return len(works)
            if not isinstance(chat, DecodingChat):
                raise TypeError(f"{self._chat.name} is loaded, and is no DecodingChat")
            self._decoder = chat.decoder()
            self._decoder.start(works)
        return self._decoder.step()


def is_loaded(model: object) -> bool:
    """Whether a model is there; one that was never to be loaded later is."""
    return not isinstance(model, LoadingModel) or model.is_loaded


def load_in_background(models: Sequence[object]) -> None:
    """Load models one after the other in a thread; one that cannot be is tried again when it is asked."""

    def load() -> None:
        for model in models:
            if isinstance(model, LoadingModel):
                try:
                    model.load()
                except BackendError as e:
                    log.warning("%s", e)

    threading.Thread(target=load, name="goalreel-loading", daemon=True).start()
