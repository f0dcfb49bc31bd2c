"""Models by their names (see `goalreel.models.names`): the one place where a name becomes an object.

What a name needs (torch, diffusers, openai) is imported when the model is built, not before.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Literal

from goalreel.errors import InputError
from goalreel.models import presets
from goalreel.models.discovery import AnyKind, find, is_remote, kinds
from goalreel.models.journal import Journal
from goalreel.models.lazy import LaterCritic, LaterEditor, LaterPlanner
from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.models.recording_context import Recorded
from goalreel.models.registry import (
    ROLES,
    STAGES,
    DialectOptions,
    Role,
    chats,
    critics,
    editors,
    planners,
    read_options,
)
from goalreel.models.trio import Names, Trio
from goalreel.planners.chat.conversation import Chat
from goalreel.planners.watch.exemplars import digest_of
from goalreel.types import Critic, Editor, Planner, Stage

if TYPE_CHECKING:
    from goalreel.planners.agents.critic import Mode
    from goalreel.planners.agents.dialects import Dialect

type Thinker = Literal["planner", "critic"]
"""The roles of chat models."""
type Shared = dict[str, Chat]
"""Chat models of this process by their names, so that one that is named twice is loaded once."""


def load(
    preset: Preset | str,
    *,
    recordings: Recorded | None = None,
    roles: Collection[Role] = ROLES,
    journal: Journal | None = None,
) -> Trio:
    """The models of a preset. A local chat model that is named for both agents is loaded once.

    Args:
        preset: the name of one that comes with goalreel, the path of one of your own, or one made with
            `presets.load`.
        recordings: what models such as `kinematic` and `hindsight` read.
        roles: the models to load now; the others are loaded when they are first asked.
        journal: keeps the answers of models that predict.

    Raises:
        InputError: the editor takes pictures from a recording, and the planner reads no segments off it; or
            there are exemplars, and the planner does not watch.
        UserError, OSError, ModuleNotFoundError: a model cannot be built; the first two say why in one line.
    """
    names = presets.load(preset) if isinstance(preset, str) else preset
    found = kinds_of(names, recordings is not None)
    _check_segments(names, found)
    exemplars = recordings.exemplars if recordings is not None else ()
    if exemplars and found["planner"].name != "watch":
        raise InputError(
            "--exemplars are shown to a planner that watches: use --planner watch:CHAT, not "
            f"{ModelName.parse(names.planner).public()}"
        )
    spoken = dialects_of(names)
    shared: Shared = {}
    planner = LaterPlanner(
        lambda: build_planner(
            names.planner, recordings, shared, max_steps=names.max_steps, spoken=spoken["planner"]
        )
    )
    editor = LaterEditor(lambda: build_editor(names.editor, recordings))
    critic = LaterCritic(
        lambda: build_critic(
            names.critic,
            recordings,
            shared,
            mode=names.critic_mode,
            scores=names.critic_scores,
            threshold=names.critic_threshold,
            spoken=spoken["critic"],
            observing=_takes_frames(names),
        )
    )
    # Without the threshold: who observes tells no probability.
    observing = LaterCritic(lambda: build_critic(names.critic, None, shared, observing=True))
    notes: dict[Role, str] = {role: how.note for role, how in spoken.items() if how is not None and how.note}
    unkept = frozenset[Role](role for role in ROLES if not found[role].predicts)
    remote: list[Role] = [role for role in ROLES if is_remote(role, ModelName.parse(getattr(names, role)))]
    trio = Trio(
        planner.model if "planner" in roles else planner,
        editor.model if "editor" in roles else editor,
        critic.model if "critic" in roles else critic,
        Names.of(names, unkept, notes=notes, exemplars=digest_of(exemplars)),
        frozenset[Stage](STAGES[role] for role in remote),
        observing if _observes(names, spoken["critic"]) else None,
    )
    return trio if journal is None else trio.kept(journal)


def reading(preset: Preset) -> list[str]:
    """The names in a preset of models that only read recordings.

    Raises:
        InputError: a name of no kind.
    """
    return [getattr(preset, role) for role, kind in kinds_of(preset).items() if kind.needs_recording]


def kinds_of(preset: Preset, recordings: bool = True) -> dict[Role, AnyKind]:
    """The kind of each model that a preset names.

    Raises:
        InputError: a name of no kind, or without `recordings` one of a kind that reads them; an option that
            does not fit.
    """
    return {role: check_name(role, ModelName.parse(getattr(preset, role)), recordings) for role in ROLES}


def _check_segments(preset: Preset, found: dict[Role, AnyKind]) -> None:
    """An editor that takes pictures from a recording finds them by the segments of a plan read off it."""
    if found["planner"].needs_recording:
        return
    for editor in _editors(preset):
        if find("editor", editor).needs_recording:
            readers = " or ".join(kind.form for kind in kinds("planner") if kind.needs_recording)
            raise InputError(
                f"--editor {editor.plain()} takes pictures from segments of the recording, and --planner "
                f"{ModelName.parse(preset.planner).public()} gives none: use --planner {readers}, "
                "or an --editor that renders"
            )


def _editors(preset: Preset) -> tuple[ModelName, ...]:
    name = ModelName.parse(preset.editor)
    return name.parts or (name,)


def _takes_frames(preset: Preset) -> bool:
    """Whether every goal image is a frame of a recording."""
    return all(find("editor", editor).needs_recording for editor in _editors(preset))


def _observes(preset: Preset, spoken: "Dialect | None") -> bool:
    """Whether live frames are asked about in other words than candidates; a dialect has only those."""
    return preset.critic_live == "observed" and spoken is not None and spoken.name == "own"


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
    """The chat model that a name goes on with, and its options."""
    kind = chats.get(find(role, name.inner).name)
    if kind is None:
        use = ", ".join(f"{name.kind}:{kind.form}" for kind in chats)
        raise InputError(f"{name.plain()}: {name.inner.plain()} is no chat model: use {use}")
    options = read_options(name.inner, kind.options)
    if isinstance(options, DialectOptions) and (options.dialect or options.prompts or options.overlay):
        raise InputError(
            f"{name.plain()}: it is asked in words of its own: leave out dialect, prompts and overlay"
        )


def build_chat(name: str, *, role: Thinker, shared: Shared | None = None) -> Chat:
    """The vision-language model `name`, for a role (which a goalreel server is asked for).

    Raises:
        UserError, OSError, ModuleNotFoundError: as `load`.
    """
    parsed = ModelName.parse(name)
    known = find(role, parsed, recordings=False)
    kind = chats.get(known.name)
    if kind is None:
        raise InputError(f"{parsed.plain()} is no chat model: use {', '.join(kind.form for kind in chats)}")
    if shared is None or not kind.shared:
        return kind.build(parsed, role, None)
    options = read_options(parsed, kind.options)
    loading = options.loading if isinstance(options, DialectOptions) else options.model_dump()
    model = f"{kind.name}:{parsed.target} {sorted(loading.items())}"
    if model not in shared:
        shared[model] = kind.build(parsed, role, None)
    return shared[model]


def dialect_of(name: str, role: Thinker) -> "Dialect | None":
    """The words in which the chat model `name` is asked: its option's, else those of its name.

    None for what is no chat model.

    Raises:
        InputError: no such kind, an option that does not fit, prompts that cannot be read, or an overlay
            for a planner or in a dialect that has none.
    """
    parsed = ModelName.parse(name)
    kind = chats.get(find(role, parsed).name)
    if kind is None:
        return None
    from goalreel.planners.agents.dialects import default_dialect, dialect

    options = read_options(parsed, kind.options)
    if not isinstance(options, DialectOptions):
        return dialect(default_dialect(parsed.model), None)
    if options.overlay and role != "critic":
        raise InputError(f"{parsed.plain()}: overlay is for a critic: leave it out of --{role}")
    spoken = options.dialect or default_dialect(parsed.model)
    return dialect(spoken, options.prompts, overlay=bool(options.overlay))


def dialects_of(preset: Preset) -> dict[Thinker, "Dialect | None"]:
    """The words in which a preset's planner and critic are asked.

    Raises:
        InputError: as `dialect_of`.
    """
    return {
        "planner": dialect_of(preset.planner, "planner"),
        "critic": dialect_of(preset.critic, "critic"),
    }


def build_planner(
    name: str,
    recordings: Recorded | None = None,
    shared: Shared | None = None,
    *,
    max_steps: int | None = None,
    spoken: "Dialect | None" = None,
    through: Callable[[Chat], Chat] | None = None,
) -> Planner:
    """The planner `name`: the Planner agent on a chat model, or one that reads recordings.

    The agent refuses a plan of more than `max_steps` steps (None: `parsing.MAX_STEPS`), and asks in the
    dialect `spoken` (None: by the name). `through` is put around the chat model.

    Raises:
        UserError, OSError, ModuleNotFoundError: as `load`.
    """
    parsed = ModelName.parse(name)
    kind = planners.get(find("planner", parsed, recordings=recordings is not None).name)
    if kind is not None and kind.asks_chat:
        chat = build_chat(parsed.inner.text, role="planner", shared=shared)
        return kind.build(parsed, "planner", recordings, chat if through is None else through(chat))
    if kind is not None:
        return kind.build(parsed, "planner", recordings)
    from goalreel.planners.agents.dialects import OWN
    from goalreel.planners.agents.parsing import MAX_STEPS
    from goalreel.planners.agents.planner import ChatPlanner

    chat = build_chat(name, role="planner", shared=shared)
    chat = chat if through is None else through(chat)
    words = spoken or dialect_of(name, "planner") or OWN
    return ChatPlanner(chat, dialect=words, max_steps=max_steps or MAX_STEPS)


def build_critic(
    name: str,
    recordings: Recorded | None = None,
    shared: Shared | None = None,
    *,
    mode: "Mode" = "strict",
    scores: bool = False,
    threshold: float | None = None,
    spoken: "Dialect | None" = None,
    through: Callable[[Chat], Chat] | None = None,
    observing: bool = False,
) -> Critic:
    """The critic `name`: the Critic agent on a chat model, or one of fixed rules.

    `mode` is "strict" for an RL checkpoint and "fast" for an SFT one; with `scores` the agent also gives 0-10
    for semantics and quality; with a `threshold` it accepts where its probability of success reaches that.
    `observing` asks of frames of a recording whether the state holds, without scores (`ObservingCritic`); a
    model with a dialect of its own is asked as always. `spoken` and `through` are as for `build_planner`.

    Raises:
        UserError, OSError, ModuleNotFoundError: as `load`.
    """
    parsed = ModelName.parse(name)
    kind = critics.get(find("critic", parsed, recordings=recordings is not None).name)
    if kind is not None:
        return kind.build(parsed, "critic", recordings)
    from goalreel.planners.agents.critic import ChatCritic
    from goalreel.planners.agents.dialects import OWN

    chat = build_chat(name, role="critic", shared=shared)
    chat = chat if through is None else through(chat)
    words = spoken or dialect_of(name, "critic") or OWN
    if observing and words.name == "own":
        from goalreel.planners.agents.observing import ObservingCritic

        if words.overlay:
            raise InputError(
                f"{parsed.plain()}: recorded frames are not laid over each other: leave out overlay"
            )
        return ObservingCritic(chat, threshold=threshold)
    return ChatCritic(chat, mode=mode, scores=scores, dialect=words, threshold=threshold)


def build_editor(name: str, recordings: Recorded | None = None) -> Editor:
    """The editor `name`.

    Raises:
        UserError, OSError, ModuleNotFoundError: as `load`.
    """
    parsed = ModelName.parse(name)
    known = find("editor", parsed, recordings=recordings is not None)
    kind = editors.get(known.name)
    if kind is None:
        raise ValueError(f"{known.name} is no kind of editor")
    return kind.build(parsed, "editor", recordings)


load_models = load
"""The public name, `goalreel.load_models`."""
