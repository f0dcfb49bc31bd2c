"""Make the nano checkpoints that come with goalreel, from nothing: corpora, Planner, editor, Critic.

Every stage resumes: run the same command again after a kill. With `--install` the results replace those in
`checkpoints/nano`.

    python scripts/train_nano.py --workers 16
    python scripts/train_nano.py --install
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from goalreel.checkpoints import NANO

os.environ.setdefault("MUJOCO_GL", "egl")
CORPORA = {
    "plans": 12_000,
    "continuations": 4_000,
    "edits": 12_000,
    "verdicts": 14_200,
    "live": 3_000,
    "wholes": 3_000,
}
"""Episodes of each, from the training split's start."""
OPTIONS = {"edits": ("--no-text",), "wholes": ("--relabelled", 0.8)}
VARIETY = ("--variety", 0.4)
"""The share of them in other shades and light, or through the second camera."""
OWN_FIRST, OWN, OFTEN = 12_000, 1_850, 6
"""Episodes on whose edits the editor is judged, none that it was trained on; how often each row is shown for
once of a made one."""
RARE = "misshapen"
"""What few made rows show: theirs are shown three times."""
DONE = "README.md"
"""A checkpoint's card, which is written last."""


def main(
    out: Annotated[Path, typer.Option(help="Corpora and runs, about 4 GB.")] = Path("out/nano"),
    workers: Annotated[int, typer.Option(min=1, help="Processes that render.")] = 2,
    install: Annotated[bool, typer.Option(help="Copy the finished checkpoints into the package.")] = False,
) -> None:
    """Train the nano trio: minutes on a GPU, hours on a CPU."""
    corpora, runs = out / "corpora", out / "runs"
    for kind, episodes in CORPORA.items():
        _corpus(kind, corpora / kind, "--episodes", episodes, "--workers", workers, *OPTIONS.get(kind, ()))
    plans, rest, verdicts, live, wholes = (
        corpora / kind / "sharegpt" / f"{kind}.json"
        for kind in ("plans", "continuations", "verdicts", "live", "wholes")
    )
    words = verdicts.parent / "parts" / "train-00000.json"
    _train("planner", "nano-planner", runs / "planner", "--corpus", plans, "--words", words)
    _train("editor", "nano-editor", runs / "editor", "--data", corpora / "edits", done="editor")
    editor, own = runs / "editor" / "editor", corpora / "own"
    _corpus("verdicts", own, "--episodes", OWN, "--first", OWN_FIRST, "--editor", f"diffusers:{editor}")
    first, mistakes = runs / "critic", own / "sharegpt" / "verdicts.json"
    _train("critic", "nano-critic", first, "--model", runs / "planner", "--corpus", verdicts)
    critic = runs / "critic-own"
    shown = [verdicts, *[_only(RARE, verdicts)] * 2, live, wholes, *[mistakes] * OFTEN]
    _train(
        "critic", "nano-critic-own", critic, "--model", first, *(x for f in shown for x in ("--corpus", f))
    )
    planner = runs / "planner-last"
    both = ("--corpus", plans, "--corpus", rest)
    _train("planner", "nano-planner-last", planner, "--model", critic, *both)
    if install:
        for role, folder in {"planner": planner, "editor": editor, "critic": critic}.items():
            _install(folder, NANO / role)


def _corpus(kind: str, out: Path, *options: object) -> None:
    if not (out / DONE).exists():
        _goalreel("corpus", "make", "--kind", kind, "--out", out, *VARIETY, *options)


def _only(word: str, source: Path) -> Path:
    """The rows of a ShareGPT file whose reply has the word, in a file beside it."""
    rows = json.loads(source.read_text(encoding="utf-8"))
    target = source.with_name(f"{word}.json")
    target.write_text(json.dumps([row for row in rows if word in row["messages"][-1]["content"]]))
    return target


def _train(role: str, config: str, out: Path, *options: object, done: str = "") -> None:
    if (out / done / DONE).exists():
        return
    checkpoints = [*out.glob("checkpoints/checkpoint-*"), *out.glob("*/checkpoint.pt")]
    if not checkpoints:
        shutil.rmtree(out, ignore_errors=True)
    resume = ["--resume"] if checkpoints else []
    _goalreel("train", role, "--config", config, "--out", out, *options, *resume)


def _install(source: Path, target: Path) -> None:
    """The checkpoint without what only resuming needs."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("checkpoints", "logs", "training.yaml"))


def _goalreel(*words: object) -> None:
    """Run a command of goalreel's; its failure ends this script, for it has said why."""
    command = [str(Path(sys.executable).with_name("goalreel")), *map(str, words)]
    typer.echo(f"$ {' '.join(command[1:])}", err=True)
    if code := subprocess.run(command).returncode:
        raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
