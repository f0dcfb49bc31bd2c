"""The real node, whose models never finish loading: `python -m support.slow_node --ros-args ...`."""

import sys
import threading

from goalreel.models.model_set import Lazy, ModelSet
from goalreel_ros.main import leave, run
from goalreel_ros.node import GoalreelNode


def load() -> None:
    threading.Event().wait()


if __name__ == "__main__":
    make = lambda: GoalreelNode(lambda _: ModelSet(Lazy(load), Lazy(load), Lazy(load)))  # noqa: E731
    leave(0 if run(make, sys.argv[1:]) else 1)
