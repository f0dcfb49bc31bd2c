"""The plugin `lerobot_camera_goalreel`, in lerobot as it is, against a publisher in another process."""

import importlib.metadata
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.places import SUPPORT
from support.ros import other
from support.wait import until

if TYPE_CHECKING:  # lerobot takes seconds to import
    from lerobot_camera_goalreel import GoalreelCamera, GoalreelCameraConfig

PUBLISHER = str(SUPPORT / "goal_publisher.py")
OWN = "/own/goal"
SIZE = {"width": 64, "height": 48}
PATIENT = SIZE | {"timeout_s": 60.0, "warmup_s": 20.0}
"""Each is over as soon as there is something."""


def config_of(**values: object) -> "GoalreelCameraConfig":
    from lerobot_camera_goalreel import GoalreelCameraConfig

    return GoalreelCameraConfig(**values)


def camera_of(**values: object) -> "GoalreelCamera":
    from lerobot_camera_goalreel import GoalreelCamera

    return GoalreelCamera(config_of(**values))


@pytest.fixture(scope="module")
def shared():
    with other(PUBLISHER) as it:
        yield it


@pytest.fixture
def publisher(shared):
    show(shared, "red")
    return shared


def show(publisher, word: str) -> None:
    """Return once it is published."""
    before = publisher.lines.count(f"shown {word}")
    publisher.say(word)
    until(lambda: publisher.lines.count(f"shown {word}") > before)


@pytest.fixture(scope="module")
def camera(shared):
    show(shared, "red")
    with camera_of(**PATIENT) as camera:
        yield camera


def colour(picture: np.ndarray) -> str:
    rgb = picture.reshape(-1, 3).mean(0)
    return "black" if rgb.max() < 20 else ("red", "green", "blue")[rgb.argmax()]


@pytest.mark.process
def test_lerobot_finds_it_by_its_name_makes_it_from_its_type_and_importing_it_loads_no_ros():
    assert importlib.metadata.metadata("lerobot_camera_goalreel")["Name"].startswith("lerobot_camera_")
    code = (
        "import lerobot_camera_goalreel, sys; print('rclpy' in sys.modules)\n"
        "from lerobot.utils.import_utils import register_third_party_plugins as r; r()\n"
        "from lerobot.cameras.configs import CameraConfig as C\n"
        "from lerobot.cameras.utils import make_cameras_from_configs as m\n"
        "print(m({'subgoal': C.get_choice_class('goalreel')(width=64, height=48)})['subgoal'])"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.splitlines() == ["False", "GoalreelCamera(/goalreel/subgoal/image/compressed)"]


def test_without_rclpy_it_names_the_other_way(monkeypatch):
    from lerobot.cameras.utils import make_cameras_from_configs

    monkeypatch.setitem(sys.modules, "rclpy", None)
    with pytest.raises(ValueError, match=r"needs rclpy here; `goalreel rollout` needs no ROS"):
        make_cameras_from_configs({"subgoal": config_of(**PATIENT)})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "`width` and `height` must be given"),
        ({"width": 64, "height": -1}, "got 64x-1"),
        ({**SIZE, "topic": ""}, "`topic` cannot be empty"),
        ({**SIZE, "topic": OWN, "refuse_degraded": True}, f"need one in /image/compressed: got {OWN}"),
        ({**SIZE, "timeout_s": -1.0}, "cannot be negative"),
        ({**SIZE, "color_mode": "grey"}, "`color_mode` is expected to be in"),
    ],
)
def test_a_bad_config_is_one_clear_line(values, message):
    with pytest.raises(ValueError, match=message) as bad:
        config_of(**values)
    assert "\n" not in str(bad.value)


def test_sizes_are_fitted_as_in_datasets():
    from lerobot_camera_goalreel.camera_goalreel import fit

    from goalreel.subgoal_camera import fit as in_datasets

    picture = np.random.default_rng(0).integers(0, 255, (40, 90, 3), np.uint8)
    for size in [(90, 40), (64, 48), (30, 60), (200, 100)]:
        assert np.array_equal(fit(picture, size), in_datasets(picture, size))
        assert fit(picture, size).shape == (size[1], size[0], 3)


@pytest.mark.process
def test_it_keeps_to_the_conventions_of_lerobots_own_camera(publisher):
    from lerobot.utils.errors import DeviceAlreadyConnectedError, DeviceNotConnectedError

    camera = camera_of(**PATIENT)
    for call in (camera.read, camera.async_read, camera.read_latest, camera.disconnect):
        with pytest.raises(DeviceNotConnectedError):
            call()
    assert not camera.is_connected
    camera.connect(warmup=False)
    assert camera.is_connected
    with pytest.raises(DeviceAlreadyConnectedError):
        camera.connect()
    assert (camera.width, camera.height) == (64, 48)
    until(lambda: colour(camera.async_read()) == "red")
    for picture in (camera.read(), camera.async_read(), camera.read_latest()):
        assert (picture.shape, picture.dtype, colour(picture)) == ((48, 64, 3), np.uint8, "red")
        assert picture.flags.writeable
        assert picture.flags.c_contiguous
    camera.disconnect()
    assert not camera.is_connected


@pytest.mark.process
def test_no_goal_is_black_and_a_new_goal_is_shown(camera, publisher):
    for word, expected in [("green", "green"), ("black", "black"), ("red", "red"), ("empty", "black")]:
        show(publisher, word)
        until(lambda expected=expected: colour(camera.read_latest()) == expected)


@pytest.mark.process
def test_a_goal_that_cannot_be_read_is_an_error_not_a_picture(camera, publisher):
    show(publisher, "broken")

    def fails():
        try:
            camera.read_latest()
        except RuntimeError as e:
            return str(e)

    assert "failed to decode the goal image (7 bytes)" in until(fails)
    show(publisher, "red")
    until(lambda: not fails())
    assert colour(camera.read_latest()) == "red"


@pytest.mark.process
def test_without_a_publisher_connect_fails_and_leaves_nothing_behind():
    camera = camera_of(**SIZE, topic="/nobody", timeout_s=0.2)
    with pytest.raises(ConnectionError, match="nobody publishes it") as failed:
        camera.connect()
    assert "\n" not in str(failed.value)
    assert not camera.is_connected


@pytest.mark.process
def test_before_the_first_goal_it_is_black():
    quiet = "--ros-args", "-r", "/goalreel/subgoal/image/compressed:=/quiet/goal"
    with other(PUBLISHER, *quiet), camera_of(**SIZE, topic="/quiet/goal", warmup_s=0.2) as camera:
        assert colour(camera.read()) == "black"
