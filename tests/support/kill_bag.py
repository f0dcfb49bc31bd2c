"""Kill conversions of a bag at random events and run them again: `python kill_bag.py BAG FOLDER KILLS SEED`.

A run is forked from this process, which has everything imported, so that a kill lands in its own work.
Prints one JSON object.
"""

import importlib
import json
import shutil
import sys
from pathlib import Path

import av  # noqa: F401  (imported before forking)

from goalreel.datasets.bags.convert import convert, read_bags, write_goals
from goalreel.datasets.bags.topics import TopicRequest
from support.killing import Killer, finish, tree

REQUEST = TopicRequest(states=("/joint_states",), actions=("/target",))


def work(bag: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    cuts = read_bags(bag, REQUEST)
    convert(cuts, REQUEST, folder / "out-recorded")
    write_goals(folder / "out-recorded", folder / "out", cuts, REQUEST)


def load_lerobot() -> None:
    """Import it without what only its policies need, which takes five seconds."""
    absent = dict.fromkeys(("diffusers", "transformers"))
    sys.modules.update(absent)
    importlib.import_module("lerobot.datasets.lerobot_dataset")
    for name in absent:
        del sys.modules[name]


def main() -> None:
    load_lerobot()
    bag, folder, kills, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    for name in ("warm", "unkilled"):
        events = finish(work, bag, folder / name)
    want = tree(folder / "unkilled")
    killer = Killer(work, events, kills, seed)
    report = {"kills": 0, "before_done": 0, "while_converting": 0, "half": 0, "wrong": []}
    report["wrong"] = [k for k in want if tree(folder / "warm").get(k) != want[k]]
    for i in range(kills):
        here = folder / f"killed{i}"
        killer.kill_new(bag, here)
        report["kills"] += 1
        left = tree(here)
        report["before_done"] += left != want
        report["while_converting"] += any(name.startswith(".out-recorded.unfinished") for name in left)
        visible = {k: v for k, v in left.items() if k.startswith("out-recorded/")}
        report["half"] += bool(visible) and any(want.get(k) != v for k, v in visible.items())
        finish(work, bag, here)
        got = tree(here)
        report["wrong"] += [f"{i}: {k}" for k in sorted(got | want) if got.get(k) != want.get(k)]
        shutil.rmtree(here)
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
