"""`goalreel plan`. What it needs is imported when it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goalreel.cli.errors import fail, one_line_errors
from goalreel.cli.options import INTERRUPTED, RUN, FieldOptions, Json, PresetOptions, with_options
from goalreel.errors import InputError
from goalreel.models.presets import ModelChoice, Preset
from goalreel.settings import Settings, setting

if TYPE_CHECKING:
    from goalreel.terms import OnRejected
    from goalreel.types import Storyboard, Task


_MANY = "Many prompts"


class PromptOptions(Settings):
    """The options of `plan` for a file of prompts."""

    prompts: Path | None = setting(None, 'Plan each row of this JSONL file: {"prompt": "..."}.', panel=_MANY)
    images: Path | None = setting(None, "Folder of the files that rows name as `image`.", panel=_MANY)
    batch_size: int = setting(16, "Requests of one kind in one call.", ge=1, panel=_MANY)


def plan_file(
    options: PromptOptions,
    preset: "Preset",
    out: Path,
    *,
    seed: int,
    on_rejected: "OnRejected",
    num_draws: int,
    json_output: bool,
) -> None:
    """Plan each row of `options.prompts` and print what came of it; the exit status is 1 where one failed."""
    from goalreel.annotator.plan_rows import PlanConfig, plan_rows, read_rows
    from goalreel.cli.console import print_json, progress_bars
    from goalreel.drivers import Limits
    from goalreel.wording import status_counts

    if options.prompts is None:
        raise InputError("--images goes with --prompts FILE.jsonl")
    rows, faults = read_rows(options.prompts, options.images)
    limits = Limits(options.batch_size, in_flight=4 * options.batch_size)
    order = PlanConfig(rows, preset, seed, on_rejected, limits, faults, num_draws)
    with progress_bars() as progress:
        summary = plan_rows(order, out, progress)
    if json_output:
        print_json({"out": str(out), **vars(summary)})
    else:
        for line, reason in faults.items():
            typer.echo(f"line {line} left out: {reason}", err=True)
        for row, reason in summary.failures.items():
            typer.echo(f"{row}: {reason}", err=True)
        typer.echo(
            f"{summary.planned} storyboards, {summary.resumed} were there, "
            f"{len(summary.failures)} failed, {len(faults)} lines left out"
        )
        if summary.steps:
            doubted = f"; words in doubt: {summary.doubtful}" if summary.doubtful else ""
            doubted += f", {summary.ends_in_doubt} ends in doubt" if summary.ends_in_doubt else ""
            typer.echo(f"Steps: {status_counts(summary.steps.elements())}{doubted}")
        if summary.examination is not None:
            typer.echo(summary.examination["line"])
        typer.echo(f"Look at {out / 'index.html'}")
    if summary.stopped:
        fail(summary.stopped)
    if summary.failures:
        raise typer.Exit(1)


EPILOG = (
    "Examples:\n\n"
    "- `goalreel plan frame.png 'put the blue block in the yellow bowl' --out plan`\n\n"
    "- `goalreel plan photo.jpg 'open the drawer' --out drawer --preset klein`\n\n"
    "- `goalreel plan 'how to tie a bowline' --out bowline --preset server`\n\n"
    "- `goalreel plan a.png b.png 'from <image> make it look like <image>' --out two --preset klein`\n\n"
    "- `goalreel plan frame.png 'open the drawer' --out p --planner hf:DIR --editor diffusers:DIR`\n\n"
    "- `goalreel plan frame.png 'open the drawer' --out p --config models.yaml`\n\n"
    "- `goalreel plan --prompts scenes.jsonl --images scenes --out boards --preset klein`"
)


@with_options(
    config_file=True,
    shown=(
        *("preset", "planner", "editor", "critic", "max_attempts", "prompts"),
        *("seed", "config", "json_output"),
    ),
    models=PresetOptions("nano"),
    many=FieldOptions(PromptOptions),
)
def plan(
    out: Annotated[Path, typer.Option(help="Folder for the storyboard. Run again to resume.")],
    models: ModelChoice,
    many: PromptOptions,
    task: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FRAME...] INSTRUCTION",
            help="A picture of the scene, then the task. With several pictures, "
            "mark each in the task with `<image>`.",
        ),
    ] = None,
    on_rejected: Annotated[
        Literal["continue", "stop"],
        typer.Option(help="What to do after a step without an accepted goal image.", rich_help_panel=RUN),
    ] = "continue",
    num_draws: Annotated[
        int,
        typer.Option(
            min=1, help="Storyboards to draw, at most, until the end is confirmed.", rich_help_panel=RUN
        ),
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the pictures.", rich_help_panel=RUN)] = 0,
    json_output: Json = False,
) -> None:
    """Predict a storyboard from a picture and an instruction, or from an instruction alone."""
    with one_line_errors(INTERRUPTED):
        from goalreel.annotator.plan import plan_task
        from goalreel.cli.console import live_view
        from goalreel.models.load import load

        arguments = task or []
        if many != PromptOptions():
            if many.prompts is not None and arguments:
                raise InputError("--prompts brings the instructions: leave FRAME and INSTRUCTION out")
            preset = models.load()
            plan_file(
                many,
                preset,
                out,
                seed=seed,
                on_rejected=on_rejected,
                num_draws=num_draws,
                json_output=json_output,
            )
            return
        request = _new_task(arguments, seed)
        model_set = load(models.load(), roles=())
        with live_view() as observe:
            board = plan_task(
                request, out, model_set, on_rejected=on_rejected, num_draws=num_draws, observe=observe
            )
        _print_result(board, out, json_output)


def _new_task(arguments: list[str], seed: int) -> "Task":
    """The task that FRAME... and INSTRUCTION describe."""
    from goalreel.annotator.plan import check_instruction, make_task
    from goalreel.chat.conversation import MARK
    from goalreel.image import Image

    if not arguments:
        raise InputError("the instruction is missing: goalreel plan [FRAME...] INSTRUCTION")
    *paths, instruction = arguments
    check_instruction(instruction)
    if MARK not in instruction and len(paths) > 1:
        raise InputError(
            f"{len(paths)} pictures and no {MARK} mark: put quotes around the instruction, and a mark in it "
            "where each picture belongs"
        )
    pictures = [Image.of(Path(path)) for path in paths]
    if MARK in instruction:
        return make_task(instruction, images=pictures, seed=seed)
    return make_task(instruction, pictures[0] if pictures else None, seed=seed)


def _print_result(board: "Storyboard", out: Path, json_output: bool) -> None:
    import json
    from collections import Counter

    from goalreel.claims import count
    from goalreel.critics.examination import FOLDER, read_examination, word
    from goalreel.planners.kinematic.naming import asked
    from goalreel.wording import draws_line, end_line, status_counts

    report, examination = out / "index.html", read_examination(out / FOLDER)
    if json_output:
        counts = Counter(step.status for step in board.steps)
        result: dict[str, object] = {"report": str(report), "complete": board.complete, "steps": counts}
        result |= {"end_checked": board.end_checked, "end_doubt": board.end_doubt}
        result |= {"kept": board.kept, "drawn": board.drawn}
        clauses = asked(board.task.instruction, [step.step for step in board.steps], board.task.done)
        result["asked"] = [vars(clause) for clause in clauses]
        result["claims"] = count(board.steps)
        result["doubtful"] = sum(step.in_doubt for step in board.steps)
        result["worth"] = Counter(word(step, examination) for step in board.steps)
        result["examination"] = None if examination is None else examination.summary()
        chosen = [None if s.chosen is None else s.attempts[s.chosen].registration for s in board.steps]
        result["registrations"] = [None if r is None else r.model_dump() for r in chosen]
        typer.echo(json.dumps(result | {"degraded": board.degraded}))
    elif board.failure is None:
        statuses = status_counts(word(step, examination) for step in board.steps)
        typer.echo(f"Steps: {statuses}. {end_line(board)}")
        if draws := draws_line(board):
            typer.echo(draws)
        if examination is not None:
            typer.echo(examination.line)
        typer.echo(f"Look at {report}")
    if board.degraded:
        fail(board.degraded)
