"""Make the nano checkpoints that come with goalreel, from nothing: corpora, Planner, editor, Critic.

Every stage resumes: run the same command again after a kill. With `--install` the results replace those in
`nano/goalreel_nano`.

    python lab/studies/nano/train_nano.py --workers 16
    python lab/studies/nano/train_nano.py --install
    python lab/studies/nano/train_nano.py --share 0.01 --out out/nano_tried  # the whole way in minutes
    python lab/studies/nano/train_nano.py --share 0.2 --out out/nano_fifth  # in two hours
"""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import yaml

from goalreel.checkpoints import NANO
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import INTERRUPTED
from goalreel.files import exclusive, write_bytes
from goalreel.training.config import config_file

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
"""Fault that few made rows show: such rows are shown three times."""
HARD = "out of the"
"""Plans with such orders, whose block may go to any free place, are shown twice."""
EDITOR = "goalreel_lab.nano.editor_training"
"""The module whose command trains the editor."""
DONE = "README.md"
"""A checkpoint's card, which is written last."""


def main(
    out: Annotated[Path, typer.Option(help="Corpora and runs, about 4 GB.")] = Path("out/nano"),
    workers: Annotated[int, typer.Option(min=1, help="Processes that render.")] = 2,
    share: Annotated[
        float, typer.Option(min=0.001, max=1, help="Of the episodes and steps; below 1 to try the whole way.")
    ] = 1,
    install: Annotated[bool, typer.Option(help="Copy the finished checkpoints into the package.")] = False,
) -> None:
    """Train the nano models: minutes on a GPU, hours on a CPU."""
    if install and share < 1:
        raise typer.BadParameter("--install is for --share 1: the package holds what the whole way leads to")
    out.mkdir(parents=True, exist_ok=True)
    start_file, settings = out / "begun", f"--share {share:g}"
    if start_file.exists() and start_file.read_text() != settings:
        raise typer.BadParameter(f"{out} was begun with {start_file.read_text()}: choose another --out")
    with one_line_errors(INTERRUPTED), exclusive(out, out):
        start_file.write_text(settings)
        _stages(out, workers, share, install)


def _stages(out: Path, workers: int, share: float, install: bool) -> None:
    """Run every stage that is not done yet."""
    corpora, runs = out / "corpora", out / "runs"
    for kind, episodes in CORPORA.items():
        some = ("--episodes", _some(episodes, share), "--workers", workers)
        _corpus(kind, corpora / kind, *some, *OPTIONS.get(kind, ()))
    plans, rest, verdicts, live, wholes = (
        corpora / kind / "sharegpt" / f"{kind}.json"
        for kind in ("plans", "continuations", "verdicts", "live", "wholes")
    )
    vocabulary_rows = verdicts.parent / "parts" / "train-00000.json"
    preset = partial(_preset, out / "presets", share)
    _train("planner", preset("nano-planner"), runs / "planner", "--corpus", plans, "--words", vocabulary_rows)
    _train("editor", preset("nano-editor"), runs / "editor", "--data", corpora / "edits", done="editor")
    editor, own_corpus = runs / "editor" / "editor", corpora / "own"
    own_words = ("--episodes", _some(OWN, share), "--first", OWN_FIRST, "--editor", f"diffusers:{editor}")
    _corpus("verdicts", own_corpus, *own_words)
    first, mistakes = runs / "critic", own_corpus / "sharegpt" / "verdicts.json"
    _train("critic", preset("nano-critic"), first, "--model", runs / "planner", "--corpus", verdicts)
    critic = runs / "critic-own"
    critic_corpora = verdicts, *[_only(RARE, verdicts)] * 2, live, wholes, *[mistakes] * OFTEN
    _train("critic", preset("nano-critic-own"), critic, "--model", first, *_corpora(*critic_corpora))
    planner = runs / "planner-last"
    last = _corpora(plans, _only(HARD, plans), rest)
    _train("planner", preset("nano-planner-last"), planner, "--model", critic, *last)
    if install:
        for role, folder in {"planner": planner, "editor": editor, "critic": critic}.items():
            _install(folder, NANO / role)


def _some(count: int, share: float) -> int:
    return max(1, round(share * count))


def _preset(folder: Path, share: float, name: str) -> str | Path:
    """Name a preset, or write one in `folder` whose steps and warm-up are a share of its own."""
    if share == 1:
        return name
    settings = yaml.safe_load(config_file(name).read_text(encoding="utf-8"))
    for part in (settings, *(p for p in settings.values() if isinstance(p, dict))):
        lengths = ("steps", "warmup", "max_steps", "warmup_steps", "num_decay_steps")
        part |= {key: _some(part[key], share) for key in lengths if key in part}
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.yaml"
    write_bytes(path, yaml.safe_dump(settings, sort_keys=False).encode())
    return path


def _corpus(kind: str, out: Path, *options: object) -> None:
    if not (out / DONE).exists():
        _goalreel("corpus", "make", "--kind", kind, "--out", out, *VARIETY, *options)


def _corpora(*files: Path) -> list[str | Path]:
    """List the options that name them all."""
    return [word for file in files for word in ("--corpus", file)]


def _only(word: str, source: Path) -> Path:
    """Write the rows of a ShareGPT file whose reply has the word to a file beside it."""
    rows = json.loads(source.read_text(encoding="utf-8"))
    target = source.with_name(f"{word.replace(' ', '_')}.json")
    target.write_text(json.dumps([row for row in rows if word in row["messages"][-1]["content"]]))
    return target


def _train(role: str, config: str | Path, out: Path, *options: object, done: str = "") -> None:
    if (out / done / DONE).exists():
        return
    checkpoints = [*out.glob("checkpoints/checkpoint-*"), *out.glob("*/checkpoint.pt")]
    if not checkpoints:
        shutil.rmtree(out, ignore_errors=True)
    resume = ["--resume"] if checkpoints else []
    _goalreel("train", role, "--config", config, "--out", out, *options, *resume)


def _install(source: Path, target: Path) -> None:
    """Copy the checkpoint without what only resuming needs."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("checkpoints", "logs", "training.yaml"))


def _goalreel(*arguments: object) -> None:
    """Run a command; its failure ends this script, for it has said why."""
    words = [EDITOR, *arguments[2:]] if arguments[1] == "editor" else ["goalreel", *arguments]
    command = [sys.executable, "-m", *map(str, words)]
    typer.echo(f"$ python {' '.join(command[1:])}", err=True)
    if code := subprocess.run(command).returncode:
        raise typer.Exit(code)


if __name__ == "__main__":
    typer.run(main)
