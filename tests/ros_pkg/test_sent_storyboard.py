"""A storyboard made elsewhere: sent by the client, and executed by a node or refused."""

from array import array

import pytest
from sensor_msgs.msg import CompressedImage
from support.ros_bench import BLUE, GREEN, RED, near, painted, scene
from support.wait import until
from typer.testing import CliRunner
from unique_identifier_msgs.msg import UUID

from goalreel.claims import PERSON, Claim
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.storyboard_io import save_storyboard
from goalreel.streaming.board import Board, ErrorCode
from goalreel.streaming.request import TaskEnded
from goalreel.types import (
    Attempt,
    Failure,
    Step,
    Storyboard as PlannedStoryboard,
    StoryboardStep,
    Task,
    Verdict,
)
from goalreel_interfaces.action import ExecuteTask
from goalreel_interfaces.msg import (
    Claim as ClaimMessage,
    CriticVerdict,
    Storyboard,
    StoryboardStep as StepMessage,
    SubGoal,
)
from goalreel_interfaces.srv import StartExecuteTask
from goalreel_ros.client import GoalreelError
from goalreel_ros.client.__main__ import app
from goalreel_ros.client.commander import storyboard_message
from goalreel_ros.convert import execute_request, storyboard
from goalreel_ros.pictures import decode

pytestmark = pytest.mark.process


def drawing(colour: str) -> Image:
    """The goal that the node's editor would paint, with a mark that it would not."""
    pixels = painted(scene(), colour)
    pixels[2:6, -6:-2] = 255
    return Image(pixels)


def shows(goal: SubGoal | StepMessage, colour: str) -> bool:
    """True if the picture of a sub-goal or step is that drawing, but for what JPEG loses."""
    pixels = decode(goal.goal_image).pixels
    return pixels[3:5, -5:-3].min() > 200 and near(pixels, colour)


def pictured(colour: str, verdict: Verdict | None, failure: Failure | None = None) -> StoryboardStep:
    attempt = Attempt(
        prompt=f"paint {colour}", seed=1, image=drawing(colour), verdict=verdict, failure=failure
    )
    step = Step(name=colour, instruction=colour, prompt=f"paint {colour}")
    return StoryboardStep(step=step, attempts=(attempt,), status=attempt.status, chosen=0)


def checked() -> StoryboardStep:
    """A step that a person wrote and accepted."""
    step = pictured(RED, Verdict(success=True, reasoning="A person accepted it."))
    return step.model_copy(update={"claims": step.claims.by_person({"what"}, {"looks"})})


def plan(*steps: StoryboardStep, source: bool = True) -> PlannedStoryboard:
    image = Image(scene()) if source else None
    return PlannedStoryboard(
        task=Task(id="a", instruction=f"{RED} then {GREEN}", image=image), steps=steps or (checked(),)
    )


def words(**fields: object) -> StoryboardStep:
    step = Step(name="look", instruction=BLUE, prompt=None, auxiliary_text="look there")
    return StoryboardStep(**{"step": step, "status": "text"} | fields)


def taken(sent: PlannedStoryboard, **fields: object) -> Board:
    """A storyboard as a node takes it, with other `fields` in the message of its first step."""
    message = storyboard_message(sent)
    for name, value in fields.items():
        setattr(message.steps[0], name, value)
    return execute_request(ExecuteTask.Goal(storyboard=[message])).storyboard


def test_statuses_verdicts_and_claims_come_through_as_they_are():
    refused = pictured(GREEN, Verdict(success=False, reasoning="too dark", semantics=4, quality=9))
    ruled = pictured(GREEN, Verdict(success=True, pictures_only=True))
    unjudged = pictured(GREEN, None, Failure(stage="judge", message="no answer"))
    undrawn = Attempt(prompt=f"paint {GREEN}", seed=1, failure=Failure(stage="edit", message="out of paint"))
    failed = StoryboardStep(step=refused.step, attempts=(undrawn,), status="failed")
    sent = plan(checked(), refused, ruled, unjudged, failed, words())
    board, statuses = taken(sent), ["accepted", "rejected", *["unjudged"] * 3, "text"]
    assert [panel.image_status for panel in board.steps] == statuses
    assert [panel.goal_image for panel in board.steps] == [step.goal_image for step in sent.steps]
    assert [panel.step for panel in board.steps] == [step.step for step in sent.steps]
    for panel, step in zip(board.steps, sent.steps, strict=True):
        claims = panel.claims(board.models)
        assert (claims.what, claims.looks) == (step.claims.what, step.claims.looks)
    assert [a.verdict.score if a and a.verdict else None for a in (p.attempt for p in board.steps)][1] == 6
    assert board.degraded_lines == ("the critic failed: no answer", "the editor failed: out of paint")
    assert board.source.image == sent.task.image
    assert taken(plan(source=False)).source is None


