"""Check what a task without a camera frame says of the topics that there are."""

import pytest
from rclpy.context import Context
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage, Image
from support.wait import until

from goalreel_ros.cameras import COMPRESSED, RAW, explain_silence, publishers

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def context(ros_env):
    context = Context()
    context.init()
    with context:
        yield context


@pytest.fixture
def node(context):
    """A node as goalreel's: it publishes a picture of its own."""
    node = Node("goalreel", context=context, use_global_arguments=False)
    node.create_publisher(Image, "/goalreel/goal", 1)
    yield node
    node.destroy_node()


@pytest.fixture
def driver(context):
    node = Node("driver", context=context, namespace="/cam", use_global_arguments=False)
    yield node
    node.destroy_node()


def offer(node, driver, *topics):
    for topic, kind in topics:
        driver.create_publisher(kind, topic, 1)
    until(
        lambda: all(
            kind.__name__
            in {p.topic_type.rsplit("/", 1)[1] for p in node.get_publishers_info_by_topic(topic)}
            for topic, kind in topics
        )
    )


def test_nobody_publishes_pictures(node):
    assert explain_silence(node, "/image", RAW) == (
        "no camera frame has arrived on /image (sensor_msgs/Image): nobody publishes it, nor any other "
        "picture: is the camera's driver running?"
    )


def test_other_topics_are_named_with_what_to_write(node, driver):
    offer(node, driver, ("/cam/raw", Image), ("/cam/raw/compressed", CompressedImage))
    assert explain_silence(node, "/image", RAW).endswith(
        "nobody publishes it. Pictures there are: "
        "/cam/raw (give -r image:=/cam/raw -p image_transport:=raw), "
        "/cam/raw/compressed (give -r image:=/cam/raw -p image_transport:=compressed)"
    )


@pytest.mark.parametrize(
    ("published", "wanted", "topic", "give"),
    [
        (CompressedImage, RAW, "/cam/jpeg", "-r image/compressed:=/cam/jpeg -p image_transport:=compressed"),
        (Image, COMPRESSED, "/cam/picture", "-r image:=/cam/picture -p image_transport:=raw"),
    ],
)
def test_a_topic_of_another_type(node, driver, published, wanted, topic, give):
    offer(node, driver, (topic, published))
    said = explain_silence(node, topic, wanted)
    name = published.__name__
    assert said.endswith(f": /cam/driver (sensor_msgs/{name}) publishes another type there: give {give}")


def test_a_publisher_that_sends_nothing(node, driver):
    offer(node, driver, ("/off", Image))
    said = explain_silence(node, "/off", RAW)
    assert "though /cam/driver (sensor_msgs/Image) offers it: is the camera switched on" in said


def test_two_cameras_on_one_topic_are_named(context, node, driver):
    other = Node("webcam", context=context, use_global_arguments=False)
    for camera in (driver, other):
        camera.create_publisher(Image, "/both", 1)
    until(lambda: publishers(node, "/both") == ["/cam/driver", "/webcam"])
    other.destroy_node()
