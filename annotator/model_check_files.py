"""A trial as a folder: raw replies under the names that the parser's fixtures have, and how they were read.

plan-3-MODEL.txt, verdict-no-MODEL.txt    a reply that was read: a plan of three steps, a rejection
plan-bad-MODEL-1.txt                      one that could not be read
asked-plan.txt, asked-verdict.txt         what the models were asked; with a clone of InterleaveThinker this
                                          holds its prompts, which have no licence to be published
frame.png, edited.png                     the scene, and the editor's picture
trial.json                                how each model was asked, read, and how long it took
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from goalreel import __version__
from goalreel.annotator.model_check import Trial
from goalreel.annotator.role_check import ReplyHeard, RoleTrial
from goalreel.chat.json_reply import valid
from goalreel.files import write_bytes
from goalreel.models.names import ModelName

_KIND = {"planner": "plan", "critic": "verdict"}


def save_trial(trial: Trial, out: Path) -> None:
    """Write a trial into `out`; files of those names are replaced.

    Raises:
        DatasetError: the disk is full.
    """
    for name, image in (("frame.png", trial.task.image), ("edited.png", trial.edited)):
        if image is not None:
            write_bytes(out / name, image.png())
    roles = []
    for role in trial.roles:
        files = list(_files(role))
        for name, reply in files:
            if name is not None:
                write_bytes(out / name, valid(reply.text).encode())
        if role.question:
            write_bytes(out / f"asked-{_KIND[role.role]}.txt", valid(role.question).encode())
        roles.append(_record(role, files))
    record = {
        "goalreel": __version__,
        "preset": trial.preset.name,
        "instruction": trial.task.instruction,
        "usable": trial.usable,
        "models": roles,
    }
    write_bytes(out / "trial.json", json.dumps(record, indent=1).encode() + b"\n")


def _files(role: RoleTrial) -> Iterator[tuple[str | None, ReplyHeard]]:
    """Each reply with the name of its file; None where there is no text."""
    brief = re.sub(r"[^A-Za-z0-9._-]+", "-", ModelName.parse(role.model).brief()) or role.role
    for number, reply in enumerate(role.replies, start=1):
        if not reply.text:
            yield None, reply
        elif reply.read_as is None:
            yield f"{_KIND[role.role]}-bad-{brief}-{number}.txt", reply
        else:
            yield f"{_KIND[role.role]}-{reply.read_as}-{brief}.txt", reply


def _record(role: RoleTrial, files: list[tuple[str | None, ReplyHeard]]) -> dict[str, Any]:
    replies = [{"file": name, "read_as": r.read_as, "problem": r.problem} for name, r in files]
    return role.model_dump(exclude={"question", "replies"}) | {"replies": replies}
