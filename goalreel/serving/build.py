"""The models of a server by their names (see `goalreel.models.load`)."""

from functools import partial
from typing import Literal

from goalreel.chat.conversation import Chat
from goalreel.chat.dialects import OWN, Dialect
from goalreel.errors import InputError
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
from goalreel.serving.loading import LoadingChat, LoadingEditor
from goalreel.serving.settings import Models
from goalreel.types import Editor, Role


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


def _loading_chat(chats: dict[str, LoadingChat], name: str, *, role: ChatRole) -> Chat:
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
