"""Options of commands, made from the fields of settings, and options that several commands share.

    @with_options(models=PresetOptions("nano"), options=FieldOptions(Options), shown=("preset", "camera"))
    def command(path: Path, models: ModelChoice, options: Options) -> None: ...

The command line then has one option for each field, and the function gets the objects. `--help` shows the
options of `shown`, `--help-all` all of them; with `config_file`, `--config FILE` reads them from YAML.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic.fields import FieldInfo

from goalreel import files, terms
from goalreel.cli.errors import fail, one_line_errors
from goalreel.errors import DatasetError, InputError
from goalreel.models.presets import FIELDS, LIVE, PRESET_HELP, ModelChoice, Preset, names as preset_names
from goalreel.settings import Settings, bound_of, kind_of, mark_of

INTERRUPTED = "interrupted; what was finished is saved: run the same command again to resume"
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line.")]
Episodes = Annotated[str | None, typer.Option(help="Which episodes, such as 3, 0-9 or 0-4,7. [default: all]")]
RecordedSource = Annotated[
    Path | None,
    typer.Option(help="The dataset that DATASET is made from, before it is written. [default: remembered]"),
]
Host = Annotated[
    str,
    typer.Option(help="Address to listen at. Any but this machine's own needs a token in GOALREEL_TOKEN."),
]
SPLITS = Literal["train", "validation", "test"]
"""Typer lists the values of a Literal, but not of a `type` alias for one."""
Split = Annotated[SPLITS, typer.Option(help="Which seeds: train, validation or test.")]
First = Annotated[int, typer.Option(min=0, help="First seed, counted from 0 in its split.")]
RUN = "The run"
"""The panel of options that say how a run goes."""
SubGoalFormChoice = Annotated[
    Literal["plain", "bordered", "difference", "beside"],
    typer.Option(
        help="How the sub-goal camera shows a goal image. ACT cannot learn from "
        "plain (docs/explanation/subgoal-forms.md)."
    ),
]


@dataclass(frozen=True)
class PresetOptions:
    """The options that choose models; the command gets a `ModelChoice`."""

    preset: str | None
    """The default preset; None where the command has an option of its own for the preset."""
    live: bool = False
    """Also the options for a running task."""
    only: Sequence[str] = ()
    """The fields of presets that matter to the command; empty: all."""
    without: Sequence[str] = ()
    """The fields of presets that do not."""

    def parameters(self) -> Sequence[inspect.Parameter]:
        """Return an option for the preset, and one for each field that can replace the preset's."""
        options = []
        if self.preset is not None:
            option = typer.Option(help=PRESET_HELP, autocompletion=COMPLETED["preset"])
            options.append(_parameter("preset", Annotated[str, option], self.preset))
        for name in FIELDS:
            info = Preset.model_fields[name]
            matters = name not in self.without and (not self.only or name in self.only)
            if matters and (self.live or mark_of(info, "panel") != LIVE):
                options.append(_option(name, info, None, " [default: the preset's]"))
        return options

    def make(self, values: Mapping[str, Any]) -> object:
        overrides = {name: value for name, value in values.items() if name != "preset"}
        return ModelChoice.of(values.get("preset", ModelChoice().preset), **overrides)


@dataclass(frozen=True)
class FieldOptions:
    """An option for each described field of a class of settings; the command gets an instance."""

    settings: type[Settings]
    without: Sequence[str] = ()
    """The fields that are no options of the command."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """The command's values where they differ from the class's defaults."""
    panel: str | None = None
    """The panel of all these options; None: each field's own."""

    def parameters(self) -> Sequence[inspect.Parameter]:
        return [
            _option(name, info, self.defaults.get(name, info.default), panel=self.panel)
            for name, info in self.settings.model_fields.items()
            if info.description and name not in self.without
        ]

    def make(self, values: Mapping[str, Any]) -> object:
        return self.settings.read({**self.defaults, **values})


