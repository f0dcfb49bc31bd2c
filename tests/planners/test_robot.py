"""What is understood of a robot from all of its recordings: grippers, closed ends, arms."""

from dataclasses import replace

import numpy as np
import pytest
from support.arms import near, planned
from support.places import DATA
from support.robots import joints, made_by, pick_and_place

from goalreel.annotator.questions import find_question
from goalreel.datasets.source import Source
from goalreel.errors import InputError
from goalreel.planners.kinematic.layout import Layout, Unsegmentable
from goalreel.planners.kinematic.motion import read_motion
from goalreel.planners.kinematic.planner import KinematicPlanner
from goalreel.planners.kinematic.robot import Robot, find_layout, infer_robot
from goalreel.planners.kinematic.roles import find_position, named_hands
from goalreel.planners.kinematic.signals import cycles, unwrap
from goalreel.types import Task

SO101 = tuple(
    f"{name}.pos"
    for name in ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
)
ALOHA = tuple(
    f"{side}_{name}"
    for side in ("left", "right")
    for name in ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")
)


def dataset(count, closed, names=(), width=(0.3, 0.5), scale=(0, 100), command="follow", starts_closed=False):
    """Recordings of a robot whose gripper is the last dimension."""
    rng, (low, high) = np.random.default_rng(3), scale
    recordings = []
    for _ in range(count):
        rows = pick_and_place(rng, starts_closed=starts_closed, width=rng.uniform(*width))
        hand, told = (low + (high - low) * (c if closed == "low" else 1 - c) for c in rows[:, 3:].T)
        if command == "binary":
            told = np.where(rows[:, 4] > 0.9, -1.0, 1.0) * (1 if closed == "high" else -1)
        body = joints(rows[:, :3])
        action = np.column_stack([body, told]) if command else None
        recordings.append(made(np.column_stack([body, hand]), action, names))
    return recordings


def made(state, action=None, names=()):
    state = np.asarray(state, np.float32)
    action = state[:, :0] if action is None else np.asarray(action, np.float32)
    return made_by(state, action, tuple(names), tuple(names) if action.shape == state.shape else ())


def closed(robot: Robot):
    (finding,) = (f for f in robot.findings if f.field == "closed")
    return robot.layout.closed, finding.confidence


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("order", [range(9), (5, 0, 6, 1, 7, 2, 8, 3, 4)])
def test_dimensions_that_go_along_with_an_unnamed_gripper_are_its_fingers_and_no_arm(order, end):
    """Wherever they stand, and though another number goes between two levels, but less far than a gripper."""
    made = []
    for r in dataset(6, end, command=None, scale=(0, 1)):
        hand = r.state[:, -1:] * np.array([0.6, 0.7, 0.8, 1], np.float32)
        noise = 0.002 * (np.arange(len(hand)) > len(hand) / 2)
        columns = np.column_stack([r.state[:, :-1], hand])[:, order]
        made.append(replace(r, state=np.column_stack([columns, noise])))
    layout = infer_robot(made).layout
    assert layout.gripper == tuple(i for i, column in enumerate(order) if column > 4)
    assert layout.closed in (None, end)


@pytest.mark.parametrize("starts_closed", [False, True])
@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("command", ["follow", "binary", None])
def test_either_end_is_found_however_episodes_start(end, starts_closed, command):
    recordings = dataset(6, end, names=SO101, command=command, starts_closed=starts_closed)
    sure = [(end, "likely"), (end, "certain")]
    unsure = [] if command == "follow" or not starts_closed else [(None, "unknown")]
    assert closed(infer_robot(recordings)) in (*sure, *unsure)


@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("command", ["follow", "binary"])
def test_a_wide_object_is_held_though_the_hand_closes_further_on_nothing(end, command):
    """At rest the hand is closed; on the object it is nearer to open than to closed."""
    wide = dataset(5, end, names=SO101, command=command, starts_closed=True, width=(0.68, 0.72))
    layout = infer_robot(wide).layout
    assert layout.closed == end
    assert layout.threshold is not None
    assert 70 <= (layout.threshold if end == "low" else 100 - layout.threshold) <= 95
    for recording in wide:
        motion = read_motion(recording, layout)
        (hold,) = (c for c in motion.cycles if c.release is not None)
        assert abs(hold.contact - 40) <= 5
        assert hold.release is not None
        assert abs(hold.release - 88) <= 5


