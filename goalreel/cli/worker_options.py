"""The options of commands that spread their work over a Ray cluster."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from goalreel.errors import InputError

if TYPE_CHECKING:
    from goalreel.annotator.workers import Workers
    from goalreel.models.presets import Preset

PROCESSES = "Several processes"
"""The panel of these options in a command's help."""


@dataclass(frozen=True)
class WorkerOptions:
    """`--ray`, and how many workers where."""

    ray: Annotated[
        bool, typer.Option("--ray", help="Spread the work over a Ray cluster.", rich_help_panel=PROCESSES)
    ] = False
    workers: Annotated[
        int,
        typer.Option(
            min=1, help="With --ray: number of workers. Each loads its own models.", rich_help_panel=PROCESSES
        ),
    ] = 1
    gpus: Annotated[
        float, typer.Option(min=0, help="With --ray: GPUs of each worker.", rich_help_panel=PROCESSES)
    ] = 0.0
    address: Annotated[
        str | None,
        typer.Option(
            help="With --ray: address of the cluster. [default: RAY_ADDRESS, or a new one on this machine]",
            rich_help_panel=PROCESSES,
        ),
    ] = None

    def make_workers(self, preset: "Preset", shard: str | None) -> "Workers | None":
        """The workers of `--ray`; None without it.

        Raises:
            InputError: an option that goes with `--ray` alone, or not with it.
        """
        if self.ray and shard:
            raise InputError("--shard is for processes without --ray: leave one of them out")
        if self.ray:
            from goalreel.annotator.workers import Workers

            return Workers(preset, self.workers, self.gpus, self.address)
        if self.workers > 1 or self.gpus or self.address:
            raise InputError("--workers, --gpus and --address need --ray")
        return None
