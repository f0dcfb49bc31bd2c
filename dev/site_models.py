"""The pages of model names and of editors, from the registered kinds and the catalogue."""

from collections import defaultdict

import site_docstrings

from goalreel.editors.catalogue import catalogue
from goalreel.models.names import ModelOptions
from goalreel.models.registry import AnyKind, kinds
from goalreel.types import ROLES, Role

NAMES = """# Model names

One string names a model, on the command line, in presets, in node parameters and in Python:

```text
KIND:TARGET?OPTION=VALUE&OPTION=VALUE
```

Quote it in a shell. In a value, `&`, `+` and `%` are written `%26`, `%2B` and `%25`. `@URL` comes before the
question mark: `openai:MODEL@http://HOST:PORT/v1?max_tokens=2048`. A DIR is a folder, a repository
OWNER/NAME of the Hugging Face hub, or a checkpoint that comes with goalreel: `nano-planner`, `nano-critic`,
`nano-editor`. What needs a recording is for `goalreel annotate` alone.
"""
EDITORS = """# Editors

The editors that goalreel knows by name, for `--editor`. Any other diffusers pipeline is `diffusers:DIR`, and
an image server is [another kind of name](model-names.md). What happens to a picture:
[how an edit is made](../explanation/how-an-edit-is-made.md).

Weights are all parts in bfloat16, from the published parameter counts. Steps, guidance and licences follow
the models' cards: look there before you rely on them. No full model was run here. Each class is tested with a
tiny random checkpoint.

| name | repository | can | steps, guidance | draws | GB | licence |
|---|---|---|---|---|---|---|
"""


def names() -> str:
    """Make the page of model names: the kinds, and a table for each class of options."""
    roles: dict[tuple[str, str, type[ModelOptions]], list[Role]] = defaultdict(list)
    for role in ROLES:
        for kind in kinds(role, plugins=False):
            roles[kind.form, _what(kind), kind.options].append(role)
    tables: dict[str, list[str]] = defaultdict(list)
    forms: dict[type[ModelOptions], list[str]] = defaultdict(list)
    for (form, what, options), kind_roles in roles.items():
        tables[" or ".join(role.title() for role in kind_roles)].append(f"| `{form}` | {what} |")
        if options.model_fields:
            forms[options].append(f"`{form}`")
    lines: list[str] = []
    for title, rows in tables.items():
        lines += ["", f"## {title}", "", "| name | what it is |", "|---|---|", *rows]
    for options, written in forms.items():
        who = "an editor" if options.__name__.endswith("EditorOptions") else "a Planner or Critic"
        lines += ["", f"## Options of {who}: {', '.join(written)}", ""]
        lines += ["| option | what it does |", "|---|---|"]
        for option in options.model_fields:
            lines.append(f"| `{option}` | {site_docstrings.of_field(options, option)} |")
    return NAMES + "\n".join(lines) + "\n"


def _what(kind: AnyKind) -> str:
    what = kind.help.replace("the catalogue", "[the catalogue](editors.md)", 1)
    extra = f" Needs `goalreel[{kind.extra}]`." if kind.extra else ""
    return f"{what}{extra}{' Needs a recording.' if kind.needs_recording else ''}"


def editors() -> str:
    """Make the page of the catalogue."""
    lines = []
    for entry in catalogue().values():
        lora = f" + LoRA `{entry.lora.repository}`" if entry.lora else ""
        guidance = "".join(f", `{name}` {value:g}" for name, value in entry.guidance.items())
        size = f"{entry.size[0]}x{entry.size[1]}" if entry.size else ""
        names = f"`{entry.name}` | `{entry.repository}`{lora} | {', '.join(entry.kinds)}"
        lines.append(
            f"| {names} | {entry.steps}{guidance} | {size} | {entry.weights_gb:g} | {entry.licence} |"
        )
    notes = [f"- `{entry.name}`: {entry.note}" for entry in catalogue().values() if entry.note]
    return EDITORS + "\n".join([*lines, "", *notes, ""])
