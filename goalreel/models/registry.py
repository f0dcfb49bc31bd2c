"""Which kinds of models there are: a registry a role, filled by goalreel (`models.kinds`) and by plugins.

A package of yours adds a kind in two files. Its pyproject.toml names a module,

    [project.entry-points."goalreel.editors"]
    mine = "my_package"

and that module registers the kind:

    @editors.kind("mine:SHADE", "Paints everything SHADE grey levels dark.", ModelOptions)
    def build(asked: Asked[ModelOptions]) -> Editor:
        return MyEditor(int(asked.name.target))

`goalreel annotate --editor mine:40` then uses it. The groups are `goalreel.planners`, `goalreel.editors` and
`goalreel.critics`; a chat model can be planner and critic, and registers with `chats`. A module is imported
when a name asks for its kind, or when all kinds are listed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import ValidationError

from goalreel.errors import InputError
from goalreel.models.names import ModelName
from goalreel.models.recording_context import Recorded
from goalreel.planners.chat.conversation import Chat
from goalreel.types import Critic, Editor, Frozen, Planner, Stage

type Role = Literal["planner", "editor", "critic"]
ROLES: tuple[Role, ...] = ("planner", "editor", "critic")
STAGES: Mapping[Role, Stage] = {"planner": "plan", "editor": "edit", "critic": "judge"}
"""What each role answers."""
_ADVICE = "put it into the environment, GOALREEL_API_KEY"
_KEYED = re.compile(r"://[^/]*@")
_SECRET = re.compile(r"(key|token|secret|auth|bearer|passw.*|credentials?|signature)$", re.IGNORECASE)


class ModelOptions(Frozen):
    """What may follow a name as `?key=value`: nothing. A subclass has a field an option."""


class DialectOptions(ModelOptions):
    """How a chat model is asked (see `planners.agents.dialects`): the base of every chat kind's options."""

    dialect: Literal["own", "interleavethinker"] | None = None
    """A `DialectName`, whose module loads templates; None goes by the model's name."""
    prompts: Path | None = None
    """The user's clone of InterleaveThinker, whose prompts that dialect uses."""
    overlay: bool | None = None
    """A critic is shown source and candidate laid over each other too; in the dialect `own`."""

    @property
    def loading(self) -> dict[str, Any]:
        """The options that were given, without those of the dialect: how the model itself is loaded."""
        return self.model_dump(exclude_none=True, exclude=set(DialectOptions.model_fields))


@dataclass(frozen=True, slots=True)
class Asked[O: ModelOptions]:
    """What a kind builds a model from."""

    name: ModelName
    options: O
    role: Role
    given: Recorded | None = None
    """The recordings to read, where there are some."""
    chat: Chat | None = None
    """The chat model whose name follows the kind's, where the kind asks one."""

    @property
    def recorded(self) -> Recorded:
        """The recordings to read.

        Raises:
            ValueError: there are none, for the kind does not say that it needs them.
        """
        if self.given is None:
            raise ValueError(f"{self.name.plain()}: register its kind with needs_recording")
        return self.given

    @property
    def asked_chat(self) -> Chat:
        """The chat model to ask.

        Raises:
            ValueError: there is none, for the kind does not say that it asks one.
        """
        if self.chat is None:
            raise ValueError(f"{self.name.plain()}: register its kind with asks_chat")
        return self.chat


class _Build[M](Protocol):
    def __call__(
        self, asked: ModelName, role: Role, given: Recorded | None, chat: Chat | None = None, /
    ) -> M: ...


@dataclass(frozen=True, slots=True)
class Kind[M]:
    """One kind of model: how it is written, what it is, and how one is built."""

    name: str
    """What stands before the colon, or the whole name."""
    form: str
    """How it is written, such as `hf:DIR`."""
    help: str
    options: type[ModelOptions]
    build: "_Build[M]"
    module: str
    """The module that registered it."""
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
    ) -> Callable[[Callable[[Asked[O]], M]], Callable[[Asked[O]], M]]:
        """Register the decorated function as what builds the models of a kind; see `Kind` for the rest.

        `form` is how a name is written: `KIND:` and something in capitals, or one word. The options are
        checked before the function is called.

        Raises:
            ValueError: there is such a kind already.
        """

        def register(build: Callable[[Asked[O]], M]) -> Callable[[Asked[O]], M]:
            name = form.partition(":")[0]
            if name in self._kinds:
                raise ValueError(f"there is a kind {name!r} already, of {self._kinds[name].module}")

            def make(asked: ModelName, role: Role, given: Recorded | None, chat: Chat | None = None, /) -> M:
                own = replace(asked, query="") if asks_chat else asked
                return build(Asked(asked, read_options(own, options), role, given, chat))

            self._kinds[name] = Kind(
                name,
                form,
                help,
                options,
                make,
                build.__module__,
                extra,
                needs_recording,
                asks_chat or (predicts and not needs_recording),
                shared,
                remote,
                asks_chat,
            )
            return build

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
        raise InputError(f"{name.plain()}: no key belongs into an address: {_ADVICE}")
    try:
        return options.model_validate(name.options)
    except ValidationError as e:
        said = _wrong(e, options)
    raise InputError(f"{name.plain()}: {said}")  # not from e, which holds the value


def _wrong(error: ValidationError, options: type[ModelOptions]) -> str:
    """What is wrong with the first option that is, without its value, which may be a secret."""
    first = error.errors(include_input=False)[0]
    wrong = str(first["loc"][0])
    if wrong in options.model_fields:
        return f"{wrong} is wrong: {first['msg']}"
    if _SECRET.search(wrong):
        return f"no {wrong} belongs into a name: {_ADVICE}"
    return f"{wrong} is wrong: there are {', '.join(options.model_fields) or 'no options'}"


chats: Registry[Chat] = Registry()
"""Vision-language models: each can be a planner and a critic."""
planners: Registry[Planner] = Registry()
editors: Registry[Editor] = Registry()
critics: Registry[Critic] = Registry()