@pytest.mark.parametrize(
    ("robot_type", "name", "scale", "end"),
    [
        ("so101_follower", "gripper.pos", (2, 98), "low"),
        ("so100", "main_gripper", (0, 80), "low"),
        ("koch_follower", "gripper.pos", (0, 100), "low"),
        ("aloha", "gripper", (0.02, 0.98), "low"),
        ("openarm_follower", "gripper.pos", (-60, -2), "high"),
        ("ur5e_robotiq", "gripper", (3, 228), "high"),
        ("franka", "gripper_width", (0, 0.08), "low"),
        ("panda", "gripper_opening", (0, 1), "low"),
        ("x", "gripper_closed", (0, 1), "high"),
    ],
)
def test_types_and_names_tell_the_end_where_motion_does_not(robot_type, name, scale, end):
    recordings = dataset(4, end, names=(*SO101[:5], name), scale=scale, command=None, starts_closed=True)
    assert closed(infer_robot(recordings, robot_type=robot_type)) in ((end, "likely"), (end, "certain"))


@pytest.mark.parametrize("late", [0, 10])
@pytest.mark.parametrize("end", ["low", "high"])
def test_a_command_of_minus_one_and_one_does_not_turn_a_hand_round(end, late):
    """The hand goes from 0 to 1, takes thin things, and may follow the command late."""
    slow = []
    for r in dataset(6, end, SO101, command="binary", scale=(0, 1), width=(0, 0.02), starts_closed=True):
        hand = np.concatenate([r.state[:1].repeat(late, 0), r.state])[: len(r.state), 5:]
        slow.append(replace(r, state=np.hstack([r.state[:, :5], hand])))
    assert closed(infer_robot(slow))[0] in (end, None)


def test_what_contradicts_lowers_the_confidence():
    sure = infer_robot(dataset(6, "low", names=SO101), robot_type="so101_follower")
    assert closed(sure) == ("low", "certain")
    torn = infer_robot(dataset(6, "high", names=SO101), robot_type="so101_follower")
    assert closed(torn) == ("high", "likely")
    assert "but lerobot's 0-100 grippers close at 0" in torn.findings[1].reason


def test_what_no_evidence_tells_is_unknown_and_says_what_was_seen():
    (one,) = dataset(1, "low", names=SO101, command=None)
    half = replace(one, state=one.state[: round(4.4 * 20)], commands=one.action[: round(4.4 * 20)])
    robot = infer_robot([half])
    assert closed(robot) == (None, "unknown")
    (finding,) = robot.unknown
    assert "it goes from" in finding.reason
    assert "1 episode" in finding.reason
    said = infer_robot([half], Layout(closed="low"))
    assert closed(said) == ("low", "given")
    assert not said.unknown


def test_a_gripper_that_never_moves_leaves_nothing_to_ask():
    moving = dataset(2, "low", names=SO101, command=None)
    robot = infer_robot([replace(r, state=r.state * ([1] * 5 + [0])) for r in moving])
    assert robot.layout.gripper == (5,)
    assert not robot.unknown


def test_a_robot_without_a_gripper_has_none():
    path = np.random.default_rng(0).normal(size=(80, 2)).cumsum(axis=0).astype(np.float32)
    robot = infer_robot([made_by(path, path, ("x", "y"), ("x", "y"))])
    assert robot.layout.gripper == ()
    assert robot.layout.complete
    assert not robot.unknown
    assert find_layout(made_by(path, path), robot.layout) == robot.layout


def two_arms(names):
    """Both arms of an ALOHA at work, one after the other; grippers open at 1."""
    left, right = (dataset(6, "low", scale=(0, 1)) for _ in range(2))
    pad = ((0, 0), (0, 1))
    recordings = []
    for a, b in zip(left, right, strict=True):
        sides = []
        for feature in ("state", "action"):
            x, y = (np.pad(getattr(r, feature), pad)[:, [0, 1, 2, 3, 4, 6, 5]] for r in (a, b))
            first = np.concatenate([x, np.repeat(x[-1:], len(y), 0)])
            second = np.concatenate([np.repeat(y[:1], len(x), 0), y])
            sides.append(np.concatenate([first, second], axis=1))
        recordings.append(made_by(*sides, names, names))
    return recordings


