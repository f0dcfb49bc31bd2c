"""Load the three models of a preset, after all of them are checked."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from goalreel import checkpoints, terms
from goalreel.errors import InputError
from goalreel.http.endpoint import SERVER_KEYS, Endpoint
from goalreel.models import presets
from goalreel.models.journal import Journal
from goalreel.models.model_set import Lazy, ModelSet, Provenance, no_limit
from goalreel.models.names import DialectOptions, ModelName, ModelOptions
from goalreel.models.presets import Preset
from goalreel.models.registry import (
    AnyKind,
    Kind,
    RecordingContext,
    chats,
    critics,
    editors,
    find,
    is_remote,
    kinds,
    planners,
    read_options,
)
from goalreel.planners.examples.carry import digest_of
from goalreel.types import ROLES, STAGE_OF_ROLE, Critic, Editor, Planner, Role, Stage

if TYPE_CHECKING:
    from goalreel.chat.conversation import Chat
    from goalreel.chat.dialects import Dialect, DialectName
    from goalreel.critics.chat import Mode


def served_number(
    address: str, role: Role, name: str, unreached: int | None = None
) -> Callable[[], int | None]:
    """Make a query of a number that a server tells of its model in a role, asked until it is told.

    It gives None where the server has no such number, and `unreached` where it cannot be reached.
    """
    told: list[int | None] = []

    def query() -> int | None:
        if not told:
            from goalreel.http.client import HttpClient, HttpError

            endpoint = Endpoint(f"{address.rstrip('/')}/v1", SERVER_KEYS)
            try:
                client = HttpClient(endpoint, timeout_s=10, retries=0)
                number = json.loads(client.call("GET", f"/models/{role}").body).get(name)
            except (HttpError, ValueError, AttributeError):
                return unreached
            told.append(number if isinstance(number, int) and number > 0 else None)
        return told[0]

    return query


def confirm_steps(critic: str) -> Callable[[], int | None]:
    """Make a query of the longest task that a critic can judge as a whole: its folder or its server tells.

    None is any length. Where its server cannot be reached, it is 0.
    """
    chat = ChatName.of(critic, "critic")
    if chat is None:
        return no_limit
    if chat.kind.name == "server":
        return served_number(chat.name.target, "critic", "confirm_steps", unreached=0)
    from goalreel.chat.dialects import number_of

    limit = number_of(checkpoints.located(chat.name.model), "confirm_steps")
    return lambda: limit


type ChatRole = Literal["planner", "critic"]
type ChatCache = dict[str, Chat]
"""Chat models of this process by their names, so that one that is named twice is loaded once."""

PLAN_TOKENS = "20480"
"""A plan of 25 steps has about 17,000 tokens: three steps of the published Planner had 2,048."""


@dataclass(frozen=True)
class ChatName:
    """The name of a chat model, its kind and its checked options."""

    name: ModelName
    kind: "Kind[Chat]"
    options: ModelOptions

    @classmethod
    def of(cls, name: str, role: Role) -> "ChatName | None":
        """Read the name of a role's model; None for what is no chat model.

        Raises:
            InputError: no such kind, or an option that does not fit; so do the functions below.
        """
        model = ModelName.parse(name)
        kind = chats.get(find(role, model).name)
        return None if kind is None else cls(model, kind, read_options(model, kind.options))

    @property
    def dialect_name(self) -> "DialectName":
        """The dialect that its option names, or else `default_dialect`."""
        from goalreel.chat.dialects import default_dialect

        return getattr(self.options, "dialect", None) or default_dialect(checkpoints.located(self.name.model))

    @property
    def key(self) -> str | None:
        """The key of the model in a `ChatCache`; None for one of a server."""
        if not self.kind.shared:
            return None
        return f"{self.kind.name}:{self.name.target} {sorted(self.options.loading.items())}"

    def sampled(self, role: ChatRole) -> ModelName:
        """Add the sampling and the limit of InterleaveThinker's checkpoints, where the name has none."""
        if self.dialect_name != "interleavethinker":
            return self.name
        wanted = {"temperature": "checkpoint"}
        if role == "planner":
            wanted |= {"max_new_tokens": PLAN_TOKENS, "max_tokens": PLAN_TOKENS}
        known = type(self.options).model_fields
        return self.name.filled({option: value for option, value in wanted.items() if option in known})


def build_chat(name: str, *, role: ChatRole, cache: ChatCache | None = None) -> "Chat":
    """Build the vision-language model `name` for a role (which a goalreel server is asked for).

    Raises:
        UserError, OSError, ModuleNotFoundError: it cannot be built.
    """
    chat = ChatName.of(name, role)
    if chat is None:
        use = ", ".join(kind.form for kind in chats)
        raise InputError(f"{ModelName.parse(name).plain()} is no chat model: use {use}")
    if cache is not None and chat.key in cache:
        return cache[chat.key]
    model = chat.kind.build(chat.sampled(role), role)
    if cache is not None and chat.key is not None:
        cache[chat.key] = model
    return model


