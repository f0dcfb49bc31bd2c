"""What this machine has, what it lacks, and the command that installs it.

Looks, never changes anything. Whatever loads native code runs in a process of its own.
"""

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from goalreel import __version__, checkpoints
from goalreel.cli import subprocess_probe
from goalreel.extras import (
    EXTRAS,
    install,
    install_goalreel,
    install_ros,
    present,
    requirements,
    unmet,
    version,
)

if TYPE_CHECKING:
    from goalreel.models.registry import Role

SCARCE_GIB = 5
PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE"
EGL = {} if sys.platform != "linux" or os.environ.get("MUJOCO_GL") else {"MUJOCO_GL": "egl"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `fix` is a command or advice, empty when nothing is to be done."""

    name: str
    status: Literal["ok", "missing", "warning"]
    found: str
    fix: str = ""
    required: bool = False
    """Whether goalreel cannot work at all without it."""


def _python() -> Check:
    return Check("python", "ok", f"{platform.python_version()} ({sys.executable})", required=True)


def _goalreel() -> Check:
    lacks = [problem for wanted in requirements("goalreel") for problem in unmet(wanted)]
    if version("goalreel") is None:
        lacks = ["not installed in this Python"]
    found = "; ".join(lacks) or f"{__version__} ({Path(__file__).parents[1]})"
    fix = install_goalreel() if lacks else ""
    return Check("goalreel", "missing" if lacks else "ok", found, fix, required=True)


def _extra(extra: str) -> Check:
    name = f"[{extra}] {EXTRAS[extra].purpose}"
    wanted = requirements("goalreel", extra)
    lacks = list(dict.fromkeys(problem for one in wanted for problem in unmet(one)))
    if lacks or not wanted:
        return Check(name, "missing", "; ".join(lacks) or "unknown here", install_goalreel(extra))
    others = [one.name for one in wanted if one.name != "goalreel"]
    return Check(name, "ok", ", ".join(f"{package} {version(package)}" for package in others))


def _native(name: str, module: str, script: str, absent: str, broken: str, **environment: str) -> Check:
    """A module with native code: `absent` and `broken` are the advice when it is so."""
    if not present(module):
        return Check(name, "missing", f"{module} is not installed", absent)
    outcome = subprocess_probe.python(script, environment=environment)
    return Check(name, "ok" if outcome.ok else "warning", outcome.text, "" if outcome.ok else broken)


def _nano() -> Check:
    name, found = "checkpoints: nano", checkpoints.names()
    if not found:
        return Check(name, "missing", f"none in {checkpoints.NANO}", install_goalreel())
    size = sum(f.stat().st_size for f in checkpoints.NANO.rglob("*") if f.is_file())
    return Check(name, "ok", f"{', '.join(found)} ({size / 1e6:.0f} MB)")


def _models(role: "Role") -> Check:
    """The kinds of models there are for a role, those of plugins by their packages."""
    from goalreel.models.discovery import broken_plugins, kinds

    shown = (f"{k.form} ({k.plugin})" if k.plugin else k.form for k in kinds(role))
    found, name = ", ".join(shown), f"models: {role}s"
    if broken := broken_plugins(role):
        return Check(name, "warning", f"{found}; {'; '.join(broken)}", "mend or uninstall the plugin")
    return Check(name, "ok", found)


def _presets() -> Check:
    """Which presets can run with the extras that are installed."""
    from goalreel.models import presets

    lacks = {name: extras for name in presets.names() if (extras := sorted(_lacking(name)))}
    able = [name for name in presets.names() if name not in lacks]
    if not lacks:
        return Check("presets", "ok", ", ".join(able))
    unable = "; ".join(f"{name} needs [{', '.join(extras)}]" for name, extras in lacks.items())
    missing = ",".join(sorted({extra for extras in lacks.values() for extra in extras}))
    return Check("presets", "missing", f"{', '.join(able)}; {unable}", install_goalreel(missing))


def _lacking(preset: str) -> Iterator[str]:
    """The extras that a preset needs and that are not wholly installed."""
    from goalreel.models import presets
    from goalreel.models.load import kinds_of

    for kind in kinds_of(presets.read(preset)).values():
        if kind.extra and not all(map(present, EXTRAS[kind.extra].modules)):
            yield kind.extra


def _pyav() -> Check:
    again = install("--force-reinstall --no-deps av")
    return _native(
        "video: PyAV", "av", subprocess_probe.PYAV, install_goalreel("annotate"), again, SVT_LOG="1"
    )


def _torchcodec() -> Check:
    broken = f"{_system('ffmpeg')}   (or pass video_backend='pyav' to LeRobotDataset)"
    return _native(
        "video: torchcodec",
        "torchcodec",
        subprocess_probe.TORCHCODEC,
        install_goalreel("lerobot"),
        broken,
        SVT_LOG="1",
    )


def _ffmpeg() -> Check:
    if shutil.which("ffmpeg") is None:
        return Check("ffmpeg", "missing", "not on the PATH", _system("ffmpeg"))
    outcome = subprocess_probe.run(["ffmpeg", "-version"])
    # ffmpeg prints its libraries last, and they say nothing to a user.
    found = shutil.which("ffmpeg") if outcome.ok else outcome.text
    return Check(
        "ffmpeg", "ok" if outcome.ok else "warning", str(found), "" if outcome.ok else _system("ffmpeg")
    )


def _mujoco() -> Check:
    libraries = _system("libegl1 libegl-mesa0 libgl1-mesa-dri")
    return _native(
        "rendering: MuJoCo", "mujoco", subprocess_probe.MUJOCO, install_goalreel("sim"), libraries, **EGL
    )


def _gpu() -> Check:
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    card = (
        subprocess_probe.run(query)
        if shutil.which("nvidia-smi")
        else subprocess_probe.Outcome(False, "no NVIDIA driver")
    )
    seen = (
        subprocess_probe.python(subprocess_probe.GPU)
        if present("torch")
        else subprocess_probe.Outcome(False, "torch is not installed")
    )
    if seen.ok:
        return Check("GPU", "ok", seen.text)
    if not card.ok:
        return Check(
            "GPU",
            "missing",
            f"{card.text}; {seen.text}",
            "not needed for the presets hindsight, nano, api and server",
        )
    fix = install("--force-reinstall torch") if present("torch") else install_goalreel("gpu")
    return Check("GPU", "warning", f"{card.text}, but torch cannot use it: {seen.text}", fix)


def _ros() -> Check:
    setups = sorted(Path("/opt/ros").glob("*/setup.bash"))
    absent = f"source {setups[-1]}" if setups else install_ros()
    return _native("ROS 2", "rclpy", subprocess_probe.ROS, absent, absent)


def _goalreel_ros() -> Check:
    fix = f"source the workspace you built ros_pkg/ in, or {install_ros()}"
    return _native("ROS 2: goalreel's packages", "goalreel_ros", subprocess_probe.GOALREEL_ROS, fix, fix)


def _raw_frames() -> Check:
    """Whether a camera driver started here would get large frames across."""
    name, profiles = "ROS 2: raw frames", os.environ.get(PROFILES)
    if profiles and Path(profiles).is_file():
        return Check(name, "ok", f"{PROFILES}={profiles}")
    package = importlib.util.find_spec("goalreel_ros") if present("goalreel_ros") else None
    if package is None or package.origin is None:
        return Check(name, "missing", "goalreel_ros is not installed", install_ros())
    fix = f"export {PROFILES}={Path(package.origin).with_name('fastdds_shm.xml')}"
    if profiles:
        return Check(name, "warning", f"{PROFILES} names no file: {profiles}", fix)
    return Check(name, "missing", f"{PROFILES} is not set: a camera started here loses raw frames", fix)


def _disk() -> Check:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    found = f"{free:.1f} GiB free in {Path.cwd()}"
    if free < SCARCE_GIB:
        return Check("disk", "warning", found, "make room, or give --out on a larger disk")
    return Check("disk", "ok", found)


def _system(packages: str) -> str:
    """The command that installs system packages, by their Debian and Ubuntu names."""
    if shutil.which("apt-get") is None:
        return f"install with your system's package manager: {packages}"
    return f"{'' if os.geteuid() == 0 else 'sudo '}apt-get install {packages}"


def run_checks() -> list[Check]:
    """Look at everything, the slow ones side by side; takes some seconds where torch is installed."""
    from goalreel.models.registry import ROLES

    native: tuple[Callable[[], Check], ...] = (
        _pyav,
        _torchcodec,
        _ffmpeg,
        _mujoco,
        _gpu,
        _ros,
        _goalreel_ros,
    )
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(check) for check in native]
        quick = [_python(), _goalreel(), _nano(), *map(_extra, EXTRAS), _presets(), *map(_models, ROLES)]
        return [*quick, *(one.result() for one in running), _raw_frames(), _disk()]
