"""Finding the kind of a model by its name, goalreel's own kinds first, then those of plugins."""

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from goalreel.errors import InputError
from goalreel.models import kinds as built_in
from goalreel.models.names import ELSE, ModelName
from goalreel.models.registry import Kind, Registry, chats, critics, editors, planners
from goalreel.terms import ROLES, Role

if TYPE_CHECKING:
    from goalreel.chat.conversation import Chat
    from goalreel.types import Critic, Editor, Planner

log = logging.getLogger(__name__)

type AnyKind = Kind[Chat] | Kind[Planner] | Kind[Editor] | Kind[Critic]
type _AnyRegistry = Registry[Chat] | Registry[Planner] | Registry[Editor] | Registry[Critic]
_REGISTRIES: "Mapping[Role, tuple[_AnyRegistry, ...]]" = {
    "planner": (chats, planners),
    "editor": (editors,),
    "critic": (chats, critics),
}
_RENAMED = {"seed": "interleavethinker"}
"""Old names of kinds, accepted for one version."""


def kinds(role: Role, *, plugins: bool = True) -> list[AnyKind]:
    """All kinds of a role, goalreel's own first. With `plugins` every plugin is imported."""
    if plugins:
        for entry in _entries(role):
            _plug_in(role, entry)
    return [kind for registry in _REGISTRIES[role] for kind in registry]


def forms(role: Role, *, recordings: bool = False, plugins: bool = False) -> list[str]:
    """How the names of a role's models are written; with `recordings` also of those that read recordings."""
    role_kinds = kinds(role, plugins=plugins)
    return [kind.form for kind in role_kinds if recordings or not kind.needs_recording]


def find(role: Role, name: ModelName, *, recordings: bool = True) -> AnyKind:
    """The kind that a name speaks of. A plugin is imported when no kind of goalreel has the name.

    Raises:
        InputError: there is no such kind, its plugin is broken, or it reads recordings and there are none.
    """
    word = _word(role, name)
    for entry in _entries(role) if _registered(role, word) is None else ():
        if entry.name == word and (problem := _plug_in(role, entry)):
            raise InputError(problem)
    kind = _registered(role, word)
    if kind is None or (":" in kind.form and not name.target):
        raise InputError(f"no {role} called {name.plain()!r}: use {_advice(role, recordings)}")
    if kind.needs_recording and not recordings:
        raise InputError(f"{name.plain()} only reads recordings: use goalreel annotate, or another --{role}")
    return kind


def with_forms(text: str, *, recordings: bool = False, plugins: bool = False) -> str:
    """Put the forms of names into a text, where it says `<planner>` or the like."""
    for role in ROLES:
        if f"<{role}>" in text:
            names = ", ".join(forms(role, recordings=recordings, plugins=plugins))
            text = text.replace(f"<{role}>", names)
    return text


def is_remote(role: Role, name: ModelName) -> bool:
    """Tell whether a name's model answers from a server; several editors do where all do.

    Raises:
        InputError: as `find`.
    """
    if name.parts:
        return all(is_remote(role, part) for part in name.parts)
    kind = find(role, name)
    return is_remote(role, name.inner) if kind.asks_chat else kind.remote


def broken_plugins(role: Role) -> list[str]:
    """One line for each plugin of a role that cannot be used."""
    return [problem for entry in _entries(role) if (problem := _plug_in(role, entry))]


def _word(role: Role, name: ModelName) -> str:
    """The name of the kind: what stands before the colon, or a word alone, or what an editor's name means."""
    if name.kind:
        if name.kind in _RENAMED:
            log.warning("%s: is now called %s:", name.public(), _RENAMED[name.kind])
        return _RENAMED.get(name.kind, name.kind)
    if role == "editor" and name.parts:
        return built_in.FALLBACK if name.separator == ELSE else built_in.SPLIT
    if role == "editor" and _registered(role, name.target) is None:
        from goalreel.editors.catalogue import catalogue

        entry = name.target.partition("@")[0]  # a folder follows, which is no address
        return built_in.CATALOGUE if entry in catalogue() else name.target
    return name.target


def _registered(role: Role, word: str) -> AnyKind | None:
    return next((kind for registry in _REGISTRIES[role] if (kind := registry.get(word)) is not None), None)


def _advice(role: Role, recordings: bool) -> str:
    choices = [
        form for form in forms(role, recordings=recordings, plugins=True) if form != built_in.CATALOGUE
    ]
    if role == "editor":
        from goalreel.editors.catalogue import catalogue

        return f"{', '.join(choices)} or one of {', '.join(catalogue())}"
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def _entries(role: Role) -> Iterator[metadata.EntryPoint]:
    """The plugins' entry points for a role, in a fixed order."""
    yield from sorted(metadata.entry_points(group=f"goalreel.{role}s"))


@cache
def _plug_in(role: Role, entry: metadata.EntryPoint) -> str | None:
    """Import a plugin, once; gives what is wrong with it in one line, or None."""
    who = f"the plugin {entry.value} for the {role} {entry.name}:"
    if (ours := _registered(role, entry.name)) is not None and ours.plugin is None:
        return f"{who} goalreel has a kind of that name"
    try:
        entry.load()
    except Exception as e:  # noqa: BLE001  (whatever is wrong with a plugin, the others work)
        problem = f"{who} cannot be imported ({type(e).__name__}: {str(e).partition(chr(10))[0]})"
    else:
        problem = None if _registered(role, entry.name) else f"{who} registers no such kind"
    if problem:
        log.warning("%s", problem)
    return problem