def sampled(preset: Preset) -> Preset:
    """Sample the chat models of a preset as `ChatName.sampled` says; one of both roles as a Planner.

    A name that cannot be read stays as it is: whoever builds the model says what is wrong.
    """
    one: ChatRole = "planner" if preset.planner == preset.critic else "critic"
    roles: dict[ChatRole, ChatRole] = {"planner": "planner", "critic": one}
    names: dict[str, str] = {}
    for role, asked_as in roles.items():
        with suppress(InputError):
            if (chat := ChatName.of(getattr(preset, role), asked_as)) is not None:
                names[role] = chat.sampled(asked_as).text
    return preset.model_copy(update=names)


def local_chat(name: str, role: Role) -> str | None:
    """Identify the chat model in this process that a role asks by `name`, by the key of its `ChatCache`.

    None where it asks no chat model, or one of a server.
    """
    model = ModelName.parse(name)
    chat = ChatName.of(model.inner.text if find(role, model).asks_chat else name, role)
    return None if chat is None else chat.key


def dialect_of(name: str, role: ChatRole) -> "Dialect | None":
    """Find the dialect that the chat model `name` is asked in; None for what is no chat model.

    Raises:
        InputError: the dialect's prompts cannot be read.
    """
    chat = ChatName.of(name, role)
    if chat is None:
        return None
    from goalreel.chat.dialects import dialect, number_of

    steps: int | Callable[[], int | None] | None = None
    if role == "planner" and chat.kind.name == "server":
        steps = served_number(chat.name.target, role, "trained_steps")
    elif role == "planner":
        steps = number_of(checkpoints.located(chat.name.model), "trained_steps")
    return dialect(chat.dialect_name, getattr(chat.options, "prompts", None), trained_steps=steps)


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

    The agent refuses a plan of more than `max_steps` steps (None: `chat.plan.MAX_STEPS`), and asks in
    `dialect` (None: by the name). `wrap_chat` is put around the chat model. Errors are those of `build_chat`.
    """
    model = ModelName.parse(name)
    kind = planners.get(find("planner", model, recordings=recordings is not None).name)
    if kind is not None and kind.asks_chat:
        chat = wrap_chat(build_chat(model.inner.text, role="planner", cache=cache))
        return kind.build(model, "planner", recordings, chat=chat)
    if kind is not None:
        return kind.build(model, "planner", recordings)
    from goalreel.chat.dialects import OWN
    from goalreel.chat.plan import MAX_STEPS
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
    The rest is as for `build_planner`; in the dialect `observed` there are no scores.
    """
    model = ModelName.parse(name)
    kind = critics.get(find("critic", model, recordings=recordings is not None).name)
    if kind is not None:
        return kind.build(model, "critic", recordings)
    from goalreel.chat.dialects import OWN
    from goalreel.critics.chat import ChatCritic

    chat = wrap_chat(build_chat(name, role="critic", cache=cache))
    dialect = dialect or dialect_of(name, "critic") or OWN
    scores = scores and dialect.name != "observed"
    return ChatCritic(chat, mode=mode, scores=scores, dialect=dialect, threshold=threshold)


def build_editor(name: str, recordings: RecordingContext | None = None) -> Editor:
    """Build the editor `name`, or raise an error as `build_chat`."""
    model = ModelName.parse(name)
    kind = editors.get(find("editor", model, recordings=recordings is not None).name)
    assert kind is not None, "an editor's kind is registered with `editors`"
    parts = tuple(build_editor(part.text, recordings) for part in model.parts or ())
    return kind.build(model, "editor", recordings, editors=parts)


