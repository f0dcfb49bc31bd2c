"""`goalreel eval tabletop`: TabletopBench. Imports mujoco and the models when it runs."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import First, Json, PresetOptions, with_options
from goalreel_lab.cli.options import MeasuredSplit, choose_names

if TYPE_CHECKING:
    from goalreel.models.presets import ModelChoice

INTERRUPTED = "interrupted; the answers are kept: run the same command again to resume"
type Part = Literal["plan", "edit", "critic", "loop", "closed_loop", "live", "annotate"]
PARTS: tuple[Part, ...] = get_args(Part.__value__)
"""Those of lab/goalreel_lab/bench/bench.py, which is not imported for `--help`."""


@with_options(models=PresetOptions("nano"))
def tabletop(
    models: "ModelChoice",
    split: MeasuredSplit = "validation",
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes; each has its own seed.")] = 100,
    first: First = 0,
    parts: Annotated[str, typer.Option(help=f"Of {', '.join(PARTS)}; comma-separated.")] = ",".join(PARTS),
    orders: Annotated[
        Literal["explicit", "terse", "both"],
        typer.Option(
            help="How steps are first said in loop and closed_loop; terse ones leave something open."
        ),
    ] = "both",
    num_draws: Annotated[
        int, typer.Option(min=1, help="Storyboards to draw in closed_loop until an end is confirmed.")
    ] = 1,
    look: Annotated[
        Literal["plain", "varied", "unseen"],
        typer.Option(help="Shades, tables and light; training shows plain and varied ones."),
    ] = "plain",
    camera: Annotated[
        Literal["front", "corner", "left"],
        typer.Option(help="Where scenes are seen from; training shows front and corner."),
    ] = "front",
    out: Annotated[
        Path, typer.Option(help="Answers and recordings are kept here, so that a stopped run can resume.")
    ] = Path("tabletop-bench"),
    json_output: Json = False,
) -> None:
    """Score planner, editor, critic and whole storyboards on the simulated tabletop."""
    with one_line_errors(INTERRUPTED):
        chosen = choose_names(parts, PARTS, "part")
        from rich.console import Console

        from goalreel.cli.console import progress_bars
        from goalreel.models.load import kinds_of

        names = models.load()
        kinds_of(names)  # refuses an unknown model before the simulator is imported
        from goalreel.streaming.settings import EngineSettings
        from goalreel_lab.bench.bench import ORDERS, BenchConfig, evaluate
        from goalreel_lab.bench.live import critic_query_frames
        from goalreel_lab.variety import View

        registers = ORDERS if orders == "both" else (orders,)
        order = BenchConfig(
            names,
            split,
            episodes,
            first,
            chosen,
            out,
            partial(critic_query_frames, EngineSettings()),
            orders=registers,
            view=View(look, camera),
            num_draws=num_draws,
        )
        with progress_bars() as progress:
            report = evaluate(order, progress)
        if json_output:
            typer.echo(report.as_json())
        else:
            Console().print(report.table())
