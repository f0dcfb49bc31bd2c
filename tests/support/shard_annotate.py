"""Annotate a dataset in three shards at once, the last of which is killed and run again; then build it.

    shard_annotate.py DATASET OUT

The runs are forked from one process, which has imported what takes long. The last shard kills itself after
its first record.
"""

import os
import signal
import sys
from pathlib import Path

import av  # noqa: F401
import pyarrow.parquet  # noqa: F401

import goalreel.datasets.writing.pipeline  # noqa: F401
from goalreel.cli.main import app
from goalreel.datasets.records import Records


def start(*words: str, dies: bool = False) -> int:
    """Run a command in a child; the process id."""
    child = os.fork()
    if child:
        return child
    if dies:
        commit = Records.commit

        def once(self, episode, storyboard):
            commit(self, episode, storyboard)
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


def main(dataset: str, out: str) -> None:
    work = ("annotate", dataset, "--out", out, "--shard")
    first, second, third = start(*work, "1/3"), start(*work, "2/3"), start(*work, "3/3", dies=True)
    assert (status(first), status(second), status(third)) == (0, 0, -signal.SIGKILL)
    assert not Path(out, "meta/info.json").exists()
    assert status(start(*work, "3/3")) == 0
    assert status(start("build", out)) == 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