def with_options(
    *, config_file: bool = False, shown: Sequence[str] = (), **groups: "PresetOptions | FieldOptions"
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of the groups; each group is named after a parameter of the command.

    Options other than `shown` are left to `--help-all`; without `shown`, `--help` has all of them.
    """

    def bind(command: Callable[..., None]) -> Callable[..., None]:
        options: list[inspect.Parameter] = []
        members: dict[str, list[str]] = {}
        for parameter in inspect.signature(command).parameters.values():
            group = groups.get(parameter.name)
            own = [parameter] if group is None else group.parameters()
            if group is not None:
                members[parameter.name] = [member.name for member in own]
            options += own
        if config_file:
            options.append(_parameter("config", ConfigFile, None))
        if shown:
            options = [option if option.name in shown else _hidden(option) for option in options]
            options.append(_parameter("help_all", HelpAll, False))

        def bound(**values: Any) -> None:
            values.pop("config", None)
            values.pop("help_all", None)
            with one_line_errors():
                objects = {
                    name: groups[name].make({member: values.pop(member) for member in names})
                    for name, names in members.items()
                }
            command(**values, **objects)

        functools.update_wrapper(bound, command)
        keywords = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
        bound.__annotations__ = {option.name: option.annotation for option in options}
        vars(bound)["__signature__"] = inspect.Signature(keywords)
        return bound

    return bind


def _option(
    name: str, info: FieldInfo, default: object, help_suffix: str = "", panel: str | None = None
) -> inspect.Parameter:
    kind = str if mark_of(info, "as_text") else kind_of(info)
    dashed = name.replace("_", "-")
    option = typer.Option(
        f"--{dashed}/--no-{dashed}" if kind is bool else f"--{dashed}",
        help=(info.description or "") + help_suffix,
        min=bound_of(info, "ge"),
        max=bound_of(info, "le"),
        metavar=mark_of(info, "metavar"),
        show_default=default is not False,
        rich_help_panel=panel or mark_of(info, "panel"),
        autocompletion=COMPLETED.get(name),
    )
    return _parameter(name, Annotated[kind | None if default is None else kind, option], default)


def complete_cameras(ctx: typer.Context) -> list[str]:
    """List the cameras of the dataset on the command line, for completion by a shell."""
    from goalreel.datasets.info_file import read_info

    try:  # while an option is typed, what stands before it is not taken apart yet
        features = read_info(Path([*ctx.args, str(ctx.params.get("dataset"))][0]))["features"]
    except (DatasetError, LookupError, TypeError):
        return []
    return [name for name, feature in features.items() if feature.get("dtype") in ("video", "image")]


def _complete_models(role: terms.Role) -> Callable[[], list[str]]:
    def names() -> list[str]:
        """Names, and kinds up to the colon behind which the model is named."""
        from goalreel.models.registry import forms

        heads = [form.partition(":") for form in forms(role, recordings=True)]
        return [head + colon for head, colon, _ in heads if head.islower()]

    return names


COMPLETED: Mapping[str, Callable[..., list[str]]] = {
    "preset": preset_names,
    "camera": complete_cameras,
    **{role: _complete_models(role) for role in terms.ROLES},
}
"""Option -> its values, for completion by a shell."""


def _parameter(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _hidden(option: inspect.Parameter) -> inspect.Parameter:
    """Leave an option out of `--help`; arguments, and what the command requires, stay."""
    for info in getattr(option.annotation, "__metadata__", ()):
        if type(info) is type(typer.Option()) and option.default is not inspect.Parameter.empty:
            hidden = typer.Option(*(info.param_decls or ()))
            vars(hidden).update(vars(info) | {"hidden": True})
            return option.replace(annotation=Annotated[option.annotation.__origin__, hidden])
    return option


def show_all_options(ctx: typer.Context, wanted: bool) -> None:
    """Print the help with the options that `--help` leaves out, and end the command."""
    if wanted:
        for parameter in ctx.command.params:
            vars(parameter)["hidden"] = False
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option("--help-all", callback=show_all_options, is_eager=True, help="Show every option and exit."),
]


def read_config(ctx: typer.Context, file: Path | None) -> Path | None:
    """Take the options in a YAML file as the command's defaults; end the command where one does not fit."""
    if file is None:
        return None
    try:
        values = files.read_mapping(file, "write one `option: value` a line")
    except InputError as e:
        fail(str(e))
    options = {option.name: option for option in ctx.command.params if option.param_type_name == "option"}
    defaults: dict[str, object] = {}
    for key, value in values.items():
        name = str(key).replace("-", "_")
        if name not in options or name in ("config", "help", "help_all"):
            fail(f"{file}: {key}: goalreel {ctx.info_name} has no such option")
        defaults[name] = _config_value(f"{file}: {key}", value, options[name], ctx)
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


def _config_value(place: str, value: object, option: Any, ctx: typer.Context) -> object:
    """Return the value as the command line would have it, checked as there; `option` is Typer's."""
    if option.is_flag:
        if not isinstance(value, bool):
            fail(f"{place}: true or false, not {value!r}")
        return value
    values = value if option.multiple and isinstance(value, list) else [value]
    if any(isinstance(v, bool | dict | list) or v is None for v in values):
        fail(f"{place}: {value!r} is no value of this option")
    texts = [str(v) for v in values]
    text = texts if option.multiple else texts[0]
    try:
        option.process_value(ctx, text)
    except typer.BadParameter as e:
        fail(f"{place}: {e.message.removeprefix('Value error, ')}")
    return text
