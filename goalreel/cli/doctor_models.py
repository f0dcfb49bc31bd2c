"""`goalreel doctor --models`: each model of a preset answers one real question."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from goalreel.annotator.role_check import RoleTrial

MAX_SHOWN = 4_000
"""Characters of a reply; its file has the rest."""


def check_models(
    preset: str,
    overrides: Mapping[str, Any],
    frame: Path | None,
    instruction: str | None,
    out: Path,
    json_output: bool,
) -> int:
    """Ask each model one question, print and save the replies; 1 if a model could not be used, else 0.

    Raises:
        InputError: no such preset, no instruction, or a picture that cannot be read.
    """
    from goalreel.annotator.model_check import trial_task, try_models
    from goalreel.annotator.model_check_files import save_trial
    from goalreel.annotator.task_input import check_instruction
    from goalreel.cli.console import print_json
    from goalreel.errors import InputError
    from goalreel.image import Image
    from goalreel.models import presets
    from goalreel.models.memory import gpu_gb, memory_of

    if instruction is not None:
        check_instruction(instruction)
    names = presets.load(preset, **overrides)
    memory = None
    with suppress(InputError):  # the role whose name is wrong says so below
        memory = memory_of(names)
        typer.echo(memory.line(gpu_gb()), err=json_output)
    task = trial_task(Image.of(frame) if frame else None, instruction)

    def show(role: "RoleTrial") -> None:
        place = f"--{role.role}" if overrides.get(role.role) else presets.place(preset, role.role)
        typer.echo("\n".join(_lines(role, place)), err=json_output)

    result = try_models(names, task, show)
    save_trial(result, out)
    if json_output:
        trial = json.loads((out / "trial.json").read_bytes())
        print_json({**trial, "memory": memory and memory.as_json(gpu_gb())})
    else:
        typer.echo(f"Raw replies and pictures: {out}")
    return 0 if result.usable else 1


def check_memory(preset: str, overrides: Mapping[str, Any], size_gb: float, json_output: bool) -> int:
    """Print whether the models of a preset fit on a GPU of `size_gb`; 1 if not, or if nobody knows.

    Raises:
        InputError: no such preset, or a name or an option in it that does not fit.
    """
    from goalreel.cli.console import print_json
    from goalreel.models import presets
    from goalreel.models.memory import memory_of

    memory = memory_of(presets.load(preset, **overrides))
    if json_output:
        print_json({"memory": memory.as_json(size_gb)})
    else:
        typer.echo(memory.line(size_gb))
    return 0 if memory.fits(size_gb) else 1


def _lines(role: "RoleTrial", place: str) -> list[str]:
    from goalreel.chat.json_reply import clean

    lines = [f"{role.role}: {role.model}"]
    lines += [f"  asked   {role.how}"] if role.how else []
    lines += [f"  note    {role.note}"] if role.note else []
    for number, reply in enumerate(role.replies, start=1):
        read = f"cannot be read: {reply.problem}" if reply.problem else f"read as {reply.read_as}"
        lines.append(f"  reply {number} {read}")
        text = reply.text if len(reply.text) <= MAX_SHOWN else f"{reply.text[:MAX_SHOWN]} [...]"
        lines += [f"    | {line}" for line in clean(text).splitlines()]
    times = [("loaded", role.load_s), ("answered", role.ask_s)]
    if took := [f"{what} in {seconds:.1f} s" for what, seconds in times if seconds is not None]:
        lines.append(f"  time    {', '.join(took)}")
    if role.problem is None:
        return [*lines, f"  gave    {clean(role.gave)}", ""]
    what = "no such model: change it in" if role.gone else "it is named in"
    return [*lines, f"  failed  {clean(role.problem)}", f"  fix     {what} {place}", ""]
