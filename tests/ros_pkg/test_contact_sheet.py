"""The contact sheet of a storyboard under way, over every state a board can be in."""

from dataclasses import replace
from typing import get_args
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.boards import finished, record, under_way

pytest.importorskip("rclpy")

from goalreel.image import Image
from goalreel.streaming.board import Board, BoardState, Frame, ImageStatus, ModelNames, StepPanel, StepStatus
from goalreel.types import Attempt, Failure, Step, Verdict
from goalreel_ros.overview import ACTIVE, compose, state

WIDTH = 1280


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
    assert shows(sheet, board.source.image)
    assert shows(sheet, board.steps[0].goal_image)
    assert shows(sheet, board.steps[1].goal_image)
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


def test_a_plan_that_lost_a_model_says_so_on_the_sheet():
    whole = under_way()
    lost = replace(whole, planner_failure=Failure(stage="plan", message="server gone"))
    red = rgb("#9a2323")
    for board, shown in ((whole, False), (lost, True)):
        heading = compose(board, WIDTH).pixels[:140].astype(int)
        assert (np.abs(heading - red).max(axis=2) < 6).any() == shown


def test_a_change_of_state_changes_the_sheet():
    board = under_way()
    seen = {compose(board, WIDTH).pixels.tobytes()}
    named = replace(board, models=ModelNames(critic="judge"))  # claims say who has checked
    seen.add(compose(named, WIDTH).pixels.tobytes())
    panel = board.steps[2]
    for change in (
        {"image_status": "validating"},
        {"image_status": "failed"},
        {"image_status": "generating", "attempts": 2},
        {"status": "skipped"},
        {"status": "failed"},
        {"status": "completed"},
    ):
        seen.add(compose(board.with_panel(replace(panel, **change)), WIDTH).pixels.tobytes())
    for change in ({"state": "paused"}, {"revision": 1}, {"task": "another"}):
        seen.add(compose(replace(board, **change), WIDTH).pixels.tobytes())
    assert len(seen) == 11


def test_captions_are_the_plans_own_words_in_any_script():
    board = finished()
    for name in ("把红色积木放进蓝色的碗里", "ضع القلم في الوعاء", "größer – schöner"):
        step = Step(name=name, instruction=name, prompt=name)
        other = Step(name=name[::-1], instruction=name, prompt=name)
        a, b = (
            compose(
                board.with_panel(replace(board.steps[0], record=record(s, board.steps[0].attempt))), WIDTH
            )
            for s in (step, other)
        )
        assert a != b


def in_words(step_words: str) -> Board:
    step = Step(name="wait", instruction="dry", prompt=None, auxiliary_text=step_words)
    return under_way().with_panel(StepPanel(2, record(step), 3, image_status="text"))


def test_a_step_in_words_shows_them_in_place_of_a_picture():
    assert state(in_words("Wait.").steps[2]) == "pending · in words"
    assert state(replace(in_words("Wait.").steps[2], image_status="none")) == "pending"
    assert compose(in_words("Wait."), WIDTH) != compose(in_words("Sign it."), WIDTH)


def test_no_plan_and_no_task_make_a_sheet_too():
    for board in (Board(), Board(task="stack", state="planning"), replace(finished(), source=None)):
        assert compose(board, WIDTH).size[0] == WIDTH
    with pytest.raises(ValueError, match="at least 160"):
        compose(Board(), 100)


TEXT = st.text(min_size=1, max_size=80).filter(str.strip)
SIZES = [(1, 1), (64, 48), (3, 400), (400, 3), (48, 64)]
PICTURES = [Image(np.full((h, w, 3), 90, np.uint8)) for w, h in SIZES]
DOWN = Failure(stage="edit", message="editor down")


@st.composite
def attempts(draw: st.DrawFn) -> Attempt | None:
    kind = draw(st.sampled_from(["none", "failed", "judged", "unjudged"]))
    image = draw(st.sampled_from(PICTURES))
    if kind == "none":
        return None
    if kind == "judged":
        return Attempt(prompt="p", seed=0, image=image, verdict=Verdict(success=draw(st.booleans())))
    return Attempt(prompt="p", seed=0, image=image if kind == "unjudged" else None, failure=DOWN)


@st.composite
def step_panels(draw: st.DrawFn, index: int) -> StepPanel:
    attempt = draw(attempts())
    image_status = draw(st.sampled_from(get_args(ImageStatus.__value__)))
    if attempt is not None and attempt.image is not None and image_status in ("verified", "unverified"):
        image_status = attempt.status
    return StepPanel(
        index=index,
        record=record(Step(name=draw(TEXT), instruction=draw(TEXT), prompt="p"), attempt),
        max_attempts=draw(st.integers(0, 20)),
        status=draw(st.sampled_from(get_args(StepStatus.__value__))),
        image_status=image_status,
        attempts=draw(st.integers(0, 30)),
    )


@st.composite
def boards(draw: st.DrawFn) -> Board:
    """Anything the types allow, also what the engine never makes; but no verdict is contradicted."""
    panels = tuple(draw(step_panels(i)) for i in range(draw(st.integers(0, 7))))
    frame = draw(st.none() | st.sampled_from(PICTURES).map(Frame))
    return Board(
        UUID(int=draw(st.integers(0, 9))),
        draw(st.text(max_size=200)),
        draw(st.sampled_from(get_args(BoardState.__value__))),
        draw(st.integers(0, 2**32 - 1)),
        source=frame,
        steps=panels,
    )


@settings(max_examples=25)
@given(board=boards(), width=st.sampled_from([160, 640, WIDTH]))
def test_every_board_has_a_sheet_and_markers_without_problems(board, width):
    from support.rviz.marker_rules import MarkerRules

    from goalreel_ros.overview import build

    assert compose(board, width).size[0] == width
    array = build(board, frame_id="camera_optical_frame", film_strip=True)
    assert MarkerRules().problems(array) == []
