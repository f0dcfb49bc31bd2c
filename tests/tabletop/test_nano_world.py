"""The nano models know their world: what is unlike it gets no plan and no verdict, wherever they run."""

import json
from unittest.mock import ANY

import numpy as np
import pytest
import yaml
from support.cli import fails
from support.places import ROOT

from goalreel.chat.conversation import ChatRequest, Message, TokenReply
from goalreel.chat.dialects import OWN
from goalreel.chat.places import answered, concluded
from goalreel.chat.verdict import verdict_reply
from goalreel.chat.world import World
from goalreel.checkpoints import NANO
from goalreel.image import Image
from goalreel.loop import whole_state
from goalreel.planners.rows import labelled_step
from goalreel.types import Candidate, Failure, Task, Verdict

SCENES = ROOT / "goalreel" / "studio" / "examples"
EXAMPLES = {
    SCENES / name: order for name, order in yaml.safe_load((SCENES / "examples.yaml").read_text()).items()
}
SCENE, ORDER = next(iter(EXAMPLES.items()))
PLANNER, CRITIC = World.of(NANO / "planner"), World.of(NANO / "critic")


def grey(image: Image) -> Image:
    return Image(np.repeat(image.pixels.mean(-1, keepdims=True), 3, -1).astype(np.uint8))


def shuffled(image: Image) -> Image:
    return Image(
        np.random.default_rng(0).permutation(image.pixels.reshape(-1, 3)).reshape(image.pixels.shape)
    )


def blocks(image: Image) -> Image:
    """The same in squares that have changed places."""
    cut = image.pixels[:128, :128].reshape(8, 16, 8, 16, 3).swapaxes(1, 2).reshape(64, 16, 16, 3)
    mixed = np.random.default_rng(0).permutation(cut).reshape(8, 8, 16, 16, 3)
    return Image(mixed.swapaxes(1, 2).reshape(128, 128, 3))


def plan_question(image: Image | None, order: str):
    return OWN.plan(Task(id="t", instruction=order, image=image), 40)


@pytest.mark.parametrize("scene", EXAMPLES, ids=lambda path: path.stem)
def test_its_own_scenes_and_orders_pass(scene):
    image, order = Image.of(scene), EXAMPLES[scene]
    assert PLANNER.refusal(plan_question(image, order)) is None
    asked = Candidate(task_id="t", step=0, source=image, image=image, instruction=order, prompt=order)
    assert CRITIC.refusal(OWN.judge(asked, mode="strict", scores=False)) is None
    again = Message("user", ("This answer cannot be used: it holds no JSON object. Answer again.",))
    assert PLANNER.refusal((*plan_question(image, order), Message("assistant", ("Sure!",)), again)) is None


@pytest.mark.parametrize("change", [grey, shuffled, blocks], ids=lambda change: change.__name__)
def test_a_picture_unlike_it_is_refused(change):
    reason = PLANNER.refusal(plan_question(change(Image.of(SCENE)), ORDER))
    assert reason is not None
    assert reason.endswith("the picture does not look like it")


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("bake a cake and call my mother", "no word 'bake', 'cake', 'call'"),
        ("x y", "no word 'x', 'y'"),
        ("lege den roten Block in die Schale", "no word 'lege', 'den', 'roten'"),
        ("write the plan", "the words name no block or"),
        ("12", "the words name no block or"),
        ("PUT the red block in the blue bowl", "no word 'PUT'"),
        ("Put the red Block in the blue Bowl", "no word 'Block', 'Bowl'"),
    ],
)
def test_words_unlike_it_are_refused(order, said):
    reason = PLANNER.refusal(plan_question(Image.of(SCENE), order))
    assert reason is not None
    assert said in reason
    assert reason.startswith("not of this model's world, which is goalreel's simulated tabletop alone: ")


STATES = "the red block is in the blue bowl; the green block is behind the red block"
WHOLE = whole_state("tidy up", STATES.split("; "))
DONE = "green block c3 r9 -> c6 r4; red block c4 r3 -> c6 r8 in blue bowl; blue bowl c6 r8 stays."
NO, YES = ("All else is as it was.", False), ("The red block was moved.", True)
"""Own conclusions of the critic."""


def judged(*said: str, whole: str = WHOLE) -> tuple[str, list[str]]:
    """The reply to a question after a model has said this, and what the model was asked."""
    replies, asked, picture = iter(said), [], Image.of(SCENE)

    def answer(requests):
        asked.extend(str(request.conversation[-1].parts) for request in requests)
        return [TokenReply(next(replies)) for _ in requests]

    case = Candidate(task_id="t", step=2, source=picture, image=picture, instruction=whole, prompt="tidy up")
    (reply,) = answered(answer, [ChatRequest(OWN.judge(case, mode="strict", scores=False))])
    return reply.text, asked


