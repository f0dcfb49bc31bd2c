"""README.md of OUT: IN's dataset card, and a section that tells what goalreel wrote."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from goalreel import files
from goalreel.claims import parse_details
from goalreel.critics.examination import read_examination
from goalreel.datasets.writing.plan import BuildPlan
from goalreel.types import ROLES

CARD = Path("README.md")
_BEGIN, _END = "<!-- goalreel: begin -->", "<!-- goalreel: end -->"
_OURS = re.compile(rf"\s*{_BEGIN}.*?{_END}\s*", re.DOTALL)
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?\n)??---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_DEFAULTS = {"configs": [{"config_name": "default", "data_files": "data/*/*.parquet"}]}
_ADDED = {"tags": ("LeRobot", "goalreel", "visual-sub-goals"), "task_categories": ("robotics",)}
_LEROBOT = """
A LeRobot policy that takes several cameras takes the sub-goals as one more:

```
lerobot-train --policy.type=act --policy.push_to_hub=false \
--dataset.repo_id=OWNER/NAME --dataset.root=FOLDER
```

FOLDER is this one; without `--dataset.root` lerobot fetches OWNER/NAME from the hub."""
_LOADER = "\nYour own loader takes `collate_fn=lerobot.utils.collate.lerobot_collate_fn` for the words."
log = logging.getLogger(__name__)


def write_card(job: BuildPlan) -> None:
    """Write the card: what IN's says stays, but for a section that an earlier pass left there."""
    path = job.source.root / CARD
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    data, body = _taken_apart(text, path)
    data = _DEFAULTS | data | {key: _joined(data.get(key), values) for key, values in _ADDED.items()}
    body = _OURS.sub("\n\n", body).strip() or "# A LeRobot dataset with visual sub-goals"
    front = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    ours = _section(job)
    files.write_bytes(job.out / CARD, f"---\n{front}---\n\n{body}\n\n{_BEGIN}\n{ours}\n{_END}\n".encode())


def _taken_apart(text: str, path: Path) -> tuple[dict[str, Any], str]:
    """Split a card into front matter and text; damaged front matter counts as text."""
    match = _FRONT.match(text)
    if match is None:
        return {}, text
    try:
        data = yaml.safe_load(match[1] or "") or {}
        if not isinstance(data, dict):
            raise ValueError("not a mapping")
    except (yaml.YAMLError, ValueError) as e:
        log.warning("%s: its front matter is kept as text: it cannot be read (%s)", path, type(e).__name__)
        return {}, text
    return data, text[match.end() :]


def _joined(old: object, new: tuple[str, ...]) -> list[object]:
    """One entry or a list of them, and the new ones."""
    values = old if isinstance(old, list) else [] if old is None else [old]
    return [*values, *(value for value in new if value not in values)]


def _section(job: BuildPlan) -> str:
    """Describe what this build wrote, in Markdown."""
    width, height = job.size
    steps = Counter(status for goals in job.goals.values() for status in goals.statuses)
    counts = ", ".join(f"{n} {status}" for status, n in sorted(steps.items())) or "none"
    settings = job.records.settings()
    texts = ", ".join(parse_details(settings.get("details")))
    besides = f", and details of its steps ({texts})" if texts else ""
    examination = read_examination(job.records.examination)
    lines = [
        "## Visual sub-goals\n",
        f"{len(job.goals)} of {len(job.clock)} episodes were annotated by goalreel. Their steps: {counts}.\n",
        f"- `{job.key}` ({width}x{height}, a camera): on each frame of a sub-task the picture of its goal, "
        f"{job.form}.",
        f"- `{job.pad_key}`: true on frames without an accepted goal, whose picture is black.",
        job.text.language
        and "- `language_persistent`: the words, as rows of style `plan`, `subtask` and others.",
        job.task_per_frame and "- `task_index`: the sub-task of each frame; without one, the instruction.",
        f"- `meta/goalreel`: the record of each episode, with every attempt and verdict{besides}.\n",
        *claim_lines(claim for goals in job.goals.values() for claim in goals.claims),
        "",
        examination and f"- {examination.line}",
        *(f"- {one}" for one in job.records.measured),
        *(f"- {role}: `{name}`" for role in ROLES if isinstance(name := settings.get(role), str)),
        *_robot(settings.get("robot")),
        _LEROBOT,
        job.text.language and _LOADER,
    ]
    return "\n".join(line for line in lines if isinstance(line, str))


def claim_lines(claims: Iterable[str]) -> Iterator[str]:
    """Say in Markdown who made and who checked `claims` (`Goals.claims`)."""
    yield "What the steps claim, who made it, and who checked it, with the number of steps:"
    yield ""
    for claim, number in sorted(Counter(claims).items()):
        yield f"- {claim} ({number})"
    yield ""
    yield (
        "No model compared the end of an episode with its whole instruction. "
        "A person who accepts all of its steps does."
    )


def _robot(robot: dict[str, Any] | None) -> Iterator[str]:
    """Say how the robot was read, and why; nothing for records that do not tell."""
    if not robot:
        return
    yield "\nHow the robot was read:\n"
    for finding in robot["findings"]:
        value = f"`{finding['value']}`" if finding["value"] else "none"
        yield f"- {finding['field']}: {value} ({finding['confidence']}: {finding['reason']})"
