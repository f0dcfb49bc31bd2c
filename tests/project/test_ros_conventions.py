"""docs/explanation/ros-conventions.md compares every field of the interface."""

import re

import pytest
from support.places import ROOT

INTERFACES = ROOT / "ros_pkg" / "goalreel_interfaces"
PAGE = (ROOT / "docs" / "explanation" / "ros-conventions.md").read_text()
FIELD = re.compile(r"^[\w/]+(?:\[[^\]]*\])? ([a-z_]+)(?: [^=\s]+)?$")


@pytest.mark.parametrize("file", sorted(INTERFACES.glob("[ams]*/*.*")), ids=lambda file: file.name)
def test_every_field_is_compared(file):
    lines = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
    fields = {match[1] for line in lines if (match := FIELD.match(line))}
    assert fields or file.stem == "ErrorCode"
    assert not {name for name in fields if f"`{name}`" not in PAGE}
    assert file.stem in PAGE