def reply(places: str, words: str, success: bool) -> str:
    return verdict_reply(Verdict(success=success, reasoning=f"{places} {words}"))


@pytest.mark.parametrize("own", [NO, YES], ids=["no", "yes"])
def test_a_whole_task_is_judged_by_the_places_in_the_reply(own):
    said = "The red block is in the blue bowl. The green block is behind the red block."
    done, denied = reply(DONE, *own), reply(DONE.replace("c6 r4", "c9 r9"), *own)
    assert judged(done)[0] == reply(DONE, said, True)
    assert concluded(f"the green block is in the blue bowl; {STATES}", done).success
    assert not concluded(f"{STATES}; all is tidy", done).success
    assert concluded(f"the red block is behind the green block; {STATES}", done).success
    left_out = concluded("the red block is in the blue bowl", done, "In all: put the green block behind it")
    assert "No step is about the green block." in left_out.reasoning
    assert not concluded(STATES, reply("The picture is dark.", *own)).success
    for second, success in ((denied, "false"), (done, "true")):
        text, (first, again) = judged(denied, second)
        assert f'"previous_step_success": {success}' in text
        assert f"Wanted state: {WHOLE}" in first
        assert "Wanted state: the green block is behind the red block; the red block is in the" in again


def test_a_step_is_done_where_the_critic_and_the_places_say_so():
    step, other = "the red block is in the blue bowl", "the red block is out of the blue bowl"
    places = DONE.partition("; ")[2]
    accepted, rejected = reply(places, "All else is as it was.", True), reply(places, *NO)
    assert judged(accepted, whole=step)[0] == accepted
    assert judged(rejected, whole=step)[0] == rejected
    assert judged(accepted, whole="The red block is in the blue bowl.")[0] == accepted
    assert judged(accepted, whole="put the red block away")[0] == accepted, "words that no lesson has"
    denied = reply(places, "The red block is not out of the blue bowl.", False)
    assert judged(accepted, whole=other) == (denied, [ANY])


def test_the_prompt_of_changed_words_is_of_its_world():
    picture, step = Image.of(SCENE), labelled_step("put the red block in the blue bowl")
    assert step.prompt is not None
    case = Candidate(
        task_id="t", step=1, source=picture, image=picture, instruction=step.instruction, prompt=step.prompt
    )
    assert CRITIC.refusal(OWN.judge(case, mode="strict", scores=False)) is None


@pytest.mark.parametrize(
    ("there", "instead", "said"),
    [
        ("c6 r8 in blue bowl", "c6 r8", "The red block is not in the blue bowl."),
        ("c6 r4", "c6 r12", "The green block is not behind the red block."),
        ("c6 r4", "c8 r4", "The green block is not behind"),
        ("c6 r4", "c6 r0", "The green block is not behind the red block."),
        ("c6 r4", "c6 r4 on blue block", "The green block is not behind the red block."),
        ("-> c6 r4", "held", "It cannot be told where everything is."),
        ("r8 stays", "r8 -> c7 r8", "The blue bowl was moved."),
        ("stays.", "stays. The arm is not away.", "It cannot be told where everything is."),
    ],
)
def test_a_whole_task_is_not_done_where_a_place_denies_it(there, instead, said):
    assert there in DONE
    verdict = concluded(STATES, reply(DONE.replace(there, instead), *YES))
    assert not verdict.success
    assert said in verdict.reasoning


def test_a_command_says_so_in_one_line_and_draws_nothing(tmp_path):
    pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[gpu]'")
    line = fails("plan", SCENE, "bake a cake and call my mother", "--out", tmp_path)
    assert line.startswith("goalreel: no plan: not of this model's world")
    record = json.loads((tmp_path / "storyboard.json").read_text())
    assert (record["steps"], record["failure"]["refused"]) == ([], True)


def test_its_critic_judges_no_other_picture():
    pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[gpu]'")
    from goalreel.models.load import build_critic

    image = Image(np.random.default_rng(1).integers(0, 255, (96, 128, 3), np.uint8))
    asked = Candidate(task_id="t", step=0, source=image, image=image, instruction=ORDER, prompt=ORDER)
    (answer,) = build_critic("hf:nano-critic").judge([asked])
    assert isinstance(answer, Failure)
    assert answer.refused
    assert answer.message.startswith("not of this model's world")