BIMANUAL = tuple(f"arm{arm}_j{joint}" for arm in (1, 2) for joint in range(1, 7))


@pytest.mark.parametrize("wobbling", [(), (11,), (5, 11)])
def test_a_type_of_two_arms_says_which_numbers_are_grippers(wobbling):
    """Though a joint looks more like one; where no gripper fits, the answer can be given."""
    recordings = []
    for arms in two_arms(()):
        state = np.delete(arms.state, (5, 12), axis=1)
        turn = np.linspace(0, 1, len(state))
        for gripper in wobbling:
            state[:, gripper] = 0.4 * state[:, gripper] + 0.6 * np.sin(9 * turn + gripper)
        state[:, 10] = (turn > 0.5) + 0.02 * np.sin(30 * turn)
        recordings.append(made_by(state, state, BIMANUAL, BIMANUAL))
    robot = infer_robot(recordings, robot_type="so101_bimanual")
    if len(wobbling) < 2:
        assert {hand.gripper for hand in robot.hands} == {(5,), (11,)}
        return
    (unknown,) = robot.unknown
    assert unknown.answers[:3] == ("gripper=5/11", "gripper=5", "gripper=11")
    said = infer_robot(recordings, Layout.parse(unknown.answers[0]), robot_type="so101_bimanual")
    assert {hand.gripper for hand in said.hands} == {(5,), (11,)}


@pytest.mark.parametrize("names", [ALOHA, ()])
def test_both_grippers_of_two_arms_are_kept(names):
    robot = infer_robot(two_arms(names))
    assert {hand.gripper for hand in robot.hands} == {(6,), (13,)}
    assert {hand.closed for hand in robot.hands} == {"low"}
    if names:
        sides = {hand.side: hand for hand in robot.hands}
        assert sides["left"].position == tuple(range(6))
        assert sides["right"].position == tuple(range(7, 13))
        assert {f.field for f in robot.findings} >= {"left gripper", "right gripper", "left closed"}


def plan(recordings, instruction, **options):
    """The plan of the first recording, read as all of them show the robot."""
    robot = infer_robot(recordings)
    planner = KinematicPlanner({"it": recordings[0]}, layout=robot.layout, **options)
    return planner.plan([Task(id="it", instruction=instruction)])[0]


TWO = "put the red cup in the box, then put the blue cup in the box"


def test_each_step_says_which_hand_does_it():
    found = plan(two_arms(ALOHA), TWO)
    assert [s.auxiliary_text for s in found.steps] == [
        f"with the {s} hand" for s in ("left", "right") for _ in "12"
    ]
    assert [step.name for step in found.steps][1::2] == TWO.split(", then ")
    assert not any(step.doubts for step in found.steps)


def test_one_hand_of_two_at_work_is_enough_and_is_named():
    recordings = two_arms(ALOHA)
    half = len(recordings[0].state) // 2
    first = replace(recordings[0], state=recordings[0].state[half:], commands=recordings[0].action[half:])
    found = plan([first, *recordings[1:]], "put the red cup in the box")
    assert {step.auxiliary_text for step in found.steps} == {"with the right hand"}
    assert not any(step.doubts for step in found.steps)


def test_the_two_fingers_of_one_gripper_are_one_hand():
    names = (*(f"joint_{i}" for i in range(5)), "left_finger", "right_finger")
    moving = dataset(5, "low", scale=(0, 0.04), command=None)
    robot = infer_robot([made(np.column_stack([r.state, -r.state[:, 5]]), names=names) for r in moving])
    assert [hand.gripper for hand in robot.hands] == [(5, 6)]
    assert closed(robot)[0] == "low"


def test_a_layout_of_two_hands_is_read_and_written():
    layout = Layout.parse("gripper=6/13,position=0:6/7:13,closed=low")
    assert [(h.gripper, h.position, h.closed) for h in layout.hands] == [
        ((6,), tuple(range(6)), "low"),
        ((13,), tuple(range(7, 13)), "low"),
    ]
    assert str(layout) == "gripper=6/13,position=0:6/7:13,closed=low"
    assert Layout.parse(str(layout)) == layout
    robot = infer_robot(two_arms(ALOHA), layout)
    assert {f.confidence for f in robot.findings if f.field.endswith(("gripper", "closed"))} == {"given"}
    one = Layout.parse("gripper=6+13")
    assert one.hands == (one,)
    with pytest.raises(InputError, match="for two hands"):
        Layout.parse("gripper=6/x")
    with pytest.raises(Unsegmentable, match="dimension 20"):
        infer_robot(two_arms(ALOHA), Layout.parse("gripper=6/20"))


