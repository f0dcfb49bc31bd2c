"""Model cards: what a checkpoint is, how it was made, what it scores and what it cannot do."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

import goalreel
from goalreel import checkpoints, files
from goalreel.training.config import AgentConfig, GrpoConfig
from goalreel.training.run import is_nano

PURPOSE = {
    "planner": "Writes the steps of an instruction, from one picture of the scene.",
    "critic": "Accepts a goal image, or rejects it and rewrites the prompt.",
}
"""Role -> what its model does."""
LIMITS = "It was trained with the pictures of one editor. With another editor its prompts may be worth less. "
TABLETOP = "It knows only goalreel's simulated tabletop, and goalreel's own prompts."
BASE = "What the base model cannot do, and whatever lies outside the corpus."


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
    corpora: tuple[str, ...] = ()
    """Those of `file_facts`."""
    numbers: Mapping[str, float | str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    """More tags for the hub, such as the dialect that the model was trained on, unless it is `own`."""


def file_facts(path: Path) -> str:
    """Say what a card says about a file: its name with two folders, its size and its digest."""
    return f"{'/'.join(path.parts[-3:])}, {path.stat().st_size:,} bytes, sha256 `{files.file_digest(path)}`"


def went_on_from(weights: Path) -> dict[str, str]:
    """Make the line of a card that says which weights a model went on from."""
    return {"went on from": file_facts(weights)}


def commit() -> str:
    """Name the checkout's commit, `-dirty` where tracked files differ; without a checkout, the version."""
    root = Path(goalreel.__file__).parents[1]
    if not (root / ".git").exists():
        return f"version {goalreel.__version__}"
    git = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()


def write_card(folder: Path, card: Card) -> Path:
    """Write `README.md` into a checkpoint's folder, and give its path."""
    metadata = {"license": "apache-2.0", "library_name": card.library, "pipeline_tag": card.task}
    metadata |= {"tags": ["goalreel", "robotics", *card.tags]}
    if card.base_model is not None:
        metadata["base_model"] = card.base_model
    facts = [("seed", str(card.seed)), ("commit", f"`{commit()}`")]
    facts += [("corpus", corpus) for corpus in card.corpora]
    facts += [(name, f"{v:.4g}" if isinstance(v, float) else str(v)) for name, v in card.numbers.items()]
    text = [
        f"---\n{yaml.safe_dump(metadata, sort_keys=False)}---\n",
        f"# {card.title}\n\n{card.summary}\n",
        f"```sh\n{card.use}\n```\n",
        "## How it was made\n",
        "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in facts),
        f"## What it cannot do\n\n{card.limits}\n",
    ]
    path = folder / "README.md"
    path.write_text("\n".join(text), encoding="utf-8")
    return path


def agent_card(
    config: AgentConfig,
    numbers: Mapping[str, float | str],
    corpora: Sequence[Path],
    *,
    title_end: str = "",
    **more: Any,
) -> Card:
    """Make the card of a Planner or Critic; `more` are the card's other fields."""
    nano, source = is_nano(config.model), Path(checkpoints.located(config.model))
    weights_before = source / "model.safetensors"
    return Card(
        title=f"goalreel {'nano ' if nano else ''}{config.role}{title_end}",
        use=f"goalreel plan --{config.role} hf:DIR",
        library="transformers",
        task="image-text-to-text",
        base_model=None if nano or source.is_dir() else config.model,
        seed=config.seed,
        corpora=tuple(map(file_facts, corpora)),
        numbers=(went_on_from(weights_before) if weights_before.is_file() else {}) | dict(numbers),
        **more,
    )


def grpo_card(config: GrpoConfig, group: int, *, rows: int, steps: int) -> Card:
    """Make the card of a Critic trained by reinforcement with so many replies a prompt."""
    return agent_card(
        config,
        {"steps": str(steps), "reward form": config.reward.form},
        [shard for folder in config.corpus for shard in files.find(folder / "data", "*.parquet")],
        title_end=", by GRPO",
        limits=LIMITS + (TABLETOP if is_nano(config.model) else BASE),
        summary=f"{PURPOSE['critic']} Trained by reinforcement on {rows:,} critiques with {group} "
        f"replies to each. A reply earns by its form, its verdict and the picture that {config.editor} draws "
        f"for its prompt, scored by {config.scorer}.",
        tags=() if config.dialect == "own" else (config.dialect,),
    )
