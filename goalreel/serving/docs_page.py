"""`/docs`: the server's OpenAPI description as one page that loads nothing from anywhere.

FastAPI's own page takes its script from a CDN, which a robot's network may not reach.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
"""The page's Content-Security-Policy: no script, no picture, no font."""
_TEMPLATE = Path(__file__).with_name("docs_page.html.j2")


@dataclass(frozen=True)
class DocsField:
    """One field of a body, or one parameter of a route."""

    name: str
    type: str
    note: str
    """Whether it is required, or its default, and what it is for."""


@dataclass(frozen=True)
class DocsRoute:
    """One route: how it is called, what it takes, and the name of the type that it answers with."""

    method: str
    path: str
    description: str
    parameters: tuple[DocsField, ...]
    body: str | None
    """The name of the type of its body."""
    answer: str | None


def render(description: Mapping[str, Any]) -> str:
    """Render an OpenAPI description, such as `FastAPI.openapi()` gives, as an HTML page."""
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    schemas = description.get("components", {}).get("schemas", {})
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        info=description["info"],
        routes=list(_routes(description)),
        types={name: (schema.get("description", ""), _fields(schema)) for name, schema in schemas.items()},
    )


def _routes(description: Mapping[str, Any]) -> Iterator[DocsRoute]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            success = next(a for code, a in operation["responses"].items() if code.startswith("2"))
            yield DocsRoute(
                method.upper(),
                path,
                operation.get("description", ""),
                tuple(_field(p["name"], p["schema"], p["required"]) for p in operation.get("parameters", ())),
                _content_type(operation.get("requestBody", {})),
                _content_type(success),
            )


def _content_type(message: Mapping[str, Any]) -> str | None:
    """The name of the type of a body or an answer; None where it has none."""
    schema = next((content.get("schema") for content in message.get("content", {}).values()), None)
    return _type(schema) if schema else None


def _fields(schema: Mapping[str, Any]) -> list[DocsField]:
    required = schema.get("required", ())
    return [_field(name, field, name in required) for name, field in schema.get("properties", {}).items()]


def _field(name: str, schema: Mapping[str, Any], required: bool) -> DocsField:
    status = "required" if required else f"default {schema.get('default')!r}" if "default" in schema else ""
    return DocsField(name, _type(schema), ". ".join(filter(None, (status, schema.get("description", "")))))


def _type(schema: Mapping[str, Any]) -> str:
    """The type of a JSON schema in words, such as `array of ChatMessage` or `string or null`."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(map(_type, schema[choice]))
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    return schema.get("type", "any")
