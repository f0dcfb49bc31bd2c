"""Write the node's parameters into launch/goalreel.yaml: `python dev/ros_parameters.py`."""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path

from rcl_interfaces.msg import ParameterDescriptor

from goalreel.streaming.settings import FlatParameter
from goalreel_ros.parameters import PARAMETERS, describe

FILE = Path(__file__).parents[1] / "launch" / "goalreel.yaml"
HEAD = """\
# The node's parameters, at their defaults. Written by dev/ros_parameters.py.
# What is fixed can only be set before the node is configured; the rest at any time (ros2 param set): it holds
# from the next request or message on. ROS refuses 5 for a floating-point parameter: write 5.0.
/**:
  ros__parameters:
"""


def text() -> str:
    """Write every declared parameter with its description and range."""
    return HEAD + "\n".join(_entries())


def _entries() -> Iterator[str]:
    for parameter in PARAMETERS.values():
        comment = " ".join(_remarks(parameter, describe(parameter)))
        lines = textwrap.wrap(comment, 100, initial_indent="    # ", subsequent_indent="    # ")
        yield "\n".join([*lines, f"    {parameter.name}: {json.dumps(parameter.default)}", ""])


def _remarks(parameter: FlatParameter, descriptor: ParameterDescriptor) -> Iterator[str]:
    yield descriptor.description
    for bounds in (*descriptor.integer_range, *descriptor.floating_point_range):
        yield f"{bounds.from_value} to {bounds.to_value}."
    if parameter.choices:
        yield f"One of: {', '.join(parameter.choices)}."
    if parameter.read_only:
        yield "Fixed."


def main() -> None:
    """Write the file anew."""
    FILE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
