"""The page of the storyboard's JSON: a table for each object, from its docstrings, and the schema."""

import json
from typing import Any

import site_docstrings

from goalreel.settings import Frozen
from goalreel.types import Storyboard

HEAD = """# The storyboard's JSON

For programs that read `storyboard.json`, or the records in a dataset's `meta/goalreel/`. A picture is the
name of a file or a `data:` URI. A field without a default has to be there.
"""


def page() -> str:
    """Make the page, as Markdown."""
    schema = Storyboard.model_json_schema()
    below = schema["$defs"]
    text = HEAD
    for name, fields in {"Storyboard": schema, **below}.items():
        if "properties" in fields:
            text += f"\n## {name}\n\n{fields.get('description', '')}\n\n{_table(name, fields, below)}"
    return f"{text}\n## As a JSON schema\n\n```json\n{json.dumps(schema, indent=2)}\n```\n"


def _table(name: str, fields: dict[str, Any], below: dict[str, Any]) -> str:
    owner = next(kind for kind in _kinds(Frozen) if kind.__name__ == name)
    rows = ["| field | type | what it is |", "|---|---|---|"]
    for field, facts in fields["properties"].items():
        default = facts.get("default")
        what = site_docstrings.of_field(owner, field).replace("|", "\\|")
        if "default" in facts and not isinstance(default, dict):
            what = f"{what} Default: `{json.dumps(default)}`.".strip()
        rows.append(f"| `{field}` | {_type(facts, below)} | {what} |")
    return "\n".join(rows) + "\n"


def _kinds(base: type[Frozen]) -> list[type[Frozen]]:
    """The models below one, near and far."""
    near = base.__subclasses__()
    return [*near, *(far for kind in near for far in _kinds(kind))]


def _type(facts: dict[str, Any], below: dict[str, Any]) -> str:
    """Say what a value may be, with links to the objects of this page."""
    if "anyOf" in facts:
        return " or ".join(_type(option, below) for option in facts["anyOf"])
    if "$ref" in facts:
        name = facts["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if "properties" in below[name] else _type(below[name], below)
    if "enum" in facts:
        return ", ".join(f"`{value}`" for value in facts["enum"])
    if facts.get("type") == "array":
        return f"list of {_type(facts['items'], below)}" if "items" in facts else "list of numbers"
    return str(facts.get("type", "any"))