@pytest.mark.parametrize(("name", "end"), [("droid_new_setup", "high"), ("g1_inspire", "low")])
def test_real_robots_are_understood_with_and_without_their_type(name, end):
    source = Source.open(DATA / "real" / name)
    episodes = [source.episode(i) for i in source.indices]
    for robot_type in (source.info["robot_type"], None):
        robot = infer_robot(episodes, robot_type=robot_type)
        assert robot.layout.closed == end
        assert robot.layout.gripper == ((6,) if name == "droid_new_setup" else tuple(range(20, 26)))
        assert not robot.unknown


@pytest.mark.parametrize(
    ("names", "hint", "position", "vertical"),
    [
        (("x", "y", "z", "gripper"), None, ("0:3", "certain"), ("2", "certain")),
        (("a", "b", "c", "gripper"), None, ("0:3", "likely"), (None, "likely")),
        ((), "gripper=3", ("0:3", "likely"), (None, "likely")),
        (("a", "b", "c", "gripper"), "vertical=1", ("0:3", "likely"), ("1", "given")),
        ((), "gripper=3,position=0:3", ("0:3", "given"), (None, "likely")),
        ((), "gripper=3,position=0:3,vertical=2", ("0:3", "given"), ("2", "given")),
    ],
)
def test_an_arm_is_certain_only_where_its_axes_are_named(names, hint, position, vertical):
    """Joints called motor_0 may be fingers, too."""
    recording = made(ways(1)[0][:, :4], ways(1)[0][:, :4], names)
    robot = infer_robot([recording], Layout.parse(hint) if hint else None)
    found = {f.field: (f.value, f.confidence) for f in robot.findings}
    assert (found["position"], found["vertical"]) == (position, vertical)
    asks = "--layout vertical=N" in next(f.reason for f in robot.findings if f.field == "vertical")
    assert asks == (vertical[0] is None)


XYZ = ("x", "y", "z")
FINGERS = ("thumb_cmc.pos", "index_pip.pos", "middle_pip.pos", "ring_pip.pos", "pinky_pip.pos")


def ways(count=6, seed=11):
    """The arm's places and how open its hand is, (n, 5), of several episodes."""
    rng = np.random.default_rng(seed)
    return [pick_and_place(rng, width=rng.uniform(0.3, 0.5)) for _ in range(count)]


@pytest.mark.parametrize(
    ("names", "hands", "position"),
    [
        (("hand_x", "hand_y", "hand_z", "gripper"), [[3]], (0, 1, 2)),
        (("gripper_x", "gripper_y", "gripper_z", "gripper_yaw", "gripper_open"), [[4]], (0, 1, 2)),
        (("handle_x", "handle_y", "handle_z", *XYZ, "gripper"), [[6]], (3, 4, 5)),
        (("object_x", "object_y", "object_z", "eef_x", "eef_y", "eef_z", "gripper"), [[6]], (3, 4, 5)),
        (("bowl_x", "bowl_y", "bowl_z", "tcp_pos_x", "tcp_pos_y", "tcp_pos_z", "gripper"), [[6]], (3, 4, 5)),
        (("imu_acc_x", "imu_acc_y", "imu_acc_z", *XYZ, "gripper"), [[6]], (3, 4, 5)),
        (("eefPosX", "eefPosY", "eefPosZ", "gripper"), [[3]], (0, 1, 2)),
        (("j0", "j1", "quaternion_x", "quaternion_y", "quaternion_z", "gripper"), [[5]], None),
        (("j0", "j1", "euler_x", "euler_y", "euler_z", "torque_0", "gripper"), [[6]], None),
        (FINGERS, [[0, 1, 2, 3, 4]], None),
        (("j0", "vacuum"), [[1]], None),
        (("left_j0", "left_finger", "right_j0", "right_finger"), [[1], [3]], None),
        (("j0", "gripper", "gripper_temperature", "finger_tactile_0"), [[1]], None),
    ],
)
def test_what_is_no_hand_and_no_place_of_it_is_not_taken_for_one(names, hands, position):
    assert named_hands(names, len(names)) == hands
    found, vertical = find_position(names, len(names), hands[0])
    assert vertical == (None if position is None else position[2])
    assert position in (None, found)


