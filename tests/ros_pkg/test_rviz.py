"""launch/goalreel.rviz against the node: every display finds its topic, with a type and QoS that fit."""

import math

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy")

import rclpy
from rclpy.qos import (
    DurabilityPolicy,
    LivelinessPolicy,
    QoSCompatibility,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
)
from support.boards import FRAME
from support.places import ROOT

from goalreel_ros import overview
from goalreel_ros.cameras import CameraInputs
from goalreel_ros.node import new_slot
from goalreel_ros.outputs import Outputs
from goalreel_ros.parameters import NodeOptions

CONFIG = ROOT / "launch" / "goalreel.rviz"
PLUGINS = {"Axes", "FocusCamera", "Image", "MarkerArray", "Measure", "MoveCamera", "Orbit", "TF"}
"""Classes of rviz_default_plugins' plugins_description.xml and transformer_plugins_description.xml."""
TYPES = {"Image": "sensor_msgs/msg/Image", "MarkerArray": "visualization_msgs/msg/MarkerArray"}


@pytest.fixture(scope="module")
def config() -> dict:
    return yaml.safe_load(CONFIG.read_text())


def displays(config: dict) -> dict[str, dict]:
    """Those with a topic, by topic."""
    every = config["Visualization Manager"]["Displays"]
    return {d["Topic"]["Value"]: d for d in every if "Topic" in d}


def classes(part: object) -> list[str]:
    if isinstance(part, dict):
        here = [part["Class"]] if part.get("Class") else []
        return here + [c for value in part.values() for c in classes(value)]
    return [c for value in part for c in classes(value)] if isinstance(part, list) else []


def profile(topic: dict) -> QoSProfile:
    """Read it like RViz's QosProfileProperty; a word it does not know would be a KeyError here."""
    return QoSProfile(
        depth=topic["Depth"],
        durability=DurabilityPolicy[topic["Durability Policy"].upper().replace(" ", "_")],
        reliability=ReliabilityPolicy[topic["Reliability Policy"].upper().replace(" ", "_")],
        liveliness=LivelinessPolicy.AUTOMATIC,
    )


def test_every_class_is_one_that_rviz_ships(config):
    found = classes(config)
    assert {"rviz_default_plugins/Image", "rviz_default_plugins/MarkerArray"} <= set(found)
    for name in found:
        package, plugin = name.split("/")
        assert plugin in (PLUGINS if package == "rviz_default_plugins" else {"Displays", "Views"}), name
        assert package in ("rviz_common", "rviz_default_plugins"), name


@pytest.mark.process
def test_every_display_finds_what_the_node_publishes(config):
    shown = displays(config)
    assert set(shown) == {
        "/goalreel/storyboard/image",
        "/goalreel/subgoal/image",
        "/goalreel/markers",
        "/image",
    }
    with rclpy.init():
        node = rclpy.create_node("goalreel")
        outputs = Outputs(node, NodeOptions(), lambda: 1, lambda: None, lambda: None)
        inputs = CameraInputs(node, NodeOptions, new_slot(), outputs.follow_camera)
        for topic, display in shown.items():
            if topic == "/image":
                (there,) = node.get_subscriptions_info_by_topic(topic)
            else:
                (there,) = node.get_publishers_info_by_topic(topic)
                wanted = profile(display["Topic"])
                assert qos_check_compatible(there.qos_profile, wanted)[0] == QoSCompatibility.OK, topic
                assert wanted.durability == DurabilityPolicy.TRANSIENT_LOCAL, "a late RViz would stay empty"
            assert there.topic_type == TYPES[display["Class"].split("/")[1]]
        inputs.destroy()
        outputs.finish()
        outputs.destroy()
        node.destroy_node()


def test_the_view_looks_along_the_camera_at_the_strip(config):
    """Computed like Orbit's: right is x, down is y, forward is z of the optical frame."""
    manager = config["Visualization Manager"]
    assert manager["Global Options"]["Fixed Frame"] == FRAME
    view = manager["Views"]["Current"]
    yaw, pitch, distance = view["Yaw"], view["Pitch"], view["Distance"]
    focus = np.array([view["Focal Point"][axis] for axis in "XYZ"])
    out = np.array([math.cos(yaw) * math.cos(pitch), math.sin(yaw) * math.cos(pitch), math.sin(pitch)])
    forward = -out
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    assert forward == pytest.approx([0, 0, 1], abs=0.01)
    assert right == pytest.approx([1, 0, 0], abs=0.01)
    assert np.cross(forward, right) == pytest.approx([0, 1, 0], abs=0.01)
    assert focus == pytest.approx([0, overview.OFFSET, overview.DISTANCE])
    # RViz's vertical field of view is 45 degrees; a strip of four panels fits into a square window.
    assert 2.4 * distance * math.tan(math.radians(22.5)) > 4 * (overview.PANEL + overview.GAP)
