"""Markers of real storyboards keep every rule of RViz, and every rule can be broken."""

import copy
from array import array
from dataclasses import replace

import pytest
from support.boards import FRAME, finished, long, under_way

pytest.importorskip("rclpy")

from geometry_msgs.msg import Point, Vector3
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import ColorRGBA
from support.rviz.marker_rules import MarkerRules
from support.rviz.texture_rules import points_of
from visualization_msgs.msg import Marker, MarkerArray

from goalreel.annotator.report.cards import jpeg
from goalreel.image import Image
from goalreel.streaming.board import Board, ModelNames, StepPanel
from goalreel.types import Failure, Step, Verdict
from goalreel_ros.overview import MarkerBoard, Strip, build, to_ascii

FILM = "r0/film"


def with_name(board: Board, name: str) -> Board:
    step = Step(name=name, instruction=name, prompt=name)
    return board.with_panel(replace(board.steps[0], step=step))


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
    active = replace(board.steps[1], image_status="unverified", attempt=refused)
    steps = board.with_panel(active).leave_step(0, "completed", 1, 5, by_operator=True)
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
    board = under_way().with_panel(StepPanel(2, step, 3, image_status="text"))
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
    "sizes", [{"panel": 0}, {"letter": -1}, {"columns": 0}, {"texture": 513}, {"gap": -1}]
)
def test_a_strip_without_a_size_is_refused(sizes):
    with pytest.raises(ValueError):
        Strip(**sizes)


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


def picture(size: tuple[int, int], side: int = 5000) -> array:
    pixels = finished().steps[0].goal_image.pixels[:1, :1].repeat(size[1], 0).repeat(size[0], 1)
    return array("B", jpeg(Image(pixels), side))


def flip(m: Marker) -> None:
    m.points = [m.points[i] for i in (0, 2, 1, 3, 5, 4)]
    m.uv_coordinates = [m.uv_coordinates[i] for i in (0, 2, 1, 3, 5, 4)]


def upside_down(m: Marker) -> None:
    m.points = [Point(x=-p.x, y=-p.y, z=p.z) for p in m.points]


def mirror(m: Marker) -> None:
    for c in m.uv_coordinates:
        c.u = 1 - c.u


TEXT, LINE = "r0/text", "r0/border"
BROKEN = [
    (FILM, lambda m: setattr(m, "ns", "film"), "no plan revision"),
    (FILM, lambda m: setattr(m.header, "frame_id", ""), "no frame_id"),
    (FILM, lambda m: setattr(m.header.stamp, "sec", 5), "stamp"),
    (FILM, lambda m: setattr(m.lifetime, "nanosec", 1), "lifetime"),
    (FILM, lambda m: setattr(m, "frame_locked", True), "frame_locked"),
    (FILM, lambda m: setattr(m.points[3], "x", float("nan")), "not finite"),
    (FILM, lambda m: setattr(m.pose.orientation, "w", 0.0), "quaternion"),
    (FILM, lambda m: setattr(m.color, "g", 1.5), "outside 0 to 1"),
    (TEXT, lambda m: setattr(m.color, "a", 0.0), "invisible"),
    (TEXT, lambda m: setattr(m, "text", " "), "no text"),
    (TEXT, lambda m: setattr(m, "text", "Größe"), "ASCII"),
    (TEXT, lambda m: setattr(m, "text", "a\tb"), "ASCII"),
    (TEXT, lambda m: setattr(m, "text", "a\nb"), "several lines"),
    (TEXT, lambda m: setattr(m.scale, "z", 0.0), "height of the text"),
    (TEXT, lambda m: setattr(m.scale, "x", 1.0), "mean nothing"),
    (LINE, lambda m: setattr(m, "points", m.points[:1]), "fewer than two"),
    (LINE, lambda m: setattr(m.scale, "x", 0.0), "width of the line"),
    (LINE, lambda m: setattr(m, "colors", [ColorRGBA(a=1.0)]), "1 colours for 5 points"),
    (FILM, lambda m: setattr(m, "points", m.points[:5]), "no triangles"),
    (FILM, lambda m: setattr(m, "points", []), "no triangles"),
    (FILM, lambda m: setattr(m, "scale", Vector3(x=1.0, y=1.0)), "scale 0"),
    (FILM, lambda m: setattr(m, "texture_resource", "package://a/b.png"), "only embedded://"),
    (FILM, lambda m: setattr(m, "texture_resource", "embedded://"), "only embedded://"),
    (FILM, lambda m: setattr(m, "texture_resource", ""), "only embedded://"),
    (FILM, lambda m: setattr(m.texture, "format", "rgb8; jpeg compressed bgr8"), "can end RViz"),
    (FILM, lambda m: setattr(m.texture, "format", "png"), "the texture is JPEG"),
    (FILM, lambda m: setattr(m.texture, "data", array("B", b"none")), "cannot be read"),
    (FILM, lambda m: setattr(m.texture, "data", m.texture.data[:200]), "cannot be read"),
    (FILM, lambda m: setattr(m.texture, "data", picture((513, 8))), "at most 512"),
    (FILM, lambda m: setattr(m.color, "r", 0.9), "opaque white"),
    (FILM, lambda m: setattr(m.colors[2], "a", 0.5), "opaque white"),
    (FILM, lambda m: setattr(m, "colors", m.colors[:2]), "2 vertex colours for 6"),
    (FILM, lambda m: setattr(m, "uv_coordinates", m.uv_coordinates[:4]), "4 uv_coordinates for 6"),
    (FILM, lambda m: setattr(m.uv_coordinates[0], "u", 1.1), "uv_coordinates outside"),
    (FILM, lambda m: setattr(m, "points", [m.points[0]] * 6), "without an area"),
    (FILM, lambda m: setattr(m, "uv_coordinates", [m.uv_coordinates[0]] * 6), "without an area"),
    (FILM, lambda m: setattr(m, "points", [*m.points[:3], *m.points[5:2:-1]]), "different ways"),
    (FILM, flip, "mirrored"),
    (FILM, mirror, "mirrored"),
    (FILM, upside_down, "upside down"),
]


