"""Planner, editor and critic together, and what they are called."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from goalreel.loop import Keep
from goalreel.models.journal import Journal
from goalreel.models.lazy import Later
from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.models.registry import ROLES, STAGES, Role
from goalreel.types import Critic, Editor, Planner, Stage

if TYPE_CHECKING:
    from goalreel.planners.agents.critic import Mode


@dataclass(frozen=True)
class Names:
    """What the three models are called: in records, in reports and in a journal's keys."""

    planner: str
    editor: str
    critic: str
    critic_mode: "Mode" = "strict"
    critic_scores: bool = False
    critic_threshold: float | None = None
    max_attempts: int = 3
    """Pictures a step, the paper's T."""
    keep: Keep = "best"
    max_steps: int = 40
    preset: str | None = None
    notes: tuple[tuple[Role, str], ...] = ()
    """What there is to know about how a model is asked (`goalreel.planners.agents.dialects`)."""
    unkept: frozenset[Role] = frozenset()
    """Roles whose answers no journal keeps: fixed rules, and models that nothing tells from others."""
    exemplars: str | None = None
    """What tells the accepted episodes that the planner is shown from others."""

    @classmethod
    def of(
        cls,
        preset: Preset,
        unkept: frozenset[Role] = frozenset(),
        notes: Mapping[Role, str] | None = None,
        exemplars: str | None = None,
    ) -> "Names":
        """What the models of a preset are called."""
        return cls(
            preset.planner,
            preset.editor,
            preset.critic,
            preset.critic_mode,
            preset.critic_scores,
            preset.critic_threshold,
            preset.max_attempts,
            preset.keep,
            preset.max_steps,
            preset.name,
            tuple((notes or {}).items()),
            unkept,
            exemplars,
        )

    def shown(self) -> dict[str, str]:
        """Role -> the model's name for a reader, without a secret, and the note on how it is asked."""
        notes = dict(self.notes)
        names = {role: ModelName.parse(getattr(self, role)).public() for role in ROLES}
        return {role: f"{name} ({notes[role]})" if role in notes else name for role, name in names.items()}

    def identified(self) -> "Names":
        """The same without what changes no answer: what is kept, and may travel (`ModelName.identity`)."""
        same = {role: ModelName.parse(getattr(self, role)).identity() for role in ROLES}
        return replace(self, **same)

    def key(self, role: Role) -> str:
        """What decides a model's answers: its name, how it is asked, and its weights.

        At another address it is the same model, if it has a name.
        """
        parsed = ModelName.parse(getattr(self, role))
        name = parsed.text if parsed.nameless else parsed.identity()
        asked = {
            "planner": f" {self.max_steps}{f' {self.exemplars}' if self.exemplars else ''}",
            "editor": "",
            "critic": f" {self.critic_mode} {self.critic_scores} {self.critic_threshold}",
        }
        how = f"{name}{asked[role]}{dict(self.notes).get(role, '')}"
        return f"{how} {parsed.fingerprint()}"


def class_name(model: object) -> str:
    """What a model without a name is called: its class, with its module."""
    return f"{type(model).__module__}.{type(model).__qualname__}"


@dataclass(frozen=True)
class Trio:
    """The three models."""

    planner: Planner
    editor: Editor
    critic: Critic
    names: Names | None = None
    """None for objects of your own that have no names."""
    remote: frozenset[Stage] = frozenset()
    """Whose models answer from servers, in any thread, and are asked while the others are at work, by several
    calls at once."""
    observing: Critic | None = None
    """Who judges what a camera sees while a robot works, if not the critic."""

    @property
    def observer(self) -> Critic:
        """Who is asked whether a live frame shows a sub-goal reached."""
        return self.observing or self.critic

    @property
    def called(self) -> Names:
        """The models' names, or else those of their classes, whose answers no journal keeps."""
        if self.names is not None:
            return self.names
        planner, editor, critic = (class_name(model) for model in (self.planner, self.editor, self.critic))
        return Names(planner, editor, critic, unkept=frozenset(ROLES))

    def with_models(self, models: Mapping[Role, Any]) -> "Trio":
        """The same with models of your own in some roles. They go by their classes, and no journal holds
        their answers."""
        if not models:
            return self
        names = replace(
            self.called,
            **{role: class_name(model) for role, model in models.items()},
            notes=tuple(note for note in self.called.notes if note[0] not in models),
            unkept=self.called.unkept | models.keys(),
        )
        remote = self.remote - {STAGES[role] for role in models}
        observing = None if "critic" in models else self.observing
        return replace(self, **models, names=names, remote=remote, observing=observing)

    def prepare(self, loading: Callable[[Role], object] | None = None) -> None:
        """Load the models that would else be loaded when they are first asked; `loading` hears of each.

        Raises:
            UserError, OSError, ModuleNotFoundError: one of them cannot be loaded.
        """
        models = (self.planner, self.editor, self.critic, self.observing)
        for role, model in zip(ROLES, models, strict=False):
            if isinstance(model, Later) and self.names is not None:  # all of them, before the first is loaded
                ModelName.parse(getattr(self.names, role)).check_folders()
        for role, model in zip((*ROLES, "critic"), models, strict=True):
            if isinstance(model, Later):
                if loading is not None:
                    loading(role)
                _ = model.model

    def kept(self, journal: Journal) -> "Trio":
        """The same models, asked only what the journal does not know."""
        names = self.called
        planner, editor, critic, observing = self.planner, self.editor, self.critic, self.observing
        if observing is not None and "critic" not in names.unkept:
            observing = journal.critic(observing, f"{names.key('critic')} live")
        return Trio(
            planner if "planner" in names.unkept else journal.planner(planner, names.key("planner")),
            editor if "editor" in names.unkept else journal.editor(editor, names.key("editor")),
            critic if "critic" in names.unkept else journal.critic(critic, names.key("critic")),
            self.names,
            self.remote,
            observing,
        )
