"""The wording of questions to models: `own`, and that of InterleaveThinker's checkpoints."""

import json
import logging
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from goalreel.chat.dialects.interleavethinker import (
    CLONE,
    VARIABLE,
    InterleaveThinkerDialect,
    interleavethinker,
)
from goalreel.chat.dialects.own import OWN, DialectName, OwnDialect
from goalreel.errors import InputError
from goalreel.files import check_file

log = logging.getLogger(__name__)

type Dialect = OwnDialect | InterleaveThinkerDialect
"""Words the questions to Planner and Critic, but not the turn after an unreadable reply."""

_PUBLISHED = re.compile(r"interleavethinker[-_].*|critic-sft-8b|planner_sft|critic_sft|critic_rl")
"""Names of the published repositories, and of the folders that the reference code trains into."""
_HUB_FOLDER = "models--interleavethinker--"
_INNER = re.compile(r"checkpoint-\d+|global_step_\d+|actor|huggingface|snapshots|[0-9a-f]{40}")
"""Folders within a model's own."""
_MENTION = re.compile(r"interleave_?thinker|2606\.13679|\b(sft_planner|sft_critic|planner_sft|critic_sft)\b")
"""In a model card. LLaMA-Factory names the data set that it trained on."""
_AGENT = re.compile(r"interleave|planner.|critic.|.planner|.critic")
"""A model's name that may be an agent's; a goalreel server calls its own models planner and critic."""
_SETTINGS = "goalreel.json"


def default_dialect(model: str) -> DialectName:
    """Choose the dialect by model card, config.json and name, and warn where it may be another.

    >>> default_dialect("InterleaveThinker/InterleaveThinker-Planner-8B")
    'interleavethinker'
    >>> default_dialect("weights/Critic-SFT-8B/")
    'interleavethinker'
    >>> default_dialect("Qwen/Qwen3-VL-8B-Instruct")
    'own'
    """
    path = Path(model).expanduser()
    folder = path if model and (path / "config.json").is_file() else None
    card = "" if folder is None else _text(folder / "README.md")
    if (dialect := _dialect_of_card(card)) is not None:
        return dialect
    config = {} if folder is None else _mapping(_text(folder / "config.json"))
    names = [model, str(config.get("_name_or_path", "")), *([str(folder.resolve())] if folder else [])]
    if any(map(_is_published, names)):
        return "interleavethinker"
    if not card and _may_be_published(path.name.casefold(), config):
        _warn(model)
    return "own"


def number_of(model: str, name: str) -> int | None:
    """Read a number from a folder's goalreel.json; None where the folder does not say.

    `trained_steps` is the number of steps in the questions that a planner was trained on (`goalreel train`
    writes it), and `confirm_steps` the longest task, in steps, that a critic can judge as a whole.
    """
    number = _mapping(_text(Path(model).expanduser() / _SETTINGS)).get(name)
    return number if isinstance(number, int) and number > 0 else None


def write_trained_steps(folder: Path, steps: int) -> None:
    """Write the `trained_steps` that `number_of` reads."""
    (folder / _SETTINGS).write_text(json.dumps({"trained_steps": steps}) + "\n", encoding="utf-8")


def _dialect_of_card(card: str) -> DialectName | None:
    """Read the dialect from a model card; one of goalreel's own trainers says it in its tags."""
    head = card.partition("---")[2].partition("\n---")[0] if card.startswith("---") else ""
    try:
        tags = _mapping(yaml.safe_load(head) if head else None).get("tags")
    except yaml.YAMLError:
        tags = None
    if isinstance(tags, list) and "goalreel" in tags:
        return "interleavethinker" if "interleavethinker" in tags else "own"
    return "interleavethinker" if _MENTION.search(card.casefold()) else None


def _is_published(name: str) -> bool:
    parts = [part.casefold() for part in Path(name).parts]
    while len(parts) > 1 and _INNER.fullmatch(parts[-1]):
        parts.pop()
    if not parts:
        return False
    owned = len(parts) == 2 and parts[0] == "interleavethinker"
    return owned or _PUBLISHED.fullmatch(parts[-1]) is not None or parts[-1].startswith(_HUB_FOLDER)


def _may_be_published(name: str, config: dict[str, Any]) -> bool:
    width = _mapping(config.get("text_config")).get("hidden_size")
    alike = config.get("model_type") == "qwen3_vl" and width == 4096  # Qwen3-VL-8B's
    return (alike and not name.startswith("qwen")) or _AGENT.search(name) is not None


@cache
def _warn(model: str) -> None:
    log.warning(
        "%s: nothing tells whether it is one of InterleaveThinker's models; it is asked in goalreel's own "
        "words. Add ?dialect=interleavethinker if it is one, or ?dialect=own if not",
        model,
    )


def _text(path: Path) -> str:
    try:
        with check_file(path).open(encoding="utf-8", errors="replace") as file:
            return file.read(1_000_000)
    except OSError:
        return ""


def _mapping(value: object) -> dict[str, Any]:
    """A mapping, or the one that a JSON text holds; else an empty one."""
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def dialect(
    name: DialectName,
    prompts: Path | None = None,
    *,
    trained_steps: int | Callable[[], int | None] | None = None,
) -> Dialect:
    """Make the dialect of a name. `trained_steps` is for a planner in the dialect `own` (`OwnDialect`).

    `prompts` is the folder of a clone of InterleaveThinker; `own` does not read it.

    Raises:
        InputError: there is no such dialect, or no prompts in that folder.
    """
    if name == "own":
        return OwnDialect(trained_steps=trained_steps) if trained_steps else OWN
    if name == "interleavethinker":
        return interleavethinker(prompts)
    raise InputError(f"no dialect {name!r}: use own or interleavethinker")


def whole_dialect(name: DialectName, prompts: Path | None = None) -> Dialect:
    """Make the dialect that a model is trained in.

    Raises:
        InputError: the prompts of InterleaveThinker are not at hand: other words would train it wrongly.
    """
    wording = dialect(name, prompts)
    if wording.note is not None:
        raise InputError(
            "the prompts of InterleaveThinker's checkpoints are needed: "
            f"{CLONE}, and set {VARIABLE} to its folder, or give --prompts"
        )
    return wording
