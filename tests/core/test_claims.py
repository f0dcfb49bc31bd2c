"""Who made what a step claims, and who checked it."""

import numpy as np
import pytest

from goalreel.annotator.report.cards import claim_line
from goalreel.claims import Claim, add_counts, attributed, count, makers
from goalreel.image import Image
from goalreel.types import (
    Alignment,
    Attempt,
    Failure,
    Segment,
    Step,
    Storyboard,
    StoryboardStep,
    Task,
    Verdict,
)

FRAME = Image(np.zeros((4, 4, 3), np.uint8), frame="front#7")
DRAWN = Image(np.zeros((4, 4, 3), np.uint8))
SEGMENT = Segment(start=0, end=8)
HINDSIGHT = {"planner": "kinematic", "editor": "hindsight", "critic": "difference"}
CHATS = {"planner": "hf:planner", "editor": "flux2-klein-4b", "critic": "openai:judge"}
PIXELS = Verdict(success=True, pictures_only=True)


def step(image=FRAME, verdict=PIXELS, segment=SEGMENT, doubts=(), failure=None) -> StoryboardStep:
    attempt = Attempt(prompt="p", seed=0, image=image, verdict=verdict, failure=failure)
    words = Step(name="grasp the cup", instruction="the cup is held", prompt="p", doubts=doubts)
    return StoryboardStep(step=words, segment=segment, attempts=(attempt,), status=attempt.status, chosen=0)


def claims(storyboard_step: StoryboardStep, models=HINDSIGHT):
    board = Storyboard(task=Task(id="t", instruction="take the cup"), steps=(storyboard_step,))
    return attributed(board, makers(models.get)).steps[0].claims


def test_a_recorded_frame_that_passed_picture_checks_was_compared_with_the_words_by_nobody():
    made = claims(step(doubts=("two hands move",)))
    assert made.when == Claim(by="rule", checked="nobody")
    assert made.what == Claim(by="rule", checked="nobody", doubts=("two hands move",))
    assert made.looks == Claim(by="recording", checked="picture checks")
    assert made.came_off == Claim(by="rule", checked="nobody", doubts=("two hands move",))


def test_a_model_that_compared_a_recorded_frame_with_the_words_checked_words_and_outcome():
    made = claims(step(verdict=Verdict(success=True)), {**HINDSIGHT, "critic": "openai:judge"})
    assert [claim.checked for _, claim in made.items()] == ["nobody", *["model openai:judge"] * 3]
    refused = step(verdict=Verdict(success=False, reasoning="the cup is on the table"))
    made = claims(refused, {**HINDSIGHT, "critic": "openai:judge"})
    objection = ("the cup is on the table",)
    assert made.looks == Claim(by="recording", checked="model openai:judge", doubts=objection)
    assert made.came_off == Claim(by="rule", checked="model openai:judge", doubts=objection)
    assert made.what.checked == "nobody", "an objection confirms nothing"


def test_a_predicted_step_claims_no_time_and_no_outcome():
    made = claims(step(image=DRAWN, verdict=Verdict(success=True), segment=None), CHATS)
    assert (made.when, made.came_off) == (None, None)
    assert made.what == Claim(by="model hf:planner", checked="nobody")
    assert made.looks == Claim(by="model flux2-klein-4b", checked="model openai:judge")


def test_a_step_that_was_found_in_a_recording_was_placed_there_by_a_rule():
    planned = step(image=DRAWN, verdict=Verdict(success=True), segment=None)
    placed = planned.aligned(Alignment(cost=0.1), SEGMENT)
    made = claims(placed, CHATS)
    assert made.when == made.came_off == Claim(by="rule", checked="nobody")
    assert made.what.by == "model hf:planner"
    lost = planned.aligned(Alignment(reason="nothing like it"))
    assert claims(lost, CHATS).when is None


def test_a_critic_that_failed_checked_nothing():
    failure = Failure(stage="judge", message="no answer")
    made = claims(step(verdict=None, failure=failure))
    assert made.looks == Claim(by="recording", checked="nobody", doubts=("the critic failed: no answer",))


@pytest.mark.parametrize(
    ("models", "label"),
    [
        ({"planner": "rows"}, "rows"),
        ({"planner": "watch:hf:DIR"}, "model watch:hf:DIR"),
        ({"planner": "mine.MyPlanner"}, "model mine.MyPlanner"),
        ({}, "unknown"),
    ],
)
def test_the_words_are_by_who_planned(models, label):
    assert claims(step(), models).what.by == label


def test_claims_go_to_json_and_back_and_records_without_them_are_read():
    named = step().model_copy(update={"claims": claims(step())})
    assert StoryboardStep.model_validate_json(named.model_dump_json()) == named
    old = named.model_dump(mode="json", context={"put_image": lambda image: "x"})
    del old["claims"]
    read = StoryboardStep.model_validate(old, context={"get_image": lambda reference: FRAME})
    assert read.claims.what == Claim(), "made by nobody that it names"
    assert claims(read) == named.claims


def test_claims_are_counted_and_what_a_checker_refused_is_in_doubt():
    refused = claims(step(verdict=Verdict(success=False, reasoning="There is no bowl."))).looks
    assert refused is not None
    assert refused.line.endswith(", in doubt")
    assert claim_line(refused).endswith(", in doubt")
    totals = count([step(verdict=Verdict(success=False, reasoning="There is no bowl."))])["looks"]
    assert totals["doubted"] == totals["checked"] == {"unknown": 1}
    steps = [step().model_copy(update={"claims": claims(step())})] * 2
    totals = count(steps)
    assert totals["looks"] == {"by": {"recording": 2}, "checked": {"picture checks": 2}}
    add_counts(totals, count(steps[:1]))
    assert totals["what"] == {"by": {"rule": 3}, "checked": {"nobody": 3}}