@pytest.mark.parametrize(("ns", "spoil", "words"), BROKEN)
def test_each_rule_of_a_marker_can_be_broken(ns, spoil, words):
    good = build(under_way(), frame_id=FRAME, film_strip=True)
    assert MarkerRules().problems(good) == []
    bad = copy.deepcopy(good)
    spoil(find(bad, ns))
    found = MarkerRules().problems(bad)
    assert any(words in problem for problem in found), found
    assert any(problem.startswith(f"{ns}/0: ") or words == "no plan revision" for problem in found)


def test_an_untextured_list_of_triangles_has_a_colour_for_each_or_none():
    array = build(under_way(), frame_id=FRAME, film_strip=True)
    plain = find(array, FILM)
    plain.texture_resource, plain.uv_coordinates = "", []
    plain.texture.data = []
    for count, wrong in ((0, False), (2, False), (6, False), (3, True)):
        plain.colors = [ColorRGBA(g=1.0, a=1.0)] * count
        assert any("colours for 6" in p for p in MarkerRules().problems(array)) == wrong


def clear(ns: str = "") -> Marker:
    return Marker(action=Marker.DELETEALL, ns=ns)


def text(number: int, action: int = Marker.ADD) -> Marker:
    marker = copy.deepcopy(find(build(under_way(), frame_id=FRAME), "r0/task"))
    marker.id, marker.action = number, action
    return marker


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ([[clear(), text(1)], [text(1)]], "ADD to a live id"),
        ([[clear(), text(1)], [clear(), text(1)]], "the same array again"),
        ([[clear(), text(1), text(1)]], "twice in one array"),
        ([[clear(), text(1)], [text(1, Marker.DELETE), text(1)]], "twice in one array"),
        ([[clear(), text(1)], [text(2)]], "late joiner"),
        ([[text(1), clear()]], "DELETEALL after"),
        ([[clear("r0/task")]], "DELETEALL with ns"),
        ([[clear(), text(1, 7)]], "no such action as 7"),
    ],
)
def test_each_rule_of_a_sequence_can_be_broken(arrays, words):
    rules = MarkerRules()
    *before, last = (rules.problems(MarkerArray(markers=markers)) for markers in arrays)
    assert not any(before)
    assert any(words in problem for problem in last), last


def test_delete_then_add_in_the_next_array_is_in_order():
    rules = MarkerRules()
    for markers in (
        [clear(), text(1)],
        [text(1, Marker.DELETE)],
        [text(1)],
        [text(1, Marker.DELETE), text(2)],
    ):
        assert rules.problems(MarkerArray(markers=markers)) == []
    assert rules.live == {("r0/task", 2)}
