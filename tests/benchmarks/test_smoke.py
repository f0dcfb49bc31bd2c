"""Every benchmark runs at its smallest size and prints what its docstring says; no time is looked at."""

import ast
import importlib
import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache

import pytest
from support.browser import needs_chromium
from support.places import ROOT

BENCHMARKS = ROOT / "benchmarks"
FILES = {path.stem: path for path in sorted(BENCHMARKS.glob("*.py")) if path.stem != "common"}
ROS = {"ros", "ros_ends", "ros_handover"}
"""Run in a process of their own, for they change the environment of DDS."""
BROWSER = {"review", "scale", "studio"}
PROCESSES = {"serve_load", "startup"}
LONG = {"full_size", "loop", "ray_annotate", "ros", "serve_load", "startup", "studio", "write"}
"""They import lerobot or diffusers, or start nodes."""
LAB = {"review", "ros_ends", "ros_handover", "scale", "task_success", "watch"}
LAB |= {"ablation", "geometry", "serve_load", "studio", "tabletop_words", "working_size"}
"""What they run has tests of its own in `make test`, so that they alone break here: `make lab` runs them."""
NEEDS = (
    {"full_size": "torchao", "prompts": "datasketch"}
    | dict.fromkeys(ROS, "rclpy")
    | dict.fromkeys(
        (
            "ablation",
            "ros_handover",
            "tabletop_words",
            "task_success",
            "watch",
            "geometry",
            "working_size",
        ),
        "mujoco",
    )
)


def case(name: str) -> object:
    marks = [pytest.mark.process] if name in ROS | BROWSER | PROCESSES else []
    marks += [pytest.mark.long] if name in LONG else []
    marks += [pytest.mark.lab] if name in LAB else []
    marks += [needs_chromium] if name in BROWSER else []
    return pytest.param(name, marks=marks)


@cache
def smoke(name: str, *options: str) -> dict[str, object]:
    """The JSON object that a benchmark prints on its last line."""
    if name in ROS:
        from support.ros import ENV

        command = [sys.executable, FILES[name], "--smoke", *options]
        child = subprocess.run(command, env={**os.environ, **ENV}, capture_output=True, text=True)
        assert child.returncode == 0, child.stderr
        output = child.stdout
    else:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as stream:
            patch.syspath_prepend(str(BENCHMARKS))
            importlib.import_module(name).main(["--smoke", *options])
        output = stream.getvalue()
    return json.loads(output.splitlines()[-1])


def numbers(value: object) -> Iterator[float]:
    """Every number in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float):
        yield value


@pytest.mark.parametrize("name", list(map(case, FILES)))
def test_it_runs_and_prints_what_its_docstring_says(name):
    pytest.importorskip(NEEDS.get(name, "json"))
    result = smoke(name)
    doc = ast.get_docstring(ast.parse(FILES[name].read_text())) or ""
    documented = set(re.findall(r"`([\w.]+)`", doc))
    keys = {re.sub(r"^\d+x\d+", "WIDTHxHEIGHT", key) for key in result}
    assert keys
    assert keys <= documented
    assert all(map(math.isfinite, numbers(result)))


@pytest.mark.long
def test_every_part_of_full_size_runs():
    pytest.importorskip("torchao")
    result = smoke("full_size")
    assert result["errors"] == {}
    assert {"plan", "edit_4b", "fp8_loop_4b", "reference_9b", "together_9b"} <= result["parts"].keys()
    assert result["parts"]["fp8_load"]["chat_gb"] < result["parts"]["load_chat"]["weights_gb"]


@pytest.mark.process
@pytest.mark.lab
def test_a_round_of_the_node_is_measured_once(tmp_path):
    pytest.importorskip("rclpy")
    first = smoke("ros", "--out", str(tmp_path))
    (file,) = tmp_path.rglob("*.json")
    written = file.stat().st_mtime_ns
    assert smoke("ros", "--out", str(tmp_path), "--new", "1") == first
    assert file.stat().st_mtime_ns == written


@pytest.mark.process
@pytest.mark.lab
def test_every_step_of_a_task_is_handed_over_in_all_three_parts():
    pytest.importorskip("rclpy")
    pytest.importorskip("mujoco")
    result = smoke("ros_handover")
    assert (result["tasks"], result["steps"], result["rejected"]) == (1, 1, 1.0)
    assert result["ready_share"] in (0, 1)
    assert len(result["late"]) == (result["ready_share"] == 0)
    for name in ("first_goal_s", "handover_s", "seen_s", "on_demand_s"):
        median, high = result[name]
        assert 0 < median <= high
    # Each picture is drawn and judged twice, and nobody can answer sooner than the models do.
    assert result["first_goal_s"][0] >= 3.0 + 2 * (4.0 + 1.5)


@pytest.mark.parametrize("name", FILES)
def test_make_bench_and_the_list_of_benchmarks_have_it(name):
    assert "--json" in FILES[name].read_text(), "`make bench` passes --json to who knows it"
    assert f"`python benchmarks/{name}.py" in (BENCHMARKS / "README.md").read_text()
