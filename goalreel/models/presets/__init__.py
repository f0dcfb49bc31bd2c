"""Presets: small YAML files that name a planner, an editor, a critic and the attempts a step.

Those beside this module come with goalreel; one of your own has the same fields and is given by its path. A
relative folder in it is looked for where the command runs, as it would be on the command line.
"""

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from goalreel.errors import InputError
from goalreel.models.discovery import find
from goalreel.models.names import ModelName
from goalreel.models.registry import ROLES

MAX_BYTES = 64 * 1024
PLACEHOLDER = "MODEL"
"""What stands for the model in a name that is still to be filled in, such as `openai:MODEL`."""
_EXAMPLE = {
    "planner": "openai:Qwen/Qwen3-VL-8B-Instruct@http://127.0.0.1:8000/v1",
    "editor": "server:http://127.0.0.1:8001",
    "critic": "openai:Qwen/Qwen3-VL-8B-Instruct@http://127.0.0.1:8000/v1",
}
Name = Annotated[str, Field(min_length=1)]


class Preset(BaseModel):
    """Which models to build (see `goalreel.models.load`), and the paper's T."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    planner: Name
    editor: Name
    critic: Name
    critic_mode: Literal["strict", "fast"] = "strict"
    """`strict` for a Critic trained by reinforcement (InterleaveThinker's Critic-8B), `fast` for one that is
    only fine-tuned (its Critic-SFT-8B). The dialect `interleavethinker` asks both alike."""
    critic_scores: bool = False
    """Ask for 0-10 scores too, to choose the best of rejected attempts by; no checkpoint learned that."""
    critic_threshold: Annotated[float | None, Field(ge=0, le=1)] = None
    """Accept where the Critic's probability of success is at least this; None takes its word."""
    critic_live: Literal["candidate", "observed"] = "candidate"
    """How the Critic is asked about a robot's live frames: in a candidate's words, as the nano Critic learns
    them, or as about a camera's frame in which nothing was edited (`goalreel.planners.agents.observing`); no
    threshold applies then."""
    confirm: bool = True
    """Ask the Critic about a live frame at the end of a task whether all of it is done; one that knows
    single steps alone cannot say."""
    max_attempts: Annotated[int, Field(ge=1)]
    keep: Literal["best", "last"] = "best"
    """The picture that is kept of a step without an accepted one (`goalreel.loop.Keep`)."""
    max_steps: Annotated[int, Field(ge=1, le=1000)] = 40
    """A longer plan is no plan: the planner is told so, and asked again."""
    name: Annotated[str | None, Field(exclude=True)] = None
    """The preset's, or the file's that it was read from, without its folder."""

    @property
    def predictive(self) -> bool:
        """It renders goals nobody has filmed, rather than read them off a recording.

        Raises:
            InputError: there is no such editor.
        """
        return not find("editor", ModelName.parse(self.editor)).needs_recording

    @property
    def unfilled(self) -> list[str]:
        """The roles whose model is still to be named."""
        names = {role: ModelName.parse(getattr(self, role)) for role in ROLES}
        return [role for role, name in names.items() if PLACEHOLDER in (name.model, name.inner.model)]


def names() -> list[str]:
    """The presets that come with goalreel."""
    return sorted(f.name.removesuffix(".yaml") for f in files(__name__).iterdir() if f.name.endswith(".yaml"))


def load(name: str, **overrides: object) -> Preset:
    """Read a preset as `read` does.

    Raises:
        InputError: as `read`; or a model is still to be named.
    """
    preset = read(name, **overrides)
    if missing := preset.unfilled:
        options = " and ".join(f"--{role}" for role in missing)
        example = f"--{missing[0]} {_watching(getattr(preset, missing[0]))}{_EXAMPLE[missing[0]]}"
        raise InputError(f"preset {name} leaves open which models to ask: give {options}, such as {example}")
    return preset


def _watching(name: str) -> str:
    """What stands before the chat model's name in `watch:openai:MODEL`; else nothing."""
    parsed = ModelName.parse(name)
    return f"{parsed.kind}:" if parsed.inner.kind else ""


def read(name: str, **overrides: object) -> Preset:
    """Read a preset by its name or path, and replace the fields of `overrides` that are not None.

    Raises:
        InputError: there is no such preset, its file is none, or a field or an override does not fit.
    """
    path = file(name)
    fields = _fields(path)
    given = {k: v for k, v in overrides.items() if v is not None}
    try:
        return Preset.model_validate(fields | {"name": name if name in names() else path.name} | given)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{where if where in given else f'{path}: {where}'}: {first['msg']}") from e


def file(name: str) -> Path:
    """The file of a preset.

    Raises:
        InputError: there is no preset of that name, and no file at that path.
    """
    if name in names():
        return Path(str(files(__name__) / f"{name}.yaml"))
    path = Path(name).expanduser()
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path
    known = ", ".join(names())
    raise InputError(f"no preset {name!r}; there are {known}, or give the path of a .yaml file of your own")


def place(name: str, field: str) -> str:
    """Where a preset's file sets a field, to be changed there: `FILE, line N`.

    Raises:
        InputError: as `file`.
    """
    path = file(name)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    number = next((n for n, line in enumerate(lines, start=1) if line.startswith(f"{field}:")), None)
    return str(path) if number is None else f"{path}, line {number}"


def _fields(path: Path) -> dict[str, Any]:
    """What a file says.

    Raises:
        InputError: it is too large, no YAML, or has a field that presets do not have.
    """
    import yaml

    try:
        with path.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as e:
        raise InputError(f"{path}: cannot be read ({e.strerror})") from e
    if len(data) > MAX_BYTES:
        raise InputError(f"{path}: larger than {MAX_BYTES // 1024} KiB: no preset")
    try:
        fields = yaml.safe_load(data)
    except yaml.MarkedYAMLError as e:
        line = f"line {e.problem_mark.line + 1}: " if e.problem_mark else ""
        raise InputError(f"{path}: {line}no YAML ({e.problem})") from e
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        raise InputError(f"{path}: no YAML ({type(e).__name__})") from e
    known = [name for name in Preset.model_fields if name != "name"]
    if not isinstance(fields, dict) or not all(isinstance(field, str) for field in fields):
        raise InputError(f"{path}: no preset: write one `field: value` a line, of {', '.join(known)}")
    if unknown := [field for field in fields if field not in known]:
        raise InputError(f"{path}: {unknown[0]}: no such field; there are {', '.join(known)}")
    return fields
