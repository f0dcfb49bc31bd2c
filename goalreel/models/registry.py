"""Which kinds of models there are: a registry a role, filled by goalreel (`models.kinds`) and by plugins.

A package adds a kind in a module that its pyproject.toml names under `goalreel.planners`, `goalreel.editors`
or `goalreel.critics`, as docs/tutorials/your-own-model.md shows. A chat model can be planner and critic, and
registers with `chats`. A module is imported when a name asks for its kind, or when all kinds are listed.
"""

import importlib
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from goalreel.checkpoints import NAMES
from goalreel.errors import InputError
from goalreel.models.names import DialectOptions as DialectOptions, ModelName, ModelOptions
from goalreel.terms import LabelForm, Role

if TYPE_CHECKING:
    from goalreel.chat.conversation import Chat
    from goalreel.claims import DetailName
    from goalreel.planners.examples.carry import Example
    from goalreel.planners.kinematic.layout import Layout
    from goalreel.planners.kinematic.robot import Robot
    from goalreel.terms import Granularity
    from goalreel.types import Critic, Editor, Planner, Recordings


@dataclass(frozen=True)
class RecordingContext:
    """Recordings by their ids, and how they are to be read."""

    recordings: "Recordings"
    camera: str
    """The camera whose frames become goal images; one that stands still."""
    granularity: "Granularity" = "event"
    layout: "Layout | None" = None
    """Which state dimensions are the gripper and the position; None finds them, for each episode alone."""
    cameras: tuple[str, ...] = ()
    """All cameras that show the episode: `camera`, then those on a wrist, then the others."""
    with_phases: bool = False
    """Let the planner that reads motion name the phases below its steps too."""
    examples: "tuple[Example, ...]" = ()
    """Labelled episodes, which the planner `examples` carries over and one that watches is shown."""
    robot: "Robot | None" = None
    """The robot, from which `layout` and `camera` were found."""
    last_retreat: bool = False
    """Let the planner that reads motion cut at the last release too."""
    steps: "Mapping[str, tuple[str, ...]] | None" = None
    """Instruction -> the owner's steps, which the planner that reads motion reads in its place."""
    labels: LabelForm | None = None
    """Which labels of the recordings the planner `rows` takes; None takes the first that one has."""
    details: "tuple[DetailName, ...]" = ()
    """More details that a planner which watches is to tell of each step."""

    @property
    def watched(self) -> tuple[str, ...]:
        """The cameras that a model which watches is shown: `camera`, and one more where there is one."""
        return self.cameras[:2] or (self.camera,)


