"""launch/goalreel.foxglove-layout.json against the node's topics and messages, and Foxglove's own types.

The file has the shape that Foxglove exports and its open fork Lichtblick shares (`LayoutData`): a config for
each panel, and a tree of two-way splits.
"""

import json
import re
from importlib import import_module

import pytest

pytest.importorskip("rclpy")
pytest.importorskip("foxglove", reason="needs foxglove-sdk: pip install 'goalreel[dev]'")

from foxglove import layouts as fl
from support.places import ROOT
from support.wait import until

from goalreel_interfaces.msg import Storyboard

LAYOUT = ROOT / "launch" / "goalreel.foxglove-layout.json"
CONFIGS = {
    "Image": fl.ImageConfig,
    "RawMessages": fl.RawMessagesConfig,
    "StateTransitions": fl.StateTransitionsConfig,
    "Plot": fl.PlotConfig,
    "Table": fl.TableConfig,
    "DiagnosticSummary": fl.DiagnosticsSummaryConfig,
    "RosOut": fl.LogConfig,
}
"""By the names that panels have in exported layouts: panels/index.ts of Lichtblick."""
SERIES = {"Plot": fl.PlotSeries, "StateTransitions": fl.StateTransitionsSeries}
TYPES = {
    "Image": "sensor_msgs/msg/Image",
    "DiagnosticSummary": "diagnostic_msgs/msg/DiagnosticArray",
    "RosOut": "rcl_interfaces/msg/Log",
}
NUMBER = re.compile(r"(u?int\d+|float|double|boolean|octet)")
PART = re.compile(r"(\w+)(\[:\])?")


@pytest.fixture(scope="module")
def layout() -> dict:
    return json.loads(LAYOUT.read_text())


def panels(tree: object) -> list[str]:
    """The panels of a tree of splits."""
    if isinstance(tree, str):
        return [tree]
    assert set(tree) == {"direction", "first", "second", "splitPercentage"}
    assert tree["direction"] in ("row", "column")
    assert 0 < tree["splitPercentage"] < 100
    return panels(tree["first"]) + panels(tree["second"])


def paths(layout: dict) -> list[tuple[str, str]]:
    """(panel type, topic or message path) of all that is shown."""
    found = []
    for panel, config in layout["configById"].items():
        kind = panel.partition("!")[0]
        shown = [
            config.get("topicPath"),
            config.get("topicToRender"),
            config.get("imageMode", {}).get("imageTopic"),
        ]
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


@pytest.fixture(scope="module")
def types(node, filming) -> dict[str, str]:
    """Topic -> type, of all that a node which runs publishes, and of the camera that it hears."""
    graph = filming.node

    def ours() -> dict[str, str]:
        there = graph.get_topic_names_and_types()
        names = {
            t
            for t, _ in there
            if any(p.node_name == "goalreel" for p in graph.get_publishers_info_by_topic(t))
        }
        heard = {p.node_name for p in graph.get_subscriptions_info_by_topic("/image")}
        names |= {"/image"} if "goalreel_camera" in heard else set()
        return {topic: kinds[0] for topic, kinds in there if topic in names}

    until(
        lambda: (
            {"/image", "/rosout", "/diagnostics", "/goalreel/progress", "/goalreel/subgoal"} <= set(ours())
        )
    )
    return ours()


def test_it_has_the_shape_of_an_exported_layout(layout):
    assert set(layout) == {"configById", "globalVariables", "userNodes", "playbackConfig", "layout"}
    shown = panels(layout["layout"])
    assert sorted(shown) == sorted(layout["configById"])
    assert len(shown) == len(set(shown))
    assert {panel.partition("!")[0] for panel in shown} == set(CONFIGS)


def test_foxgloves_own_types_know_every_setting(layout):
    for panel, config in layout["configById"].items():
        kind = panel.partition("!")[0]
        assert set(config) <= set(CONFIGS[kind]()._to_dict()), panel
        assert set(config.get("imageMode", {})) <= set(fl.ImageModeConfig()._to_dict()), panel
        for series in config.get("paths", ()):
            assert set(series) <= set(SERIES[kind](value="")._to_dict()), panel
    [mapped] = [p["customStates"] for p in layout["configById"]["StateTransitions!state"]["paths"][:1]]
    states = [fl.StateTransitionsDiscreteCustomState(**{k: s[k] for k in s}) for s in mapped["states"]]
    assert mapped["type"] == fl.StateTransitionsDiscreteCustomStates(states=states)._to_dict()["type"]


def test_every_state_has_its_name(layout):
    [states] = [
        p["customStates"]["states"] for p in layout["configById"]["StateTransitions!state"]["paths"][:1]
    ]
    for state in states:
        assert getattr(Storyboard, f"STATE_{state['label'].upper()}") == int(state["value"])
    assert len(states) == Storyboard.STATE_CANCELED + 1


@pytest.mark.process
def test_every_path_leads_to_what_the_node_publishes(layout, types):
    shown = paths(layout)
    assert len(shown) > len(layout["configById"])
    for kind, path in shown:
        found = leaf(types, path)
        assert found == TYPES.get(kind, found), path
        assert kind != "Plot" or NUMBER.fullmatch(found), path
        assert kind != "Table" or "[:]" in path, path
