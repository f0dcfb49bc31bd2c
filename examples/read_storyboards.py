"""Read back what goalreel recorded of an annotated dataset: every step, attempt and verdict.

python examples/read_storyboards.py pusht-goals
"""

import argparse
from pathlib import Path

import goalreel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dataset", type=Path, help="what `goalreel annotate` wrote")

    for episode, board in goalreel.read_storyboards(parser.parse_args().dataset):
        print(f"episode {episode}: {board.task.instruction}")
        for step in board.steps:
            span = f"frames {step.segment.start}-{step.segment.end - 1}" if step.segment else "not aligned"
            print(f"  {step.status:>10}  {step.step.name}  ({span}, {len(step.attempts)} attempts)")
            for attempt in step.attempts:
                if attempt.verdict is not None and not attempt.verdict.success:
                    print(f"              rejected: {attempt.verdict.reasoning}")


if __name__ == "__main__":
    main()
