"""Options of commands that come from the fields of settings, where each is declared once.

    @with_options(models=PresetOptions("nano"), options=FieldOptions("package.module:Options"))
    def command(path: Path, models: "ModelChoice", options: "Options") -> None: ...

The command line has an option a field then, and the function gets the objects. The settings' modules are
imported when a command's options are asked for, so that `goalreel --help` loads none of them.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeAliasType, get_args

import typer
from typer.core import TyperCommand, TyperOption

from goalreel.cli.config_file import ConfigFile
from goalreel.cli.errors import one_line_errors

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from typer._click import Context, HelpFormatter, Parameter  # Typer names these types nowhere else

_EXPAND = "expand"
"""The attribute of a bound command that makes the function of all its options."""


class OptionGroup(Protocol):
    """Options that a command takes as one object."""

    def parameters(self) -> Sequence[inspect.Parameter]:
        """The options as parameters of a command."""
        ...

    def make(self, values: Mapping[str, Any]) -> object:
        """The object for their values.

        Raises:
            InputError: they do not fit together.
        """
        ...


@dataclass(frozen=True)
class PresetOptions:
    """The options that choose models; the command gets a `ModelChoice`."""

    preset: str | None
    """The preset where none is given; None where the command has an option of its own for the preset."""
    live: bool = False
    """The options for a running task too."""
    only: Sequence[str] = ()
    """The fields of presets that matter to the command; none: all."""
    without: Sequence[str] = ()
    """The fields of presets that do not."""

    def parameters(self) -> Sequence[inspect.Parameter]:
        """An option for the preset, and one for each field that can replace the preset's."""
        from goalreel.models.presets import FIELDS, LIVE, PRESET_HELP, Preset

        options = []
        if self.preset is not None:
            option = Annotated[str, typer.Option(help=PRESET_HELP)]
            options.append(_parameter("preset", option, self.preset))
        for name in FIELDS:
            info = Preset.model_fields[name]
            matters = name not in self.without and (not self.only or name in self.only)
            if matters and (self.live or LIVE not in info.metadata):
                options.append(_option(name, info, None, " [default: the preset's]"))
        return options

    def make(self, values: Mapping[str, Any]) -> object:
        """The choice of models; what was given several times is one name."""
        from goalreel.models.presets import ModelChoice, Preset
        from goalreel.settings import separator_of

        overrides = {name: value for name, value in values.items() if name != "preset"}
        for name, value in overrides.items():
            if separator := separator_of(Preset.model_fields[name]):
                overrides[name] = separator.join(value or ()) or None
        return ModelChoice.of(values.get("preset", ModelChoice().preset), **overrides)


@dataclass(frozen=True)
class FieldOptions:
    """An option for each field of a class of settings; the command gets an instance."""

    path: str
    """Module and class, as `package.module:Class`."""
    only: Sequence[str] = ()
    """The fields that are options of the command; none: all."""
    without: Sequence[str] = ()
    """The fields that are none."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """The command's values where they are not the class's defaults, of all fields."""
    panel: str | None = None
    """The panel of all these options; None: each field's own."""

    def parameters(self) -> Sequence[inspect.Parameter]:
        """An option for each field."""
        from goalreel.settings import fields_of

        return [
            _option(name, info, self.defaults.get(name, info.default), panel=self.panel)
            for name, info in fields_of(self._settings()).items()
            if name not in self.without and (not self.only or name in self.only)
        ]

    def make(self, values: Mapping[str, Any]) -> object:
        """The settings."""
        return self._settings()(**{**self.defaults, **values})

    def _settings(self) -> type:
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)


@dataclass(frozen=True)
class DeclaredOptions:
    """The fields of a dataclass, whose types hold Typer's options; the command gets an instance."""

    kind: type

    def parameters(self) -> Sequence[inspect.Parameter]:
        """The fields."""
        return list(inspect.signature(self.kind).parameters.values())

    def make(self, values: Mapping[str, Any]) -> object:
        """The instance."""
        return self.kind(**values)


