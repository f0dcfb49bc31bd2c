"""A planner, an editor and a critic together, and where their answers come from."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from goalreel import claims, loop
from goalreel.critics.examiner import Examiner
from goalreel.http.calls import probe
from goalreel.middleware import AskAdapter, Middleware, ask_model, ask_models, compose
from goalreel.models.journal import Journal
from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.torch_support import free_memory, has_gpu
from goalreel.types import ROLES, STAGE_OF_ROLE, Answer, Ask, Critic, Editor, Planner, Request, Role, Stage


@dataclass(frozen=True)
class Provenance:
    """The preset that models were built from, and what it does not say. Records and reports have it."""

    preset: Preset
    notes: tuple[tuple[Role, str], ...] = ()
    """Notes on how a model is asked (`goalreel.chat.dialects`)."""
    uncached: frozenset[Role] = frozenset()
    """Roles whose answers no journal holds: fixed rules, and models that nothing tells from others."""
    examples: str | None = None
    """Digest of the labelled episodes that the planner carries over, or is shown."""

    def with_classes(self, models: Mapping[Role, object]) -> "Provenance":
        """The same, with models in some roles that have no names and go by their classes."""
        names: dict[str, str] = {role: class_name(model) for role, model in models.items()}
        notes = tuple(note for note in self.notes if note[0] not in models)
        preset = self.preset.model_copy(update=names)
        return replace(self, preset=preset, notes=notes, uncached=self.uncached | models.keys())

    def display_names(self) -> dict[str, str]:
        """Role -> the model's name for a reader, without a secret, and the note on how it is asked."""
        names: dict[str, str] = {role: getattr(self.preset, role) for role in ROLES}
        return display_names(names, dict[str, str](self.notes))

    def identities(self) -> dict[Role, str]:
        """Role -> the model's name without what changes no answer: it may be kept, and travel."""
        return {role: self.preset.model_name(role).identity() for role in ROLES}

    def identified(self) -> "Provenance":
        """The same with `identities` for names."""
        names = {str(role): name for role, name in self.identities().items()}
        return replace(self, preset=self.preset.model_copy(update=names))

    def settings(self) -> dict[str, object]:
        """All that decides a storyboard, to be kept with it: the fields of the preset, and its name."""
        fields = self.preset.model_dump(exclude={"critic_live"})  # for a robot at work
        return {**fields, "preset": self.preset.name, "notes": self.notes, "examples": self.examples}

    def key(self, role: Role) -> str:
        """Return what decides a model's answers: its name, how it is asked, and its weights.

        At another address it is the same model, if it has a name.
        """
        preset, model = self.preset, self.preset.model_name(role)
        name = model.text if model.nameless else model.identity()
        options = ""
        if role == "planner":
            options = f" {preset.max_steps}{f' {self.examples}' if self.examples else ''}"
        elif role == "critic":
            options = f" {preset.critic_mode} {preset.critic_scores} {preset.critic_threshold}"
        return f"{name}{options}{dict(self.notes).get(role, '')} {model.fingerprint()}"

    def keys(self) -> dict[Stage, str]:
        """Map stages to the keys of their models, for those whose answers a journal holds."""
        return {STAGE_OF_ROLE[role]: self.key(role) for role in ROLES if role not in self.uncached}


def class_name(model: object) -> str:
    """Name a model without a name: its class, with its module."""
    return f"{type(model).__module__}.{type(model).__qualname__}"


def display_names(names: Mapping[str, str], notes: Mapping[str, str]) -> dict[str, str]:
    """Return role -> the model's name for a reader, without a secret, and the note on how it is asked."""
    public = {role: ModelName.parse(name).public() for role, name in names.items()}
    return {role: f"{name} ({notes[role]})" if role in notes else name for role, name in public.items()}


