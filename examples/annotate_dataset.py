"""Annotate a LeRobot dataset from Python, then read it with lerobot's own loader.

python examples/annotate_dataset.py pusht pusht-goals
"""

import argparse
from pathlib import Path

from lerobot.datasets.lerobot_dataset import LeRobotDataset

import goalreel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dataset", type=Path, help="a LeRobot v3.0 dataset; it is only read")
    parser.add_argument("out", type=Path, help="the new dataset; run again to resume")
    arguments = parser.parse_args()

    # "hindsight" reads the goals off the recording; with "klein", or models of your own, they are predicted.
    options = goalreel.Options(granularity="subtask")
    summary = goalreel.annotate(arguments.dataset, arguments.out, preset="hindsight", options=options)
    print(f"{summary.annotated} episodes annotated, {summary.resumed} before; steps: {dict(summary.steps)}")

    item = LeRobotDataset("local/annotated", root=arguments.out)[0]
    assert isinstance(item, dict)  # a slice would give a list of them
    goal = item["observation.images.subgoal"]
    # Where the words of a step are in doubt there is none, and the task holds.
    names = [row["content"] for row in item["language_persistent"] if row["style"] == "subtask"]
    print(f"frame 0: {names[:1] or [item['task']]}, goal picture {tuple(goal.shape)}")


if __name__ == "__main__":
    main()
