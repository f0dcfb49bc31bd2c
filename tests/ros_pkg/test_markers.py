"""Markers of real storyboards keep every rule of RViz, and every rule can be broken."""

from dataclasses import replace

import pytest
from support.boards import FRAME, finished, long, record, under_way

pytest.importorskip("rclpy")

from rclpy.serialization import deserialize_message, serialize_message
from support.rviz.marker_rules import MarkerRules
from support.rviz.texture_rules import points_of
from visualization_msgs.msg import Marker, MarkerArray

from goalreel.image import Image
from goalreel.streaming.board import Board, ModelNames, StepPanel
from goalreel.types import Failure, Step, Verdict
from goalreel_ros.overview import MarkerBoard, Strip, build, to_ascii

FILM = "r0/film"


def with_name(board: Board, name: str) -> Board:
    step = Step(name=name, instruction=name, prompt=name)
    return board.with_panel(replace(board.steps[0], record=record(step, board.steps[0].attempt)))


def find(array: MarkerArray, ns: str, number: int = 0) -> Marker:
    return next(m for m in array.markers if (m.ns, m.id) == (ns, number))


@pytest.mark.parametrize("film_strip", [False, True])
def test_a_whole_task_keeps_every_rule_through_the_wire(film_strip):
    board, rules = under_way(), MarkerRules()
    drawer = MarkerBoard(film_strip=film_strip)
    story = [
        Board(),
        Board(task=board.task, state="planning", source=board.source),
        board,
        replace(board, state="paused"),
        finished(),
        replace(finished(), revision=1),
        long(20),
        Board(),
    ]
    for stage in story:
        if (built := drawer.update(stage, FRAME)) is not None:
            arrived = deserialize_message(serialize_message(built), MarkerArray)
            assert rules.problems(arrived) == []
    assert not rules.live
    for status in ("pending", "active", "completed", "skipped", "failed"):
        panel = replace(board.steps[0], status=status)
        assert rules.problems(drawer.update(board.with_panel(panel), FRAME)) == []


