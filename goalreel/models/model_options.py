"""Options that may follow a model's name as `?key=value`: one class a kind of model, one field an option."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, Json

from goalreel.http_headers import read_headers
from goalreel.terms import Frozen


class Runtime:
    """Marks an option that changes no answer: where a model runs, how many requests it is sent at once, and
    how long they may take."""


Headers = Annotated[
    dict[str, str] | None,
    BeforeValidator(lambda lines: read_headers(lines.split("\n")) if isinstance(lines, str) else lines),
    Runtime,
]
"""More headers of each request: `?header=NAME:$VARIABLE`, as often as needed."""


class ModelOptions(Frozen):
    """No option. A subclass has a field for each."""

    model_config = ConfigDict(defer_build=True)  # a command needs the options of one kind or two


class DialectOptions(ModelOptions):
    """How a chat model is asked (see `planners.agents.dialects`): the base of every chat kind's options."""

    dialect: Literal["own", "interleavethinker"] | None = None
    """A `DialectName`, whose module loads templates; None goes by the model's name."""
    prompts: Path | None = None
    """The user's clone of InterleaveThinker, whose prompts that dialect uses."""
    overlay: bool | None = None
    """Also show a Critic the source and the candidate laid over each other; in the dialect `own`."""

    @property
    def loading(self) -> dict[str, Any]:
        """The options that were given, without those of the dialect: how the model itself is loaded."""
        return self.model_dump(exclude_none=True, exclude=set(DialectOptions.model_fields))


class HfOptions(DialectOptions):
    """What may follow `hf:DIR?`; see `goalreel.planners.chat.hf.HfChat.load`."""

    device: Annotated[str | None, Runtime] = None
    dtype: str | None = None
    batch_size: Annotated[int | None, Runtime] = None
    max_new_tokens: int | None = None
    temperature: float | Literal["checkpoint"] | None = None
    top_p: float | None = None
    top_k: int | None = None
    system_role: bool | None = None
    processor: str | None = None
    quantize: Literal["fp8", "int8", "nf4"] | None = None
    offload: Annotated[Literal["model"] | None, Runtime] = None
    variant: str | None = None


class HttpOptions(DialectOptions):
    """What may follow `openai:MODEL@URL?` and `server:URL?`; see `planners.chat.openai.OpenAIChat`."""

    temperature: Annotated[float, Field(ge=0, le=100)] | Literal["checkpoint"] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    system_role: bool | None = None
    concurrency: Annotated[int | None, Runtime] = None
    timeout_s: Annotated[float | None, Runtime] = None
    retries: Annotated[Annotated[int, Field(ge=0)] | None, Runtime] = None
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] | None = None
    extra: Json[dict[str, Any]] | None = None
    """More fields of each request, as JSON: `?extra={"reasoning_effort":"low"}`."""
    api_version: Annotated[str | None, Runtime] = None
    header: Headers = None

    @property
    def loading(self) -> dict[str, Any]:
        """The options of `OpenAIChat` that were given, without those of the dialect."""
        names = {"header": "headers"}
        return {names.get(name, name): value for name, value in super().loading.items()}


class EditorOptions(ModelOptions):
    """What may follow `diffusers:DIR?` or a catalogue name; see `goalreel.editors.diffusers`."""

    device: Annotated[str | None, Runtime] = None
    dtype: str | None = None
    batch_size: Annotated[int | None, Runtime] = None
    offload: Annotated[Literal["model", "sequential"] | None, Runtime] = None
    vae_tiling: bool | None = None
    quantize: Literal["fp8", "int8", "nf4"] | None = None
    variant: str | None = None


class RemoteEditorOptions(ModelOptions):
    """What may follow any editor's address; see `goalreel.editors.remote.RemoteEditor` and `Patience`."""

    concurrency: Annotated[Annotated[int, Field(ge=1)] | None, Runtime] = None
    timeout_s: Annotated[Annotated[float, Field(gt=0)] | None, Runtime] = None
    retries: Annotated[Annotated[int, Field(ge=0)] | None, Runtime] = None
    picture_host: Annotated[str | None, Runtime] = None
    """Another host that the server may store its pictures at."""
    api_version: Annotated[str | None, Runtime] = None
    """Of a classic Azure address."""
    header: Headers = None


class OpenAIEditorOptions(RemoteEditorOptions):
    """What may follow `openai:MODEL@URL?` of an editor."""

    size: Annotated[str, Field(pattern=r"^([1-9]\d{1,3}x[1-9]\d{1,3}|auto)$")] | None = None
    """The size of the pictures, such as `1536x1024`, or `auto`; see `protocols.OpenAIImages`."""


class GeminiEditorOptions(RemoteEditorOptions):
    """What may follow `gemini:MODEL@URL?`."""

    aspect: Annotated[str, Field(pattern=r"^([1-9]\d?:[1-9]\d?|auto)$")] | None = None
    """The aspect ratio of the pictures, such as `16:9`, or `auto`; see `gemini.GeminiImages`."""
    size: Literal["1K", "2K", "4K"] | None = None


def _fields(*, runtime: bool) -> Iterator[str]:
    for options in (HfOptions, HttpOptions, EditorOptions, OpenAIEditorOptions, GeminiEditorOptions):
        yield from (
            name for name, field in options.model_fields.items() if (Runtime in field.metadata) == runtime
        )


RUNTIME_OPTIONS = frozenset(_fields(runtime=True))
"""The options that change no answer."""
PUBLIC_OPTIONS = RUNTIME_OPTIONS | frozenset(_fields(runtime=False))
"""The options of goalreel's own kinds. None is a secret, but for the value of a header; an option of a plugin
might be one."""
