"""One frame of a camera, as the studio takes it."""

import numpy as np
import pytest
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image as RawImage
from std_msgs.msg import Header
from support.studio import studio
from support.wait import until

from goalreel.errors import InputError
from goalreel.image import Image
from goalreel_ros.client.once import next_frame
from goalreel_ros.pictures import raw
from goalreel_ros.spin import BackgroundNode

pytestmark = pytest.mark.process

FRAME = Image(np.full((4, 6, 3), (10, 200, 30), np.uint8))


@pytest.fixture(scope="module")
def camera():
    """A camera that films all the time."""
    node = BackgroundNode("camera", args=[])
    publisher = node.node.create_publisher(RawImage, "/cam/image_raw", QoSProfile(depth=1))
    node.node.create_timer(0.02, lambda: publisher.publish(raw(FRAME, Header())))
    node.start()
    yield node
    node.close()


def test_the_next_frame_is_taken(camera, tmp_path):
    assert until(lambda: _frame("/cam/image_raw")) == FRAME
    with studio(tmp_path) as client:
        answer = until(lambda: _scene(client))
        assert answer["name"] == "/cam/image_raw"
        for topic, status in (("a; b", 400), ("/cam//raw", 422), ("9", 422)):
            assert client.get("/v1/frames/ros", params={"topic": topic}).status_code == status


def test_silence_is_explained(camera):
    with pytest.raises(InputError, match="/elsewhere"):
        next_frame("/elsewhere", 0.1, args=[])


def _frame(topic):
    try:
        return next_frame(topic, 5.0, args=[])
    except InputError:  # nobody has found the camera yet
        return None


def _scene(client):
    answer = client.get("/v1/frames/ros", params={"topic": "/cam/image_raw"})
    return answer.json() if answer.status_code == 200 else None
