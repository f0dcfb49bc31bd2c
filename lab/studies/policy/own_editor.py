"""A nano editor trained from the worded demonstrations alone: what scarce words leave of an editor."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from demos import THINGS, Demos
from numpy.typing import NDArray

from goalreel.image import Image
from goalreel.progress import OnProgress
from goalreel.tabletop.grammar import state_of
from goalreel.tabletop.scene import SceneLayout
from goalreel.training.config import config_file
from goalreel_lab.corpora.prompts import explicit
from goalreel_lab.corpora.rows import EditRow, Origin
from goalreel_lab.nano.config import EditorConfig
from goalreel_lab.nano.editor_training import train
from goalreel_lab.policy.policy_tasks import sub_goal_of

PRESET = "nano-editor"


def editor_rows(demos: Demos, count: int) -> Iterator[EditRow]:
    """Make the explicit order and its goal image of the first `count` demonstrations."""
    for i in range(min(count, len(demos.live))):
        live, target = demos.live[i], demos.goal[i]
        goal = sub_goal_of(demos.sub_tasks[i])
        prompt = explicit(goal, _layout(demos.poses[live]), _layout(demos.poses[target]))
        pictures = Image(demos.pictures[live]), Image(demos.pictures[target])
        yield EditRow(pictures[0], prompt, "explicit", state_of(goal), goal, pictures[1], Origin(0, 0))


def _layout(poses: NDArray) -> SceneLayout:
    """Read a row of `Demos.poses` as positions (3,) in m."""
    return {name: pose[1:4] for name, pose in zip(THINGS, poses, strict=True) if pose[0]}


def train_editor(rows: Sequence[EditRow], out: Path, share: float, progress: OnProgress) -> Path:
    """Train the shipped editor's configuration from scratch on `rows`; go on where `out` stands.

    Args:
        share: of the steps of its parts, for a try.
    """
    settings = yaml.safe_load(config_file(PRESET).read_text(encoding="utf-8"))
    for part in ("vae", "denoiser"):
        settings[part]["steps"] = max(1, round(share * settings[part]["steps"]))
    config = EditorConfig.model_validate(settings | {"compile": False})
    return train(config, out, resume=True, rows=rows, progress=progress)
