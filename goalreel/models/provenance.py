"""Where answers come from: which models give them, and what else decides them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from goalreel.models.names import ModelName
from goalreel.models.presets import Preset
from goalreel.types import ROLES, STAGE_OF_ROLE, Role, Stage


@dataclass(frozen=True)
class Provenance:
    """The preset that models were built from, and what it does not say. Records and reports have it."""

    preset: Preset
    notes: tuple[tuple[Role, str], ...] = ()
    """What there is to know about how a model is asked (`goalreel.chat.dialects`)."""
    uncached: frozenset[Role] = frozenset()
    """Roles whose answers no journal holds: fixed rules, and models that nothing tells from others."""
    exemplars: str | None = None
    """What tells the accepted episodes that the planner is shown from others."""

    @classmethod
    def of_classes(cls, models: Mapping[Role, object]) -> "Provenance":
        """Name models that have no name by their classes."""
        names = {role: class_name(model) for role, model in models.items()}
        return cls(Preset.model_validate({**names, "max_attempts": 3}), uncached=frozenset(ROLES))

    def with_classes(self, models: Mapping[Role, object]) -> "Provenance":
        """The same, with models in some roles that go by their classes."""
        names: dict[str, str] = {role: class_name(model) for role, model in models.items()}
        notes = tuple(note for note in self.notes if note[0] not in models)
        preset = self.preset.model_copy(update=names)
        return replace(self, preset=preset, notes=notes, uncached=self.uncached | models.keys())

    def display_names(self) -> dict[str, str]:
        """Role -> the model's name for a reader, without a secret, and the note on how it is asked."""
        names: dict[str, str] = {role: self.preset.model_name(role).text for role in ROLES}
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
        live = {"critic_live", "confirm", "confirm_steps"}  # for a robot at work
        fields = self.preset.model_dump(exclude=live)
        for name, default in (("references", "none"), ("background", "correct")):
            if fields[name] == default:  # as before there was a choice
                del fields[name]
        return {**fields, "preset": self.preset.name, "notes": self.notes, "exemplars": self.exemplars}

    def key(self, role: Role) -> str:
        """What decides a model's answers: its name, how it is asked, and its weights.

        At another address it is the same model, if it has a name.
        """
        return self._key(role, self.preset.model_name(role))

    def _key(self, role: Role, model: ModelName) -> str:
        preset = self.preset
        name = model.text if model.nameless else model.identity()
        options: dict[Role, str] = {
            "planner": f" {preset.max_steps}{f' {self.exemplars}' if self.exemplars else ''}",
            "editor": "",
            "critic": f" {preset.critic_mode} {preset.critic_scores} {preset.critic_threshold}",
        }
        return f"{name}{options[role]}{dict(self.notes).get(role, '')} {model.fingerprint()}"

    def keys(self) -> dict[Stage, str | Sequence[str]]:
        """Stage -> the key of its model, for those whose answers a journal holds; of several editors each."""
        keys: dict[Stage, str | Sequence[str]] = {
            STAGE_OF_ROLE[role]: self.key(role) for role in ROLES if role not in self.uncached
        }
        editors = self.preset.model_name("editor").alternatives
        if "edit" in keys and len(editors) > 1:
            keys["edit"] = [self._key("editor", editor) for editor in editors]
        return keys


def class_name(model: object) -> str:
    """Name a model without a name: its class, with its module."""
    return f"{type(model).__module__}.{type(model).__qualname__}"


def display_names(names: Mapping[str, str], notes: Mapping[str, str]) -> dict[str, str]:
    """Return role -> the model's name for a reader, without a secret, and the note on how it is asked."""
    public = {role: ModelName.parse(name).public() for role, name in names.items()}
    return {role: f"{name} ({notes[role]})" if role in notes else name for role, name in public.items()}
