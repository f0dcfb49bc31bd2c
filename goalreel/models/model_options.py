"""Options that may follow a model's name as `?key=value`: one class a kind of model, one field an option.

The docstring of each field is its line in the documentation (dev/site_models.py).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, Json

from goalreel.frozen import Frozen
from goalreel.http.headers import read_headers
from goalreel.quantization import Quantize


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
    """How a chat model is asked (see `chat.dialects`): the base of every chat kind's options."""

    dialect: Literal["own", "interleavethinker"] | None = None
    """The words in which it is asked: `own` or `interleavethinker`. Default: by the model's name."""
    prompts: Path | None = None
    """InterleaveThinker's clone, whose prompts that dialect uses. Default: `GOALREEL_INTERLEAVETHINKER`."""
    overlay: bool | None = None
    """`1` also shows a Critic before and after laid over each other, in the dialect `own`. nano's was trained
    without. Default: 0."""

    @property
    def loading(self) -> dict[str, Any]:
        """The options that were given, without those of the dialect: how the model itself is loaded."""
        return self.model_dump(exclude_none=True, exclude=set(DialectOptions.model_fields))


class HfOptions(DialectOptions):
    """What may follow `hf:DIR?`; see `goalreel.chat.hf.HfChat.load`."""

    device: Annotated[str | None, Runtime] = None
    """Where it computes, such as `cuda:1`. Default: a GPU if there is one."""
    dtype: str | None = None
    """Such as `bfloat16`. Default: bfloat16 on a GPU, else float32."""
    batch_size: Annotated[int | None, Runtime] = None
    """Questions in one call, at most. Default: 8."""
    max_new_tokens: int | None = None
    """Where a reply is cut, in tokens. Default: 4096."""
    temperature: float | Literal["checkpoint"] | None = None
    """0 is greedy; above it the model samples; `checkpoint` takes the settings stored there. Default: 0."""
    top_p: float | None = None
    """When sampling: the probability mass to draw from."""
    top_k: int | None = None
    """When sampling: the number of tokens to draw from."""
    system_role: bool | None = None
    """`0` puts system text before the user's. Default: 1, and 0 where the chat template refuses the role."""
    processor: str | None = None
    """The folder or repository to take the processor from. Default: the checkpoint."""
    quantize: Quantize | None = None
    """Store weights as `fp8`, `int8` or `nf4`; needs `goalreel[quantize]`."""
    offload: Annotated[Literal["model"] | None, Runtime] = None
    """`model` keeps the weights in the machine's memory between calls."""
    variant: str | None = None
    """Of the weights' files, such as `fp16`."""


class HttpOptions(DialectOptions):
    """What may follow `openai:MODEL@URL?` and `server:URL?`; see `chat.openai.OpenAIChat`."""

    temperature: Annotated[float, Field(ge=0, le=100)] | Literal["checkpoint"] | None = None
    """0 is greedy; above it the model samples; `checkpoint` sends none. Default: 0."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Where a reply is cut, in tokens. Default: 4096."""
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    """The same limit by its newer name. A server that refuses one name is sent the other."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """When sampling: the probability mass to draw from."""
    top_k: Annotated[int, Field(ge=0)] | None = None
    """When sampling: the number of tokens to draw from. OpenAI itself has none."""
    system_role: bool | None = None
    """`0` puts system text before the user's. Default: 1, and 0 where the server refuses the role."""
    concurrency: Annotated[int | None, Runtime] = None
    """Requests in progress at once. Default: 16."""
    timeout_s: Annotated[float | None, Runtime] = None
    """Seconds that one try may take. Default: 120."""
    retries: Annotated[Annotated[int, Field(ge=0)] | None, Runtime] = None
    """How often a server that is busy or out of reach is asked again. Default: 5."""
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] | None = None
    """1 to 100 sends pictures as JPEG. Default: PNG."""
    extra: Json[dict[str, Any]] | None = None
    """More fields of each request, as JSON: `{"reasoning_effort":"low"}`."""
    api_version: Annotated[str | None, Runtime] = None
    """Of a classic Azure address, such as `2024-10-21`."""
    header: Headers = None
    """A header of each request, `NAME:$VARIABLE`; may stand more than once."""

    @property
    def loading(self) -> dict[str, Any]:
        """The options of `OpenAIChat` that were given, without those of the dialect."""
        names = {"header": "headers"}
        return {names.get(name, name): value for name, value in super().loading.items()}


class EditorOptions(ModelOptions):
    """What may follow `diffusers:DIR?` or a catalogue name; see `goalreel.editors.diffusers`."""

    device: Annotated[str | None, Runtime] = None
    """Where it computes, such as `cuda:1`. Default: a GPU if there is one."""
    dtype: str | None = None
    """Such as `bfloat16`. Default: bfloat16 on a GPU, else float32."""
    batch_size: Annotated[int | None, Runtime] = None
    """Edits in one call, at most."""
    offload: Annotated[Literal["model", "sequential"] | None, Runtime] = None
    """`model` keeps one part on the GPU at a time; `sequential` one layer, which is slow."""
    vae_tiling: bool | None = None
    """`1` encodes and decodes in tiles: less memory, faint seams."""
    quantize: Quantize | None = None
    """Store weights as `fp8`, `int8` or `nf4`; needs `goalreel[quantize]`, and `nf4` a GPU."""
    variant: str | None = None
    """Of the weights' files, such as `fp16`."""
    lora: str | None = None
    """A folder with adapters that `goalreel train editor` wrote."""


class RemoteEditorOptions(ModelOptions):
    """What may follow any editor's address; see `goalreel.editors.remote.RemoteEditor` and `Patience`."""

    concurrency: Annotated[Annotated[int, Field(ge=1)] | None, Runtime] = None
    """Requests in progress at once. Default: 8."""
    timeout_s: Annotated[Annotated[float, Field(gt=0)] | None, Runtime] = None
    """Seconds that one try may take. Default: 300."""
    retries: Annotated[Annotated[int, Field(ge=0)] | None, Runtime] = None
    """How often a server that is busy or out of reach is asked again. Default: 4."""
    picture_host: Annotated[str | None, Runtime] = None
    """Another host that the server may store its pictures at."""
    api_version: Annotated[str | None, Runtime] = None
    """Of a classic Azure address, such as `2024-10-21`."""
    header: Headers = None
    """A header of each request, `NAME:$VARIABLE`; may stand more than once."""


class OpenAIEditorOptions(RemoteEditorOptions):
    """What may follow `openai:MODEL@URL?` of an editor."""

    size: Annotated[str, Field(pattern=r"^([1-9]\d{1,3}x[1-9]\d{1,3}|auto)$")] | None = None
    """Of the pictures, such as `1536x1024`, or `auto`. Default: the size nearest to the source's shape."""
    extra: Json[dict[str, Any]] | None = None
    """More fields of each request, as JSON: `{"quality":"low"}`."""


class GeminiEditorOptions(RemoteEditorOptions):
    """What may follow `gemini:MODEL@URL?`."""

    aspect: Annotated[str, Field(pattern=r"^([1-9]\d?:[1-9]\d?|auto)$")] | None = None
    """The pictures' aspect ratio, such as `16:9`, or `auto`. Default: the nearest to the source's."""
    size: Literal["1K", "2K", "4K"] | None = None
    """`1K`, `2K` or `4K`, of models that draw it."""
    extra: Json[dict[str, Any]] | None = None
    """More fields of each request, as JSON, such as `safetySettings`."""


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
