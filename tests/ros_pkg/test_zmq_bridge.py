"""`python -m goalreel_ros.zmq` feeds lerobot's own ZMQCamera."""

import gc
import signal
import socket

import numpy as np
import pytest
from support.places import SUPPORT
from support.ros import other
from support.wait import until
from typer.testing import CliRunner

from goalreel_ros.zmq import app

pytestmark = pytest.mark.process

PUBLISHER = str(SUPPORT / "goal_publisher.py")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="module")
def bridge():
    """(publisher, bridge, port)"""
    port = free_port()
    address = f"--address=tcp://127.0.0.1:{port}"
    command = ("-m", "goalreel_ros.zmq", "--width=64", "--height=48", address, "--fps=60")
    with other(PUBLISHER) as publisher, other(*command, ready="sending") as it:  # the camera does not wait
        publisher.say("red")
        yield publisher, it, port


def test_an_address_in_use_is_one_clear_line_and_leaves_nothing_open(bridge):
    import zmq

    port = bridge[2]
    second = CliRunner().invoke(app, ["--width=64", "--height=48", f"--address=tcp://127.0.0.1:{port}"])
    assert second.exit_code == 2
    assert "cannot serve at" in second.stderr
    contexts = [thing for thing in gc.get_objects() if isinstance(thing, zmq.Context)]
    assert all(context.closed for context in contexts), "an open one hangs whoever collects it as garbage"


def test_lerobots_zmq_camera_shows_the_goal_in_its_colours(bridge):
    """Last in this file: it ends both processes."""
    from lerobot.cameras.utils import make_cameras_from_configs
    from lerobot.cameras.zmq import ZMQCameraConfig

    publisher, process, port = bridge
    config = ZMQCameraConfig(
        server_address="127.0.0.1",
        port=port,
        camera_name="subgoal",
        warmup_s=3,
        timeout_ms=1900,  # a read that outlives `disconnect`, which waits for 2 s, can abort this process
    )
    camera = make_cameras_from_configs({"subgoal": config})["subgoal"]

    def picture():
        return camera.async_read(20_000)

    with camera:
        assert (camera.width, camera.height) == (64, 48)
        for word, rgb in [("red", (250, 20, 20)), ("green", (20, 250, 20)), ("empty", (0, 0, 0))]:
            publisher.say(word)
            until(lambda rgb=rgb: np.abs(picture()[24, 32].astype(int) - rgb).max() < 12)
        publisher.say("wide")
        until(lambda: picture()[24, 32, 0] > 200)
        assert picture()[:7].max() < 20
        publisher.say("broken")
        until(lambda: any("cannot be read" in line for line in process.lines))
        until(lambda: picture().max() < 20)

        publisher.stop()

        def gone():
            try:
                camera.read_latest(max_age_ms=300)
            except TimeoutError as e:
                return str(e)

        assert "too old" in until(gone)
        until(lambda: process.lines[-1].endswith("is gone: silent"))
    assert process.stop(signal.SIGINT) == 0
    assert not any("Traceback" in line for line in process.lines)
