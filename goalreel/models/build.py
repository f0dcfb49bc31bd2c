"""One model by its name (see `goalreel.models.names`): the one place where a name becomes an object.

What a name needs (torch, diffusers, openai) is imported when the model is built, not before.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from goalreel.checkpoints import located
from goalreel.errors import InputError
from goalreel.models.discovery import find, is_remote
from goalreel.models.lazy import Lazy
from goalreel.models.model_options import DialectOptions
from goalreel.models.names import ELSE, ModelName
from goalreel.models.recording_context import RecordingContext
from goalreel.models.registry import chats, critics, editors, planners, read_options
from goalreel.types import Critic, Editor, Planner, Role

if TYPE_CHECKING:
    from goalreel.chat.conversation import Chat
    from goalreel.chat.dialects import Dialect
    from goalreel.critics.chat import Mode

type ChatRole = Literal["planner", "critic"]
"""The roles of chat models."""
type ChatCache = dict[str, Chat]
"""Chat models of this process by their names, so that one that is named twice is loaded once."""


def build_chat(name: str, *, role: ChatRole, cache: ChatCache | None = None) -> "Chat":
    """Build the vision-language model `name` for a role (which a goalreel server is asked for).

    Raises:
        UserError, OSError, ModuleNotFoundError: it cannot be built.
    """
    model = ModelName.parse(name)
    kind = chats.get(find(role, model, recordings=False).name)
    if kind is None:
        raise InputError(f"{model.plain()} is no chat model: use {', '.join(kind.form for kind in chats)}")
    key = local_chat(name, role)
    if cache is None or key is None:
        return kind.build(model, role, None)
    if key not in cache:
        cache[key] = kind.build(model, role, None)
    return cache[key]


def local_chat(name: str, role: Role) -> str | None:
    """Identify the chat model in this process that a role asks by `name`, by the key of its `ChatCache`.

    None where it asks no chat model, or one of a server.

    Raises:
        InputError: no such kind, or an option that does not fit.
    """
    model = ModelName.parse(name)
    if find(role, model).asks_chat:
        model = model.inner
    kind = chats.get(find(role, model).name)
    if kind is None or not kind.shared:
        return None
    options = read_options(model, kind.options)
    loading = options.loading if isinstance(options, DialectOptions) else options.model_dump()
    return f"{kind.name}:{model.target} {sorted(loading.items())}"


def dialect_of(name: str, role: ChatRole) -> "Dialect | None":
    """Find the dialect that the chat model `name` is asked in: its option's, or else `default_dialect`.

    None for what is no chat model.

    Raises:
        InputError: no such kind, an option that does not fit, prompts that cannot be read, or an overlay
            for a planner or in a dialect that has none.
    """
    model = ModelName.parse(name)
    kind = chats.get(find(role, model).name)
    if kind is None:
        return None
    from goalreel.chat.dialects import default_dialect, dialect, trained_steps_of

    options = read_options(model, kind.options)
    steps: int | Callable[[], int | None] | None = None
    if role == "planner" and kind.name == "server":
        from goalreel.models.steps_query import StepsQuery

        steps = StepsQuery(model.target, getattr(options, "header", None))
    elif role == "planner":
        steps = trained_steps_of(located(model.model))
    if not isinstance(options, DialectOptions):
        return dialect(default_dialect(located(model.model)), trained_steps=steps)
    if options.overlay and role != "critic":
        raise InputError(f"{model.plain()}: overlay is for a critic: leave it out of --{role}")
    chosen = options.dialect or default_dialect(located(model.model))
    return dialect(chosen, options.prompts, overlay=bool(options.overlay), trained_steps=steps)


def build_planner(
    name: str,
    recordings: RecordingContext | None = None,
    cache: ChatCache | None = None,
    *,
    max_steps: int | None = None,
    dialect: "Dialect | None" = None,
    wrap_chat: "Callable[[Chat], Chat]" = lambda chat: chat,
) -> Planner:
    """Build the planner `name`: the Planner agent on a chat model, or one that reads recordings.

    The agent refuses a plan of more than `max_steps` steps (None: `parsing.MAX_STEPS`), and asks in `dialect`
    (None: by the name). `wrap_chat` is put around the chat model.

    Raises:
        UserError, OSError, ModuleNotFoundError: it cannot be built.
    """
    model = ModelName.parse(name)
    kind = planners.get(find("planner", model, recordings=recordings is not None).name)
    if kind is not None and kind.asks_chat:
        chat = wrap_chat(build_chat(model.inner.text, role="planner", cache=cache))
        return kind.build(model, "planner", recordings, chat)
    if kind is not None:
        return kind.build(model, "planner", recordings)
    from goalreel.chat.dialects import OWN
    from goalreel.chat.parsing import MAX_STEPS
    from goalreel.planners.chat import ChatPlanner

    chat = wrap_chat(build_chat(name, role="planner", cache=cache))
    dialect = dialect or dialect_of(name, "planner") or OWN
    return ChatPlanner(chat, dialect=dialect, max_steps=max_steps or MAX_STEPS)


def build_critic(
    name: str,
    recordings: RecordingContext | None = None,
    cache: ChatCache | None = None,
    *,
    mode: "Mode" = "strict",
    scores: bool = False,
    threshold: float | None = None,
    dialect: "Dialect | None" = None,
    wrap_chat: "Callable[[Chat], Chat]" = lambda chat: chat,
) -> Critic:
    """Build the critic `name`: the Critic agent on a chat model, or one of fixed rules.

    `mode` is "strict" for an RL checkpoint and "fast" for an SFT one; with `scores` the agent also gives 0-10
    for semantics and quality; with a `threshold` it accepts where its probability of success reaches that.
    `dialect` and `wrap_chat` are as for `build_planner`; in the dialect `observed` there are no scores.

    Raises:
        UserError, OSError, ModuleNotFoundError: it cannot be built.
    """
    model = ModelName.parse(name)
    kind = critics.get(find("critic", model, recordings=recordings is not None).name)
    if kind is not None:
        return kind.build(model, "critic", recordings)
    from goalreel.chat.dialects import OWN
    from goalreel.critics.chat import ChatCritic

    chat = wrap_chat(build_chat(name, role="critic", cache=cache))
    dialect = dialect or dialect_of(name, "critic") or OWN
    if dialect.name == "observed":
        scores = False
        if dialect.overlay:
            raise InputError(f"{model.plain()}: overlay is not for recorded frames: leave it out")
    return ChatCritic(chat, mode=mode, scores=scores, dialect=dialect, threshold=threshold)


def build_editor(name: str, recordings: RecordingContext | None = None) -> Editor:
    """Build the editor `name`.

    Raises:
        UserError, OSError, ModuleNotFoundError: it cannot be built.
    """
    model = ModelName.parse(name)
    kind_name = find("editor", model, recordings=recordings is not None).name
    kind = editors.get(kind_name)
    if kind is None:
        raise ValueError(f"{kind_name} is no kind of editor")
    parts = tuple(_part(model, number, recordings) for number in range(len(model.parts or ())))
    return kind.build(model, "editor", recordings, None, parts)


def _part(model: ModelName, number: int, recordings: RecordingContext | None) -> Editor:
    """One editor of several. One with weights that another comes before is loaded when it is first asked."""
    part = (model.parts or ())[number]
    build = partial(build_editor, part.text, recordings)
    waits = number > 0 and model.separator == ELSE and not is_remote("editor", part)
    return Lazy(build) if waits else build()
