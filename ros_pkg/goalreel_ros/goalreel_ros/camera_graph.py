"""What the ROS graph says of the camera: who publishes what, and what to write where no frame arrives."""

from rclpy.node import Node
from rclpy.topic_endpoint_info import TopicEndpointInfo

RAW, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
_OTHERS = 5
"""Other image topics that are named."""


def explain_silence(node: Node, topic: str, kind: str) -> str:
    """Say in one line what is known of `topic`, on which messages of the type `kind` are waited for.

    Topics that `node` itself publishes, and those that nobody does, are left out of what could be meant.
    """
    start = f"no camera frame has arrived on {topic} ({_short(kind)})"
    publishers = node.get_publishers_info_by_topic(topic)
    if not publishers:
        others = _image_topics(node, topic)
        if not others:
            return f"{start}: nobody publishes it, nor any other picture: is the camera's driver running?"
        return f"{start}: nobody publishes it. Pictures there are: {_list(others)}"
    names = ", ".join(sorted(f"{_name(p)} ({_short(p.topic_type)})" for p in publishers))
    types = {p.topic_type for p in publishers}
    if kind in types:
        return f"{start}, though {names} offers it: is the camera switched on, and on this network?"
    advice = "; ".join(_arguments(topic, t) for t in sorted(types & {RAW, COMPRESSED}))
    return f"{start}: {names} publishes another type there{f': give {advice}' if advice else ''}"


def publishers(node: Node, topic: str) -> list[str]:
    """Name the nodes that publish `topic`, one a publisher."""
    return sorted(_name(p) for p in node.get_publishers_info_by_topic(topic))


def _image_topics(node: Node, silent: str) -> list[tuple[str, str]]:
    """(topic, type) of the pictures that other nodes publish."""
    image_topics = []
    for topic, types in node.get_topic_names_and_types():
        for kind in {RAW, COMPRESSED}.intersection(types) if topic != silent else ():
            this_node = (node.get_namespace(), node.get_name())
            publishers = node.get_publishers_info_by_topic(topic)
            if any((p.node_namespace, p.node_name) != this_node for p in publishers if p.topic_type == kind):
                image_topics.append((topic, kind))
    return sorted(image_topics)


def _list(topics: list[tuple[str, str]]) -> str:
    """What to write for each of the topics, of which some are named."""
    lines = [f"{topic} (give {_arguments(topic, kind)})" for topic, kind in topics[:_OTHERS]]
    more = len(topics) - len(lines)
    return ", ".join(lines) + (f" and {more} more" if more else "")


def _arguments(topic: str, kind: str) -> str:
    """The arguments of a ROS node that make goalreel read `topic`."""
    if kind == RAW:
        return f"-r image:={topic} -p image_transport:=raw"
    base = topic.removesuffix("/compressed")
    remap = f"image:={base}" if base != topic else f"image/compressed:={topic}"
    return f"-r {remap} -p image_transport:=compressed"


def _name(publisher: TopicEndpointInfo) -> str:
    return f"{publisher.node_namespace.rstrip('/')}/{publisher.node_name}"


def _short(kind: str) -> str:
    return kind.replace("/msg/", "/")
