"""Which labelled episodes are shown with a recording, and in which words."""

from dataclasses import replace

import numpy as np
import pytest

from goalreel.annotator.annotate import open_dataset
from goalreel.planners.examples.carry import Example, digest_of, numbers_of
from goalreel.planners.watch.planner import likest
from goalreel.types import Segment, Step

ORDER = "Put the red block in the bowl."


@pytest.fixture(scope="module")
def recording(video_dataset):
    return open_dataset(video_dataset).episode(0)


def example(episode: int, instruction: str, numbers: str = "others", name: str = "grasp") -> Example:
    step = Step(name=name, instruction=name, prompt=name, outcome="failed")
    nothing, times = np.zeros((20, 0)), np.arange(20) / 10
    cuts = (Segment(start=0, end=15),)
    named = (f"episode {episode}", numbers, instruction, 10.0)
    return Example(*named, times, nothing, nothing, steps=(step,), segments=cuts, by="person")


def test_the_three_likest(recording):
    known = [
        example(9, "wipe the table"),
        example(7, "put the red cup in the bowl"),
        example(5, "open a drawer"),
        example(4, "put the red cup in the bowl"),
        example(3, "PUT the red block in the bowl!"),
        example(1, ORDER, numbers_of(recording)),
    ]
    assert [one.id for one in likest(known, ORDER, recording)] == ["episode 3", "episode 7", "episode 4"], (
        "ties in their order"
    )
    assert [one.id for one in likest(known[:1], ORDER, recording)] == ["episode 9"], "rather than none"
    assert likest(known[5:], ORDER, recording) == (), "never the episode itself"
    assert [one.id for one in likest(known, "?", recording)] == ["episode 9", "episode 7", "episode 5"], (
        "no word, no likeness"
    )


def test_a_recording_is_known_by_its_numbers(recording, video_dataset):
    assert numbers_of(open_dataset(video_dataset).episode(0)) == numbers_of(recording)
    assert numbers_of(replace(recording, index=3)) == numbers_of(recording), "in another place"
    assert numbers_of(replace(recording, state=recording.state + 1)) != numbers_of(recording)
    nothing = np.zeros((len(recording), 0), np.float32)
    timed = replace(recording, state=nothing, action=nothing)
    assert numbers_of(timed) != numbers_of(replace(timed, index=3)), "times alone tell too little"


def test_others_have_another_digest():
    one, other = example(1, ORDER), example(1, ORDER, name="grip")
    assert digest_of([]) is None
    assert digest_of([one]) == digest_of([replace(one)])
    assert len({digest_of([one]), digest_of([other]), digest_of([one, other])}) == 3