@pytest.mark.parametrize("form", ["j{}_{}", "robot{1}_j{0}", "arm_{1}.j{0}"])
def test_the_hands_of_two_arms_are_two_however_they_are_told_apart(form):
    names = [form.format(joint, arm) for arm in "01" for joint in (*range(5), "gripper")]
    robot = infer_robot([made(numbers, names=names) for numbers in two(ways(), ways(seed=5))])
    both = {((5,), tuple(range(5))), ((11,), tuple(range(6, 11)))}
    assert {(hand.gripper, hand.position) for hand in robot.hands} == both
    assert {hand.closed for hand in robot.hands} <= {"low", None}


@pytest.mark.parametrize(("sign", "vertical"), [(1, 2), (-1, None)])
def test_an_axis_that_falls_where_the_hand_carries_is_no_height(sign, vertical):
    recordings = [made(w[:, :4] * (1, 1, sign, 1), names=(*XYZ, "gripper")) for w in ways()]
    robot = infer_robot(recordings)
    assert robot.layout.vertical == vertical
    assert any("falls between" in f.reason for f in robot.findings) == (vertical is None)


def two(ways_of_left, ways_of_right):
    """Two arms, one after the other, each as five joints and a gripper."""
    for first, second in zip(ways_of_left, ways_of_right, strict=True):
        left = np.vstack([first, np.repeat(first[-1:], len(second), 0)])
        right = np.vstack([np.repeat(second[:1], len(first), 0), second])
        yield np.hstack([part for arm in (left, right) for part in (joints(arm[:, :3]), arm[:, 3:4])])


def changes(values):
    return np.diff(values, axis=0, prepend=values[:1])


