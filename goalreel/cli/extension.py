"""Groups of commands: those of goalreel are imported when one is named, and other packages add more.

A package adds commands by an entry point of the group `goalreel.commands`. Its name is a group of commands,
and its value a Typer application whose commands join the group:

    [project.entry-points."goalreel.commands"]
    eval = "my_package.commands:app"

The package is imported when one of its commands is named, or the group's help is asked for.
"""

import os
import sys
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any, NamedTuple

import typer.main
from typer.core import TyperCommand, TyperGroup

from goalreel.cli.errors import fail, one_line_errors, usage_errors
from goalreel.errors import first_line

if TYPE_CHECKING:
    from typer._click import Command, Context  # Typer names these types nowhere else

GROUP = "goalreel.commands"
LABORATORY = {
    "corpus": frozenset({"make"}),
    "eval": frozenset({"comm", "metaworld", "policy", "rise", "roboreward", "segmentation"})
    | {"tabletop", "ueval", "wgo", "wise", "zoo"},
}
"""Group -> the commands that goalreel-lab adds to it."""


class Place(NamedTuple):
    """A command's place, and its line in the help of its group."""

    help: str
    """First line of the command's docstring."""
    module: str | None = None
    """The module of `goalreel.cli` that has the function and its epilog, or for a group of commands an `app`;
    None where it has the command's name."""

    def load(self, name: str, panel: str) -> "Command":
        module = import_module(f"goalreel.cli.{self.module or name}")
        if hasattr(module, "app"):
            return typer.main.get_group(module.app)
        function = name.replace("-", "_")
        epilog = getattr(module, f"{function.upper()}_EPILOG", None) or module.EPILOG
        app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        app.command(name, epilog=epilog, rich_help_panel=panel)(getattr(module, function))
        return typer.main.get_command(app)


def lazy_group(panels: Mapping[str, Mapping[str, Place]]) -> type[TyperGroup]:
    """Make the class of a group whose commands are imported when they are named, and not for its help."""
    places = {name: (place, panel) for panel, members in panels.items() for name, place in members.items()}

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = {
                name: TyperCommand(name, help=place.help, rich_help_panel=panel)
                for name, (place, panel) in places.items()
            }
            self.loaded: dict[str, Command] = {}

        def main(self, *args: Any, **options: Any) -> Any:
            try:
                try:
                    return super().main(*args, **options)
                finally:
                    sys.stdout.flush()
            except OSError as e:  # a full disk behind `>`
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python writes at its end
                typer.echo(f"goalreel: what is printed cannot be written: {first_line(e)}", err=True)
                sys.exit(1)

        def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> "Context":
            as_json = "--json" in args
            with usage_errors(as_json):
                context = super().make_context(info_name, args, *rest, **extra)
            context.meta[GROUP] = as_json
            return context

        def invoke(self, ctx: "Context") -> Any:
            with usage_errors(ctx.meta[GROUP]):
                return super().invoke(ctx)

        def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
            if cmd_name in places and cmd_name not in self.loaded:
                place, panel = places[cmd_name]
                self.loaded[cmd_name] = place.load(cmd_name, panel)
            return self.loaded.get(cmd_name)

        def format_help(self, ctx: "Context", formatter: Any) -> None:
            loaded, self.loaded = self.loaded, dict(self.commands)  # a line of each is enough
            super().format_help(ctx, formatter)
            self.loaded = loaded

    return LazyGroup


def command_group(name: str, help: str) -> typer.Typer:
    """Make a group of commands that other packages may add to."""
    app = typer.Typer(
        name=name, help=help, cls=ExtensibleGroup, no_args_is_help=True, rich_markup_mode="markdown"
    )
    app.callback()(lambda: None)  # without it Typer turns a group of one command into that command
    return app


class ExtensibleGroup(TyperGroup):
    """A group of commands that other packages add to."""

    @cached_property
    def _added(self) -> "dict[str, Command]":
        found: dict[str, Command] = {}
        for entry in metadata.entry_points(group=GROUP, name=self.name or ""):
            with one_line_errors():
                group = typer.main.get_group(entry.load())
            found |= group.commands
        return found

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        if cmd_name in self._added:
            return self._added[cmd_name]
        if cmd_name in LABORATORY.get(self.name or "", ()):
            from goalreel.extras import install_beside

            fail(f"`{ctx.command_path} {cmd_name}` comes with goalreel-lab: {install_beside('lab')}")
        return None

    def list_commands(self, ctx: "Context") -> list[str]:
        return [*super().list_commands(ctx), *sorted(self._added)]
