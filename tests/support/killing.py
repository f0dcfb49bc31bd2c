"""Kill work at random events of its own and run it again.

`python -m support.killing WORK SOURCE FOLDER KILLS SEED`. WORK is `write` (commit every episode of SOURCE and
build) or `bag` (convert SOURCE). A run is forked from this process, which has everything imported, so that a
kill lands in the run's own work and not in an import. Prints one JSON object.
"""

import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import cycle, pairwise
from pathlib import Path

EVENTS = {"open", "os.link", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
"""What Python reports when it touches a file: every step of a run lies between two of them."""

type Work = Callable[[Path, Path], None]


def run(work: Work, source: Path, out: Path, kill_at: int | None = None) -> tuple[int, int]:
    """Run `work(source, out)` in a child; its wait status, and how many events it had to its end.

    With `kill_at` it is killed at that event, before what the event announces.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        count = 0

        def hook(event: str, _: tuple) -> None:
            nonlocal count
            if event in EVENTS:
                count += 1
                if count == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        code = 1
        try:
            work(source, out)
            code = 0
        finally:
            os.write(writer, str(count).encode())
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        count = int(pipe.read() or 0)
    _, status = os.waitpid(child, 0)
    return status, count


def finish(work: Work, source: Path, out: Path) -> int:
    """Run to the end; the number of events."""
    status, count = run(work, source, out)
    assert status == 0, f"the run failed: {status}"
    return count


def tree(root: Path) -> dict[str, str]:
    """Every file below, by what is in it."""
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }


def write(source: Path, out: Path) -> None:
    from goalreel.datasets.records import Records
    from goalreel.datasets.source import Source
    from goalreel.datasets.writing.pipeline import build
    from support.recordings import storyboard

    dataset = Source.open(source)
    camera = dataset.camera(None)
    with Records.open(out, {"test": 1}, dataset.fingerprint()) as records:
        done = records.done()
        for episode in dataset.indices:
            if episode not in done:
                length = len(dataset.episode(episode).timestamps)
                records.commit(episode, storyboard(length, camera=camera, drawn=(episode % 3,)))
        build(dataset, out, records, camera=camera)


def bag(source: Path, folder: Path) -> None:
    from goalreel.datasets.bags import TopicRequest
    from goalreel.datasets.bags.convert import convert, read_bags, write_goals

    request = TopicRequest(state_topic=["/joint_states"], action_topic=["/target"])
    folder.mkdir(exist_ok=True)
    cuts = read_bags(source, request)
    convert(cuts, request, folder / "out-recorded")
    write_goals(folder / "out-recorded", folder / "out", cuts, request)


def import_all(work: Work) -> None:
    """Import what the work does, without what only lerobot's policies need, which takes five seconds."""
    absent = dict.fromkeys(("diffusers", "transformers"))
    sys.modules.update(absent)
    of_bags = ("lerobot.datasets.lerobot_dataset", "goalreel.datasets.bags.convert") * (work is bag)
    for name in ("av", "goalreel.datasets.writing.pipeline", "support.recordings", *of_bags):
        importlib.import_module(name)
    for name in absent:
        del sys.modules[name]


def is_half(left: dict[str, str], want: dict[str, str]) -> bool:
    """Whether a dataset is there that is not whole."""
    roots = [name.removesuffix("meta/info.json") for name in left if name.endswith("meta/info.json")]
    visible = (k for k in want if "goalreel" not in k and any(k.startswith(root) for root in roots))
    return any(left.get(k) != want[k] for k in visible)


def main(work: Work, source: Path, folder: Path, kills: int, seed: int) -> None:
    """Each new run is killed in the next of `kills` equal parts: few kills meet every stage."""
    import_all(work)
    before = tree(source)
    finish(work, source, folder / "warm")
    events = finish(work, source, folder / "unkilled")
    want, chance = tree(folder / "unkilled"), random.Random(seed)
    parts = cycle(pairwise(1 + events * part // kills for part in range(kills + 1)))
    report = {"before_done": 0, "stages": [], "half": 0, "wrong": []}
    for number in range(kills):
        out, part = folder / f"killed{number}", next(parts)
        while not os.WIFSIGNALED(run(work, source, out, chance.randrange(*part))[0]):
            shutil.rmtree(out)
        if number % 3 == 2:  # while it resumes, too
            run(work, source, out, chance.randrange(1, events + 1))
        left = tree(out) if out.exists() else {}
        report["before_done"] += left != want
        report["stages"].append(len(left))
        report["half"] += is_half(left, want)
        finish(work, source, out)
        got = tree(out)
        report["wrong"] += [f"{number}: {k}" for k in sorted(got | want) if got.get(k) != want.get(k)]
        shutil.rmtree(out)
    assert tree(source) == before, "the source was touched"
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    name, source, folder, kills, seed = sys.argv[1:]
    main({"write": write, "bag": bag}[name], Path(source), Path(folder), int(kills), int(seed))
