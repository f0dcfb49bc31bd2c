"""The options with which commands choose models, and help that lists the kinds there are."""

from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand, TyperOption

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter  # Typer names the types of its hooks nowhere else

    from goalreel.models.registry import Role

Preset = Annotated[str, typer.Option(help="Which planner, editor and critic.")]
Planner = Annotated[str | None, typer.Option(help="Instead of the preset's: <planner>.")]
Editor = Annotated[str | None, typer.Option(help="Instead of the preset's: <editor>.")]
Critic = Annotated[str | None, typer.Option(help="Instead of the preset's: <critic>.")]
MaxAttempts = Annotated[int | None, typer.Option(min=1, help="Attempts a step. [default: the preset's]")]


class ModelCommand(TyperCommand):
    """A command whose help says which models there are, where an option's help holds <planner> or the like.

    Plugins are looked for only when the help is shown.
    """

    recordings = False
    """Whether models that only read recordings can be used."""

    def format_help(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write the help."""
        from goalreel.models.registry import ROLES

        for option in self.params:
            for role in ROLES:
                if isinstance(option, TyperOption) and option.help and f"<{role}>" in option.help:
                    option.help = option.help.replace(f"<{role}>", self._forms(role))
        super().format_help(ctx, formatter)

    def _forms(self, role: "Role") -> str:
        from goalreel.models.lookup import forms

        return ", ".join(forms(role, recordings=self.recordings, plugins=True))


class RecordingCommand(ModelCommand):
    """A ModelCommand whose models may read recordings."""

    recordings = True
