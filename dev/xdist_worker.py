"""A worker of pytest-xdist, forked from one process that has imported what takes seconds in each.

`make test` names it as the Python of its workers: `--tx "popen//python=PYTHON dev/xdist_worker.py"`.
The first of them starts that process, which ends with the tests.
"""

import importlib
import os
import select
import signal
import socket
import sys
import warnings
from contextlib import suppress
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1] / "tests")
HEAVY = (
    "torchvision.transforms.v2",
    "transformers.modeling_utils",
    "diffusers.pipelines.pipeline_utils",
    "lerobot.datasets.lerobot_dataset",
    "lerobot.policies",
    "peft",
    "trl.trainer.sft_trainer",
    "openai.types",
    "fastapi.testclient",
    "hypothesis.strategies",
    "goalreel.annotator.review.app",
    "goalreel.serving.app",
    "goalreel.streaming.rollout",
)
"""None starts a thread, which a fork would lose, as rerun does; that of jemalloc (pyarrow) starts anew."""


def main() -> None:
    """Let the common process fork the worker, and wait for the worker's end."""
    tests = os.getppid()
    address = f"\0goalreel tests {tests}"
    with socket.socket(socket.AF_UNIX) as server, suppress(OSError):
        server.bind(address)
        server.listen()
        if not os.fork():
            return serve(server, tests)
    with socket.socket(socket.AF_UNIX) as worker:
        worker.connect(address)
        socket.send_fds(worker, [b"-"], [0, 1, 2])
        worker.recv(1)
    return None


def serve(server: socket.socket, tests: int) -> None:
    """Fork a worker for each that asks, until the process of the tests has ended."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    importlib.import_module("support.process")
    for name in HEAVY:
        with suppress(ImportError):  # of an extra that is not installed
            importlib.import_module(name)
    threads = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    assert len([name for name in threads if name != "jemalloc_bg_thd"]) == 1, f"fork would lose {threads}"
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the workers
    ended = os.pidfd_open(tests)
    while ended not in select.select([server, ended], [], [])[0]:
        worker, _ = server.accept()
        _, files, *_ = socket.recv_fds(worker, 1, 3)
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            server.close()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            sys.stdin = os.fdopen(0, closefd=False)
            return exec(sys.argv[-1], {"__name__": "__main__"})
        for file in (worker.detach(), *files):
            os.close(file)
    return None


if __name__ == "__main__":
    main()