class Lazy[M: Planner | Editor | Critic](AskAdapter):
    """A model that is loaded when it is first asked; it answers for the stages that the model has."""

    def __init__(self, build: Callable[[], M], release: Callable[[], None] = lambda: None) -> None:
        """`release` drops what else holds the model, when it is freed."""
        self._build, self._release = build, release

    @cached_property
    def model(self) -> M:
        """The model itself, loaded now if it has not been asked yet."""
        return self._build()

    @property
    def loaded(self) -> M | None:
        """The model; None if it is not loaded."""
        return self.__dict__.get("model")

    def ask(self, stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
        return ask_model(self.model, stage, requests)

    def probe(self) -> str | None:
        """Ask the model's server whether it is there (`goalreel.http.calls.probe`)."""
        return probe(self.model)

    def free(self) -> None:
        """Give back the model's memory. It is loaded again when it is asked again."""
        self.__dict__.pop("model", None)
        self._release()
        free_memory()


def no_limit() -> None:
    """Tell of no limit."""


@dataclass(frozen=True)
class ModelSet:
    """A Planner, an Editor and a Critic."""

    planner: Planner
    editor: Editor
    critic: Critic
    names: Provenance | None = None
    """Provenance of the answers; None for objects of your own, which have no names."""
    remote: frozenset[Stage] = frozenset()
    """The stages whose models answer from servers: called from several threads, while other models work."""
    live_critic: Critic | None = None
    """Judges what a camera sees while a robot works; None leaves that to `critic`."""
    planner_apart: bool = False
    """True if the planner's model shares this process with others, and no other role asks it."""
    critic_steps: Callable[[], int | None] = no_limit
    """Tells the longest task, in steps, that the critic can judge as a whole; None: any."""

    @property
    def provenance(self) -> Provenance:
        """Provenance of the answers; models without names go by their classes."""
        models: dict[Role, object] = {"planner": self.planner, "editor": self.editor, "critic": self.critic}
        unnamed = Preset(planner="own", editor="own", critic="own", max_attempts=3)
        return self.names or Provenance(unnamed).with_classes(models)

    @property
    def ask(self) -> Ask:
        """Return the three models as one function."""
        return ask_models(self.planner, self.editor, self.critic)

    def with_models(self, models: Mapping[Role, Any]) -> "ModelSet":
        """Replace models in some roles by objects of your own, whose answers no journal keeps."""
        if not models:
            return self
        facts: dict[str, Any] = {"names": self.provenance.with_classes(models)}
        facts["remote"] = self.remote - {STAGE_OF_ROLE[role] for role in models}
        if "critic" in models:
            facts |= {"live_critic": None, "critic_steps": no_limit}
        return replace(self, **models, **facts)

    def loop_arguments(self, on_rejected: loop.OnRejected, *, confirm: bool = True) -> loop.LoopArguments:
        """Return the keywords of the loop; without `confirm` nobody is asked about the end."""
        preset = self.provenance.preset
        return {
            **preset.loop_arguments,
            "on_rejected": on_rejected,
            "confirms": lambda steps: confirm and preset.confirms(steps, self.critic_steps),
        }

    @property
    def plans_first(self) -> bool:
        """True to make all plans first and then free the planner, which takes GPU memory from the others."""
        return self.planner_apart and isinstance(self.planner, Lazy) and has_gpu()

    def free_planner(self) -> None:
        """Free the planner's memory."""
        if isinstance(self.planner, Lazy):
            self.planner.free()

    def prepare(
        self, loading: Callable[[Role], object] | None = None, roles: Collection[Role] = ROLES
    ) -> None:
        """Load those models of `roles` that are not loaded yet. `loading` is called before each.

        Raises:
            UserError, OSError, ModuleNotFoundError: one of them cannot be loaded.
        """
        models = (self.planner, self.editor, self.critic, self.live_critic)
        for role, model in zip(ROLES, models, strict=False):
            if isinstance(model, Lazy) and self.names is not None:  # all of them, before the first is loaded
                self.names.preset.model_name(role).check_folders()
        loaded: tuple[Role, ...] = (*ROLES, "critic")
        for role, model in zip(loaded, models, strict=True):
            if isinstance(model, Lazy) and role in roles:
                if loading is not None:
                    loading(role)
                _ = model.model

    def with_middleware(self, *middleware: Middleware) -> "ModelSet":
        """Put middleware before the three models, the innermost first. The live critic stays as it is."""
        model = AskAdapter(compose(self.ask, middleware))
        return replace(self, planner=model, editor=model, critic=model, names=self.provenance)

    def examiner(self, folder: Path | None = None, **options: Any) -> Examiner:
        """Make the examiner of the critic, whose logs `folder` keeps; `options` are those of `Examiner`."""
        name = claims.makers(self.provenance.identities().get).get("critic", claims.UNKNOWN)
        return Examiner(name, folder, **options)

    def with_journal(self, journal: Journal) -> "ModelSet":
        """Let the journal answer what it holds; the models are asked the rest."""
        keys, live_critic = self.provenance.keys(), self.live_critic
        if live_critic is not None and "judge" in keys:
            live_journal = journal.middleware({"judge": f"{keys['judge']} live"})
            live_critic = AskAdapter(live_journal(partial(ask_model, live_critic)))
        return replace(self.with_middleware(journal.middleware(keys)), live_critic=live_critic)
