"""The kinds of models that come with goalreel as a Markdown table, for docs/how-to/models.md."""

from goalreel.models.discovery import AnyKind, kinds
from goalreel.types import ROLES, Role


def table() -> str:
    """One row a form: who it can be, what it is, which options it takes and which extra it needs."""
    rows: dict[object, tuple[AnyKind, list[Role]]] = {}
    for role in ROLES:
        for kind in kinds(role, plugins=False):
            rows.setdefault((kind.form, kind.help, kind.options), (kind, []))[1].append(role)
    lines = ["| name | as | what | options | needs |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(_row(kind, roles) for kind, roles in rows.values()), ""])


def _row(kind: AnyKind, roles: list[Role]) -> str:
    needs = f"`goalreel[{kind.extra}]`" if kind.extra else "a recording" if kind.needs_recording else ""
    own_options = ", ".join(f"`{option}`" for option in kind.options.model_fields)
    options = "CHAT's" if kind.asks_chat else own_options
    return f"| `{kind.form}` | {', '.join(roles)} | {kind.help} | {options} | {needs} |"
