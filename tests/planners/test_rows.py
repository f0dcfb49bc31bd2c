"""Labels that a recording has already, as plans."""

import numpy as np
import pytest

from goalreel.planners.rows import RowsPlanner, labelled_step
from goalreel.types import Failure, Task


class Labelled:
    """As much of a labelled Recording as the planner needs: 20 frames at 10 fps."""

    id, fps = "a", 10.0
    timestamps = (np.arange(20) / 10).astype(np.float32)

    def __init__(self, *labels: tuple[float, str]):
        self._labels = labels

    def subtasks(self):
        return self._labels


def plan(*labels: tuple[float, str]):
    task = Task(id="a", instruction="tidy up")
    return RowsPlanner({"a": Labelled(*labels)}).plan([task])[0]


def test_labels_become_steps_word_for_word():
    made = plan((0.0, "Put cup on the shelf."), (1.2, "wiggle & jiggle"))
    assert [s.name for s in made.steps] == ["Put cup on the shelf.", "wiggle & jiggle"]
    assert [s.instruction for s in made.steps] == ["the cup is on the shelf", '"wiggle & jiggle" is done']
    assert made.steps[0].prompt == "Put the cup on the shelf. Keep everything else unchanged."
    assert [(s.start, s.end) for s in made.segments] == [(0, 12), (12, 20)]


NAMES = [
    "USB stick: plug it into the hub",
    "LED lamp on",
    "PnPBottleToCabinetClose",
    "I want the red block in the blue bowl",
    "iPad: put it in the box",
    "PICK_UP_BLOCK",
    "Öffne die Schublade",
]


@pytest.mark.parametrize("text", NAMES)
def test_capitals_and_identifiers_of_a_label_stay_as_they_are(text):
    (step,) = plan((0.0, text)).steps
    assert step.name == text
    assert step.instruction == f'"{text}" is done'
    assert step.prompt == f"{text}. Keep everything else unchanged."


def test_a_label_between_two_frames_is_the_nearest_ones_and_holds_until_the_next():
    made = plan((0.33, "open the box"), (1.04, ""), (1.5, "tidy up"), (1.7, "close it"))
    assert [(s.start, s.end) for s in made.segments] == [(3, 10), (17, 20)]


def test_one_label_may_be_the_instruction():
    assert [s.name for s in plan((0.0, "tidy up")).steps] == ["tidy up"]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ((), "a: it has no sub-task labels: use another --planner"),
        (((0.0, " "),), "no sub-task labels"),
        (((0.0, "go"), (2.2, "stop")), "'stop' at 2.2 s is outside the recording"),
        (((0.0, "go"), (0.04, "stop")), "two sub-task labels at 0.04 s"),
    ],
)
def test_labels_that_cut_nothing_are_a_failure(labels, words):
    made = plan(*labels)
    assert isinstance(made, Failure)
    assert words in made.message


@pytest.mark.parametrize("label", ["put the cup in the box and close it", "set the table", "move left"])
def test_the_state_of_a_label_that_may_mean_else_is_its_own_words(label):
    assert labelled_step(label).instruction == f'"{label}" is done'