WRITTEN = {
    "places": lambda v: v,
    "changes": changes,
    "changes of the arm alone": lambda v: np.column_stack([changes(v)[:, :-1], v[:, -1]]),
    "speeds": lambda v: np.gradient(v, axis=0) * 20,
    "degrees": lambda v: np.degrees(v),
    "ticks": lambda v: np.round(2048 + v * 650),
    "another rate": lambda v: v[(np.arange(len(v)) // 4) * 4],
    "a dead number": lambda v: np.column_stack([np.full(len(v), 0.7), v]),
    "turned round": lambda v: v * ([1] * (v.shape[1] - 1) + [-1]),
}


@pytest.mark.parametrize(("delay", "has_names"), [(None, True), (0, True), (-1, False), (4, False)])
@pytest.mark.parametrize("form", WRITTEN)
def test_a_recording_is_read_alike_however_it_is_written(form, delay, has_names):
    """Steps of the arm are summed; the action is missing, the state itself, the next state, or late."""
    robots, cuts = {}, []
    for name in ("places", form):
        recordings = []
        for way in ways():
            state = WRITTEN[name](way[:, :4])
            names = [*XYZ, "gripper"] if state.shape[1] == 4 else ["dead", *XYZ, "gripper"]
            action = None if delay is None else np.roll(state, delay, axis=0)
            recordings.append(made(state, action, names if has_names else ()))
        robots[name] = infer_robot(recordings)
        assert robots[name].layout.gripper == (state.shape[1] - 1,)
        assert bool(robots[name].layout.summed) == name.startswith(("changes", "speeds"))
        end = "high" if name == "turned round" else "low"
        assert robots[name].layout.closed in (None, end)
        assert all(finding.field == "closed" for finding in robots[name].unknown)
        layout = robots[name].layout.model_copy(update={"closed": end})
        cuts.append([s.end for s in planned(recordings[0], layout=layout).segments])
    assert near(*cuts, slack=10)


@pytest.mark.parametrize("turn", [2 * np.pi, 360, 4096])
def test_angles_that_pass_the_end_of_a_turn_do_not_jump(turn):
    angle = turn * (0.95 + 0.2 * np.sin(np.arange(80) / 24))
    for wrapped in (angle % turn, (angle + turn / 2) % turn - turn / 2):
        assert np.abs(np.diff(unwrap(wrapped[:, None])[:, 0] - angle)).max() < 1e-6 * turn
    switch = np.where(np.arange(80) % 20 < 10, 0.0, turn / 2)[:, None]
    assert (unwrap(switch) == switch).all()


def scaled(recordings):
    """Each number by its own mean and deviation."""
    columns = [np.concatenate([getattr(r, of) for r in recordings]) for of in ("state", "action")]
    (state, state_by), (action, action_by) = ((c.mean(axis=0), c.std(axis=0)) for c in columns)
    numbers = [((r.state - state) / state_by, (r.action - action) / action_by) for r in recordings]
    return [
        made_by(*its, r.state_names, r.action_names, r.fps)
        for its, r in zip(numbers, recordings, strict=True)
    ]


def unnamed(name):
    """The episodes of a real set, without the names of their numbers."""
    source = Source.open(DATA / "real" / name)
    return [replace(r, state_names=(), action_names=()) for r in map(source.episode, source.indices)]


def test_a_scaled_angle_that_passes_the_end_of_a_turn_is_no_command_to_close():
    """Of DROID, whose action is the next state: the number 3 jumps from end to end, where it lies."""
    robot = infer_robot(scaled(unnamed("droid_new_setup")))
    assert (robot.layout.gripper, robot.layout.closed, robot.unknown) == ((6,), "high", ())


@pytest.mark.parametrize(
    ("name", "gripper", "height"), [("droid_new_setup", "6", 2), ("g1_inspire", "20:26", None)]
)
def test_of_a_pose_without_names_one_number_rises_with_things_and_of_joints_several_do(name, gripper, height):
    layout = infer_robot(unnamed(name), Layout.parse(f"gripper={gripper}")).layout
    assert layout.vertical == height
    assert height is None or layout.position == (0, 1, 2)


def test_a_height_without_a_name_is_found_in_any_order():
    order = [2, 0, 1, 3, 4, 5, 6]
    moved = [
        replace(r, state=r.state[:, order], action=r.action[:, order]) for r in unnamed("droid_new_setup")
    ]
    layout = infer_robot(moved, Layout.parse("gripper=6")).layout
    assert (layout.vertical, layout.position) == (0, (0, 1, 2, 3, 4, 5))


def test_quaternions_that_change_their_sign_do_not_jump():
    def turns_of(half):
        turns = np.stack([np.sin(half), 0 * half, 0 * half, np.cos(half)], axis=1)
        return turns, turns * np.where(turns[:, 3:] < 0, -1, 1)

    half = 1.2 + 0.4 * np.sin(np.arange(80) / 12)
    turns, flipped = turns_of(half)
    assert np.allclose(unwrap(np.column_stack([half, flipped, half]))[:, 1:5], turns)
    recordings = []
    for way in ways():
        _, flipped = turns_of(np.pi / 2 + way[:, 0] - way[:, 0].mean())
        recordings.append(made(np.hstack([way[:, :3], way[:, 3:4], flipped, joints(way[:, :3])])))
    assert infer_robot(recordings).layout.gripper == (3,)


def test_a_person_says_that_there_is_no_gripper():
    robot = infer_robot([made(joints(w[:, :3])) for w in ways()], Layout.parse("gripper=none"))
    assert not robot.layout.gripper
    assert not robot.unknown
    assert Layout.parse("gripper=none").handless
    assert str(Layout.parse("gripper=none,summed=0:3")) == "summed=0:3,gripper=none"


def test_two_robots_in_one_dataset_are_asked_for():
    """Some of its episodes close at the other end, by their own commands."""
    recordings = []
    for i, w in enumerate(ways(8)):
        hand, told = 1 - w[:, 3:].T if i % 4 == 1 else w[:, 3:].T
        state, action = (np.column_stack([w[:, :3], column]) for column in (hand, told))
        recordings.append(made(state, action, (*XYZ, "gripper")))
    robot = infer_robot(recordings)
    assert robot.layout.closed is None
    asked = str(find_question(robot))
    assert "annotate them apart" in asked
    assert "--layout" not in asked


def test_fingers_that_go_either_way_are_read_alike_in_all_episodes():
    """The thumb goes against the fingers, and is the widest in some episodes alone."""
    recordings = []
    for i, w in enumerate(ways(8)):
        joints_of_hand = (1 - w[:, 3:4]) * (-1.0 if i % 2 else -0.35, 0.8, 0.9, 0.8)
        names = (*XYZ, "thumb", "index", "middle", "pinky")
        recordings.append(made(np.hstack([w[:, :3], joints_of_hand]), names=names))
    robot = infer_robot(recordings)
    assert robot.layout.gripper == (4, 5, 6)
    assert robot.layout.closed in ("high", None)


@pytest.mark.parametrize("column", range(6))
def test_a_named_gripper_that_moves_as_a_joint_does_is_asked_for(column):
    """Names of another order: the true gripper, the number `column`, is among the answers."""
    names = (*(f"j{i}" for i in range(5)), "gripper")
    numbers = [np.insert(joints(way[:, :3]), column, way[:, 3], axis=1) for way in ways()]
    robot = infer_robot([made(values, values, names) for values in numbers])
    gripper = next(f for f in robot.findings if f.field == "gripper")
    if column == 5:
        assert str(gripper).startswith("gripper=5 (certain): named gripper")
        return
    assert gripper.confidence != "certain"
    if gripper.confidence == "unknown":
        assert {f"gripper={column}", "gripper=5", "gripper=none"} <= {*gripper.answers}
    else:
        assert not robot.unknown


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (5, 0, 1, 2, 3, 4), (3, 1, 5, 0, 2, 4)])
def test_a_number_that_moves_with_the_commands_to_close_is_the_gripper(order):
    """No names: wherever the hand stands among the joints, and though it rests closed, opens and holds."""
    recordings = [
        replace(r, state=r.state[:, order], commands=r.action[:, order[::-1]])
        for r in dataset(6, "low", command="binary", starts_closed=True)
    ]
    robot = infer_robot(recordings)
    assert robot.layout.gripper == (order.index(5),)
    assert "just after number" in robot.findings[0].reason


