"""The image editors that goalreel knows by name, as data (`catalogue.yaml`)."""

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from goalreel.errors import InputError
from goalreel.files import read_file
from goalreel.settings import Frozen

SETTINGS = "goalreel.json"
"""A checkpoint's own entry, stored beside its `model_index.json`."""

REFERENCE_PIPELINES = frozenset(
    {"Flux2Pipeline", "Flux2KleinPipeline", "Flux2KleinKVPipeline", "QwenImageEditPlusPipeline"}
)
"""The diffusers classes that take a list of pictures for one prompt."""

Positive = Annotated[int, Field(gt=0)]
type EditorKind = Literal["text-to-image", "edit"]
BOTH: tuple[EditorKind, ...] = ("text-to-image", "edit")

LORA_FILE = "pytorch_lora_weights.safetensors"
"""The name that diffusers gives to the file of a LoRA."""


class LoraWeights(Frozen):
    """Low-rank weights on top of the model's own: one safetensors file of a repository."""

    repository: str
    weight: str


class Entry(Frozen):
    """A diffusers pipeline and how it is called."""

    name: str = ""
    repository: str = ""
    """A Hugging Face repository, or a folder made by `save_pretrained`."""
    pipeline: str | None = None
    """The diffusers class; None in a checkpoint's own entry, whose `model_index.json` names it."""
    kinds: Annotated[tuple[EditorKind, ...], Field(min_length=1)]
    steps: Positive | None = None
    guidance: dict[str, float] = Field(default_factory=dict)
    arguments: dict[str, Any] = Field(default_factory=dict)
    """More of the call's arguments, as they are."""
    size: tuple[Positive, Positive] | None = None
    """(width, height): drawn from text at this size, edited within its area; None for the source's size."""
    square: bool = False
    """A source is edited in the middle of a square, its edges repeated around it."""
    multiple: Positive = 16
    """Width and height are multiples of it."""
    lora: LoraWeights | None = None
    scheduler: dict[str, Any] = Field(default_factory=dict)
    """Changes to the scheduler's configuration."""
    weights_gb: float | None = None
    licence: str = ""
    note: str = ""

    def save(self, folder: Path) -> None:
        """Store the entry with its checkpoint, for `diffusers:FOLDER` to call the model by."""
        (folder / SETTINGS).write_text(self.model_dump_json(indent=2, exclude_defaults=True) + "\n")


@cache
def catalogue() -> dict[str, Entry]:
    """All entries by name, in the file's order."""
    data = yaml.safe_load(files("goalreel.editors").joinpath("catalogue.yaml").read_text(encoding="utf-8"))
    return {name: Entry(name=name, **fields) for name, fields in data.items()}


def find(name: str) -> Entry:
    """The entry called `name` (else InputError); `NAME@FOLDER` is the same model from a local folder."""
    name, _, folder = name.partition("@")
    entry = catalogue().get(name)
    if entry is None:
        raise InputError(
            f"no editor called {name!r}: use "
            f"diffusers:DIR, openai:MODEL@URL, server:URL or one of {', '.join(catalogue())}"
        )
    return entry.model_copy(update={"repository": folder}) if folder else entry


def works_of(model: str, *, by_name: bool) -> frozenset[str]:
    """Return what a model does (`Kind.works`): an entry `by_name`, or a pipeline's folder.

    A repository that is not here yet may do all.

    Raises:
        InputError: no such entry, or a folder's settings cannot be read.
    """
    entry = find(model) if by_name else stored(Path(model).expanduser())
    try:
        index = {} if by_name else json.loads(read_file(Path(model).expanduser() / "model_index.json"))
        name = str(entry.pipeline if by_name and entry else index["_class_name"])
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset((*BOTH, "references"))  # whoever loads it says what is wrong
    entry = entry or like(name)
    references = ["references"] if name in REFERENCE_PIPELINES else []
    return frozenset((*(entry.kinds if entry else BOTH), *references))


def stored(folder: Path) -> Entry | None:
    """The entry in a checkpoint's folder; None without one, InputError where it cannot be read."""
    path = folder / SETTINGS
    if not path.is_file():
        return None
    try:
        return Entry.model_validate_json(read_file(path))
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{path} is not an editor's settings: {where or 'file'}: {first['msg']}") from e


def like(pipeline: str) -> Entry | None:
    """The first entry of that pipeline class without a LoRA; None without one."""
    return next((e for e in catalogue().values() if e.pipeline == pipeline and e.lora is None), None)
