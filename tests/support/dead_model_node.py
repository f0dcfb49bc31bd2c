"""The real node, one of its models dead: `python -m support.dead_model_node ROLE --ros-args ...`."""

import sys
from collections.abc import Sequence
from typing import NoReturn

from goalreel.errors import BackendError
from goalreel.models.load import load
from goalreel.models.presets import Preset
from goalreel.models.trio import Trio
from goalreel_ros.main import leave, run
from goalreel_ros.node import GoalreelNode


class Dead:
    """Planner, editor and critic that nobody reaches."""

    def _call(self, requests: Sequence[object]) -> NoReturn:
        raise BackendError("the server is gone\nwith details")

    plan = edit = judge = _call


def main(role: str, arguments: list[str]) -> None:
    def build(preset: Preset) -> Trio:
        trio = load(preset)
        models = {"planner": trio.planner, "editor": trio.editor, "critic": trio.critic}
        return Trio(**models | {role: Dead()})

    leave(0 if run(lambda: GoalreelNode(build), arguments) else 1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
