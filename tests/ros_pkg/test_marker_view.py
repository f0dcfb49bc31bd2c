"""The markers and the contact sheet of a node as a display shows them, drawn from the messages alone."""

import copy

import numpy as np
import pytest

pytest.importorskip("rclpy")

from geometry_msgs.msg import Quaternion
from support.boards import FRAME, under_way
from support.places import SUPPORT
from support.ros import other
from support.rviz.display import picture_of, receive
from support.rviz.marker_rules import MarkerRules
from support.rviz.marker_view import MarkerScene
from visualization_msgs.msg import Marker, MarkerArray

from goalreel.image import Image
from goalreel_ros.overview import build

WIDTH = 640
SHOW = str(SUPPORT / "show_board.py")


def place(picture: Image, wanted: Image, width: int) -> tuple[float, tuple[int, int]]:
    """How well a picture of `width` pixels is found, and where its left upper corner is (x, y)."""
    import cv2

    small = cv2.resize(wanted.pixels, (width, width), interpolation=cv2.INTER_AREA)
    result = cv2.matchTemplate(picture.pixels, small, cv2.TM_CCOEFF_NORMED)
    _, best, _, at = cv2.minMaxLoc(result)
    return best, at


@pytest.fixture(scope="module")
def film() -> MarkerArray:
    return build(under_way(512), frame_id=FRAME, film_strip=True)


def render(array: MarkerArray) -> Image:
    scene = MarkerScene()
    scene.apply(array)
    return scene.render(WIDTH)


def quads(array: MarkerArray) -> list[Marker]:
    return [m for m in array.markers if m.type == Marker.TRIANGLE_LIST]


def panel_width(array: MarkerArray) -> int:
    """Of a panel, in pixels of the picture: a white one measures it."""
    plain = copy.deepcopy(array)
    for quad in quads(plain)[:1]:
        quad.texture_resource = ""
    row = (render(plain).pixels == 255).all(axis=2).sum(axis=1)
    return int(np.median(row[row > 50]))


@pytest.fixture(scope="module")
def picture(film) -> Image:
    return render(film)


@pytest.fixture(scope="module")
def width(film) -> int:
    return panel_width(film)


def test_the_goal_images_stand_upright_in_order_and_in_their_own_colours(picture, width):
    found = [place(picture, p.goal_image, width) for p in under_way(512).steps[:2]]
    assert all(score > 0.95 for score, _ in found), found
    (first, second) = (at for _, at in found)
    assert first[0] + width < second[0]
    assert abs(first[1] - second[1]) <= 1
    shown = picture.pixels[first[1] : first[1] + width, first[0] : first[0] + width]
    wanted = under_way(512).steps[0].goal_image.pixels
    assert np.abs(shown.mean(axis=(0, 1)) - wanted.mean(axis=(0, 1))).max() < 4, "darker or tinted"


@pytest.mark.parametrize("axis", [0, 1])
def test_a_texture_laid_the_wrong_way_round_looks_it(film, width, axis):
    """So that the picture above proves something: swap u or v and the reader shows another one."""
    wrong = copy.deepcopy(film)
    for quad in quads(wrong):
        for c in quad.uv_coordinates:
            c.u, c.v = (1 - c.u, c.v) if axis == 0 else (c.u, 1 - c.v)
    goal = under_way(512).steps[0].goal_image
    flipped = Image(np.ascontiguousarray(goal.pixels[:, ::-1] if axis == 0 else goal.pixels[::-1]))
    seen = render(wrong)
    assert place(seen, flipped, width)[0] > 0.95 > place(seen, goal, width)[0]


def test_a_quad_that_turns_its_back_is_black(film, picture):
    wrong = copy.deepcopy(film)
    for quad in quads(wrong):
        quad.points = [quad.points[i] for i in (0, 2, 1, 3, 5, 4)]
        quad.uv_coordinates = [quad.uv_coordinates[i] for i in (0, 2, 1, 3, 5, 4)]
    dark = (render(wrong).pixels == 0).all(axis=2).mean()
    assert (picture.pixels == 0).all(axis=2).mean() < 0.01 < 0.2 < dark


@pytest.mark.parametrize(("field", "value"), [("texture_resource", "file:///a.png"), ("uv_coordinates", [])])
def test_a_texture_that_rviz_does_not_load_is_not_seen(film, width, field, value):
    wrong = copy.deepcopy(film)
    for quad in quads(wrong):
        setattr(quad, field, value)
    assert place(render(wrong), under_way(512).steps[0].goal_image, width)[0] < 0.5


def test_what_is_nearer_hides_what_is_behind_and_poses_are_kept(film, width):
    front = copy.deepcopy(quads(film)[0])
    front.id, front.texture_resource = 99, ""
    front.pose.position.z = -0.5
    front.color.g = front.color.b = 0.0
    for c in front.colors:
        c.g = c.b = 0.0
    goal = under_way(512).steps[0].goal_image
    assert place(render(MarkerArray(markers=[*film.markers, front])), goal, width)[0] < 0.9
    front.pose.position.z = 0.5
    assert place(render(MarkerArray(markers=[*film.markers, front])), goal, width)[0] > 0.9
    # Half a turn about the view axis puts the picture upside down, on the other side.
    turned = copy.deepcopy(film)
    turned.markers = quads(turned)[:1]
    turned.markers[0].pose.orientation = Quaternion(z=1.0, w=0.0)
    upside = Image(np.ascontiguousarray(goal.pixels[::-1, ::-1]))
    assert place(render(turned), upside, panel_width(turned))[0] > 0.95


def test_a_scene_follows_its_arrays(film, picture):
    scene = MarkerScene()
    empty = scene.render(WIDTH)
    scene.apply(film)
    assert picture != empty
    gone = [Marker(ns=m.ns, id=m.id, action=Marker.DELETE) for m in quads(film)]
    scene.apply(MarkerArray(markers=gone))
    assert scene.render(WIDTH) not in (picture, empty)
    scene.apply(MarkerArray(markers=[Marker(action=Marker.DELETEALL)]))
    assert scene.render(WIDTH) == empty


@pytest.mark.process
def test_the_sheet_and_the_markers_of_another_process_are_shown_to_a_late_joiner(picture):
    with other(SHOW, "film"):
        sheet, markers = receive()
    assert MarkerRules().problems(markers) == []
    display, height = picture_of(sheet, markers, WIDTH), picture.size[1]
    assert display.size[0] == WIDTH
    assert (display.pixels[-height:] == picture.pixels).all(), "not what the messages say"
    above = Image(np.ascontiguousarray(display.pixels[:-height]))
    assert (above.pixels[:10] == 255).all()
    for panel in under_way(512).steps[:2]:
        assert place(above, panel.goal_image, 114)[0] > 0.9
