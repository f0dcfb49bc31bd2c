"""What a chat completion may ask: OpenAI's fields, each of which is honoured, the model's own, or refused."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from goalreel.serving.errors import Utf8, Wording

_ALIASES = {"input_text": "text", "output_text": "text", "input_image": "image_url"}
"""How OpenAI's Responses API and its clients name the same parts."""

ModelOwn = Annotated[Any, Field(description="The served model's own: taken, and not used.")]


class TextPart(BaseModel):
    """A piece of text."""

    type: Literal["text"]
    text: Utf8


class ImageUrl(BaseModel):
    """`data:image/png;base64,...` (or JPEG, WebP)."""

    url: str


def _image_url(value: object) -> object:
    return {"url": value} if isinstance(value, str) else value


class ImagePart(BaseModel):
    """A picture, in its place between the texts."""

    type: Literal["image_url"]
    image_url: Annotated[ImageUrl, BeforeValidator(_image_url, json_schema_input_type=ImageUrl | str)]


def _known_part(value: object) -> object:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(kind, str):
        return value
    if (part_kind := _ALIASES.get(kind, kind)) not in ("text", "image_url"):
        raise ValueError(f"has the type {kind}; this server reads text and image_url")
    return {**value, "type": part_kind}


type ContentPart = Annotated[TextPart | ImagePart, Field(discriminator="type"), BeforeValidator(_known_part)]


def _parts(value: object) -> object:
    return [{"type": "text", "text": value}] if isinstance(value, str) else value


class ChatMessage(BaseModel):
    """One turn; `developer` is another name for `system`."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[
        list[ContentPart],
        Field(min_length=1, max_length=256),
        BeforeValidator(_parts, json_schema_input_type=str | list[ContentPart]),
    ]


class JsonSchema(BaseModel):
    """A named JSON schema."""

    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class ResponseFormat(BaseModel):
    """Text, any JSON, or JSON by a schema (which the model behind may or may not enforce)."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StreamOptions(BaseModel):
    """What a stream holds besides the reply."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    include_usage: bool = False
    """End with a chunk of no choice that counts the tokens, where the model behind counts them."""


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class ChatBody(BaseModel):
    """A conversation to continue. A field that is not here is refused."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    model: Wording
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=256)]
    n: Literal[1] | None = 1
    """The server gives one answer."""
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Where the reply is cut, if the model's own limit does not cut it before."""
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    """The newer name of `max_tokens`; it counts where both are there."""
    stop: Annotated[
        list[Annotated[str, Field(min_length=1)]] | None,
        Field(max_length=4),
        BeforeValidator(_listed, json_schema_input_type=str | list[str] | None),
    ] = None
    """The reply ends before the first of these texts."""
    response_format: ResponseFormat | None = None
    logprobs: bool | None = False
    """Tell how likely the tokens were, where the model behind can."""
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    """At most so many alternatives a token; the model behind may know fewer."""
    temperature: ModelOwn = None
    top_p: ModelOwn = None
    top_k: ModelOwn = None
    min_p: ModelOwn = None
    seed: ModelOwn = None
    frequency_penalty: ModelOwn = None
    presence_penalty: ModelOwn = None
    repetition_penalty: ModelOwn = None
    parallel_tool_calls: ModelOwn = None
    user: ModelOwn = None
    metadata: ModelOwn = None
    store: ModelOwn = None
    service_tier: ModelOwn = None
    safety_identifier: ModelOwn = None
    prompt_cache_key: ModelOwn = None

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, body: object) -> object:
        """Clients send null for what they do not ask, tools for one."""
        return {k: v for k, v in body.items() if v is not None} if isinstance(body, dict) else body

    @model_validator(mode="after")
    def _check_stream(self) -> "ChatBody":
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options are for a stream: set stream, too")
        return self
