"""Which accepted episodes are shown with a recording, and in which words."""

from dataclasses import replace

import numpy as np
import pytest

from goalreel.annotator.annotate import open_dataset
from goalreel.planners.watch.exemplars import Exemplar, ExemplarSegment, digest_of, likest, numbers_of
from goalreel.planners.watch.planner import watch_cost

ORDER = "Put the red block in the bowl."


@pytest.fixture(scope="module")
def recording(video_dataset):
    return open_dataset(video_dataset).episode(0)


def exemplar(episode: int, instruction: str, numbers: str = "others", name: str = "grasp") -> Exemplar:
    segment = ExemplarSegment(start_s=0, end_s=1.5, name=name, outcome="failed")
    return Exemplar(
        episode=episode, numbers=numbers, instruction=instruction, length_s=2, segments=(segment,)
    )


def test_the_three_likest(recording):
    known = [
        exemplar(9, "wipe the table"),
        exemplar(7, "put the red cup in the bowl"),
        exemplar(5, "open a drawer"),
        exemplar(4, "put the red cup in the bowl"),
        exemplar(3, "PUT the red block in the bowl!"),
        exemplar(1, ORDER, numbers_of(recording)),
    ]
    assert [one.episode for one in likest(known, ORDER, recording)] == [3, 4, 7], "ties by number"
    assert [one.episode for one in likest(known[:1], ORDER, recording)] == [9], "rather than none"
    assert likest(known[5:], ORDER, recording) == (), "never the episode itself"
    assert [one.episode for one in likest(known, "?", recording)] == [3, 4, 5], "no word, no likeness"


def test_a_recording_is_known_by_its_numbers(recording, video_dataset):
    assert numbers_of(open_dataset(video_dataset).episode(0)) == numbers_of(recording)
    assert numbers_of(replace(recording, index=3)) == numbers_of(recording), "in another place"
    assert numbers_of(replace(recording, state=recording.state + 1)) != numbers_of(recording)
    nothing = np.zeros((len(recording), 0), np.float32)
    timed = replace(recording, state=nothing, action=nothing)
    assert numbers_of(timed) != numbers_of(replace(timed, index=3)), "times alone tell too little"


def test_what_it_takes_grows_with_them(recording):
    cameras = ["observation.images.front"]
    alone = watch_cost(recording, cameras)
    shown = watch_cost(recording, cameras, exemplars=[exemplar(3, ORDER)])
    assert (shown.calls, shown.pictures) == (alone.calls, alone.pictures)
    assert shown.text_tokens > alone.text_tokens + len(exemplar(3, ORDER).answer) / 4


def test_an_answer_of_theirs_brings_no_picture():
    answer = exemplar(1, ORDER, name='grasp <image> "it"').answer
    assert answer == (
        '{"segments":[{"start_s":0.0,"end_s":1.5,"name":"grasp [image] \\"it\\"","outcome":"failed"}]}'
    )


def test_others_have_another_digest():
    one, other = exemplar(1, ORDER), exemplar(1, ORDER, name="grip")
    assert digest_of([]) is None
    assert digest_of([one]) == digest_of([one.model_copy()])
    assert len({digest_of([one]), digest_of([other]), digest_of([one, other])}) == 3
