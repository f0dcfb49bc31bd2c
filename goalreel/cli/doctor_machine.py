"""What this machine has, what it lacks, and the command that installs it.

Nothing is changed. Whatever loads native code runs in a process of its own.
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
    is_installed,
    requirements,
    unmet,
    version,
)

if TYPE_CHECKING:
    from goalreel.types import Role

SCARCE_GIB = 5
PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE"
EGL = {} if sys.platform != "linux" or os.environ.get("MUJOCO_GL") else {"MUJOCO_GL": "egl"}


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `found` is what there is; `fix` is a command or advice, empty when nothing is to be done."""

    name: str
    status: Literal["ok", "missing", "warning"]
    found: str
    fix: str = ""
    required: bool = False
    """Whether goalreel cannot work at all without it."""


def _python() -> Check:
    return Check("python", "ok", f"{platform.python_version()} ({sys.executable})", required=True)


def _goalreel() -> Check:
    problems = [problem for requirement in requirements("goalreel") for problem in unmet(requirement)]
    if version("goalreel") is None:
        problems = ["not installed in this Python"]
    detail = "; ".join(problems) or f"{__version__} ({Path(__file__).parents[1]})"
    fix = install_goalreel() if problems else ""
    return Check("goalreel", "missing" if problems else "ok", detail, fix, required=True)


def _extra(extra: str) -> Check:
    name = f"[{extra}] {EXTRAS[extra].purpose}"
    needs = requirements("goalreel", extra)
    problems = list(dict.fromkeys(problem for requirement in needs for problem in unmet(requirement)))
    if problems or not needs:
        return Check(name, "missing", "; ".join(problems) or "unknown here", install_goalreel(extra))
    packages = [requirement.name for requirement in needs if requirement.name != "goalreel"]
    return Check(name, "ok", ", ".join(f"{package} {version(package)}" for package in packages))


def _native(name: str, module: str, script: str, if_absent: str, if_broken: str, **environment: str) -> Check:
    """Check a module with native code; `if_absent` and `if_broken` are what to do then."""
    if not is_installed(module):
        return Check(name, "missing", f"{module} is not installed", if_absent)
    outcome = subprocess_probe.python(script, environment=environment)
    return Check(name, "ok" if outcome.ok else "warning", outcome.text, "" if outcome.ok else if_broken)


def _nano() -> Check:
    name, models = "checkpoints: nano", checkpoints.names()
    if not models:
        return Check(name, "missing", f"none in {checkpoints.NANO}", install_goalreel())
    size = sum(f.stat().st_size for f in checkpoints.NANO.rglob("*") if f.is_file())
    return Check(name, "ok", f"{', '.join(models)} ({size / 1e6:.0f} MB)")


def _models(role: "Role") -> Check:
    """List the kinds of models for a role, those of plugins with their packages."""
    from goalreel.models.registry import broken_plugins, kinds

    forms = ", ".join(f"{k.form} ({k.plugin})" if k.plugin else k.form for k in kinds(role))
    name = f"models: {role}s"
    if problems := broken_plugins(role):
        return Check(name, "warning", f"{forms}; {'; '.join(problems)}", "repair or uninstall the plugin")
    return Check(name, "ok", forms)


def _presets() -> Check:
    """List the presets that can run with the extras that are installed."""
    from goalreel.models import presets

    missing = {name: sorted(set(_missing_extras(name))) for name in presets.names()}
    ready = [name for name, extras in missing.items() if not extras]
    waiting = [f"{name} needs [{', '.join(extras)}]" for name, extras in missing.items() if extras]
    if not waiting:
        return Check("presets", "ok", ", ".join(ready))
    extras = ",".join(sorted({extra for extras in missing.values() for extra in extras}))
    detail = "; ".join(filter(None, (", ".join(ready), *waiting)))
    return Check("presets", "missing", detail, install_goalreel(extras))


def _missing_extras(preset: str) -> Iterator[str]:
    """The extras that a preset's models need and that are not wholly installed."""
    from goalreel.models import presets
    from goalreel.models.load import kinds_of
    from goalreel.models.names import ModelName
    from goalreel.models.registry import find

    chosen = presets.read(preset)
    for role, kind in kinds_of(chosen).items():
        kinds = [kind]
        if kind.asks_chat:
            kinds.append(find(role, ModelName.parse(getattr(chosen, role)).inner))
        extras = [k.extra for k in kinds] + (["annotate"] if kind.needs_recording else [])
        yield from (e for e in extras if e and not all(map(is_installed, EXTRAS[e].modules)))


