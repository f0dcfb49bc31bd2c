"""Presets: small YAML files that name a planner, an editor, a critic and the attempts a step.

Those beside this module come with goalreel; one of your own has the same fields and is given by its path. A
relative folder in it is looked for where the command runs, as it would be on the command line.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from goalreel.errors import InputError
from goalreel.files import read_mapping
from goalreel.models.names import ModelName
from goalreel.settings import SettingError, Settings, setting
from goalreel.terms import ROLES, Background, Keep, Mode, References, Role

if TYPE_CHECKING:
    from goalreel.loop import LoopArguments

CRITIC, EDITOR, PLANNER = "The critic", "The editor", "The planner"
LIVE = "While a robot acts"
"""The panel of fields that concern nothing but a running task."""


class LoopOptions(Settings):
    """The options of the loop. Commands, node parameters and servers take them from here."""

    critic_mode: Mode = setting(
        "strict",
        "Which of its two prompts the critic gets: strict suits Critic-8B, fast suits Critic-SFT-8B.",
        panel=CRITIC,
        read_only=True,
    )
    critic_scores: bool = setting(
        False, "Also ask the critic for scores from 0 to 10.", panel=CRITIC, read_only=True
    )
    critic_threshold: float | None = setting(
        None,
        "Accept a picture from this probability of success on, instead of by the critic's yes or no.",
        ge=0,
        le=1,
        panel=CRITIC,
        read_only=True,
    )
    critic_live: Literal["candidate", "observed"] = setting(
        "candidate",
        "How the critic is asked about live frames. candidate: in the words for an editor's "
        "pictures, which nano needs. observed: in those for a camera's, which suit other chat models.",
        panel=LIVE,
        read_only=True,
    )
    confirm: bool = setting(
        True,
        "Ask the critic at the end whether the whole task is done. Where it does not confirm, a "
        "storyboard is not complete, and a robot's task ends as UNCONFIRMED, not SUCCEEDED.",
        panel=LIVE,
    )
    confirm_steps: int | None = setting(
        None,
        "Most steps of a task that the critic can judge as a whole. A longer "
        "task is not judged, and ends as UNCONFIRMED.",
        ge=1,
        le=1000,
        panel=LIVE,
    )
    """None leaves it to the model: nano's tells that it knows single steps alone, wherever it runs."""
    max_attempts: int = setting(..., "Most pictures to draw for a step.", ge=1, le=1000)
    keep: Keep = setting(
        "best",
        "Which picture to keep where all of a step were rejected: the best "
        "(by score, else by probability), or the last.",
        panel=CRITIC,
    )
    references: References = setting(
        "none",
        "What the editor sees beside the picture that it edits: nothing, the first frame, or "
        "all earlier pictures (of the task and of finished steps).",
        panel=EDITOR,
        read_only=True,
    )
    background: Background = setting(
        "correct",
        "When an edit moves or scales the background: correct it (a little is warped back, "
        "a lot is rejected), only measure it, or ignore it.",
        panel=EDITOR,
        read_only=True,
    )
    max_steps: int = setting(
        40,
        "Most steps of a plan. A planner that writes more is asked again.",
        ge=1,
        le=1000,
        panel=PLANNER,
        read_only=True,
    )

    @property
    def loop_arguments(self) -> "LoopArguments":
        """Return the keywords of the loop."""
        return {
            "max_attempts": self.max_attempts,
            "keep": self.keep,
            "references": self.references,
            "background": self.background,
        }

    def confirms(self, steps: int, critic_steps: Callable[[], int | None]) -> bool:
        """Tell whether the critic is asked about the whole of a task: `critic_steps` is what it can judge."""
        limits = (self.confirm_steps, critic_steps() if self.confirm else 0)
        return self.confirm and all(limit is None or steps <= limit for limit in limits)


_EXAMPLE = {
    "planner": "openai:Qwen/Qwen3-VL-8B-Instruct@http://127.0.0.1:8000/v1",
    "editor": "server:http://127.0.0.1:8001",
    "critic": "openai:Qwen/Qwen3-VL-8B-Instruct@http://127.0.0.1:8000/v1",
}
FIELDS = (*ROLES, *LoopOptions.model_fields)
"""Fields of a preset's file."""
_CHATS, _EDITORS = "hf:DIR or openai:MODEL@URL", "flux2-klein-4b, diffusers:DIR or openai:MODEL@URL"
_NAMES = "such as {} (docs/how-to/models.md; `goalreel doctor` lists all)."