def test_a_roll_that_wraps_around_is_no_command_of_a_hand():
    """A tool points down: its roll is about 180 degrees, or -180 where the arm is on one side."""
    recordings = []
    for r in dataset(6, "low", command="binary"):
        side = np.tanh((r.state[:, :1] - np.median(r.state[:, 0])) / np.ptp(r.state[:, 0]) * 8) / 2
        roll = np.where(side > 0, side - 180, side + 180)
        recordings.append(made(*(np.hstack([roll, numbers]) for numbers in (r.state, r.action))))
    assert str(infer_robot(recordings).layout).startswith("gripper=6,")


def test_the_arm_is_the_one_that_moves_where_no_name_tells_whose_hand_it_is():
    """The other arm rests, but for noise, and comes first; the gripper is in the action alone."""
    rng, recordings = np.random.default_rng(5), []
    for way in ways():
        rests = way[0, :3] + 1e-3 * rng.normal(size=(len(way), 3))
        recordings.append(
            made(np.hstack([rests, way[:, :3]]), way, [f"arm{a}_{n}" for a in "21" for n in "xyz"])
        )
    recordings = [replace(r, action_names=(*XYZ[:3], "gripper")) for r in recordings]
    layout = infer_robot(recordings).layout
    assert (layout.position, layout.vertical) == ((3, 4, 5), 5)


def test_numbers_that_were_scaled_are_not_compared_with_their_commands():
    """Each by its own deviation: the gap between command and state says nothing."""
    for end, shift in (("low", -0.2), ("high", 0.2)):
        shifted = [replace(r, commands=r.action + shift) for r in scaled(dataset(6, end, names=SO101))]
        for hint in (None, Layout.parse("summed=1")):
            findings = infer_robot(shifted, hint).findings
            assert "command" not in next(f.reason for f in findings if f.field == "closed")


def test_a_hand_that_rests_further_closed_than_on_a_thing_takes_hold_of_it():
    """A lift that begins with a closed, empty hand, and ends with the thing in it."""
    times = np.linspace(0, 6, 121)
    curve = np.interp(times, [0, 0.5, 1, 3, 3.3, 6], [1, 1, 0, 0, 0.42, 0.42])
    (grasp,) = cycles(curve, 20.0)
    assert grasp.contact == pytest.approx(66, abs=3)
    assert grasp.release is None
