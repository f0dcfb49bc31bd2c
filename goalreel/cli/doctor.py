"""`goalreel doctor`: checks of this machine, or with `--models` one real question to each model."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.cli.bound_options import PresetOptions, with_options
from goalreel.cli.doctor_models import check_memory, check_models
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Json
from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.cli.doctor_machine import Check
    from goalreel.models.presets import ModelChoice


def doctor(json_output: bool) -> int:
    """Print every check, as a table or as one JSON object; 1 if something required is missing, else 0."""
    from goalreel.cli import doctor_machine
    from goalreel.cli.console import print_json

    results = doctor_machine.run_checks()
    ok = all(check.status == "ok" for check in results if check.required)
    if json_output:
        print_json({"ok": ok, "checks": [asdict(check) for check in results]})
    else:
        _show(results)
    return 0 if ok else 1


def _show(results: "list[Check]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    styles = {"ok": "green", "missing": "red", "warning": "yellow"}
    table = Table("", "check", "found", box=None, padding=(0, 2, 0, 0), header_style="dim")
    for check in results:
        style = "dim" if check.status == "missing" and not check.required else styles[check.status]
        table.add_row(Text(check.status, style), Text(check.name), Text(check.found, overflow="fold"))
    console = Console()
    console.print(table)
    for check in results:
        if check.fix:
            # Commands are printed unwrapped, so that they can be copied.
            console.print(Text(f"\n{check.name}:"), Text(f"  {check.fix}", "bold"), sep="\n", soft_wrap=True)


EPILOG = (
    "Examples:\n\n"
    "- `goalreel doctor`\n\n"
    "- `goalreel doctor --models klein-24gb --gpu 24`\n\n"
    "- `goalreel doctor --models klein --frame frame.png --instruction 'open the drawer'`"
)


@with_options(choice=PresetOptions(None, without=("max_attempts", "keep")))
def command(
    choice: "ModelChoice",
    models: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help="Test this preset instead: ask each model one question, and show and save the answers.",
        ),
    ] = None,
    frame: Annotated[
        Path | None, typer.Option(help="With --models: the picture to ask about. [default: a drawn scene]")
    ] = None,
    instruction: Annotated[str | None, typer.Option(help="With --models: the instruction.")] = None,
    gpu: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="With --models: ask nothing; only say whether the models fit into this many GB.",
            metavar="GB",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="With --models: folder for the answers. No keys are written there.")
    ] = Path("goalreel-doctor"),
    json_output: Json = False,
) -> None:
    """Check what is installed, and print the commands that install what is missing."""
    with one_line_errors():
        if models is not None:
            overrides = choice.overrides
            if gpu is not None:
                raise typer.Exit(check_memory(models, overrides, gpu, json_output))
            raise typer.Exit(check_models(models, overrides, frame, instruction, out, json_output))
        if frame or instruction or gpu or choice.overrides:
            raise InputError("these options need --models PRESET")
        raise typer.Exit(doctor(json_output))
