"""Kill runs at random events and resume them: `python kill_write.py SOURCE FOLDER KILLS SEED`.

A run commits every episode of SOURCE and builds. It is forked from this process, which has everything
imported, so that a kill lands in the run's own work and not in an import. Prints one JSON object.
"""

import json
import shutil
import sys
from pathlib import Path

import av  # noqa: F401  (imported before forking)

from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import build
from support.killing import Killer, finish, tree
from support.recordings import storyboard


def annotate(source: Path, out: Path) -> None:
    dataset = Source.open(source)
    camera = dataset.camera(None)
    with Records.open(out, {"test": 1}, dataset.fingerprint()) as records:
        done = records.done()
        for episode in dataset.indices:
            if episode not in done:
                length = len(dataset.episode(episode).timestamps)
                records.commit(episode, storyboard(length, camera=camera, drawn=(episode % 3,)))
        build(dataset, out, records, camera=camera)


def main() -> None:
    source, folder, kills, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    before = tree(source)
    finish(annotate, source, folder / "warm")
    events = finish(annotate, source, folder / "unkilled")
    want = tree(folder / "unkilled")
    killer = Killer(annotate, events, kills, seed)
    report = {"kills": 0, "before_done": 0, "stages": [], "wrong": [], "half_datasets": 0}
    for i in range(kills):
        out = folder / f"killed{i}"
        killer.kill_new(source, out)
        report["kills"] += 1 + (i % 3 == 2 and killer.kill(source, out))  # every third while it resumes, too
        left = tree(out) if out.exists() else {}
        report["before_done"] += left != want
        report["stages"].append(len(left))
        report["half_datasets"] += "meta/info.json" in left and any(
            left.get(k) != v for k, v in want.items() if "goalreel" not in k
        )
        finish(annotate, source, out)
        got = tree(out)
        report["wrong"] += [f"{i}: {k}" for k in sorted(got | want) if got.get(k) != want.get(k)]
        shutil.rmtree(out)
    report["source_untouched"] = tree(source) == before
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