def sent_board(**fields: object) -> Board:
    """A step that its critic accepted, but for `fields` of its message."""
    return taken(plan(pictured(RED, Verdict(success=True))), **fields)


ACCEPTED = CriticVerdict(verdict=CriticVerdict.ACCEPTED)
LOOKS = {"claim": "looks", "by": "person"}


@pytest.mark.parametrize(
    ("fields", "status", "checked", "verified"),
    [
        ({"claims": []}, "accepted", "unknown", False),
        ({"claims": [ClaimMessage(**LOOKS, checked="nobody")]}, "unjudged", "nobody", False),
        ({"claims": [ClaimMessage(**LOOKS)]}, "unjudged", "nobody", False),
        ({"claims": [ClaimMessage(**LOOKS, checked="model X")]}, "accepted", "model X", False),
        ({"claims": [ClaimMessage(**LOOKS, checked="person", doubts=["odd"])]}, "accepted", "person", False),
        ({"claims": [ClaimMessage(**LOOKS, checked="person")]}, "accepted", "person", True),
    ],
)
def test_a_sent_picture_is_verified_only_where_somebody_looked(fields, status, checked, verified):
    board = sent_board(image_status=StepMessage.IMAGE_VERIFIED, critic=ACCEPTED, **fields)
    (panel,) = board.steps
    assert (panel.image_status, panel.claims(board.models).looks.checked) == (status, checked)
    assert (board.is_verified(panel), not board.doubt(panel)) == (verified, verified)


def test_where_no_critic_was_asked_nothing_failed():
    board = sent_board(image_status=StepMessage.IMAGE_UNJUDGED, critic=CriticVerdict())
    assert (board.steps[0].image_status, board.degraded_lines) == ("unjudged", ())
    (step,) = storyboard(board, None, 1).steps
    assert step.critic.verdict == CriticVerdict.NOT_EVALUATED


def test_the_client_refuses_what_is_not_drawn():
    with pytest.raises(InputError, match=r"step 1 \(look\) has no goal image yet"):
        storyboard_message(plan(checked(), words(status="skipped")))
    lost = PlannedStoryboard(task=plan().task, failure=Failure(stage="plan", message="no idea"))
    with pytest.raises(InputError, match="has no plan: no idea"):
        storyboard_message(lost)


NO_PICTURE = CompressedImage()
BROKEN = CompressedImage(format="png", data=array("B", b"not a picture"))


@pytest.mark.parametrize(
    ("code", "message", "fields"),
    [
        (2, "step 0 of the storyboard is not pending", {"status": StepMessage.STATUS_COMPLETED}),
        (2, "image status, generating", {"image_status": StepMessage.IMAGE_GENERATING}),
        (2, "image status, 99", {"image_status": 99}),
        (2, "do not fit", {"goal_image": NO_PICTURE}),
        (2, "do not fit", {"prompt": " "}),
        (2, "do not fit", {"image_status": StepMessage.IMAGE_FAILED}),
        (2, "do not fit", {"image_status": StepMessage.IMAGE_TEXT, "goal_image": NO_PICTURE}),
        (2, "do not fit", {"critic": CriticVerdict(verdict=CriticVerdict.REJECTED)}),
        (2, "less than or equal to 1", {"critic": CriticVerdict(verdict=1, probability=7.0)}),
        (2, "step 0 of the storyboard: String should", {"instruction": ""}),
        (7, "cannot be used", {"goal_image": BROKEN}),
    ],
)
def test_a_step_that_is_not_complete_is_refused_in_one_line(code, message, fields):
    with pytest.raises(TaskEnded, match=message) as refused:
        taken(plan(), **fields)
    assert (refused.value.error, "\n" in str(refused.value)) == (code, False)