def test_each_step_has_its_state_and_its_own_words():
    array = build(under_way(), frame_id=FRAME)
    texts = [m.text for m in array.markers if m.type == Marker.TEXT_VIEW_FACING]
    assert texts[0].startswith("executing: put the green block")
    states = ["1 completed, verified", "2 active, verified", "3 pending, generating", "4 pending"]
    assert [t for t in texts if t[0].isdigit()] == states
    for panel in under_way().steps:
        lines = [m.text for m in array.markers if m.ns == "r0/text" and m.id // 4 == panel.index]
        assert " ".join(lines[1:]) == panel.step.name
    colours = {tuple(getattr(find(array, "r0/text", 4 * i).color, c) for c in "rgb") for i in range(3)}
    assert len(colours) == 3, "states look alike"
    assert not [m for m in array.markers if m.type == Marker.TRIANGLE_LIST], "a film strip nobody asked for"


def test_each_step_says_who_made_and_who_checked_it_and_what_is_in_doubt():
    board = replace(under_way(), models=ModelNames("openai:some-planner", "flux", "größer"))
    verdict = Verdict(success=False, reasoning="The block is not there.")
    refused = board.steps[1].attempt.model_copy(update={"verdict": verdict})
    active = replace(board.steps[1], image_status="unverified", record=record(board.steps[1].step, refused))
    steps = board.with_panel(active).leave_step(0, "completed", 1, 5, "operator")
    array = build(replace(board, steps=steps), frame_id=FRAME)
    said = [
        " ".join(m.text for m in array.markers if m.ns == "r0/claims" and m.id // 4 == index)
        for index in range(3)
    ]
    assert "Goal image: by flux, checked by grosser" in said[0]
    assert "Outcome: by the operator, checked by the operator" in said[0]
    assert said[1].endswith("Goal image: by flux, checked by grosser, in doubt")
    assert said[2] == "Words: by some-planner, not checked"
    assert MarkerRules().problems(array) == []


def test_a_plan_that_lost_a_model_says_so_above_its_steps():
    whole = under_way()
    lost = replace(whole, planner_failure=Failure(stage="plan", message="server gone"))
    array = build(lost, frame_id=FRAME)
    assert find(array, "r0/task", 1).text == "degraded: the planner failed: server gone"
    assert MarkerRules().problems(array) == []
    assert not [m for m in build(whole, frame_id=FRAME).markers if (m.ns, m.id) == ("r0/task", 1)]


def test_a_step_in_words_says_so():
    step = Step(name="wait", instruction="dry", prompt=None, auxiliary_text="Wait.")
    board = under_way().with_panel(StepPanel(2, record(step), 3, image_status="text"))
    texts = [m.text for m in build(board, frame_id=FRAME).markers]
    assert "3 pending, in words" in texts


def test_the_film_strip_holds_the_goal_images_the_right_way_round():
    board = under_way()
    array = build(board, frame_id=FRAME, film_strip=True)
    assert [m.id for m in array.markers if m.ns == FILM] == [0, 1], "only steps that have a picture"
    assert [m.id for m in array.markers if m.ns == "r0/border"] == [0, 1, 2, 3]
    quad = find(array, FILM, 1)
    shown = Image.decode(bytes(quad.texture.data))
    wanted = board.steps[1].goal_image.pixels
    assert abs(shown.pixels.astype(int) - wanted).mean() < 3
    # REP 103: x right, y down. u follows x, v follows y; the normal points back at the camera.
    points = points_of(quad)
    for (x, y, z), uv in zip(points, quad.uv_coordinates, strict=True):
        assert uv.u == (x == points[:, 0].max())
        assert uv.v == (y == points[:, 1].max())
        assert z == 1.0


def test_a_strip_lies_in_front_of_the_camera_in_rows_that_do_not_touch():
    array = build(long(8), frame_id=FRAME, film_strip=True, strip=Strip(distance=2.0, columns=3, panel=0.4))
    boxes = []
    for quad in (m for m in array.markers if m.ns == FILM):
        points = points_of(quad)
        assert (points[:, 2] == 2.0).all()
        boxes.append((*points[:, :2].min(axis=0), *points[:, :2].max(axis=0)))
    assert len({box[1] for box in boxes}) == 3
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    ids = [(m.ns, m.id) for m in array.markers]
    assert len(ids) == len(set(ids))


def test_unchanged_boards_are_not_published_again():
    drawer = MarkerBoard(film_strip=True)
    assert drawer.update(under_way(), FRAME) is not None
    assert drawer.update(replace(under_way(), stamp=9), FRAME) is None
    assert drawer.update(replace(under_way(), state="paused"), FRAME) is not None
    assert drawer.update(replace(under_way(), state="paused"), "other_optical_frame") is not None


def test_markers_need_a_frame():
    with pytest.raises(ValueError, match="need a frame_id"):
        build(under_way(), frame_id="")
    assert len(build(Board(), frame_id="").markers) == 1


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Stell die Tasse auf den Tisch – größer!", "Stell die Tasse auf den Tisch - grosser!"),
        ("déplacer l’œuf à 90°", "deplacer l'oeuf a 90 deg"),
        ("tab\tand\nnewline\x00", "tab and newline"),
        ("把红色积木放进碗里", "step 1"),
        ("ضع القلم", "step 1"),
        ("🥣", "step 1"),
        ("\ud800", "step 1"),
        ("  ", "step 1"),
    ],
)
def test_what_rviz_cannot_draw_is_written_in_ascii_or_by_number(text, plain):
    assert to_ascii(text, "step 1") == plain


@pytest.mark.parametrize("name", ["x" * 500, "word " * 200, "Größe", "把红色积木", "a", "~" * 27, "🥣🖍️"])
def test_any_name_makes_markers_without_problems(name):
    built = build(with_name(finished(), name), frame_id=FRAME, film_strip=True)
    assert MarkerRules().problems(built) == []
    for marker in built.markers:
        assert len(marker.text) <= 120
