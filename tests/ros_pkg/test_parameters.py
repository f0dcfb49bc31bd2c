"""Parameters as ROS knows them: described, ranged, read-only, refused; and the ROS pages of the manual."""

import re

import pytest
from rclpy.parameter import Parameter
from support.places import ROOT

from goalreel.errors import InputError
from goalreel.models.load import load
from goalreel.models.presets import ModelChoice
from goalreel.streaming.board import ErrorCode
from goalreel_ros import parameters
from goalreel_ros.client.commander import SERVICES
from goalreel_ros.node import GoalreelNode
from goalreel_ros.parameters import FIXED, PARAMETERS, check_names

INTERFACE = ROOT / "docs/reference/ros-interface.md"


@pytest.fixture(scope="module")
def node(context):
    node = GoalreelNode(load, context=context)
    yield node
    node.destroy_node()


@pytest.mark.parametrize("name", PARAMETERS)
def test_every_setting_is_a_described_parameter_with_its_default(node, name):
    parameter = PARAMETERS[name]
    assert node.get_parameter(name).value == parameter.default
    descriptor = node.describe_parameter(name)
    assert descriptor.description.endswith(".")
    assert (FIXED in descriptor.additional_constraints) == parameter.read_only
    numeric = isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)
    assert numeric == bool(descriptor.integer_range or descriptor.floating_point_range)


RANGED = [name for name, p in PARAMETERS.items() if p.bounds and not p.read_only]


@pytest.mark.parametrize("name", RANGED)
def test_both_ends_of_a_range_are_taken_and_what_lies_beyond_is_not(node, name):
    descriptor = node.describe_parameter(name)
    default = node.get_parameter(name).value
    [bounds] = [*descriptor.integer_range, *descriptor.floating_point_range]
    low, high, beyond = bounds.from_value, bounds.to_value, type(default)(1)
    for value in (low, high, default, low - beyond, high + beyond):
        [result] = node.set_parameters([Parameter(name, value=value)])
        assert result.successful == (low <= value <= high), (value, result.reason)
        assert result.successful or name in result.reason
    assert node.get_parameter(name).value == default


@pytest.mark.parametrize("name", [n for n, p in PARAMETERS.items() if p.read_only])
def test_what_is_fixed_in_a_configured_node_can_be_set_before(node, name, monkeypatch):
    default = PARAMETERS[name].default
    other = {bool: lambda v: not v, str: lambda v: (PARAMETERS[name].choices or ("klein",))[-1]}.get(
        type(default), lambda v: v + 1
    )(default)
    [result] = node.set_parameters([Parameter(name, value=other)])
    assert result.successful, result.reason
    monkeypatch.setattr(node, "_entities", "it is configured")
    [result] = node.set_parameters([Parameter(name, value=default)])
    assert not result.successful
    assert result.reason.startswith(f"{name} is fixed once the node is configured: clean it up first")
    monkeypatch.undo()
    [result] = node.set_parameters([Parameter(name, value=default)])
    assert result.successful, result.reason


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("keep", "first", "keep: Input should be 'best' or 'last'"),
        ("confirm", "yes", "confirm: Input should be one of preset, with, without"),
        ("on_model_failure", "weep", "on_model_failure: Input should be 'text_only' or 'fail'"),
        ("gate", float("nan"), "gate"),
        ("max_replans", 101, "max_replans out of range"),
        ("track_rate", "fast", "Wrong parameter type"),
        ("track_rate", 5, "Wrong parameter type"),
    ],
)
def test_values_that_do_not_fit_are_refused(node, name, value, says):
    before = node.get_parameter(name).value
    [result] = node.set_parameters([Parameter(name, value=value)])
    assert not result.successful
    assert says in result.reason
    assert node.get_parameter(name).value == before


@pytest.mark.parametrize("name", ["prest", "Critic", "critic-mode", "max_replan", "imagetimeout"])
def test_a_name_that_is_nearly_one_of_ours_is_refused_with_the_right_one(name):
    with pytest.raises(InputError, match=rf"there is no parameter {name}: write [a-z_]+"):
        list(check_names([name], PARAMETERS))


def test_names_of_other_nodes_are_only_told():
    given = ["use_sim_time", "robot_base_frame", "qos_overrides./image.subscription.depth", "preset"]
    assert list(check_names(given, {*PARAMETERS, "use_sim_time"})) == ["robot_base_frame"]


def test_every_error_code_is_the_message_s():
    folder, text = ROOT / "ros_pkg/goalreel_interfaces/msg", INTERFACE.read_text()
    constants = re.findall(r"^uint16 (\w+)=(\d+)", (folder / "ErrorCode.msg").read_text(), re.MULTILINE)
    assert {name: int(value) for name, value in constants} == {code.name: code.value for code in ErrorCode}
    assert all(f"goalreel_interfaces/msg/{name}.msg" in text for name in ("ErrorCode", "SubGoal"))


def test_every_topic_action_and_service_is_documented():
    sources = "".join(f.read_text() for f in (ROOT / "ros_pkg/goalreel_ros/goalreel_ros").glob("*.py"))
    names = {*re.findall(r'"~/([a-z_/]+)"', sources), *re.findall(r'"((?:start/|get_)[a-z_]+)"', sources)}
    names |= SERVICES.keys()
    assert {"subgoal", "execute_task", "start/execute_task", "get_storyboard", "pause"} < names
    text = INTERFACE.read_text()
    assert sorted(name for name in names if f"`~/{name}`" not in text) == []


def test_a_parameter_that_is_unset_is_none_in_the_settings(node):
    settings = parameters.read_engine_settings(node)
    assert settings.task_timeout is None
    assert settings.models == ModelChoice("nano")
    changes = {"task_timeout": 5.0, "keep": "last", "confirm": "without", "max_attempts": 2}
    node.set_parameters([Parameter(name, value=value) for name, value in changes.items()])
    settings = parameters.read_engine_settings(node)
    assert settings.task_timeout == 5
    assert settings.models.overrides == {"keep": "last", "confirm": False, "max_attempts": 2}
    node.set_parameters([Parameter(name, value=PARAMETERS[name].default) for name in changes])
    assert parameters.read_engine_settings(node).models == ModelChoice("nano")
