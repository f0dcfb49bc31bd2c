"""Kill conversions of a bag at random moments and run them again: `python kill_bag.py BAG FOLDER KILLS SEED`.

A run is forked from this process, which has everything imported, so that a kill lands in its own work.
Prints one JSON object.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import av  # noqa: F401  (imported before forking)
import lerobot.annotations.steerable_pipeline.validator
import lerobot.datasets.lerobot_dataset  # noqa: F401

from goalreel.datasets.bags.convert import convert, read_bags
from goalreel.datasets.bags.goals import write_goals
from goalreel.datasets.bags.topics import Request

REQUEST = Request(states=("/joint_states",), actions=("/target",))


def work(bag: Path, folder: Path) -> None:
    cuts = read_bags(bag, REQUEST)
    convert(cuts, REQUEST, folder / "out-recorded")
    write_goals(folder / "out-recorded", folder / "out", cuts, REQUEST)


def start(bag: Path, folder: Path) -> int:
    """Run in a child; its process id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(bag, folder)
            code = 0
        finally:
            os._exit(code)
    return child


def finish(bag: Path, folder: Path) -> float:
    """Run to the end; seconds."""
    begin = time.monotonic()
    _, status = os.waitpid(start(bag, folder), 0)
    assert status == 0, f"the run failed: {status}"
    return time.monotonic() - begin


def tree(root: Path) -> dict[str, str]:
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }


def main() -> None:
    bag, folder, kills, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    for name in ("warm", "unkilled"):
        (folder / name).mkdir()
        seconds = finish(bag, folder / name)
    want = tree(folder / "unkilled")
    report = {"kills": 0, "before_done": 0, "while_converting": 0, "half": 0, "wrong": []}
    report["wrong"] = [k for k in want if tree(folder / "warm").get(k) != want[k]]
    for i in range(kills):
        here = folder / f"killed{i}"
        here.mkdir()
        child = start(bag, here)
        time.sleep(chance.uniform(0, seconds))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        report["kills"] += os.WIFSIGNALED(status)
        left = tree(here)
        report["before_done"] += left != want
        report["while_converting"] += any(name.startswith(".out-recorded.unfinished") for name in left)
        visible = {k: v for k, v in left.items() if k.startswith("out-recorded/")}
        report["half"] += bool(visible) and any(want.get(k) != v for k, v in visible.items())
        finish(bag, here)
        got = tree(here)
        report["wrong"] += [f"{i}: {k}" for k in sorted(got | want) if got.get(k) != want.get(k)]
        shutil.rmtree(here)
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
