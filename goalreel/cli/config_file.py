"""`--config FILE`: options of a command in a YAML file. What the command line says goes first.

critic-threshold: 0.8
batch-size: 32
language: false
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperOption

from goalreel.cli.errors import fail
from goalreel.errors import InputError
from goalreel.files import read_mapping

if TYPE_CHECKING:
    from typer._click import Context


def read_config(ctx: typer.Context, file: Path | None) -> Path | None:
    """Take the options in a file as the command's defaults; end the command where one does not fit."""
    if file is None:
        return None
    try:
        values = read_mapping(file, "write one `option: value` a line")
    except InputError as e:
        fail(str(e))
    options = {
        option.name: option for option in ctx.command.get_params(ctx) if isinstance(option, TyperOption)
    }
    defaults: dict[str, object] = {}
    for key, value in values.items():
        name = str(key).replace("-", "_")
        if name not in options or name in ("config", "help"):
            fail(f"{file}: {key}: goalreel {ctx.info_name} has no such option")
        defaults[name] = _value(file, key, value, options[name], ctx)
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    return file


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        callback=read_config,
        is_eager=True,
        help="Options in a YAML file, by name. The command line takes precedence.",
    ),
]


def _value(file: Path, key: object, value: object, option: TyperOption, ctx: "Context") -> object:
    """The value as the command line would have it, checked as there."""
    if option.is_flag:
        if not isinstance(value, bool):
            fail(f"{file}: {key}: true or false, not {value!r}")
        return value
    values = value if option.multiple and isinstance(value, list) else [value]
    if any(isinstance(v, bool | dict | list) or v is None for v in values):
        fail(f"{file}: {key}: {value!r} is no value of this option")
    texts = [str(v) for v in values]
    text = texts if option.multiple else texts[0]
    try:
        option.process_value(ctx, text)
    except typer.BadParameter as e:
        fail(f"{file}: {key}: {e.message.removeprefix('Value error, ')}")
    return text
