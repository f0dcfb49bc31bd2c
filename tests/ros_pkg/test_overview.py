"""The contact sheet and the markers of a storyboard under way; the markers keep every rule of RViz."""

import re
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from support.boards import FRAME, finished, long, record, under_way

pytest.importorskip("rclpy")

from builtin_interfaces.msg import Duration, Time
from rclpy.serialization import deserialize_message, serialize_message
from visualization_msgs.msg import Marker, MarkerArray

from goalreel.image import Image
from goalreel.streaming.board import Board, ModelNames, StepPanel, StepStatus
from goalreel.types import Failure, Step, Verdict
from goalreel_ros.overview import ACTIVE, Overview, build, compose, state, to_ascii
from goalreel_ros.parameters import NodeOptions

WIDTH = 1280
LOST = Failure(stage="plan", message="server gone")


def in_words(words: str = "Wait.", **fields: object) -> Board:
    step = Step(name="wait", instruction="dry", prompt=None, auxiliary_text=words)
    return under_way().with_panel(replace(StepPanel(2, record(step), 3, image_status="text"), **fields))


def named(name: str) -> Board:
    board, step = finished(), Step(name=name, instruction=name, prompt=name)
    return board.with_panel(replace(board.steps[0], record=record(step, board.steps[0].attempt)))


class Topic:
    """Keeps what is published."""

    def __init__(self) -> None:
        self.messages = []

    def publish(self, message) -> None:
        self.messages.append(message)


def overview(warn=print, **options) -> tuple[Overview, dict[str, Topic]]:
    topics: dict[str, Topic] = {}
    create = lambda kind, name: topics.setdefault(name, Topic())  # noqa: E731
    return Overview(NodeOptions(contact_sheet_width=160, **options), create, warn, lambda: 1), topics


# -- the contact sheet


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def column(pixels: np.ndarray, colour: str) -> np.ndarray:
    """Which columns hold a solid run of a colour."""
    return np.flatnonzero((np.abs(pixels.astype(int) - rgb(colour)).max(axis=2) < 6).sum(axis=0) > 8)


def shows(sheet: Image, picture: Image) -> bool:
    """True if the picture, but for its marked corner, is anywhere on the sheet; found by its look."""
    import cv2

    small = cv2.resize(picture.pixels, (228, 228), interpolation=cv2.INTER_AREA)
    return float(cv2.matchTemplate(sheet.pixels, small[60:], cv2.TM_CCOEFF_NORMED).max()) > 0.995


def test_the_sheet_shows_what_is_done_active_and_to_come():
    board = under_way(512)
    sheet = compose(board, WIDTH)
    assert sheet.size[0] == WIDTH
    assert all(
        shows(sheet, picture)
        for picture in (board.source.image, board.steps[0].goal_image, board.steps[1].goal_image)
    )
    assert not shows(sheet, finished(512).steps[2].goal_image), "a picture that is not there yet"
    framed = column(sheet.pixels, ACTIVE)
    cell = (WIDTH - 56 + 20) / 5
    assert 28 + 2 * cell - 10 < framed.min() < framed.max() < 28 + 3 * cell, (
        "the frame is not on the second step"
    )
    ticked = column(sheet.pixels[:200], "#17603c")
    assert 28 + cell < ticked.min() < ticked.max() < 28 + 2 * cell, "the tick is not on the first step"
    assert (sheet.pixels[:, :20] == 255).all()
    assert (sheet.pixels[:, -20:] == 255).all()


def test_every_change_shows_on_the_sheet_and_captions_are_in_any_script():
    board = under_way()
    panel = board.steps[2]
    boards = [
        board,
        replace(board, models=ModelNames(critic="judge")),  # claims say who has checked
        replace(board, planner_failure=LOST),
        *(replace(board, **change) for change in ({"state": "paused"}, {"revision": 1}, {"task": "another"})),
        *(board.with_panel(replace(panel, image_status=s)) for s in ("validating", "failed")),
        board.with_panel(replace(panel, image_status="generating", attempts=2)),
        *(board.with_panel(replace(panel, status=s)) for s in ("skipped", "failed", "completed")),
        in_words(),
        in_words("Sign it."),
        *map(named, ("把红色积木放进蓝色的碗里", "ضع القلم في الوعاء", "größer – schöner")),
    ]
    assert len({compose(each, WIDTH).pixels.tobytes() for each in boards}) == len(boards)
    assert state(in_words().steps[2], board) == "pending · in words"
    assert state(in_words(image_status="none").steps[2], board) == "pending"


