"""Model cards: what a checkpoint is, how it was made, what it scores and what it cannot do."""

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

import goalreel

LICENSE = "apache-2.0"
PURPOSE = {
    "planner": "Writes the steps of an instruction, from one picture of the scene.",
    "critic": "Accepts a goal image, or rejects it and rewrites the prompt.",
}
"""Role -> what its model does."""
MADE, TABLE = "## How it was made", "| | |\n|---|---|\n"
"""Heading and head of the table of facts."""


@dataclass(frozen=True)
class FileFacts:
    """A corpus file by name, size in bytes and content."""

    name: str
    """Its name with the two folders it lies in."""
    size: int
    sha256: str


@dataclass(frozen=True)
class Card:
    """A model card for the Hugging Face hub. `use` is a command with DIR for the checkpoint's folder."""

    title: str
    summary: str
    use: str
    library: str
    task: str
    """The hub's `pipeline_tag`."""
    seed: int
    limits: str
    base_model: str | None = None
    corpora: tuple[FileFacts, ...] = ()
    numbers: Mapping[str, float | str] = field(default_factory=dict)
    curve: str = ""
    """How training went, as a table."""
    tags: tuple[str, ...] = ()
    """More tags for the hub, such as the dialect that the model was trained on, unless it is `own`."""


def file_facts(path: Path) -> FileFacts:
    """Read what a card says about a file."""
    with path.open("rb") as f:
        digest = hashlib.file_digest(f, "sha256").hexdigest()
    return FileFacts("/".join(path.parts[-3:]), path.stat().st_size, digest)


def went_on_from(weights: Path) -> dict[str, str]:
    """Make the line of a card that says which weights a model went on from."""
    facts = file_facts(weights)
    return {"went on from": f"{facts.name}, sha256 `{facts.sha256}`"}


def commit() -> str:
    """Name the checkout's commit, `-dirty` where tracked files differ; without a checkout, the version."""
    root = Path(goalreel.__file__).parents[1]
    if not (root / ".git").exists():
        return f"version {goalreel.__version__}"
    git = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()


def write_card(folder: Path, card: Card) -> Path:
    """Write `README.md` into a checkpoint's folder, and give its path."""
    metadata = {"license": LICENSE, "library_name": card.library, "pipeline_tag": card.task}
    metadata |= {"tags": ["goalreel", "robotics", *card.tags]}
    if card.base_model is not None:
        metadata["base_model"] = card.base_model
    facts = [("seed", str(card.seed)), ("commit", f"`{commit()}`")]
    facts += [("corpus", f"{c.name}, {c.size:,} bytes, sha256 `{c.sha256}`") for c in card.corpora]
    facts += [
        (name, f"{value:.4g}" if isinstance(value, float) else str(value))
        for name, value in card.numbers.items()
    ]
    text = [
        f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n",
        f"# {card.title}\n\n{card.summary}\n",
        f"```sh\n{card.use}\n```\n",
        f"{MADE}\n",
        TABLE + "".join(f"| {name} | {value} |\n" for name, value in facts),
        *([f"## How training went\n\n{card.curve}\n"] if card.curve else []),
        f"## What it cannot do\n\n{card.limits}\n",
    ]
    path = folder / "README.md"
    path.write_text("\n".join(text), encoding="utf-8")
    return path