class Preset(LoopOptions):
    """Which models to build (see `goalreel.models.load`), and how the loop asks them."""

    planner: str = setting(..., f"The planner, {_NAMES.format(_CHATS)}", min_length=1, read_only=True)
    editor: str = setting(..., f"The image editor, {_NAMES.format(_EDITORS)}", min_length=1, read_only=True)
    critic: str = setting(..., f"The critic, {_NAMES.format(_CHATS)}", min_length=1, read_only=True)
    name: str | None = Field(None, exclude=True)
    """Name of the preset, or of the file that it was read from, without its folder."""

    def model_name(self, role: Role) -> ModelName:
        """The name of a role's model, taken apart."""
        return ModelName.parse(getattr(self, role))

    @property
    def predictive(self) -> bool:
        """It renders goals nobody has filmed, rather than read them off a recording."""
        from goalreel.models.registry import find

        return not find("editor", self.model_name("editor")).needs_recording

    @property
    def unfilled(self) -> list[Role]:
        """The roles whose model is still to be named, as in `openai:MODEL`."""
        names = {role: self.model_name(role) for role in ROLES}
        return [role for role, name in names.items() if "MODEL" in (name.model, name.inner.model)]


def names() -> list[str]:
    """The presets that come with goalreel."""
    return sorted(f.name.removesuffix(".yaml") for f in files(__name__).iterdir() if f.name.endswith(".yaml"))


def load(name: str, replaced: Collection[str] = (), **overrides: object) -> Preset:
    """Read a preset as `read` does, or raise an InputError if a model is still to be named.

    The roles in `replaced` need no name: objects take their place.
    """
    preset = read(name, **overrides)
    if missing := [role for role in preset.unfilled if role not in replaced]:
        options = " and ".join(f"--{role}" for role in missing)
        parsed = preset.model_name(missing[0])
        watching = f"{parsed.kind}:" if parsed.inner.kind else ""  # as in `watch:openai:MODEL`
        raise InputError(
            f"preset {name} leaves open which models to ask: give {options}, such as "
            f"--{missing[0]} {watching}{_EXAMPLE[missing[0]]}"
        )
    return preset


def read(name: str, **overrides: object) -> Preset:
    """Read a preset by its name or path, and replace the fields of `overrides` that are not None.

    Raises:
        InputError: there is no such preset, its file is none, or a field or an override does not fit.
    """
    path = file(name)
    fields = _fields(path)
    changes = {field: value for field, value in overrides.items() if value is not None}
    values = fields | {"name": name if name in names() else path.name} | changes
    try:
        return Preset.read(values)
    except SettingError as e:
        raise InputError(str(e) if e.field in changes else f"{path}: {e}") from e


def file(name: str) -> Path:
    """The file of a preset; raise an InputError if it is neither the name of one nor a path."""
    if name in names():
        return Path(str(files(__name__) / f"{name}.yaml"))
    path = Path(name).expanduser()
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path
    raise InputError(f"no preset {name!r}; there are {', '.join(names())}, or give the path of a .yaml file")


def _fields(path: Path) -> dict[str, Any]:
    fields = read_mapping(path, f"no preset: write one `field: value` a line, of {', '.join(FIELDS)}")
    if unknown := [field for field in fields if field not in FIELDS]:
        raise InputError(f"{path}: {unknown[0]}: no such field; there are {', '.join(FIELDS)}")
    return fields


PRESET_HELP = (
    "Which planner, editor and critic: a name, or the path of a .yaml file. nano knows only the simulated "
    "tabletop."
)


@dataclass(frozen=True)
class ModelChoice:
    """A preset by its name or path, and values of `FIELDS` that replace the preset's.

    >>> ModelChoice.of("klein", max_attempts=2, keep=None)
    ModelChoice(preset='klein', overrides={'max_attempts': 2})

    Raises:
        SettingError: a preset has no such field, or the value does not fit.
    """

    preset: str = "nano"
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked = _Overrides.read(self.overrides).model_dump(exclude_none=True)
        object.__setattr__(self, "overrides", checked)

    @classmethod
    def of(cls, preset: str, **overrides: object) -> Self:
        """Choose a preset; an override of None leaves the preset's value."""
        return cls(preset, {name: value for name, value in overrides.items() if value is not None})

    def by_default(self, **values: object) -> Self:
        """Replace fields of the preset that were not chosen."""
        return replace(self, overrides={**values, **self.overrides})

    def on_robot(self) -> Self:
        """Check the background for a robot: the presets of the paper, which are goalreel's own, do not."""
        return self.by_default(background="correct") if self.preset in names() else self

    def load(self, replaced: Collection[str] = ()) -> Preset:
        """Read the preset and replace its fields, as `presets.load` does."""
        return load(self.preset, replaced, **self.overrides)


def _optional(field: FieldInfo) -> Any:
    """Return the type of an override, and its default."""
    kind: Any = field.annotation
    return (Annotated[kind, *field.metadata] if field.metadata else kind) | None, None


_Overrides = create_model(
    "_Overrides", __base__=Settings, **{name: _optional(Preset.model_fields[name]) for name in FIELDS}
)