def load(
    preset: Preset | str,
    *,
    recordings: RecordingContext | None = None,
    roles: Collection[Role] = ROLES,
    journal: Journal | None = None,
) -> ModelSet:
    """Load the models of a preset. A local chat model that is both planner and critic is loaded once.

    Args:
        preset: the name of a preset that comes with goalreel, the path of your own, or a `Preset`.
        recordings: the recordings for models such as `kinematic` and `hindsight` (`Options.recorded`). With
            examples the planner `examples` takes the place of `kinematic`.
        roles: the models to load now; the others are loaded when they are first asked.
        journal: keeps the answers of models that predict.

    Raises:
        InputError: there is no such preset or model, or the models do not fit together: an editor of recorded
            frames needs a planner that reads recordings; `references` need an editor that takes several
            pictures; examples need the planner `examples` or `watch`; the details scene and reasoning
            need `watch`.
        UserError, OSError, ModuleNotFoundError: a model cannot be loaded.
    """
    chosen = presets.load(preset) if isinstance(preset, str) else preset
    examples, details = (recordings.examples, recordings.details) if recordings is not None else ((), ())
    if examples and chosen.planner == "kinematic":
        chosen = chosen.but(planner="examples")
    chosen = sampled(chosen)
    role_kinds = kinds_of(chosen, recordings is not None)
    _check_segments(chosen, role_kinds)
    check_references(chosen.references, chosen.model_name("editor"))
    kind, name = role_kinds["planner"].name, chosen.model_name("planner").public()
    if examples and kind not in ("examples", "watch"):
        raise InputError(f"--examples is for --planner examples and watch:CHAT: leave out {name}")
    if kind == "examples" and not examples:
        raise InputError("--planner examples needs labelled episodes: name them with --examples LABELLED")
    needs_watch = [f"--details {detail}" for detail in details if detail in ("scene", "reasoning")]
    if needs_watch and kind != "watch":
        raise InputError(
            f"{needs_watch[0]} needs a planner that watches: use --planner watch:CHAT, not {name}"
        )
    dialects: dict[ChatRole, Dialect | None] = {
        "planner": dialect_of(chosen.planner, "planner"),
        "critic": dialect_of(chosen.critic, "critic"),
    }
    planner, editor, critic, live_critic = _lazy_models(chosen, dialects, recordings)
    notes: tuple[tuple[Role, str], ...] = tuple(
        (role, how.note) for role, how in dialects.items() if how is not None and how.note
    )
    uncached = frozenset(role for role in ROLES if not role_kinds[role].predicts)
    model_set = ModelSet(
        planner.model if "planner" in roles else planner,
        editor.model if "editor" in roles else editor,
        critic.model if "critic" in roles else critic,
        Provenance(chosen, notes, uncached, digest_of(examples)),
        frozenset[Stage](STAGE_OF_ROLE[role] for role in ROLES if is_remote(role, chosen.model_name(role))),
        live_critic,
        planner_apart(chosen, role_kinds),
        confirm_steps(chosen.critic),
    )
    return model_set if journal is None else model_set.with_journal(journal)


def _lazy_models(
    preset: Preset, dialects: Mapping[ChatRole, "Dialect | None"], recordings: RecordingContext | None
) -> tuple[Lazy[Planner], Lazy[Editor], Lazy[Critic], Lazy[Critic] | None]:
    """(planner, editor, critic, live critic), none of them loaded."""
    cache: ChatCache = {}
    observed, edited = None, dialects["critic"]
    if edited is not None and edited.name == "own":
        from goalreel.chat.dialects.own import ObservedDialect

        observed = ObservedDialect()  # for frames of a camera, in which nothing was edited
    takes_frames = all(find("editor", editor).needs_recording for editor in _editors(preset))
    planner = Lazy(
        lambda: build_planner(
            preset.planner, recordings, cache, max_steps=preset.max_steps, dialect=dialects["planner"]
        ),
        cache.clear,
    )
    editor = Lazy(lambda: build_editor(preset.editor, recordings))
    critic = Lazy(
        lambda: build_critic(
            preset.critic,
            recordings,
            cache,
            mode=preset.critic_mode,
            scores=preset.critic_scores,
            threshold=preset.critic_threshold,
            dialect=observed if observed is not None and takes_frames else edited,
        )
    )
    if observed is None or preset.critic_live != "observed":
        return planner, editor, critic, None
    # Without the threshold: there is no probability in that dialect.
    live_critic = Lazy(lambda: build_critic(preset.critic, None, cache, dialect=observed))
    return planner, editor, critic, live_critic


def planner_apart(preset: Preset, role_kinds: Mapping[Role, AnyKind]) -> bool:
    """True if the planner's model shares this process with others, and the critic asks another one."""
    chat = local_chat(preset.planner, "planner")
    editors = [find("editor", editor) for editor in _editors(preset)]
    others = any(kind.predicts and not kind.remote for kind in (role_kinds["critic"], *editors))
    return chat is not None and others and chat != local_chat(preset.critic, "critic")


def kinds_of(preset: Preset, recordings: bool = True) -> dict[Role, AnyKind]:
    """Find the kind of each model that a preset names, and check it as `check_name` does."""
    return {role: check_name(role, preset.model_name(role), recordings) for role in ROLES}


def _check_segments(preset: Preset, role_kinds: Mapping[Role, AnyKind]) -> None:
    """An editor that takes pictures from a recording finds them by the segments of a plan read off it."""
    if role_kinds["planner"].needs_recording:
        return
    for editor in _editors(preset):
        if find("editor", editor).needs_recording:
            readers = " or ".join(kind.form for kind in kinds("planner") if kind.needs_recording)
            raise InputError(
                f"--editor {editor.plain()} takes pictures from segments of the recording, and --planner "
                f"{preset.model_name('planner').public()} gives none: use --planner {readers}, "
                "or an --editor that renders"
            )


