"""`goalreel doctor`: right about what is there, unshaken by what is broken, exact about the remedy."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import packaging
import pytest
from support.cli import goalreel, invoke
from support.places import ROOT

from goalreel.cli import doctor as module
from goalreel.cli.doctor import Check

PROFILES = module.PROFILES
LOOK = """
import json, os, sys
from dataclasses import asdict
from pathlib import Path
from goalreel import checkpoints
from goalreel.cli import doctor
for first in json.loads(sys.argv[1]):
    exec(first)
    checks = doctor.run_checks()
    print(json.dumps({"checks": [asdict(check) for check in checks], "loaded": sorted(sys.modules)}))
"""
HEAVY = {"torch", "torchcodec", "lerobot", "mujoco", "av", "rclpy", "cv2", "PIL", "jinja2"}


OWN = (
    "annotated_doc", "annotated_types", "click", "markdown_it", "mdurl", "numpy", "numpy.libs", "packaging",
    "pydantic", "pydantic_core", "pygments", "rich", "shellingham", "typer", "typing_extensions.py",
    "typing_inspection", "yaml",
)  # fmt: skip
"""What goalreel cannot start without."""


class Machine:
    """A computer with goalreel alone: no other library and no program, unless a test installs one."""

    def __init__(self, folder: Path) -> None:
        self.site, self.bin = folder / "site", folder / "bin"
        self.site.mkdir()
        self.bin.mkdir()
        libraries = Path(packaging.__file__).parents[1]
        for package in (
            ROOT / "goalreel",
            *(libraries / name for name in OWN if (libraries / name).exists()),
        ):
            (self.site / package.name).symlink_to(package)

    def library(self, name: str, code: str = "") -> None:
        (self.site / f"{name}.py").write_text(code)

    def program(self, name: str, prints: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\necho '{prints}'\n")
        (self.bin / name).chmod(0o755)

    def look(self, *changes: str) -> list[dict[str, Check]]:
        """What the doctor finds there after each change, a line of code, in one process."""
        environment = {"PYTHONPATH": str(self.site), "PATH": str(self.bin)}
        return [checks for checks, _ in look(["-S", "-P"], environment, *changes)]


def look(
    options: list[str], environment: dict[str, str], *changes: str
) -> list[tuple[dict[str, Check], set[str]]]:
    """After each change the checks by their names, and the modules that the doctor itself has loaded."""
    command = [sys.executable, *options, "-c", LOOK, json.dumps(changes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen = map(json.loads, done.stdout.splitlines())
    return [({c["name"]: Check(**c) for c in one["checks"]}, set(one["loaded"])) for one in seen]


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.process
@pytest.mark.lab
def test_the_real_machine_is_described_and_nothing_heavy_loaded():
    checks, loaded = look([], dict(os.environ), "import goalreel.annotator.report")[0]
    assert HEAVY & loaded == set()
    assert checks["python"].found.startswith(".".join(map(str, sys.version_info[:3])))
    assert checks["goalreel"].status == "ok", checks["goalreel"]
    (lerobot,) = (c for name, c in checks.items() if name.startswith("[lerobot]"))
    assert ("lerobot 0.6" in lerobot.found) == (lerobot.status == "ok")
    assert {"GPU", "ROS 2", "fonts", "video: PyAV"} <= checks.keys()
    assert all(check.found for check in checks.values())
    assert [name for name, check in checks.items() if (check.status == "ok") != (not check.fix)] == []
    assert checks["video: PyAV"].status == "ok"
    fonts = checks["fonts"]
    lacking = r"none for .*: contact sheets and films|no libfribidi"
    assert fonts.status == "ok" or (re.match(lacking, fonts.found) and "fonts-noto-cjk" in fonts.fix)
    assert "rmw_fastrtps_cpp" in checks["ROS 2"].found
    packages = checks["ROS 2: goalreel's packages"]
    assert (packages.status, str(ROOT / "ros_pkg") in packages.found) == ("ok", True), packages


@pytest.mark.parametrize("status", ["ok", "missing"])
def test_only_what_is_required_fails_and_json_is_one_line(status, monkeypatch):
    found = [
        Check("goalreel", status, "3.12", required=True),
        Check("ROS 2", "missing", "no", "pip install x"),
    ]
    monkeypatch.setattr(module, "run_checks", lambda: found)
    as_json = invoke("doctor", "--json")
    (line,) = as_json.stdout.splitlines()
    report = json.loads(line)
    assert invoke("doctor").exit_code == as_json.exit_code == int(status != "ok")
    assert report["ok"] is (status == "ok")
    assert [Check(**one) for one in report["checks"]] == found


def test_commands_are_not_wrapped(monkeypatch):
    fix = "uv pip install --python /a/long/path/to/python " + '-e "/some/[folder]/goalreel[gpu]"' * 3
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(module, "run_checks", lambda: [Check("GPU", "missing", "[no] driver", fix)])
    out = goalreel("doctor")
    assert f"  {fix}" in out.splitlines()
    assert "[no] driver" in out


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "ok", "words"),
    [
        ("print('a'); print('fine')", True, "fine"),
        ("raise SystemExit('black')", False, "black"),
        ("import time; time.sleep(60)", False, "no answer within 1 s"),
    ],
    ids=["fine", "exit", "hang"],
)
def test_a_probe_survives_anything(script, ok, words):
    assert module.run_python(script, timeout=60 if "sleep" not in script else 1) == module.Outcome(ok, words)
    assert not module.run_program(["/nowhere/program"]).ok


@pytest.mark.process
def test_on_a_bare_machine_all_is_missing_and_named(machine):
    [found] = machine.look("")
    assert (found["goalreel"].status, found["goalreel"].found) == ("missing", "not installed in this Python")
    for name, missing, extra in (
        ("rendering: MuJoCo", "mujoco", "sim"),
        ("video: PyAV", "av", "annotate"),
        ("ROS 2", "rclpy", "ros,api"),
        ("ROS 2: goalreel's packages", "goalreel_ros", "ros,api"),
        ("ROS 2: raw frames", "goalreel_ros", "ros,api"),
    ):
        check = found[name]
        assert (check.status, check.found) == ("missing", f"{missing} is not installed")
        assert f"[{extra}]" in check.fix or check.fix.startswith("source /opt/ros/")
    presets, nano = found["presets"], found["checkpoints: nano"]
    assert (nano.status, nano.found) == ("missing", "goalreel-nano is not installed")
    assert presets.status == "missing"
    waiting = presets.found.split("; ")
    assert {"hindsight needs [annotate]", "klein-vllm needs [api, gpu]", "nano needs [gpu]"} < {*waiting}
    assert "[annotate,api,gpu]" in presets.fix
    gpu = found["GPU"]
    assert (gpu.status, gpu.fix) == ("missing", "not needed for the presets hindsight, nano, api and server")


@pytest.mark.process
def test_what_is_broken_is_a_warning(machine):
    machine.library("mujoco", "import os; os.kill(os.getpid(), 6)")
    machine.library("torch", "raise ImportError('libcudart.so.13 is missing')")
    machine.program("nvidia-smi", "NVIDIA H200, 143771 MiB, 570.1")
    [found] = machine.look("")
    renders = found["rendering: MuJoCo"]
    assert (renders.status, renders.found) == ("warning", "crashed: Aborted")
    assert "package manager" in renders.fix, "there is no apt-get"
    assert "libegl1" in renders.fix
    gpu = found["GPU"]
    assert gpu.status == "warning"
    assert gpu.found.startswith("NVIDIA H200, 143771 MiB")
    assert "libcudart.so.13" in gpu.found
    assert "torch" in gpu.fix


@pytest.mark.process
def test_the_profile_for_raw_frames_is_looked_for(machine, tmp_path):
    machine.library("goalreel_ros")
    gone_file, here = str(tmp_path / "gone.xml"), f"os.environ[{PROFILES!r}] = "
    looks = machine.look("", f"{here}{gone_file!r}", f"{here}{__file__!r}")
    unset, gone, there = (found["ROS 2: raw frames"] for found in looks)
    assert unset.status == "missing"
    assert unset.fix == f"export {PROFILES}={machine.site / 'fastdds_shm.xml'}"
    assert (gone.status, gone.fix) == ("warning", unset.fix)
    assert "gone.xml" in gone.found
    assert there.status == "ok"
