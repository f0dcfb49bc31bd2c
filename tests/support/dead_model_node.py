"""The real node with a fault: `python -m support.dead_model_node --ros-args ...`.

Each line on its standard input is the stage whose model nobody reaches from now on.
"""

import sys
import threading
from collections.abc import Sequence

from goalreel.errors import BackendError
from goalreel.models.load import load
from goalreel.models.model_set import ModelSet
from goalreel.models.presets import Preset
from goalreel.streaming import model_caller
from goalreel.types import Answer, Ask, Request, Stage
from goalreel_ros.main import leave, run
from goalreel_ros.node import GoalreelNode

dead = ""


def dying(ask: Ask) -> Ask:
    """A middleware."""

    def answer(stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
        if stage == dead:
            raise BackendError("the server is gone\nwith details")
        return ask(stage, requests)

    return answer


def obey() -> None:
    global dead
    for line in sys.stdin:
        dead = line.strip()
        print(f"{dead} is dead", flush=True)  # noqa: T201


def build(preset: Preset) -> ModelSet:
    return load(preset).with_middleware(dying)


if __name__ == "__main__":
    model_caller.COOL_DOWN = 0.0  # the one that was dead before is called again
    threading.Thread(target=obey, daemon=True).start()
    leave(0 if run(lambda: GoalreelNode(build), sys.argv[1:]) else 1)
