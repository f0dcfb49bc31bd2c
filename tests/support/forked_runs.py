"""Runs of commands, forked from one process that has imported what takes long.

    python -m support.forked_runs shards DATASET OUT

annotates in three shards at once, the last of which kills itself after its first record and is run again, and
builds.

    python -m support.forked_runs deaths DATASET OUT

annotates four times, killed before the record of episode 1 is written, and prints how each run ended.

    python -m support.forked_runs stops DATASET FOLDER SIGNAL...

annotates once for each signal, which comes as soon as an episode is written, and prints a JSON line a run. A
Ctrl-C in the middle of the import of a C extension would be that library's to tell.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import av  # noqa: F401
import pyarrow.parquet  # noqa: F401

import goalreel.datasets.writing.pipeline  # noqa: F401
from goalreel.cli.main import app
from goalreel.datasets.records import FOLDER, Records


def start(*words: str, errors: Path | None = None, dies: bool = False, killer: int | None = None) -> int:
    """Run a command in a child; the process id. It dies after a record, or before that of `killer`."""
    child = os.fork()
    if child:
        return child
    if errors is not None:
        with errors.open("w") as file:
            os.dup2(file.fileno(), sys.stderr.fileno())
    if dies or killer is not None:
        commit = Records.commit

        def once(self, episode, storyboard):
            if episode != killer:
                commit(self, episode, storyboard)
            if dies or episode == killer:
                os.kill(os.getpid(), signal.SIGKILL)

        Records.commit = once
    code = 1
    try:
        app(list(words))
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def status(child: int) -> int:
    """How a child ended; a signal counts below 0."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def shards(dataset: str, out: str) -> None:
    work = ("annotate", dataset, "--out", out, "--shard")
    first, second, third = start(*work, "1/3"), start(*work, "2/3"), start(*work, "3/3", dies=True)
    assert (status(first), status(second), status(third)) == (0, 0, -signal.SIGKILL)
    assert not Path(out, "meta/info.json").exists()
    assert status(start(*work, "3/3")) == 0
    assert status(start("build", out)) == 0


def deaths(dataset: str, out: str) -> None:
    runs = [status(start("annotate", dataset, "--out", out, killer=1)) for _ in range(4)]
    sys.stdout.write(json.dumps(runs))


def stops(dataset: str, folder: str, *signals: str) -> None:
    for number in map(int, signals):
        out, errors = Path(folder, f"out-{number}"), Path(folder, f"errors-{number}")
        child = start("annotate", dataset, "--out", str(out), errors=errors)
        alive = lambda child=child: os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None  # noqa: E731
        while alive() and not list((out / FOLDER / "episodes").rglob("episode_*.json")):
            time.sleep(0.001)
        os.kill(child, number)
        run = {"signal": number, "status": status(child), "out": str(out), "errors": errors.read_text()}
        sys.stdout.write(f"{json.dumps(run)}\n")


if __name__ == "__main__":
    {"shards": shards, "deaths": deaths, "stops": stops}[sys.argv[1]](*sys.argv[2:])