CATALOGUE, SPLIT = "NAME[@FOLDER]", "NAME+EDITOR"
"""The editors' kinds without a kind in front."""
_ADVICE = "put it into the environment variable GOALREEL_API_KEY"
_SECRET = re.compile(r"(key|token|secret|auth|bearer|passw.*|credentials?|signature)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelSpec[O: ModelOptions]:
    """Input from which a kind builds a model."""

    name: ModelName
    options: O
    role: Role
    recordings: "RecordingContext | None" = None
    """Recordings for a model that reads them; None where there are none."""
    chat: "Chat | None" = None
    """The chat model whose name follows the kind's, where the kind asks one."""
    editors: "tuple[Editor, ...]" = ()
    """Those of `DRAW+EDIT`."""

    @property
    def required_recordings(self) -> "RecordingContext":
        """The recordings of a kind that was registered with `needs_recording`."""
        if self.recordings is None:
            raise ValueError(f"{self.name.plain()}: register its kind with needs_recording")
        return self.recordings


@dataclass(frozen=True, slots=True)
class Kind[M]:
    """One kind of model: how it is written, what it is, and how one is built."""

    name: str
    """Text before the colon, or the whole name."""
    form: str
    """Form of its names, such as `hf:DIR`."""
    help: str
    options: type[ModelOptions]
    make: Callable[[ModelSpec[Any]], M]
    """The registered function: makes a model from its checked options."""
    extra: str | None = None
    """The extra of goalreel that it needs (`goalreel.extras.EXTRAS`)."""
    needs_recording: bool = False
    """It reads its answers off a recording."""
    predicts: bool = True
    """Its answers cost something, so a journal keeps them; False for fixed rules."""
    shared: bool = False
    """It runs in this process: one that is named for two roles is loaded once."""
    remote: bool = False
    """It answers from a server, in any thread, in several calls at once, and while other models work."""
    asks_chat: bool = False
    """A planner whose name goes on with that of the chat model it asks, options and all: `KIND:hf:DIR`."""
    works: Callable[[ModelName], Collection[str]] = lambda name: ("text-to-image", "edit")
    """Tells of the editor of a name which it does of these, and of `references`: more pictures beside the one
    that it edits."""

    def build(
        self, name: ModelName, role: Role, recordings: "RecordingContext | None" = None, **parts: Any
    ) -> M:
        """Build the model of a name; the parameters are the fields of `ModelSpec`.

        Raises:
            InputError: an option that does not fit.
        """
        own_name = replace(name, query="") if self.asks_chat else name
        return self.make(ModelSpec(name, read_options(own_name, self.options), role, recordings, **parts))

    @property
    def module(self) -> str:
        """The module that registered it."""
        return self.make.__module__

    @property
    def plugin(self) -> str | None:
        """The package that brings it; None where goalreel does."""
        package = self.module.partition(".")[0]
        return None if package == "goalreel" else package


class Registry[M]:
    """The kinds of model that answer as an M, by their names and in the order of their registration."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind[M]] = {}

    def kind[O: ModelOptions](
        self, form: str, help: str, options: type[O], *, predicts: bool = True, **facts: Any
    ) -> Callable[[Callable[[ModelSpec[O]], M]], Callable[[ModelSpec[O]], M]]:
        """Register the decorated function as what builds the models of a kind.

        Args:
            form: how a name is written: `KIND:` and something in capitals, or one word.
            help: one line on the kind.
            options: class of the options, which are checked before the function is called.
            predicts: False for fixed rules, whose answers cost nothing.
            facts: the other fields of `Kind`, from `extra` on.

        Raises:
            ValueError: there is such a kind already.
        """

        def register(make: Callable[[ModelSpec[O]], M]) -> Callable[[ModelSpec[O]], M]:
            name = form.partition(":")[0]
            if name in self._kinds:
                raise ValueError(f"there is a kind {name!r} already, of {self._kinds[name].module}")
            kind = Kind(name, form, help, options, make, **facts)
            costs = kind.asks_chat or (predicts and not kind.needs_recording)
            self._kinds[name] = replace(kind, predicts=costs)
            return make

        return register

    def get(self, name: str) -> Kind[M] | None:
        """The kind called `name`, or None."""
        _register_built_in()
        return self._kinds.get(name)

    def __iter__(self) -> Iterator[Kind[M]]:
        _register_built_in()
        return iter(self._kinds.values())


def _register_built_in() -> None:
    importlib.import_module("goalreel.models.kinds")


def read_options[O: ModelOptions](name: ModelName, options: type[O]) -> O:
    """Check the options that a name carries, and give each its type.

    Raises:
        InputError: an option that models of this kind do not have, a value that does not fit it, or a key in
            an address.
    """
    if re.search(r"://[^/]*@", name.target):
        raise InputError(f"{name.plain()}: an address must hold no key: {_ADVICE}")
    try:
        return options.model_validate(name.options)
    except ValidationError as e:
        first = e.errors(include_input=False)[0]
    option = str(first["loc"][0])
    if option in options.model_fields:
        problem = f"{option} is wrong: {first['msg'].removeprefix('Value error, ')}"
    elif _SECRET.search(option):
        problem = f"a model name must hold no {option}: {_ADVICE}"
    else:
        problem = f"{option} is wrong: there are {', '.join(options.model_fields) or 'no options'}"
    raise InputError(f"{name.plain()}: {problem}")  # not from the error, which holds the value


chats: "Registry[Chat]" = Registry()
"""Vision-language models: each can be a planner and a critic."""
planners: "Registry[Planner]" = Registry()
editors: "Registry[Editor]" = Registry()
critics: "Registry[Critic]" = Registry()


log = logging.getLogger(__name__)

type AnyKind = Kind[Chat] | Kind[Planner] | Kind[Editor] | Kind[Critic]
_REGISTRIES: "Mapping[Role, tuple[Registry[Any], ...]]" = {
    "planner": (chats, planners),
    "editor": (editors,),
    "critic": (chats, critics),
}


def kinds(role: Role, *, plugins: bool = True) -> list[AnyKind]:
    """All kinds of a role, goalreel's own first. With `plugins` every plugin is imported."""
    if plugins:
        for entry in _entries(role):
            _plug_in(role, entry)
    return [kind for registry in _REGISTRIES[role] for kind in registry]


def forms(role: Role, *, recordings: bool = False, plugins: bool = False) -> list[str]:
    """List the forms of names of a role's models; with `recordings` also of those that read recordings."""
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
        shipped = f"diffusers:{word}" if role == "editor" else f"hf:{word}"
        advice = shipped if word in NAMES else _advice(role, recordings)
        raise InputError(f"no {role} called {name.plain()!r}: use {advice}")
    if kind.needs_recording and not recordings:
        raise InputError(f"{name.plain()} only reads recordings: use goalreel annotate, or another --{role}")
    return kind


def is_remote(role: Role, name: ModelName) -> bool:
    """Tell whether a name's model answers from a server; several editors do where all do."""
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
        return name.kind
    if role == "editor" and name.parts:
        return SPLIT
    if role == "editor" and _registered(role, name.target) is None:
        from goalreel.editors.catalogue import catalogue

        entry = name.target.partition("@")[0]  # a folder follows, which is no address
        return CATALOGUE if entry in catalogue() else name.target
    return name.target


def _registered(role: Role, word: str) -> AnyKind | None:
    return next((kind for registry in _REGISTRIES[role] if (kind := registry.get(word)) is not None), None)


def _advice(role: Role, recordings: bool) -> str:
    *choices, last = (f for f in forms(role, recordings=recordings, plugins=True) if f != CATALOGUE)
    if role == "editor":
        from goalreel.editors.catalogue import catalogue

        choices, last = [*choices, last], f"one of {', '.join(catalogue())}"
    return f"{', '.join(choices)} or {last}"


def _entries(role: Role) -> list[metadata.EntryPoint]:
    """The plugins' entry points for a role, in a fixed order."""
    return sorted(metadata.entry_points(group=f"goalreel.{role}s"))


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
