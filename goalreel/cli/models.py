"""The options with which commands choose models, and help that lists the kinds there are."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer.core import TyperCommand, TyperOption

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter  # Typer names the types of its hooks nowhere else

    from goalreel.models.registry import Role

PRESET = "Which planner, editor and critic: a name, or the path of a .yaml file."
Preset = Annotated[str, typer.Option(help=PRESET)]
Planner = Annotated[str | None, typer.Option(help="Instead of the preset's: <planner>.")]
Editor = Annotated[str | None, typer.Option(help="Instead of the preset's: <editor>.")]
Critic = Annotated[str | None, typer.Option(help="Instead of the preset's: <critic>.")]
MaxAttempts = Annotated[int | None, typer.Option(min=1, help="Attempts a step. [default: the preset's]")]
MODES = Literal["strict", "fast"]
KEEPS = Literal["best", "last"]
"""Typer lists the values of a Literal, though not of a `type` that stands for one."""
MODE_HELP = (
    "strict for a critic trained by reinforcement (Critic-8B), fast for one only fine-tuned (Critic-SFT-8B)."
)
THRESHOLD_HELP = "accept from this probability of success on, not by the critic's word."
KEEP_HELP = "the picture of a step that the critic never accepted."
_PRESETS = "[default: the preset's]"
CriticMode = Annotated[MODES | None, typer.Option(help=f"{MODE_HELP} {_PRESETS}")]
CriticScores = Annotated[
    bool | None, typer.Option("--critic-scores/--no-critic-scores", help=f"Ask for scores too. {_PRESETS}")
]
CriticThreshold = Annotated[
    float | None,
    typer.Option(min=0, max=1, help=f"{THRESHOLD_HELP.capitalize()} {_PRESETS}"),
]
MaxSteps = Annotated[int | None, typer.Option(min=1, max=1000, help=f"No longer plans. {_PRESETS}")]
Keep = Annotated[KEEPS | None, typer.Option(help=f"{KEEP_HELP.capitalize()} {_PRESETS}")]

CHOICES = (
    "planner",
    "editor",
    "critic",
    "max_attempts",
    "critic_mode",
    "critic_scores",
    "critic_threshold",
    "max_steps",
    "keep",
)


def choices(given: Mapping[str, object]) -> dict[str, object]:
    """What a command's `locals()` hold of these options, for `presets.load`; None leaves the preset's."""
    return {name: given[name] for name in CHOICES if name in given}


def parameters(given: Mapping[str, object]) -> dict[str, object]:
    """The same as the node's parameters, without those that are left to the preset."""
    from goalreel.streaming.parameters import parameter_values

    chosen = {"preset": given["preset"], **choices(given)}
    return parameter_values({name: value for name, value in chosen.items() if value is not None})


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
        from goalreel.models.discovery import forms

        return ", ".join(forms(role, recordings=self.recordings, plugins=True))


class RecordingCommand(ModelCommand):
    """A ModelCommand whose models may read recordings."""

    recordings = True
