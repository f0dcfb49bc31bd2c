"""`goalreel doctor --models`: what each model of a preset says to one real question."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from goalreel.cli.options import picture

if TYPE_CHECKING:
    from goalreel.annotator.model_check import RoleTrial

SHOWN = 4_000
"""Characters of a reply; its file has the rest."""


def trial(
    preset: str,
    overrides: Mapping[str, object],
    frame: Path | None,
    instruction: str | None,
    out: Path,
    as_json: bool,
) -> int:
    """Try the models, print what they say and save it; 1 if one could not be used, else 0.

    Raises:
        InputError: no such preset, or a picture that cannot be read.
    """
    from goalreel.annotator.model_check import trial_task, try_models
    from goalreel.annotator.model_check_files import save_trial
    from goalreel.models import presets

    names = presets.load(preset, **overrides)
    task = trial_task(picture(frame) if frame else None, instruction)

    def tell(role: "RoleTrial") -> None:
        place = f"--{role.role}" if overrides.get(role.role) else presets.place(preset, role.role)
        typer.echo("\n".join(_lines(role, place)), err=as_json)

    found = try_models(names, task, tell)
    save_trial(found, out)
    if as_json:
        typer.echo(json.dumps(json.loads((out / "trial.json").read_bytes())))
    else:
        typer.echo(f"Raw replies and pictures: {out}")
    return 0 if found.usable else 1


def _lines(role: "RoleTrial", place: str) -> list[str]:
    from goalreel.planners.agents.json_reply import clean

    lines = [f"{role.role}: {role.model}"]
    lines += [f"  asked   {role.how}"] if role.how else []
    lines += [f"  note    {role.note}"] if role.note else []
    for number, reply in enumerate(role.replies, start=1):
        read = f"cannot be read: {reply.problem}" if reply.problem else f"read as {reply.read_as}"
        lines.append(f"  reply {number} {read}")
        text = reply.text if len(reply.text) <= SHOWN else f"{reply.text[:SHOWN]} [...]"
        lines += [f"    | {line}" for line in clean(text).splitlines()]
    times = [("loaded", role.load_s), ("answered", role.ask_s)]
    if took := [f"{what} in {seconds:.1f} s" for what, seconds in times if seconds is not None]:
        lines.append(f"  time    {', '.join(took)}")
    if role.problem is None:
        return [*lines, f"  gave    {clean(role.gave)}", ""]
    what = "no such model: change it in" if role.gone else "it is named in"
    return [*lines, f"  failed  {clean(role.problem)}", f"  fix     {what} {place}", ""]