def test_a_node_refuses_what_its_parameters_do_not_allow(robot, client):
    def start(sent: PlannedStoryboard, **fields: object) -> tuple[int, str]:
        message = storyboard_message(sent)
        answer = robot.call(StartExecuteTask, "start/execute_task", storyboard=[message], **fields)
        return answer.error_code, answer.error_msg

    both = start(plan(), storyboard_id=UUID(uuid=[1] * 16))
    assert both == (ErrorCode.INVALID_REQUEST, "send a storyboard or the id of one, not both")
    _, text = start(plan(checked(), words()), max_steps=1)
    assert text == "the storyboard has 2 steps, 1 are allowed (max_steps)"
    assert start(plan(), task="tidy up")[1].startswith("that storyboard is for another task")
    with pytest.raises(GoalreelError, match="not both"):
        client.execute(storyboard=plan(), storyboard_id=UUID(uuid=[1] * 16)).result(60)


def test_a_node_executes_it_with_the_pictures_that_were_sent(robot, client, scripted):
    drawn = scripted.editor.gate.calls
    accepted = Verdict(success=True, reasoning="so")
    task = client.execute(storyboard=plan(checked(), pictured(GREEN, accepted), source=False))
    first = client.wait_for_subgoal(60)
    assert (first.instruction, first.image_status) == (RED, StepMessage.IMAGE_VERIFIED), "a person looked"
    assert [(c.claim, c.by, c.checked) for c in first.claims] == [
        ("what", PERSON, PERSON),
        ("looks", Claim().by, PERSON),
    ]
    assert shows(first, RED)
    assert first.header.frame_id == "camera_optical", "the robot's, where the storyboard has none"
    robot.colour = RED
    second = client.wait_for_subgoal(60, after=first)
    assert (second.index, shows(second, GREEN)) == (1, True)
    robot.colour = GREEN
    result = task.result(60)
    assert (result.error_code, result.storyboard.state) == (ErrorCode.NONE, Storyboard.STATE_SUCCEEDED)
    for step, colour in zip(result.storyboard.steps, (RED, GREEN), strict=True):
        assert (step.status, shows(step, colour)) == (StepMessage.STATUS_COMPLETED, True)
    assert scripted.editor.gate.calls == drawn


def test_the_command_executes_a_saved_folder(robot, client, scripted, tmp_path):
    drawn = scripted.editor.gate.calls
    sent = plan(checked(), pictured(GREEN, Verdict(success=True)), source=False)
    save_storyboard(sent, tmp_path)
    with robot.obeying():
        shown = CliRunner().invoke(app, [str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    until(lambda: client.storyboard().state == Storyboard.STATE_SUCCEEDED)
    assert all(shows(*pair) for pair in zip(client.storyboard().steps, (RED, GREEN), strict=True))
    assert scripted.editor.gate.calls == drawn


def test_a_node_plans_the_rest_of_it_anew(robot, client):
    """Give what is done stays as it was sent; the rest is the node's own, in words and picture."""
    sent = plan(checked(), pictured(GREEN, Verdict(success=True)), source=False)
    task = client.execute(storyboard=sent)
    first = client.wait_for_subgoal(60)
    robot.colour = RED
    assert shows(client.wait_for_subgoal(60, after=first), GREEN)
    client.replan("the bowl was moved")
    until(lambda: client.subgoal().active and client.subgoal().revision == 1)
    goal = client.subgoal()
    assert (goal.index, goal.instruction, goal.image_status) == (1, GREEN, StepMessage.IMAGE_ACCEPTED)
    assert not shows(goal, GREEN), "the node's editor sets no mark"
    assert all("server:" in c.by for c in goal.claims), goal.claims
    robot.colour = GREEN
    result = task.result(60)
    assert (result.error_code, result.storyboard.revision) == (ErrorCode.NONE, 1)
    first, *rest = result.storyboard.steps
    assert {step.instruction for step in rest} == {GREEN}, "the planner was told what is done"
    assert shows(first, RED)
    assert not any(shows(step, GREEN) for step in rest)
    assert [c.by for c in first.claims if c.claim == "what"] == [PERSON]