def with_options(
    *, config_file: bool = False, **groups: OptionGroup
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of the groups; each group is named after a parameter of the command.

    With `config_file` its options can also be written into a file. Register the command with
    `cls=ModelCommand`, or a subclass.
    """

    def bind(command: Callable[..., None]) -> Callable[..., None]:
        def bound(**values: object) -> None:
            expand()(**values)

        def expand() -> Callable[..., None]:
            return _expanded(command, groups, config_file=config_file)

        functools.update_wrapper(bound, command)
        _sign(bound, ())
        vars(bound)[_EXPAND] = expand
        return bound

    return bind


class ModelCommand(TyperCommand):
    """A command with the options of `with_options`, and help that lists the models there are.

    Plugins are looked for only when the help is shown.
    """

    recordings = False
    """Whether models that only read recordings can be used."""
    _is_whole = False

    def get_params(self, ctx: "Context") -> "list[Parameter]":
        """The options, which are made when they are first asked for."""
        expand = vars(self.callback).get(_EXPAND)
        if expand is not None and not self._is_whole:
            app = typer.Typer(add_completion=False)
            app.command()(expand())
            whole = typer.main.get_command(app)
            self.params, self.callback, self._is_whole = whole.params, whole.callback, True
        return super().get_params(ctx)

    def format_help(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the help."""
        from goalreel.models.registry import with_forms

        for option in self.get_params(ctx):
            if isinstance(option, TyperOption) and option.help:
                option.help = with_forms(option.help, recordings=self.recordings, plugins=True)
        super().format_help(ctx, formatter)


class RecordingCommand(ModelCommand):
    """A ModelCommand whose models may read recordings."""

    recordings = True


def _expanded(
    command: Callable[..., None], groups: Mapping[str, OptionGroup], *, config_file: bool
) -> Callable[..., None]:
    """The command as a function of all its options, in the order of its parameters."""
    options: list[inspect.Parameter] = []
    names: dict[str, list[str]] = {}
    for parameter in inspect.signature(command).parameters.values():
        group = groups.get(parameter.name)
        members = [parameter] if group is None else group.parameters()
        if group is not None:
            names[parameter.name] = [member.name for member in members]
        options += members
    if config_file:
        options.append(_parameter("config", ConfigFile, None))

    def whole(**values: object) -> None:
        values.pop("config", None)
        with one_line_errors():
            objects = {
                name: groups[name].make({member: values.pop(member) for member in members})
                for name, members in names.items()
            }
        command(**values, **objects)

    functools.update_wrapper(whole, command)
    _sign(whole, options)
    return whole


def _sign(function: Callable[..., None], options: Sequence[inspect.Parameter]) -> None:
    """Give a function the parameters that Typer makes options of."""
    keywords = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    function.__annotations__ = {option.name: option.annotation for option in options}
    vars(function)["__signature__"] = inspect.Signature(keywords)


def _option(
    name: str, info: "FieldInfo", default: object, help_suffix: str = "", panel: str | None = None
) -> inspect.Parameter:
    """The option of a field."""
    from goalreel.settings import bound_of, panel_of, separator_of

    kind = list[str] if separator_of(info) else _kind(info.annotation)
    dashed = name.replace("_", "-")
    option = typer.Option(
        f"--{dashed}/--no-{dashed}" if kind is bool else f"--{dashed}",
        help=(info.description or "") + help_suffix,
        min=bound_of(info, "ge"),
        max=bound_of(info, "le"),
        show_default=default is not False,
        rich_help_panel=panel or panel_of(info),
    )
    return _parameter(name, Annotated[kind | None if default is None else kind, option], default)


def _kind(annotation: Any) -> Any:
    """A field's type without None, and the Literal that a `type` stands for, whose values Typer lists."""
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    kind = kinds[0] if NoneType in get_args(annotation) else annotation
    return kind.__value__ if isinstance(kind, TypeAliasType) else kind


def _parameter(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
