"""The models of a server by their names (see `goalreel.models.load`).

Those of this process may be loaded while the server already answers.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

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
from goalreel.chat.dialects import OWN, Dialect
from goalreel.engine import BatchEngine
from goalreel.errors import BackendError, InputError, UserError, first_line
from goalreel.extras import absent
from goalreel.image import Image
from goalreel.models.load import (
    ChatRole,
    build_chat,
    build_editor,
    check_name,
    dialect_of,
    local_chat,
    takes_references,
)
from goalreel.models.names import ModelName
from goalreel.models.registry import is_remote
from goalreel.serving.settings import Models
from goalreel.types import Edit, Editor, Failure, Role

log = logging.getLogger(__name__)


_LOADS = threading.RLock()
"""Held while a model is loaded: transformers and diffusers change global state then, and one of two models
that are loaded at once may lack weights."""


def build_models(
    planner: str | None,
    critic: str | None,
    editor: str | None,
    *,
    server: str | None = None,
    loading: bool = False,
) -> Models:
    """Load what is named. A local chat model that is named for both roles is loaded once.

    `server`: the name of a server that has what is named: it is asked there, in the same words, and nothing
    is loaded. `loading`: those of this process are loaded when they are first asked
    (`goalreel.serving.loading`).

    Raises:
        InputError: nothing is named, or no such kind of name.
    """
    check_names(planner, critic, editor)
    for name in filter(None, (planner, critic, editor) if server is None else ()):
        ModelName.parse(name).check_folders()
    names: dict[Role, str | None] = {"planner": planner, "critic": critic, "editor": editor}
    chat, draw = partial(build_chat, cache={}), build_editor
    if loading:
        chat, draw = partial(_loading_chat, {}), _loading_editor
    return Models(
        planner=chat(server or planner, role="planner") if planner else None,
        critic=chat(server or critic, role="critic") if critic else None,
        editor=draw(server or editor) if editor else None,
        planner_name=_brief(planner),
        critic_name=_brief(critic),
        editor_name=_brief(editor),
        remote=frozenset(
            role
            for role, name in names.items()
            if name and (server or is_remote(role, ModelName.parse(name)))
        ),
        references=editor is not None and takes_references(ModelName.parse(editor)),
        planner_dialect=_dialect(planner, "planner"),
        critic_dialect=_dialect(critic, "critic"),
    )


def _loading_chat(chats: "dict[str, LoadingChat]", name: str, *, role: ChatRole) -> Chat:
    """A chat model that is loaded when it is first asked; `chats` are those that there are already."""
    key = local_chat(name, role)
    if key is None or ModelName.parse(name).kind != "hf":
        return build_chat(name, role=role)
    if key not in chats:
        chats[key] = LoadingChat(f"the {role}", lambda: build_chat(name, role=role))
    return chats[key]


def _loading_editor(name: str) -> Editor:
    if is_remote("editor", ModelName.parse(name)):
        return build_editor(name)
    return LoadingEditor("the editor", lambda: build_editor(name))


def check_names(planner: str | None, critic: str | None, editor: str | None) -> None:
    """Check all names before the first model is loaded.

    Raises:
        InputError: nothing is named, or no such kind of name.
    """
    names: dict[Role, str | None] = {"planner": planner, "critic": critic, "editor": editor}
    if not any(names.values()):
        raise InputError("nothing to serve: name --planner, --critic or --editor")
    for role, name in names.items():
        if name:
            check_name(role, ModelName.parse(name), recordings=False)


def _brief(name: str | None) -> str:
    return ModelName.parse(name).brief() if name else ""


def _dialect(name: str | None, role: Literal["planner", "critic"]) -> Dialect:
    return (dialect_of(name, role) if name else None) or OWN


class LoadingModel[M]:
    """A model that is loaded once, by whoever needs it first."""

    def __init__(self, name: str, build: Callable[[], M]) -> None:
        self.name = name
        self._build = build
        self._model: M | None = None

    @property
    def is_loaded(self) -> bool:
        """True once it is loaded."""
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
    """Tell if a model is loaded; one that was never to be loaded later is."""
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
