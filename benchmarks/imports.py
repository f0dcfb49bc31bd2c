"""What the garbage collector takes while the libraries of the nano models are imported.

    python benchmarks/imports.py

One JSON line: CPU seconds of a new process until they are imported, the median of `--turns`, with Python's
own threshold, with that of goalreel's processes and with no collector; and each one's share of the first.
"""

import json
import os
import statistics
import subprocess
import sys
from typing import Annotated

import typer

WAYS = {
    "Python's": "",
    "goalreel's": "from goalreel.garbage import collect_seldom; collect_seldom()",
    "none": "import gc; gc.disable()",
}
IMPORTS = """
import goalreel.planners.chat.hf, goalreel.editors.diffusers
from diffusers import AutoencoderKLFlux2, Flux2KleinPipeline, Flux2Transformer2DModel
import time
print(time.process_time())
"""


def main(turns: Annotated[int, typer.Option(min=1)] = 5) -> None:
    """Measure all ways by turns."""
    seconds = {way: [] for way in WAYS}
    for _ in range(turns):
        for way, first in WAYS.items():
            seconds[way].append(_seconds(first))
    medians = {way: statistics.median(taken) for way, taken in seconds.items()}
    own = medians["Python's"]
    found = {way: {"s": round(s, 2), "share": round(s / own, 3)} for way, s in medians.items()}
    print(json.dumps({"turns": turns, **found}))


def _seconds(first: str) -> float:
    """CPU seconds of a process, from its start on."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-W", "ignore", "-c", first + IMPORTS]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    typer.run(main)
