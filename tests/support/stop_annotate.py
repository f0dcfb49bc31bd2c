"""Annotate a dataset once for each signal, which comes as soon as an episode is written.

    stop_annotate.py DATASET FOLDER SIGNAL...

Prints a JSON line a run. The runs are forked from a process that has imported the C extensions: a Ctrl-C in
the middle of such an import is that library's to tell.
"""

import json
import os
import sys
import time
from pathlib import Path

import av  # noqa: F401
import pyarrow.parquet  # noqa: F401

import goalreel.datasets.writing.pipeline  # noqa: F401
from goalreel.cli.main import app
from goalreel.datasets.records import FOLDER


def start(dataset: str, out: Path, errors: Path) -> int:
    """Begin to annotate; the process id."""
    child = os.fork()
    if child:
        return child
    with errors.open("w") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    code = 1
    try:
        app(["annotate", dataset, "--out", str(out)])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(dataset: str, folder: Path, signals: list[int]) -> None:
    for number in signals:
        out, errors = folder / f"out-{number}", folder / f"errors-{number}"
        child = start(dataset, out, errors)
        ended = 0
        while not ended and not list((out / FOLDER / "episodes").rglob("episode_*.json")):
            time.sleep(0.001)
            ended, status = os.waitpid(child, os.WNOHANG)
        if not ended:
            os.kill(child, number)
            _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        run = {"signal": number, "status": code, "out": str(out), "errors": errors.read_text()}
        sys.stdout.write(f"{json.dumps(run)}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), [int(word) for word in sys.argv[3:]])