def test_a_plan_that_lost_a_model_says_so_on_the_sheet_and_above_the_markers():
    red = rgb("#9a2323")
    for board, is_lost in ((under_way(), False), (replace(under_way(), planner_failure=LOST), True)):
        heading = compose(board, WIDTH).pixels[:140].astype(int)
        assert (np.abs(heading - red).max(axis=2) < 6).any() == is_lost
        array = build(board, frame_id=FRAME)
        told = [m.text for m in array.markers if (m.ns, m.id) == ("r0/task", 1)]
        assert told == ["degraded: the planner failed: server gone"] * is_lost
        check(array)


# -- markers


def check(array: MarkerArray) -> None:
    """The rules of RViz, which drops or misdraws other markers without saying so (marker_common.cpp)."""
    first, *others = array.markers
    assert (first.action, first.ns) == (Marker.DELETEALL, "")
    assert len({(m.ns, m.id) for m in others}) == len(others)
    for m in others:
        assert (m.action, m.type, m.pose.orientation.w) == (Marker.ADD, Marker.TEXT_VIEW_FACING, 1)
        assert re.match(r"r\d+/.", m.ns), "no plan revision"
        assert m.header.frame_id
        assert (m.header.stamp, m.lifetime, m.frame_locked) == (Time(), Duration(), False), "it would vanish"
        assert m.text.strip()
        assert all(" " <= c <= "~" for c in m.text)
        assert m.scale.z > m.scale.x == m.scale.y == 0
        assert m.color.a == 1


def find(array: MarkerArray, ns: str, number: int = 0) -> Marker:
    return next(m for m in array.markers if (m.ns, m.id) == (ns, number))


def test_a_whole_task_keeps_every_rule_through_the_wire_and_publishes_changes_only():
    board = under_way()
    drawer, topics = overview()
    markers = topics["~/markers"].messages
    story = [
        Board(),
        Board(task=board.task, state="planning", source=board.source),
        board,
        replace(board, state="paused"),
        replace(finished(), revision=1),
        long(20),
        Board(),
        *(board.with_panel(replace(board.steps[0], status=s)) for s in get_args(StepStatus.__value__)),
    ]
    for stage in story:
        drawer.draw(stage)
        drawer.draw(replace(stage, stamp=9))  # which changes no marker
    assert len(topics["~/storyboard/image"].messages) == 2 * len(story)
    for built in markers:
        check(deserialize_message(serialize_message(built), MarkerArray))
    assert len(markers) == len(story) - 1  # an empty plan has none, whatever its task


def test_markers_need_a_frame():
    warnings = []
    drawer, topics = overview(lambda text, **_: warnings.append(text))
    drawer.draw(replace(under_way(), source=None))
    assert ["set the parameter frame_id" in text for text in warnings] == [True]
    assert not topics["~/markers"].messages
    drawer.options = NodeOptions(frame_id="mine")
    drawer.draw(replace(under_way(), source=None))
    assert {m.header.frame_id for m in topics["~/markers"].messages[0].markers[1:]} == {"mine"}


def test_each_step_has_its_state_and_its_own_words():
    array = build(under_way(), frame_id=FRAME)
    texts = [m.text for m in array.markers if m.type == Marker.TEXT_VIEW_FACING]
    assert texts[0].startswith("executing: put the green block")
    states = ["1 completed, accepted", "2 active, accepted", "3 pending, generating", "4 pending"]
    assert [t for t in texts if t[0].isdigit()] == states
    for panel in under_way().steps:
        lines = [m.text for m in array.markers if m.ns == "r0/text" and m.id // 4 == panel.index]
        assert " ".join(lines[1:]) == panel.step.name
    colours = {tuple(getattr(find(array, "r0/text", 4 * i).color, c) for c in "rgb") for i in range(3)}
    assert len(colours) == 3, "states look alike"
    assert "3 pending, in words" in [m.text for m in build(in_words(), frame_id=FRAME).markers]


def test_each_step_says_who_made_and_who_checked_it_and_what_is_in_doubt():
    board = replace(under_way(), models=ModelNames("openai:some-planner", "flux", "größer"))
    verdict = Verdict(success=False, reasoning="The block is not there.")
    refused = board.steps[1].attempt.model_copy(update={"verdict": verdict})
    active = replace(board.steps[1], image_status="rejected", record=record(board.steps[1].step, refused))
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


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Stell die Tasse auf den Tisch – größer!", "Stell die Tasse auf den Tisch - grosser!"),
        ("déplacer l’œuf à 90°", "deplacer l'oeuf a 90 deg"),
        ("tab\tand\nnewline\x00", "tab and newline"),
        ("把红色积木放进碗里", "step 1"),
        ("🥣", "step 1"),
        ("\ud800", "step 1"),
        ("  ", "step 1"),
    ],
)
def test_what_rviz_cannot_draw_is_written_in_ascii_or_by_number(text, plain):
    assert to_ascii(text, "step 1") == plain
