"""A preset's models whose answers a journal keeps, for as long as their weights are the same."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from goalreel import __version__
from goalreel.checkpoints import located
from goalreel.models.journal import Journal
from goalreel.models.load import Trio
from goalreel.models.presets import Preset


@dataclass(frozen=True)
class Names:
    """What decides the answers of each model: its name, its weights, and how it is asked."""

    planner: str
    editor: str
    critic: str

    @classmethod
    def of(cls, preset: Preset) -> Self:
        how = f"{preset.critic_mode} {preset.critic_scores}"
        return cls(
            f"{preset.planner} {_weights(preset.planner)}",
            f"{preset.editor} {_weights(preset.editor)}",
            f"{preset.critic} {how} {_weights(preset.critic)}",
        )


def _weights(name: str) -> str:
    """A fingerprint of the folder that a name such as `hf:DIR?dtype=bfloat16` speaks of, and the version."""
    folder = Path(located(name.partition(":")[2].partition("?")[0] or name))
    if not folder.is_dir():
        return __version__
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    facts = [(str(p.relative_to(folder)), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    return f"{__version__} {hashlib.sha256(repr(facts).encode()).hexdigest()}"


def kept(trio: Trio, journal: Journal, names: Names) -> Trio:
    """The same, asked only what the journal does not know."""
    return Trio(
        journal.planner(trio.planner, names.planner),
        journal.editor(trio.editor, names.editor),
        journal.critic(trio.critic, names.critic),
    )
