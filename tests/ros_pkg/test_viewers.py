"""The configurations of RViz and Foxglove against the node: each display finds its topic."""

import pytest

pytest.importorskip("rclpy")

import json
import re
from importlib import import_module

import pytest
import rclpy
import yaml
from rclpy.qos import (
    DurabilityPolicy,
    LivelinessPolicy,
    QoSCompatibility,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
)
from support.places import ROOT
from support.wait import until

from goalreel.streaming.camera import FrameSlot
from goalreel_ros.cameras import CameraInputs
from goalreel_ros.outputs import Outputs
from goalreel_ros.parameters import NodeOptions
from goalreel_ros.pictures import decode

CONFIG = ROOT / "launch" / "goalreel.rviz"
TYPES = {"Image": "sensor_msgs/msg/Image", "MarkerArray": "visualization_msgs/msg/MarkerArray"}


def profile(topic: dict) -> QoSProfile:
    """Read it like RViz's QosProfileProperty; a word it does not know would be a KeyError here."""
    return QoSProfile(
        depth=topic["Depth"],
        durability=DurabilityPolicy[topic["Durability Policy"].upper().replace(" ", "_")],
        reliability=ReliabilityPolicy[topic["Reliability Policy"].upper().replace(" ", "_")],
        liveliness=LivelinessPolicy.AUTOMATIC,
    )


@pytest.mark.process
def test_every_display_finds_what_the_node_publishes():
    displays = yaml.safe_load(CONFIG.read_text())["Visualization Manager"]["Displays"]
    shown = {d["Topic"]["Value"]: d for d in displays if "Topic" in d}
    ours = {f"/goalreel/{name}" for name in ("storyboard/image", "subgoal/image", "markers")}
    assert set(shown) == ours | {"/image"}
    with rclpy.init():
        node = rclpy.create_node("goalreel")
        outputs = Outputs(node, NodeOptions(), lambda: 1, lambda: None)
        inputs = CameraInputs(node, NodeOptions, FrameSlot(decode), outputs.follow_camera)
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


LAYOUT = ROOT / "launch" / "goalreel.foxglove-layout.json"
FOXGLOVE_TYPES = {
    "Image": "sensor_msgs/msg/Image",
    "DiagnosticSummary": "diagnostic_msgs/msg/DiagnosticArray",
    "RosOut": "rcl_interfaces/msg/Log",
}
NUMBER = re.compile(r"(u?int\d+|float|double|boolean|octet)")
PART = re.compile(r"(\w+)(\[:\])?")


def paths(layout: dict) -> list[tuple[str, str]]:
    """(panel type, topic or message path) of all that is shown."""
    found = []
    for panel, config in layout["configById"].items():
        kind = panel.partition("!")[0]
        shown = [config.get("topicPath"), config.get("topicToRender")]
        shown += [config.get("imageMode", {}).get("imageTopic")]
        shown += [series["value"] for series in config.get("paths", ())]
        found += [(kind, path) for path in shown if path is not None]
    return found


def leaf(types: dict[str, str], path: str) -> str:
    """The type of what a message path leads to.

    Raises:
        KeyError: no such topic or field.
    """
    topic, *fields = path.split(".")
    kind = types[topic]
    for field in fields:
        name, every = PART.fullmatch(field).groups()
        package, _, message = kind.split("/")
        kind = getattr(import_module(f"{package}.msg"), message).get_fields_and_field_types()[name]
        kind = kind.removeprefix("sequence<").removesuffix(">") if every else kind
        if "/" in kind:
            kind = kind.replace("/", "/msg/")
    return kind


@pytest.mark.process
def test_every_path_leads_to_what_the_node_publishes(node, filming):
    graph, layout = filming.node, json.loads(LAYOUT.read_text())

    def ours() -> dict[str, str]:
        """The topics, with their types, that the node publishes, and that of the camera that it hears."""
        there = graph.get_topic_names_and_types()
        made = {t: {p.node_name for p in graph.get_publishers_info_by_topic(t)} for t, _ in there}
        made["/image"] = {p.node_name for p in graph.get_subscriptions_info_by_topic("/image")}
        return {t: kinds[0] for t, kinds in there if {"goalreel", "goalreel_camera"} & made[t]}

    some = {"/image", "/rosout", "/diagnostics", "/goalreel/progress", "/goalreel/subgoal"}
    until(lambda: some <= set(ours()))
    shown, types = paths(layout), ours()
    assert len(shown) > len(layout["configById"])
    for kind, path in shown:
        found = leaf(types, path)
        assert found == FOXGLOVE_TYPES.get(kind, found), path
        assert kind != "Plot" or NUMBER.fullmatch(found), path
        assert kind != "Table" or "[:]" in path, path
