"""How many recordings of Meta-World get names if they have another task's words?

    python dev/studies/wrong_words.py develop 1

The second argument says which task's: that of the k-th task after their own, in the order of the split.
Other episodes' words are not known. Recordings must be in the cache of `goalreel eval metaworld`.
"""

import sys
from collections import Counter

from goalreel.annotator.robot import question, read_robot
from goalreel.datasets.source import Source
from goalreel.evaluation.metaworld.run import cache_folder
from goalreel.evaluation.metaworld.tasks import split_tasks, tasks, wording
from goalreel.evaluation.metaworld.truth import read_truth
from goalreel.planners.kinematic import KinematicPlanner, Layout
from goalreel.types import Plan, Task


def main(split: str, shift: int) -> None:
    names = split_tasks(split)
    named, recordings = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for number, name in enumerate(names):
        other = names[(number + shift) % len(names)]
        root = cache_folder() / f"{name}-4x128"
        source = Source.open(root)
        robot = read_robot(source)
        if question(robot):
            robot = read_robot(source, Layout(closed=read_truth(root).closed), "corner")
        for index in source.indices:
            episode, words = source.episode(index), wording(other, index).instruction
            planner = KinematicPlanner(
                {episode.id: episode}, layout=robot.layout, camera=source.camera("corner")
            )
            (plan,) = planner.plan([Task(id=episode.id, instruction=words)])
            kinds = (tasks()[name].kind, tasks()[other].kind)
            recordings[kinds] += 1
            steps = [step.name for step in plan.steps if not step.doubts] if isinstance(plan, Plan) else []
            named[kinds] += bool(steps)
            print(f"{name} | {words} | {steps}")
    for kinds, total in sorted(recordings.items()):
        print(f"motion {kinds[0]}, words {kinds[1]}: {named[kinds]} of {total}")
    print(f"{named.total()} of {recordings.total()}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
