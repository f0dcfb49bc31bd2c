"""The one parser of model names.

    hf:DIR?dtype=bfloat16     KIND:TARGET, with options
    openai:MODEL@URL          KIND:MODEL@URL, with options too: an address here has no query of its own
    server:URL                KIND:URL
    watch:hf:DIR?dtype=...    KIND:NAME: a chat model, options and all, that is asked in another way
    flux2-klein-4b@FOLDER     no KIND: an entry of the editors' catalogue, or a model of fixed rules
    DRAW+EDIT                 two editors: one draws first pictures, the other edits

A DIR is a folder, a repository OWNER/NAME, or one of the checkpoints of goalreel-nano, such as
`hf:nano-planner` (see `goalreel.checkpoints`).
"""

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qs, unquote_plus

from pydantic import Field, Json

from goalreel import __version__, torch_support
from goalreel.checkpoints import located
from goalreel.errors import InputError
from goalreel.files import digest, find
from goalreel.http.endpoint import public_address, split_model
from goalreel.settings import Frozen


class Runtime:
    """Marks an option that changes no answer, such as where a model runs or how long a request may take."""


type Positive = Annotated[int, Field(ge=1)]


class ModelOptions(Frozen, defer_build=True):  # a command needs the options of one kind or two
    """No option. A subclass has a field for each."""

    @property
    def loading(self) -> dict[str, Any]:
        """The options that were given, without those of a dialect: how the model itself is loaded."""
        return self.model_dump(exclude_none=True, exclude=set(DialectOptions.model_fields))


class DialectOptions(ModelOptions):
    """Wording in which a chat model is asked (see `chat.dialects`): the base of every chat kind's options."""

    dialect: Literal["own", "interleavethinker"] | None = None
    """The words in which it is asked: `own` or `interleavethinker`. Default: by the model's name."""
    prompts: Path | None = None
    """InterleaveThinker's clone, whose prompts that dialect uses. Default: `GOALREEL_INTERLEAVETHINKER`."""


class LocalOptions(ModelOptions):
    """Options of a model in this process."""

    device: Annotated[str | None, Runtime] = None
    """Device that it computes on, such as `cuda:1`. Default: a GPU if there is one."""
    dtype: str | None = None
    """Such as `bfloat16`. Default: bfloat16 on a GPU, else float32."""
    batch_size: Annotated[Positive | None, Runtime] = None
    """Requests in one call, at most. Default: 8."""
    quantize: torch_support.Quantize | None = None
    """Store weights as `fp8` or `nf4`; needs `goalreel[quantize]`, and `nf4` a GPU."""


class RemoteOptions(ModelOptions):
    """Options of a model behind a server."""

    concurrency: Annotated[Positive | None, Runtime] = None
    """Requests in progress at once. Default: 16, of an editor 8."""
    timeout_s: Annotated[Annotated[float, Field(gt=0)] | None, Runtime] = None
    """Seconds that one try may take. Default: 120, of an editor 300."""
    retries: Annotated[Annotated[int, Field(ge=0)] | None, Runtime] = None
    """Times that a server that is busy or out of reach is asked again. Default: 5, of an editor 4."""


class HfOptions(LocalOptions, DialectOptions):
    """Options that may follow `hf:DIR?`; see `goalreel.chat.hf.HfChat.load`."""

    max_new_tokens: Positive | None = None
    """Longest reply, in tokens. Default: 4096."""
    temperature: Annotated[float, Field(ge=0)] | Literal["checkpoint"] | None = None
    """0 is greedy; above it the model samples; `checkpoint` takes the settings stored there. Default: 0."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """For sampling: the probability mass to draw from."""
    top_k: Annotated[int, Field(ge=0)] | None = None
    """For sampling: the number of tokens to draw from."""
    processor: str | None = None
    """The folder or repository to take the processor from. Default: the checkpoint."""


class HttpOptions(RemoteOptions, DialectOptions):
    """Options that may follow `openai:MODEL@URL?` and `server:URL?`; see `chat.openai.OpenAIChat`."""

    temperature: Annotated[float, Field(ge=0, le=100)] | Literal["checkpoint"] | None = None
    """0 is greedy; above it the model samples; `checkpoint` sends none. Default: 0."""
    max_tokens: Positive | None = None
    """Longest reply, in tokens. Default: 4096."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """For sampling: the probability mass to draw from."""
    top_k: Annotated[int, Field(ge=0)] | None = None
    """For sampling: the number of tokens to draw from. OpenAI itself has none."""
    jpeg_quality: Annotated[int, Field(ge=1, le=100)] | None = None
    """1 to 100 sends pictures as JPEG. Default: PNG."""
    extra: Json[dict[str, Any]] | None = None
    """More fields of each request, as JSON: `{"reasoning_effort":"low"}`."""


class EditorOptions(LocalOptions):
    """Options that may follow `diffusers:DIR?` or a catalogue name; see `goalreel.editors.diffusers`."""

    offload: Annotated[Literal["model"] | None, Runtime] = None
    """`model` keeps one part on the GPU at a time."""
    lora: str | None = None
    """A folder with LoRA weights, as diffusers' training scripts write it."""


