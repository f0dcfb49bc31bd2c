"""The real node with a fault: `python -m support.dead_model_node --ros-args ...`.

Each line on its standard input is what is wrong from now on: the stage whose model nobody reaches, or
`leaks`: each plan then leaks memory, a thread and an open file.
"""

import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from goalreel.errors import BackendError
from goalreel.models.load import load
from goalreel.models.model_set import ModelSet
from goalreel.models.presets import Preset
from goalreel.streaming import model_caller
from goalreel.types import Answer, Ask, Request, Stage
from goalreel_ros.main import leave, run
from goalreel_ros.node import GoalreelNode

dead = ""
leaked: list[object] = []


def leak() -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    leaked.extend([bytes(bytearray(4_000_000)), Path(__file__).open()])  # noqa: SIM115


def dying(ask: Ask) -> Ask:
    """A middleware."""

    def answer(stage: Stage, requests: Sequence[Request]) -> Sequence[Answer]:
        if stage == dead:
            raise BackendError("the server is gone\nwith details")
        if stage == "plan" and dead == "leaks":
            leak()
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
