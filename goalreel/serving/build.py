"""The models of a server by their names (see `goalreel.models.load`)."""

from typing import Literal

from goalreel.errors import InputError
from goalreel.models.build import ChatCache, build_chat, build_editor, dialect_of
from goalreel.models.discovery import is_remote
from goalreel.models.load import check_name, takes_references
from goalreel.models.names import ModelName
from goalreel.planners.agents.dialects import OWN, Dialect
from goalreel.serving.settings import Models
from goalreel.types import Role


def build_models(
    planner: str | None, critic: str | None, editor: str | None, *, server: str | None = None
) -> Models:
    """Load what is named. A local chat model that is named for both roles is loaded once.

    `server`: the name of a server that has what is named: it is asked there, in the same words, and nothing
    is loaded.

    Raises:
        InputError: nothing is named, or no such kind of name.
    """
    check_names(planner, critic, editor)
    for name in filter(None, (planner, critic, editor) if server is None else ()):
        ModelName.parse(name).check_folders()
    names: dict[Role, str | None] = {"planner": planner, "critic": critic, "editor": editor}
    cache: ChatCache = {}
    return Models(
        planner=build_chat(server or planner, role="planner", cache=cache) if planner else None,
        critic=build_chat(server or critic, role="critic", cache=cache) if critic else None,
        editor=build_editor(server or editor) if editor else None,
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