class RemoteEditorOptions(RemoteOptions):
    """Options that may follow any editor's address; see `goalreel.editors.remote.RemoteEditor`."""


class ServiceEditorOptions(RemoteEditorOptions):
    """Options that may follow `openai:MODEL@URL?` and `gemini:MODEL@URL?` of an editor."""

    extra: Json[dict[str, Any]] | None = None
    """More fields of each request, as JSON: `{"quality":"low"}`."""


_FIELDS = [
    item
    for options in (HfOptions, HttpOptions, EditorOptions, ServiceEditorOptions)
    for item in options.model_fields.items()
]
RUNTIME_OPTIONS = frozenset(name for name, field in _FIELDS if Runtime in field.metadata)
"""The options that change no answer."""
PUBLIC_OPTIONS = frozenset(name for name, _ in _FIELDS) - {"extra"}
"""The options of goalreel's own kinds. None but `extra` can hold a secret; an option of a plugin might."""


_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ADDRESS = re.compile(r"(^|[@:])[A-Za-z][\w+.-]*://.*")


def _shown(option: str, value: str) -> str:
    """The value of an option to show, unless it, or a text in `extra`, may be a secret."""
    if option == "extra":
        with suppress(ValueError, RecursionError):
            return json.dumps(_hidden(json.loads(unquote_plus(value))), separators=(",", ":"))
    return value if option in PUBLIC_OPTIONS else "***"


