"""The models of a server by their names; those of this process may be loaded while it already answers."""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from goalreel.chat.conversation import Chat, ChatRequest, NoReply, TokenReply
from goalreel.chat.dialects import OWN
from goalreel.errors import BackendError, InputError, UserError, first_line
from goalreel.extras import absent
from goalreel.image import Image
from goalreel.models import load, model_set, registry
from goalreel.models.load import build_chat, build_editor
from goalreel.models.names import ModelName
from goalreel.serving.settings import Models
from goalreel.types import Edit, Editor, Failure, Role

log = logging.getLogger(__name__)

_LOADS = threading.RLock()
"""Held while a model is loaded: transformers and diffusers change global state then, and one of two models
that are loaded at once may lack weights."""


def build_models(
    planner: str | None, critic: str | None, editor: str | None, *, loading: bool = False
) -> Models:
    """Load what is named; a local chat model that is named for both roles once. Raises as `check_names`.

    `loading`: those of this process are loaded when they are first asked (`LoadingModel`).
    """
    names = check_names(planner, critic, editor)
    for name in names.values():
        name.check_folders()
    chat, draw = partial(build_chat, cache={}), build_editor
    if loading:
        chat, draw = partial(_loading_chat, {}), _loading_editor
    return Models(
        planner=chat(planner, role="planner") if planner else None,
        critic=chat(critic, role="critic") if critic else None,
        editor=draw(editor) if editor else None,
        planner_name=names["planner"].brief() if planner else "",
        critic_name=names["critic"].brief() if critic else "",
        editor_name=names["editor"].brief() if editor else "",
        remote=frozenset(role for role, name in names.items() if registry.is_remote(role, name)),
        references=editor is not None and "references" in load.works_of(names["editor"]),
        planner_dialect=(load.dialect_of(planner, "planner") if planner else None) or OWN,
        critic_dialect=(load.dialect_of(critic, "critic") if critic else None) or OWN,
        critic_steps=load.confirm_steps(critic) if critic else model_set.no_limit,
    )


def check_names(planner: str | None, critic: str | None, editor: str | None) -> dict[Role, ModelName]:
    """Read the names that are given; InputError where there is none, or no such kind of name."""
    named: dict[Role, str | None] = {"planner": planner, "critic": critic, "editor": editor}
    names = {role: ModelName.parse(name) for role, name in named.items() if name}
    if not names:
        raise InputError("nothing to serve: name --planner, --critic or --editor")
    for role, name in names.items():
        load.check_name(role, name, recordings=False)
    return names


def _loading_chat(chats: "dict[str, LoadingModel]", name: str, *, role: load.ChatRole) -> Chat:
    """A chat model that is loaded when it is first asked; `chats` are those that there are already."""
    key = load.local_chat(name, role)
    if key is None or ModelName.parse(name).kind != "hf":
        return build_chat(name, role=role)
    if key not in chats:
        chats[key] = LoadingModel(f"the {role}", lambda: build_chat(name, role=role))
    return chats[key]


def _loading_editor(name: str) -> Editor:
    if registry.is_remote("editor", ModelName.parse(name)):
        return build_editor(name)
    return LoadingModel("the editor", lambda: build_editor(name))


class LoadingModel(Chat):
    """An Editor or a Chat that is loaded once, by whoever needs it first.

    Its methods raise BackendError where it cannot be loaded or called; the next call tries again.
    """

    def __init__(self, name: str, build: Callable[[], object]) -> None:
        self.name = name
        self._build = build
        self._model: object | None = None

    @property
    def is_loaded(self) -> bool:
        """True once it is loaded."""
        return self._model is not None

    def load(self) -> object:
        """The model, when it is loaded."""
        if self._model is None:  # what is loaded does not wait for another one
            with _LOADS:
                self._model = self._built() if self._model is None else self._model
        return self._model

    def _built(self) -> object:
        try:
            return self._build()
        except (UserError, OSError, ModuleNotFoundError) as e:
            missing = absent(e) if isinstance(e, ModuleNotFoundError) else None
            raise BackendError(f"{self.name} cannot be loaded: {missing or first_line(e)}") from e

    def edit(self, edits: Sequence[Edit]) -> Sequence[Image | Failure]:
        return cast(Editor, self.load()).edit(edits)

    def answer(self, requests: Sequence[ChatRequest]) -> Sequence[TokenReply | NoReply]:
        return cast(Chat, self.load()).answer(requests)


def is_loaded(model: object) -> bool:
    """Tell if a model is loaded; one that was never to be loaded later is."""
    return not isinstance(model, LoadingModel) or model.is_loaded


def load_in_background(models: Sequence[object]) -> None:
    """Load models one after the other in a thread; one that cannot be is tried again when it is asked."""

    def load_all() -> None:
        for model in models:
            if isinstance(model, LoadingModel):
                try:
                    model.load()
                except BackendError as e:
                    log.warning("%s", e)

    threading.Thread(target=load_all, name="goalreel-loading", daemon=True).start()
