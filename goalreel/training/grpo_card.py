"""The model card of a Critic trained by reinforcement, with the curve of its reward."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from goalreel.checkpoints import located
from goalreel.training.card import PURPOSE, Card, file_facts, went_on_from
from goalreel.training.grpo_config import GrpoConfig
from goalreel.training.run import is_nano

CURVE = {
    "reward": "reward",
    "critic/format": "form",
    "critic/accuracy": "verdict",
    "critic/step": "change",
    "critic/edited_step": "change where drawn",
    "critic/control_step": "by the seed alone",
    "critic/true_rate": "accepted",
    "critic/balanced_accuracy": "balanced accuracy",
    "silent_groups": "silent groups",
    "critic/unknown": "unknown",
}
"""Name in the log -> column of the curve."""
POINTS = 10
LIMITS = "It was trained with the pictures of one editor. With another editor its prompts may be worth less. "
TABLETOP = "It knows only goalreel's simulated tabletop, and goalreel's own prompts."
BASE = "What the base model cannot do, and whatever lies outside the corpus."


def card(config: GrpoConfig, *, rows: int, history: Sequence[Mapping[str, float]]) -> Card:
    """Make the card of a run."""
    nano, source = is_nano(config.model), Path(located(config.model))
    weights_before = source / "model.safetensors"
    shards = [shard for folder in config.corpus for shard in sorted((folder / "data").glob("*.parquet"))]
    rewarded = [entry for entry in history if "reward" in entry]
    return Card(
        title=f"goalreel {'nano ' if nano else ''}critic, by GRPO",
        summary=f"{PURPOSE['critic']} Trained by reinforcement on {rows:,} critiques with {config.group} "
        f"replies to each. A reply earns by its form, its verdict and the picture that {config.editor} draws "
        f"for its prompt, scored by {config.scorer}.",
        use="goalreel plan --critic hf:DIR",
        library="transformers",
        task="image-text-to-text",
        base_model=None if nano or source.is_dir() else config.model,
        seed=config.seed,
        corpora=tuple(map(file_facts, shards)),
        numbers=(went_on_from(weights_before) if weights_before.is_file() else {})
        | {"steps": str(history[-1]["step"] if history else 0), "reward form": config.reward.form},
        limits=LIMITS + (TABLETOP if nano else BASE),
        curve=curve(rewarded),
        tags=() if config.dialect == "own" else (config.dialect,),
    )


def curve(history: Sequence[Mapping[str, float]]) -> str:
    """Make a table of means over at most POINTS stretches of the run; empty for a run without steps.

    A silent group is one whose replies all earn the same: nothing is learned from it.
    """
    if not history:
        return ""
    count = min(POINTS, len(history))
    edges = [round(i * len(history) / count) for i in range(count + 1)]
    lines = [f"| steps | {' | '.join(CURVE.values())} |", "|---" * (len(CURVE) + 1) + "|"]
    for low, high in pairwise(edges):
        part = history[low:high]
        values = [_mean([e[name] for e in part if e.get(name) is not None]) for name in CURVE]
        lines.append(f"| to {part[-1]['step']} | {' | '.join(values)} |")
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.3f}" if values else ""
