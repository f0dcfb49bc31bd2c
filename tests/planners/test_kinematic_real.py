"""The kinematic planner on real robots. These hold what was seen by eye to be right (docs/hindsight.md says
what is not, and how far its cuts are from labels)."""

import itertools

from goalreel.datasets.source import Source
from goalreel.planners.kinematic import KinematicPlanner
from goalreel.planners.kinematic.align import align
from goalreel.planners.kinematic.clauses import read
from goalreel.planners.kinematic.layout import find_layout
from goalreel.planners.kinematic.motion import read_motion
from goalreel.planners.kinematic.naming import look_at
from goalreel.types import Plan, Task


def plans(source, granularity="subtask", **options):
    episodes = {e.id: e for e in map(source.episode, source.indices)}
    tasks = [Task(id=i, instruction=e.instruction) for i, e in episodes.items()]
    return list(
        zip(episodes.values(), KinematicPlanner(episodes, granularity, **options).plan(tasks), strict=True)
    )


def test_every_episode_gets_a_plan_that_covers_it(real_motions):
    for granularity in ("subtask", "phase"):
        for episode, plan in plans(Source.open(real_motions), granularity):
            assert isinstance(plan, Plan), plan
            edges = [0, *(s.end for s in plan.segments)]
            assert edges[-1] == len(episode)
            assert [s.start for s in plan.segments] == edges[:-1]
            assert all(b > a for a, b in itertools.pairwise(edges))


def test_the_hand_and_the_arm_are_found(real_motions):
    droid = real_motions.name == "droid_new_setup"
    source = Source.open(real_motions)
    for episode in map(source.episode, source.indices):
        layout = find_layout(episode)
        assert layout.gripper == ((6,) if droid else tuple(range(20, 26)))
        assert layout.position == ((0, 1, 2) if droid else tuple(range(7, 14)))
        assert layout.vertical == (2 if droid else None)


def test_the_cuts_are_where_they_were_seen(real_motions):
    """First frame of the second sub-task, read off the pictures: the thing hangs in the hand, on its way."""
    carried = {
        "droid_new_setup": {0: (36, 58), 1: (62, 79), 2: (171, 185)},
        "g1_inspire": {0: (138, 185), 1: (140, 190), 2: (130, 180), 3: (135, 190), 4: (115, 175)},
    }[real_motions.name]
    found = {e.index: plan for e, plan in plans(Source.open(real_motions))}
    for index, (first, last) in carried.items():
        assert len(found[index].steps) == 2
        assert first <= found[index].segments[1].start <= last
    assert all(len(p.steps) == 1 for i, p in found.items() if i not in carried)


def test_grasps_are_named_where_there_are_any(real_motions):
    for episode, plan in plans(Source.open(real_motions), "phase"):
        grasped = any(step.name.startswith("grasp") for step in plan.steps)
        swept = real_motions.name == "droid_new_setup" and episode.index in (5, 9, 10)
        assert grasped is not swept


def test_a_camera_changes_nothing_where_the_words_name_the_thing(real_dataset):
    source = Source.open(real_dataset)
    for granularity in ("subtask", "phase"):
        blind = plans(source, granularity)
        seeing = plans(source, granularity, camera=source.camera(None), words=tuple(source.tasks.values()))
        assert [p for _, p in seeing] == [p for _, p in blind]


def test_what_the_pictures_show_is_right_or_not_said(real_dataset):
    """Asked though the words name it: the blocks that were moved are blue (0, 1, 11, 12) and green (2); a
    yellow and orange bottle with a label, a towel and a tissue have no one colour that comes and goes."""
    source = Source.open(real_dataset)
    seen = {}
    for episode in map(source.episode, source.indices):
        motion = read_motion(episode, find_layout(episode))
        for part in align(read(episode.instruction), motion):
            for camera in source.cameras:
                if found := look_at(part, episode, motion, camera):
                    seen.setdefault(episode.index, set()).add(found.colour)
    blocks = real_dataset.name == "droid_new_setup"
    assert all(colours == {"blue"} and i in (0, 1, 11, 12) for i, colours in seen.items())
    assert bool(seen) is blocks