def _pyav() -> Check:
    reinstall = install("--force-reinstall --no-deps av")
    return _native(
        "video: PyAV", "av", subprocess_probe.PYAV, install_goalreel("annotate"), reinstall, SVT_LOG="1"
    )


def _torchcodec() -> Check:
    if_broken = f"{_system('ffmpeg')}   (or pass video_backend='pyav' to LeRobotDataset)"
    return _native(
        "video: torchcodec",
        "torchcodec",
        subprocess_probe.TORCHCODEC,
        install_goalreel("lerobot"),
        if_broken,
        SVT_LOG="1",
    )


def _fonts() -> Check:
    """Check whether contact sheets show every script and not boxes."""
    packages = _system("fonts-noto-cjk fonts-noto-core fonts-symbola libfribidi0")
    return _native("fonts", "PIL", subprocess_probe.FONTS, install_goalreel(), packages)


def _ffmpeg() -> Check:
    if shutil.which("ffmpeg") is None:
        return Check("ffmpeg", "missing", "not on the PATH", _system("ffmpeg"))
    outcome = subprocess_probe.run(["ffmpeg", "-version"])
    # ffmpeg prints its libraries last, and they say nothing to a user.
    detail = str(shutil.which("ffmpeg")) if outcome.ok else outcome.text
    return Check("ffmpeg", "ok" if outcome.ok else "warning", detail, "" if outcome.ok else _system("ffmpeg"))


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
    torch = (
        subprocess_probe.python(subprocess_probe.GPU)
        if is_installed("torch")
        else subprocess_probe.Outcome(False, "torch is not installed")
    )
    if torch.ok:
        return Check("GPU", "ok", torch.text)
    if not card.ok:
        return Check(
            "GPU",
            "missing",
            f"{card.text}; {torch.text}",
            "not needed for the presets hindsight, nano, api and server",
        )
    fix = install("--force-reinstall torch") if is_installed("torch") else install_goalreel("gpu")
    return Check("GPU", "warning", f"{card.text}, but torch cannot use it: {torch.text}", fix)


def _ros() -> Check:
    setups = sorted(Path("/opt/ros").glob("*/setup.bash"))
    fix = f"source {setups[-1]}" if setups else install_ros()
    return _native("ROS 2", "rclpy", subprocess_probe.ROS, fix, fix)


def _goalreel_ros() -> Check:
    fix = f"source the workspace you built ros_pkg/ in, or {install_ros()}"
    return _native("ROS 2: goalreel's packages", "goalreel_ros", subprocess_probe.GOALREEL_ROS, fix, fix)


def _raw_frames() -> Check:
    """Check whether a camera driver that is started here would get large frames across."""
    name, profiles = "ROS 2: raw frames", os.environ.get(PROFILES)
    if profiles and Path(profiles).is_file():
        return Check(name, "ok", f"{PROFILES}={profiles}")
    package = importlib.util.find_spec("goalreel_ros") if is_installed("goalreel_ros") else None
    if package is None or package.origin is None:
        return Check(name, "missing", "goalreel_ros is not installed", install_ros())
    fix = f"export {PROFILES}={Path(package.origin).with_name('fastdds_shm.xml')}"
    if profiles:
        return Check(name, "warning", f"{PROFILES} names no file: {profiles}", fix)
    return Check(name, "missing", f"{PROFILES} is not set: a camera started here loses raw frames", fix)


def _disk() -> Check:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    detail = f"{free:.1f} GiB free in {Path.cwd()}"
    if free < SCARCE_GIB:
        return Check("disk", "warning", detail, "free some space, or give --out on a larger disk")
    return Check("disk", "ok", detail)


def _system(packages: str) -> str:
    """The command that installs system packages, by their Debian and Ubuntu names."""
    if shutil.which("apt-get") is None:
        return f"install with your system's package manager: {packages}"
    return f"{'' if os.geteuid() == 0 else 'sudo '}apt-get install {packages}"


def run_checks() -> list[Check]:
    """Run every check, the slow ones side by side; takes some seconds where torch is installed."""
    from goalreel.types import ROLES

    native: tuple[Callable[[], Check], ...] = (
        _pyav,
        _torchcodec,
        _ffmpeg,
        _fonts,
        _mujoco,
        _gpu,
        _ros,
        _goalreel_ros,
    )
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(check) for check in native]
        quick = [_python(), _goalreel(), _nano(), *map(_extra, EXTRAS), _presets(), *map(_models, ROLES)]
        return [*quick, *(check.result() for check in running), _raw_frames(), _disk()]
