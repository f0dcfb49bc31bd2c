"""`goalreel doctor`: right about what is there, unshaken by what is broken, exact about the remedy."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.places import ROOT

from goalreel import checkpoints, installed
from goalreel.cli import doctor as module
from goalreel.cli import probe
from goalreel.cli.doctor import Check, doctor, run_checks


@pytest.fixture(scope="module")
def checks() -> dict[str, Check]:
    return {check.name: check for check in run_checks()}


def test_the_real_machine_is_described(checks):
    assert checks["python"].found.startswith(".".join(map(str, sys.version_info[:3])))
    assert checks["goalreel"].status == "ok", checks["goalreel"]
    (lerobot,) = (c for name, c in checks.items() if name.startswith("[lerobot]"))
    assert ("lerobot 0.6" in lerobot.found) == (lerobot.status == "ok")
    assert {"GPU", "ROS 2", "ffmpeg", "disk", "video: PyAV", "video: torchcodec"} <= checks.keys()


def test_whatever_is_not_ok_comes_with_a_remedy(checks):
    assert all(check.found for check in checks.values())
    assert [name for name, check in checks.items() if (check.status == "ok") != (not check.fix)] == []


def test_json_is_one_line_and_says_the_same(capsys, monkeypatch):
    found = [Check("python", "ok", "3.12", required=True), Check("ROS 2", "missing", "no", "pip install x")]
    monkeypatch.setattr(module, "run_checks", lambda: found)
    assert doctor(json_output=True) == 0
    (line,) = capsys.readouterr().out.splitlines()
    report = json.loads(line)
    assert report["ok"] is True
    assert [Check(**one) for one in report["checks"]] == found


def test_only_what_is_required_fails(capsys, monkeypatch):
    found = [Check("goalreel", "missing", "numpy is not installed", "pip install numpy", required=True)]
    monkeypatch.setattr(module, "run_checks", lambda: found)
    assert doctor(json_output=False) == 1
    assert doctor(json_output=True) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["ok"] is False


def test_commands_are_not_wrapped(capsys, monkeypatch):
    fix = "uv pip install --python /a/long/path/to/python " + '-e "/some/[folder]/goalreel[gpu]"' * 3
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(module, "run_checks", lambda: [Check("GPU", "missing", "[no] driver", fix)])
    doctor(json_output=False)
    out = capsys.readouterr().out
    assert f"  {fix}" in out.splitlines()
    assert "[no] driver" in out


def distribution(folder: Path, name: str, version: str, *requires: str) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")


def test_requirements_are_followed_through_extras(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    distribution(
        tmp_path,
        "zz_top",
        "1.0",
        "zz-old>=2",
        'zz-mid[video]; extra == "all"',
        'zz-windows; sys_platform == "win31"',
    )
    distribution(tmp_path, "zz_mid", "3.1", 'zz-absent; extra == "video"', 'zz-top[all]; extra == "video"')
    distribution(tmp_path, "zz_old", "1.5")
    assert [str(r) for r in installed.requirements("zz-top")] == ["zz-old>=2"]
    (everything,) = installed.requirements("zz-top", "all")
    assert list(installed.unmet(everything)) == ["zz-absent is not installed"]
    assert list(installed.unmet(Requirement("zz-old>=2"))) == ["zz-old 1.5, but >=2 is needed"]
    assert list(installed.unmet(Requirement("zz-old"))) == []
    assert installed.requirements("zz-nowhere") == []


def test_the_command_installs_into_this_python(monkeypatch):
    monkeypatch.setattr(installed, "present", lambda module: True)
    assert installed.install("x") == f"{sys.executable} -m pip install x"
    monkeypatch.setattr(installed, "present", lambda module: False)
    assert installed.install("x") == f"uv pip install --python {sys.executable} x"
    root = ROOT
    assert installed.install_goalreel("gpu").endswith(f' -e "{root}[gpu]"')
    assert f'-c "{root / "constraints.txt"}"' in installed.install_goalreel()


def test_a_wheel_is_installed_by_name(monkeypatch, tmp_path):
    monkeypatch.setattr(installed.goalreel, "__file__", str(tmp_path / "goalreel" / "__init__.py"))
    assert installed.install_goalreel("sim").endswith(' "goalreel[sim]"')


@pytest.mark.parametrize(
    ("script", "ok", "words"),
    [
        ("print('a'); print('fine')", True, "fine"),
        ("import os; os.kill(os.getpid(), 11)", False, "crashed: Segmentation fault"),
        ("raise ImportError('libx.so.7: cannot open')", False, "ImportError: libx.so.7: cannot open"),
        ("raise SystemExit('black')", False, "black"),
        ("import time; time.sleep(60)", False, "no answer within 1 s"),
    ],
    ids=["fine", "crash", "import", "exit", "hang"],
)
def test_a_probe_survives_anything(script, ok, words):
    assert probe.python(script, timeout=60 if "sleep" not in script else 1) == probe.Outcome(ok, words)


def test_a_program_that_is_not_there_is_no_error():
    assert not probe.run(["/nowhere/program"]).ok


def test_a_library_that_crashes_is_a_warning(tmp_path, monkeypatch):
    (tmp_path / "mujoco.py").write_text("import os; os.kill(os.getpid(), 6)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = module._mujoco()
    assert (check.status, check.found) == ("warning", "crashed: Aborted")
    assert "libegl1" in check.fix


@pytest.mark.parametrize(
    ("missing", "check", "extra"),
    [
        ("mujoco", "_mujoco", "sim"),
        ("av", "_pyav", "lerobot"),
        ("torchcodec", "_torchcodec", "lerobot"),
        ("rclpy", "_ros", "ros"),
        ("goalreel_ros", "_goalreel_ros", "ros"),
        ("goalreel_ros", "_raw_frames", "ros"),
    ],
)
def test_what_is_not_installed_is_missing(monkeypatch, missing, check, extra):
    monkeypatch.delenv(module.PROFILES, raising=False)
    monkeypatch.setattr(module, "present", lambda name: False)
    found = getattr(module, check)()
    assert (found.status, found.found) == ("missing", f"{missing} is not installed")
    assert f"[{extra}]" in found.fix or found.fix.startswith("source /opt/ros/")


def test_ros_is_described_with_what_is_ours(checks):
    assert "rmw_fastrtps_cpp" in checks["ROS 2"].found
    packages = checks["ROS 2: goalreel's packages"]
    assert packages.status == "ok", packages
    assert str(ROOT / "ros_pkg") in packages.found


def test_the_profile_for_raw_frames_is_looked_for(monkeypatch, tmp_path):
    monkeypatch.delenv(module.PROFILES, raising=False)
    unset = module._raw_frames()
    assert unset.status == "missing"
    monkeypatch.setenv(module.PROFILES, str(tmp_path / "gone.xml"))
    gone = module._raw_frames()
    assert (gone.status, gone.fix) == ("warning", unset.fix)
    assert "gone.xml" in gone.found
    monkeypatch.setenv(module.PROFILES, unset.fix.partition("=")[2])
    assert module._raw_frames().status == "ok"


def test_ros_is_installed_with_the_folders_beside_it(monkeypatch, tmp_path):
    root = ROOT
    assert installed.install_ros().endswith(
        f'-e "{root}[ros]" "{root}/ros_pkg/goalreel_interfaces" -e "{root}/ros_pkg/goalreel_ros"'
    )
    monkeypatch.setattr(installed.goalreel, "__file__", str(tmp_path / "goalreel" / "__init__.py"))
    assert installed.install_ros().startswith("in a checkout of goalreel: ")


def fake_card(folder: Path, monkeypatch) -> None:
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H200, 143771 MiB, 570.1'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_a_gpu_that_torch_cannot_use_is_a_warning(tmp_path, monkeypatch):
    fake_card(tmp_path, monkeypatch)
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.13 is missing')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = module._gpu()
    assert check.status == "warning"
    assert check.found.startswith("NVIDIA H200, 143771 MiB")
    assert "libcudart.so.13" in check.found
    assert "torch" in check.fix


def test_a_machine_without_gpu_needs_none_for_hindsight(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(module, "present", lambda name: False)
    check = module._gpu()
    assert (check.status, check.fix) == (
        "missing",
        "not needed for the presets hindsight, nano, api and server",
    )


def test_the_shipped_checkpoints_are_named_with_their_size(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoints, "NANO", tmp_path)
    check = module._nano()
    assert (check.status, check.found) == ("missing", f"none in {tmp_path}")
    assert check.fix == installed.install_goalreel()
    (tmp_path / "planner").mkdir()
    (tmp_path / "planner" / "model.safetensors").write_bytes(bytes(2_100_000))
    check = module._nano()
    assert (check.status, check.found, check.fix) == ("ok", "nano-planner (2 MB)", "")


def test_a_full_disk_is_a_warning(monkeypatch):
    monkeypatch.setattr(module, "SCARCE_GIB", 1e12)
    assert module._disk().status == "warning"


def test_looking_loads_nothing_heavy():
    heavy = {"torch", "torchcodec", "lerobot", "mujoco", "av", "rclpy", "cv2", "PIL", "jinja2"}
    script = (
        "import sys, goalreel.cli.doctor as d, goalreel.annotator.report;"
        "[d._extra(e) for e in d.EXTRAS]; d._goalreel();"
        f"print(sorted({heavy!r} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
