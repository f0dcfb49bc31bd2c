"""The agents' prompts: one folder for each role, one template for each turn."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(name: str, values: Mapping[str, Any] | None = None) -> str:
    """Fill in the template `ROLE/TURN`, such as "planner/plan"."""
    return _templates().get_template(f"{name}.md.j2").render(values or {}).strip()
