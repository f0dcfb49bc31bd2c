"""Which kinds of models there are: a registry a role, filled by goalreel (`models.kinds`) and by plugins.

A package of yours adds a kind in two files. Its pyproject.toml names a module,

    [project.entry-points."goalreel.editors"]
    mine = "my_package"

and that module registers the kind:

    @editors.kind("mine:SHADE", "Paints everything SHADE grey levels dark.", ModelOptions)
    def build(spec: ModelSpec[ModelOptions]) -> Editor:
        return MyEditor(int(spec.name.target))

`goalreel annotate --editor mine:40` then uses it. The groups are `goalreel.planners`, `goalreel.editors` and
`goalreel.critics`; a chat model can be planner and critic, and registers with `chats`. A module is imported
when a name asks for its kind, or when all kinds are listed.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from goalreel.errors import InputError
from goalreel.models.model_options import DialectOptions as DialectOptions
from goalreel.models.model_options import ModelOptions
from goalreel.models.names import ModelName
from goalreel.terms import Role

if TYPE_CHECKING:
    from goalreel.chat.conversation import Chat
    from goalreel.models.recording_context import RecordingContext
    from goalreel.types import Critic, Editor, Planner

_ADVICE = "put it into the environment variable GOALREEL_API_KEY"
_KEYED = re.compile(r"://[^/]*@")
_SECRET = re.compile(r"(key|token|secret|auth|bearer|passw.*|credentials?|signature)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelSpec[O: ModelOptions]:
    """What a kind builds a model from."""

    name: ModelName
    options: O
    role: Role
    recordings: "RecordingContext | None" = None
    """What a model that reads recordings looks at; None where there are none."""
    chat: "Chat | None" = None
    """The chat model whose name follows the kind's, where the kind asks one."""
    editors: "tuple[Editor, ...]" = ()
    """Those of `DRAW+EDIT` or `EDITOR else EDITOR`."""

    @property
    def required_recordings(self) -> "RecordingContext":
        """The recordings to read.

        Raises:
            ValueError: there are none, for the kind does not say that it needs them.
        """
        if self.recordings is None:
            raise ValueError(f"{self.name.plain()}: register its kind with needs_recording")
        return self.recordings

    @property
    def required_chat(self) -> "Chat":
        """The chat model to ask.

        Raises:
            ValueError: there is none, for the kind does not say that it asks one.
        """
        if self.chat is None:
            raise ValueError(f"{self.name.plain()}: register its kind with asks_chat")
        return self.chat

    @property
    def given(self) -> "RecordingContext | None":
        """The old name of `recordings`."""
        return _renamed("given", "recordings", self.recordings)

    @property
    def recorded(self) -> "RecordingContext":
        """The old name of `required_recordings`."""
        return _renamed("recorded", "required_recordings", self.required_recordings)

    @property
    def asked_chat(self) -> "Chat":
        """The old name of `required_chat`."""
        return _renamed("asked_chat", "required_chat", self.required_chat)


def _renamed[T](old: str, new: str, value: T) -> T:
    warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel=3)
    return value


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "Asked":
            return _renamed("Asked", "ModelSpec", ModelSpec)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass(frozen=True, slots=True)
class Kind[M]:
    """One kind of model: how it is written, what it is, and how one is built."""

    name: str
    """What stands before the colon, or the whole name."""
    form: str
    """How it is written, such as `hf:DIR`."""
    help: str
    options: type[ModelOptions]
    make: Callable[[ModelSpec[Any]], M]
    """What was registered: makes a model from its checked options."""
    extra: str | None = None
    """The extra of goalreel that it needs (see `goalreel.extras.EXTRAS`)."""
    needs_recording: bool = False
    """It reads its answers off a recording."""
    predicts: bool = True
    """Its answers cost something, so a journal keeps them; False for fixed rules."""
    shared: bool = False
    """It runs in this process: one that is named for two roles is loaded once."""
    remote: bool = False
    """It answers from a server, in any thread: it is asked while other models are at work, in several calls
    at once."""
    asks_chat: bool = False
    """A planner whose name goes on with that of the chat model it asks, options and all: `KIND:hf:DIR`."""
    references: Callable[[ModelName], bool] = lambda name: False
    """Whether the editor of a name takes more pictures beside the one that it edits (`Edit.references`)."""

    def build(
        self,
        name: ModelName,
        role: Role,
        recordings: "RecordingContext | None",
        chat: "Chat | None" = None,
        editors: "tuple[Editor, ...]" = (),
    ) -> M:
        """Build the model of a name; the parameters are the fields of `ModelSpec`.

        Raises:
            InputError: an option that does not fit.
        """
        own_name = replace(name, query="") if self.asks_chat else name
        options = read_options(own_name, self.options)
        return self.make(ModelSpec(name, options, role, recordings, chat, editors))

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
        self,
        form: str,
        help: str,
        options: type[O],
        *,
        extra: str | None = None,
        needs_recording: bool = False,
        predicts: bool = True,
        shared: bool = False,
        remote: bool = False,
        asks_chat: bool = False,
        references: Callable[[ModelName], bool] = lambda name: False,
    ) -> Callable[[Callable[[ModelSpec[O]], M]], Callable[[ModelSpec[O]], M]]:
        """Register the decorated function as what builds the models of a kind; see `Kind` for the rest.

        `form` is how a name is written: `KIND:` and something in capitals, or one word. The options are
        checked before the function is called.

        Raises:
            ValueError: there is such a kind already.
        """

        def register(make: Callable[[ModelSpec[O]], M]) -> Callable[[ModelSpec[O]], M]:
            name = form.partition(":")[0]
            if name in self._kinds:
                raise ValueError(f"there is a kind {name!r} already, of {self._kinds[name].module}")
            costs = asks_chat or (predicts and not needs_recording)
            self._kinds[name] = Kind(
                name,
                form,
                help,
                options,
                make,
                extra,
                needs_recording,
                costs,
                shared,
                remote,
                asks_chat,
                references,
            )
            return make

        return register

    def get(self, name: str) -> Kind[M] | None:
        """The kind called `name`, or None."""
        return self._kinds.get(name)

    def __iter__(self) -> Iterator[Kind[M]]:
        return iter(self._kinds.values())


def read_options[O: ModelOptions](name: ModelName, options: type[O]) -> O:
    """Check the options that a name carries, and give each its type.

    Raises:
        InputError: an option that models of this kind do not have, a value that does not fit it, or a key in
            an address.
    """
    if _KEYED.search(name.target):
        raise InputError(f"{name.plain()}: an address must hold no key: {_ADVICE}")
    try:
        return options.model_validate(name.options)
    except ValidationError as e:
        problem = _first_problem(e, options)
    raise InputError(f"{name.plain()}: {problem}")  # not from e, which holds the value


def _first_problem(error: ValidationError, options: type[ModelOptions]) -> str:
    """Say what is wrong with the first option that is, without its value, which may be a secret."""
    first = error.errors(include_input=False)[0]
    option = str(first["loc"][0])
    if option in options.model_fields:
        return f"{option} is wrong: {first['msg'].removeprefix('Value error, ')}"
    if _SECRET.search(option):
        return f"a model name must hold no {option}: {_ADVICE}"
    return f"{option} is wrong: there are {', '.join(options.model_fields) or 'no options'}"


chats: "Registry[Chat]" = Registry()
"""Vision-language models: each can be a planner and a critic."""
planners: "Registry[Planner]" = Registry()
editors: "Registry[Editor]" = Registry()
critics: "Registry[Critic]" = Registry()
