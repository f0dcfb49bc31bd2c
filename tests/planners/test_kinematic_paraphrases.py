"""Other wordings of an instruction: each says the same to the reader of instructions."""

import pytest

from goalreel.planners.kinematic.clauses import read
from goalreel.planners.kinematic.paraphrases import paraphrases


@pytest.mark.parametrize(
    "instruction",
    [
        "pick the blue block and place it in plate",
        "Put cup A in the box and cup B in the bag, then close the drawer.",
        "take the cup out of the drawer",
        "stack blue block on red block",
        "put the cup in front of the box",
        "fold the towel",
    ],
)
def test_every_wording_reads_as_the_same_clauses(instruction):
    found = paraphrases(instruction)
    assert found[0] == instruction
    assert 2 <= len(set(found)) == len(found) <= 8
    states = [c.state for c in read(instruction)]
    assert [[c.state for c in read(text)] for text in found] == [states] * len(found)


def test_nothing_is_put_into_a_side():
    found = paraphrases("put the cup on the left side of the tray", limit=20)
    assert found[1:]
    assert not any(
        "onto" in text or "on top of" in text for text in paraphrases("put the cup on the left", 20)
    )


def test_verbs_and_prepositions_vary():
    found = paraphrases("put the block in the bowl", limit=20)
    assert {"place the block into the bowl", "please set the block inside the bowl"} <= set(found)


@pytest.mark.parametrize(
    "instruction",
    [
        "faire le lit",
        "抓起杯子",
        "pick up the cup, then salute",
        "",
        "set the table",
        "put A in B",
        "put the cup in the box and close it",
        "put the cup in the box twice",
        "put the cup and the fork in the box",
        "pick up the cup on the left",
        "grab the cup by the handle",
        "take the cup from the shelf and put it on the table",
        "reach into the box and take the cup",
    ],
)
def test_what_is_not_understood_is_said_in_no_other_way(instruction):
    assert paraphrases(instruction) == (instruction,)
