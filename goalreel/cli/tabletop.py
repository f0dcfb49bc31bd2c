"""`goalreel tabletop`: make demonstration episodes with ground truth. Imports mujoco and lerobot when run."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from goalreel.cli import errors, extension
from goalreel.cli.options import First, Json, Split
from goalreel.tabletop.splits import seeds, split_of

app = extension.command_group("tabletop", "Simulate long-horizon tabletop episodes with ground truth.")
SIZE = 128
"""Width and height of a picture in pixels, unless told otherwise: what the nano models see."""


@app.command(
    epilog="Examples:\n\n"
    "- `goalreel tabletop record --episodes 5 --out demo`\n\n"
    "- `goalreel tabletop record --episodes 50 --out held-out --split test --first 100`\n\n"
    "- `goalreel tabletop record --episodes 5 --out views --cameras front,side,top,wrist --size 256`"
)
def record(
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes; each has its own seed.")],
    out: Annotated[Path, typer.Option(help="The new dataset; must not exist or be empty.")],
    split: Split = "train",
    first: First = 0,
    cameras: Annotated[
        str, typer.Option(help="Cameras, of front, side, corner, left, top and wrist, with commas between.")
    ] = "front,wrist",
    size: Annotated[int, typer.Option(min=64, max=1024, help="Width and height in pixels.")] = SIZE,
    json_output: Json = False,
) -> None:
    """Record the scripted expert as a LeRobot v3.0 dataset."""
    with errors.one_line_errors("interrupted; nothing was written: run the same command again"):
        from goalreel.cli.console import progress_bars
        from goalreel.cli.corpus import show_result
        from goalreel.tabletop.record import check_request, quiet, record as work

        chosen, views = seeds(split, episodes, first), [c.strip() for c in cameras.split(",")]
        check_request(chosen, views, size)
        quiet()
        with progress_bars() as bars:
            truth = work(out, chosen, cameras=views, size=size, progress=partial(bars, "recording"))
        results = {
            "out": str(out),
            "episodes": len(truth.episodes),
            "successful": sum(e.success for e in truth.episodes),
            "subtasks": sum(len(e.segments) for e in truth.episodes),
            "frames": sum(e.segments[-1].end for e in truth.episodes),
        }
        told = "{episodes} episodes ({successful} successful), {subtasks} sub-tasks, {frames} frames: {out}"
        show_result(results, told.format(**results), json_output)


@app.command(epilog="Example: `goalreel tabletop scene --seed 900301 --out scene.png`")
def scene(
    seed: Annotated[int, typer.Option(help="The scene's number.")],
    out: Annotated[Path, typer.Option(help="PNG to write; one that is there is replaced.")],
    json_output: Json = False,
) -> None:
    """Write the first picture of a simulated scene, and print its instruction."""
    with errors.one_line_errors():
        from goalreel.cli.console import print_results
        from goalreel.files import write_bytes
        from goalreel.image import Image
        from goalreel.tabletop.env import Tabletop
        from goalreel.tabletop.grammar import sample_episode

        split_of(seed)
        episode = sample_episode(seed)
        with Tabletop(episode.scene) as env:
            picture = Image(env.render("front", SIZE).copy())
        write_bytes(out, picture.png())
        results = {"out": str(out), "instruction": episode.instruction}
        print_results(results, episode.instruction, json_output)