def check_references(references: terms.References, editor: ModelName) -> None:
    """Refuse an editor that takes no pictures beside the one that it edits, where it is to be shown some."""
    if references != "none" and "references" not in works_of(editor):
        raise InputError(
            f"--references {references}: {editor.plain()} takes one picture an edit: leave that out, or use "
            "an editor that takes several, such as flux2-klein-4b, qwen-image-edit-2511, openai: or gemini:"
        )


def works_of(editor: ModelName) -> set[str]:
    """Tell what an editor does (`Kind.works`)."""
    if editor.parts:
        draw, edit = map(works_of, editor.parts)
        return draw & {"text-to-image"} | edit - {"text-to-image"}
    return set(find("editor", editor).works(editor))


def check_first(models: ModelSet, pictures: Iterable[bool]) -> None:
    """Refuse an editor that cannot begin tasks, before anybody plans: `pictures` tells which have one."""
    editor, have = models.provenance.preset.model_name("editor"), set(pictures)
    try:
        works, name = works_of(editor), editor.plain()
    except InputError:  # an object, which has no name
        return
    if "text-to-image" not in works and False in have:
        raise InputError(
            f"{name} only edits, and there are tasks without a picture: put an editor that draws before it, "
            f"--editor qwen-image+{name}"
        )
    if "edit" not in works and True in have:
        raise InputError(
            f"{name} only draws, and there are tasks with a picture: put an editor that edits behind it, "
            f"--editor {name}+qwen-image-edit-2511"
        )


def _editors(preset: Preset) -> tuple[ModelName, ...]:
    name = preset.model_name("editor")
    return name.parts or (name,)


def check_name(role: Role, name: ModelName, recordings: bool = True) -> AnyKind:
    """Find the kind of a name and check its options, before anything is recorded or loaded.

    Raises:
        InputError: a name of no kind, or without `recordings` one of a kind that reads them; an option that
            does not fit.
    """
    for part in name.parts or ():
        check_name(role, part, recordings)
    kind = find(role, name, recordings=recordings)
    if kind.asks_chat:
        _check_chat(role, name)
    elif not name.parts:
        read_options(name, kind.options)
    return kind


def _check_chat(role: Role, name: ModelName) -> None:
    kind = chats.get(find(role, name.inner).name)
    if kind is None:
        use = ", ".join(f"{name.kind}:{kind.form}" for kind in chats)
        raise InputError(f"{name.plain()}: {name.inner.plain()} is no chat model: use {use}")
    options = read_options(name.inner, kind.options)
    if isinstance(options, DialectOptions) and (options.dialect or options.prompts):
        raise InputError(f"{name.plain()}: it has prompts of its own: leave out dialect and prompts")


load_models = load
"""The public name, `goalreel.load_models`."""


def choose_models(
    models: ModelSet | None,
    preset: Preset | str | None,
    chosen: Mapping[Role, Planner | Editor | Critic | str | None],
    default: str,
    recordings: RecordingContext | None = None,
) -> ModelSet:
    """Take `models`, or load those of a preset (None: `default`) that a name or an object does not replace.

    Raises:
        InputError: `models` is given beside a preset or a model, or there is no such preset or model.
        TypeError: a model lacks its method.
        UserError, OSError: a model cannot be loaded.
    """
    if models is not None:
        if not isinstance(models, ModelSet):
            raise TypeError(f"models is a goalreel.ModelSet, not {type_name(models)}")
        if given := [name for name, value in {"preset": preset, **chosen}.items() if value is not None]:
            raise InputError(f"models and {given[0]} both say which models to ask: leave one of them out")
        return models
    given_models = {role: model for role, model in chosen.items() if model is not None}
    names: dict[str, str] = {role: model for role, model in given_models.items() if isinstance(model, str)}
    objects: dict[Role, Any] = {role: model for role, model in given_models.items() if role not in names}
    for role, model in objects.items():
        method, name = STAGE_OF_ROLE[role], type_name(model)
        if isinstance(model, type) or not callable(getattr(model, method, None)):
            raise TypeError(f"{role} is a model's name or an object with a method {method}(), not {name}")
    if preset is None and len(objects) == len(ROLES):
        return ModelSet(**objects)
    if isinstance(preset, Preset):
        preset = preset.but(**names)
    else:
        choice = presets.ModelChoice.of(preset or default, **names)
        preset = (choice if recordings is None else choice.on_robot()).load(objects)
    return load(preset, recordings=recordings, roles=()).with_models(objects)


def as_folder(folder: object, argument: str) -> Path:
    """Read the path of a folder; raise TypeError if it is none."""
    if not isinstance(folder, str | PathLike):
        raise TypeError(f"{argument} is a folder's path, not {type_name(folder)}")
    return Path(folder)


def type_name(value: object) -> str:
    """Name a value's type, or a class, for an error message."""
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