def _hidden(value: object) -> object:
    if isinstance(value, dict):
        return {key: _hidden(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(inner) for inner in value]
    return "***" if isinstance(value, str) else value


def fingerprint_of(folder: Path) -> str:
    """Tell a folder's weights from others: goalreel's version, and its files' names, sizes and times."""
    files = [p for p in find(folder, "**/*") if p.is_file()]
    facts = [(str(p.relative_to(folder)), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    return f"{__version__} {hashlib.sha256(repr(facts).encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model's name, taken apart; `str()` is the name as it was given.

    >>> name = ModelName.parse("hf:some/repo?dtype=float32&batch_size=4")
    >>> name.kind, name.target, name.options
    ('hf', 'some/repo', {'dtype': 'float32', 'batch_size': '4'})
    >>> ModelName.parse("openai:gpt@http://127.0.0.1:8000/v1?temperature=0.2").url
    'http://127.0.0.1:8000/v1'
    """

    text: str
    kind: str
    """Text before the colon; empty without one."""
    target: str
    """Text after the colon, without the options: a folder, a model, an address."""
    query: str = ""
    """The options as they were written, `key=value&key=value`."""
    parts: "tuple[ModelName, ...] | None" = None
    """The two editors of `DRAW+EDIT`."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take a name apart. No name is refused: whoever builds the model knows which there are."""
        kind, colon, rest = text.partition(":")
        if not colon or not _KIND.fullmatch(kind):
            first, plus, second = text.partition("+")
            if plus and "@" not in first:
                return cls(text, "", text, parts=(cls.parse(first), cls.parse(second)))
            kind, rest = "", text
        target, _, query = rest.partition("?")
        return cls(text, kind, target, query)

    def __str__(self) -> str:
        return self.text

    @property
    def options(self) -> dict[str, str]:
        """The options by their names. Of one that is given more than once the last counts.

        Raises:
            InputError: they are not written as key=value.
        """
        try:
            options = parse_qs(self.query, strict_parsing=bool(self.query))
        except ValueError:
            raise InputError(f"{self.plain()}: options are written as ?key=value&key=value") from None
        return {name: values[-1] for name, values in options.items()}

    def filled(self, options: Mapping[str, str]) -> "ModelName":
        """Add options that the name does not have yet."""
        more = [f"{key}={value}" for key, value in options.items() if key not in self.options]
        joint = "&" if self.query else "?"
        return ModelName.parse(f"{self.text}{joint}{'&'.join(more)}") if more else self

    @property
    def inner(self) -> "ModelName":
        """The name that follows the colon, with its options, as in `watch:hf:DIR`."""
        return ModelName.parse(self.text.partition(":")[2])

    @property
    def model(self) -> str:
        """The target without the address after its `@`."""
        return split_model(self.target)[0]

    @property
    def url(self) -> str | None:
        """The address after the target's `@`; None without one."""
        return split_model(self.target)[1]

    def plain(self) -> str:
        """The name without its options, and without the credentials that an address in it may carry."""
        if self.parts:
            return "+".join(part.plain() for part in self.parts)
        return public_address(f"{self.kind}:{self.target}" if self.kind else self.target)

    def public(self) -> str:
        """The name to show: without credentials, and without the values of options that might hold some.

        >>> ModelName.parse("server:http://me:secret@there?dialect=own&sign=abc").public()
        'server:http://there?dialect=own&sign=***'
        """
        if self.parts:
            return "+".join(part.public() for part in self.parts)
        pairs = (option.partition("=") for option in self.query.split("&") if option)
        options = "&".join(f"{key}={_shown(key, value)}" for key, _, value in pairs)
        return f"{self.plain()}?{options}" if options else self.plain()

    def identity(self) -> str:
        """Return what decides the answers: the kind, the model and the options that count, but no address.

        A digest stands for the value of an option that might be a secret. A model that only its address tells
        from others is its kind alone.

        >>> ModelName.parse("openai:gpt@http://node7:8000/v1?top_p=0.9&concurrency=4").identity()
        'openai:gpt?top_p=0.9'
        """
        if self.parts:
            return "+".join(part.identity() for part in self.parts)
        target = _ADDRESS.sub("", self.target)
        model = ":".join(word for word in (self.kind, target) if word)
        pairs = (option.partition("=") for option in sorted(self.query.split("&")) if option)
        options = (
            f"{key}={value if key in PUBLIC_OPTIONS else digest(value)[:8]}"
            for key, _, value in pairs
            if key not in RUNTIME_OPTIONS
        )
        return f"{model}?{query}" if (query := "&".join(options)) else model

    @property
    def nameless(self) -> bool:
        """Nothing but an address tells the model from others."""
        if self.parts:
            return any(part.nameless for part in self.parts)
        address = _ADDRESS.search(self.target)
        return address is not None and address[1] != "@"

    def brief(self) -> str:
        """The model alone: without its kind, its options, and the folder or address that it is kept in."""
        if self.parts:
            return "+".join(part.brief() for part in self.parts)
        model = split_model(self.plain())[0] if self.kind else self.plain().partition("@")[0]
        return model.rstrip("/").rpartition("/")[2].rpartition(":")[2]

    def check_folders(self) -> None:
        """Check that the folders of `hf:DIR` and `diffusers:DIR` exist; a repository's name is not looked up.

        Raises:
            InputError: one does not, and is no repository's name either.
        """
        for part in self.parts or ():
            part.check_folders()
        for name in () if self.parts else (self.inner if ":" in self.target else self,):
            path = Path(located(name.target)).expanduser()
            is_repository = not path.is_absolute() and len(path.parts) == 2
            if name.kind in ("hf", "diffusers") and not path.is_dir() and not is_repository:
                raise InputError(f"{name.plain()}: no folder {path}; a repository is written OWNER/NAME")

    def fingerprint(self) -> str:
        """Tell these weights from others of the same name (`fingerprint_of`), for the keys of a journal."""
        target = self.parts[1].target if self.parts else self.target
        folders = (Path(located(name)) for name in (target or self.text, self.inner.target) if name)
        folder = next((folder for folder in folders if folder.is_dir()), None)
        return __version__ if folder is None else fingerprint_of(folder)
