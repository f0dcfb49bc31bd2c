"""Commands that other packages add: entry points of the group `goalreel.commands`.

An entry point's name is a group of commands, and its value a Typer application whose commands join the group:

    [project.entry-points."goalreel.commands"]
    eval = "my_package.commands:app"

The package is imported when one of its commands is named, or the group's help is asked for.
"""

from functools import cached_property
from importlib import metadata
from typing import TYPE_CHECKING

import typer.main
from typer.core import TyperGroup

from goalreel.cli.errors import fail, one_line_errors

if TYPE_CHECKING:
    from typer._click import Command, Context  # Typer names these types nowhere else

GROUP = "goalreel.commands"
LABORATORY = {
    "corpus": frozenset({"make"}),
    "eval": frozenset({"comm", "metaworld", "policy", "rise", "roboreward", "segmentation"})
    | {"tabletop", "ueval", "wgo", "wise"},
}
"""Group -> the commands that goalreel-lab adds to it."""


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
        """Find a command: one of this group, or else an added one."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        if cmd_name in self._added:
            return self._added[cmd_name]
        if cmd_name in LABORATORY.get(self.name or "", ()):
            from goalreel.extras import install_laboratory

            fail(f"`{ctx.command_path} {cmd_name}` comes with goalreel-lab: {install_laboratory()}")
        return None

    def list_commands(self, ctx: "Context") -> list[str]:
        """List the names of all commands, those of this group first."""
        return [*super().list_commands(ctx), *sorted(self._added)]
