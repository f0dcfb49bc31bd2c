"""`goalreel doctor`: checks of this machine, or with `--models` one real question to each model.

Nothing is changed. Whatever loads native code runs in a Python of its own: a broken library may crash that,
not us.
"""

import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from goalreel import __version__, checkpoints
from goalreel.cli.errors import one_line_errors
from goalreel.cli.options import Json, PresetOptions, with_options
from goalreel.errors import InputError
from goalreel.extras import (
    EXTRAS,
    install,
    install_beside,
    install_goalreel,
    install_ros,
    is_installed,
    requirements,
    unmet,
    version,
)
from goalreel.models import presets
from goalreel.models.presets import ModelChoice
from goalreel.terms import ROLES, Role

if TYPE_CHECKING:
    from goalreel.annotator.model_check import RoleTrial

PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE"
MAX_SHOWN = 4_000
"""Characters of a reply; trial.json has the rest."""
EPILOG = (
    "Examples:\n\n"
    "- `goalreel doctor`\n\n"
    "- `goalreel doctor --models klein-24gb --gpu 24`\n\n"
    "- `goalreel doctor --models klein --frame frame.png --instruction 'open the drawer'`"
)


@with_options(choice=PresetOptions(None, without=("max_attempts", "keep")))
def doctor(
    choice: ModelChoice,
    models: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help="Test this preset instead: ask each model one question, and show and save the answers.",
        ),
    ] = None,
    frame: Annotated[
        Path | None, typer.Option(help="With --models: the picture to ask about. [default: a drawn scene]")
    ] = None,
    instruction: Annotated[str | None, typer.Option(help="With --models: the instruction.")] = None,
    gpu: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="With --models: ask nothing; only say whether the models fit into this many GB.",
            metavar="GB",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="With --models: folder for the answers. No keys are written there.")
    ] = Path("goalreel-doctor"),
    json_output: Json = False,
) -> None:
    """Check what is installed, and print the commands that install what is missing."""
    with one_line_errors():
        if models is None and (frame or instruction or gpu or choice.overrides):
            raise InputError("these options need --models PRESET")
        if models is None:
            ok = _check_machine(json_output)
        elif gpu is not None:
            from goalreel.cli.console import print_results
            from goalreel.models.memory import memory_of

            memory = memory_of(presets.load(models, **choice.overrides))
            print_results({"memory": memory.as_json(gpu)}, memory.line(gpu), json_output)
            ok = memory.fits(gpu)
        else:
            ok = _check_models(models, choice.overrides, frame, instruction, out, json_output)
        raise typer.Exit(0 if ok else 1)


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `found` is what there is; `fix` is a command or advice, empty when nothing is to be done."""

    name: str
    status: Literal["ok", "missing", "warning"]
    found: str
    fix: str = ""
    required: bool = False
    """True if goalreel cannot work at all without it."""


def run_checks() -> list[Check]:
    """Run every check, the slow ones side by side; takes some seconds where torch is installed."""
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(check) for check in _native_checks()]
        python = Check("python", "ok", f"{platform.python_version()} ({sys.executable})", required=True)
        quick = [python, _goalreel(), _nano(), *map(_extra, EXTRAS), _presets(), *map(_models, ROLES)]
        return [*quick, *(check.result() for check in running), _raw_frames()]


def _check_machine(json_output: bool) -> bool:
    """Print every check; return False if something required is missing."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from goalreel.cli.console import print_json

    results = run_checks()
    ok = all(check.status == "ok" for check in results if check.required)
    if json_output:
        print_json({"ok": ok, "checks": [asdict(check) for check in results]})
        return ok
    styles = {"ok": "green", "missing": "red", "warning": "yellow"}
    table = Table("", "check", "found", box=None, padding=(0, 2, 0, 0), header_style="dim")
    for check in results:
        style = "dim" if check.status == "missing" and not check.required else styles[check.status]
        table.add_row(Text(check.status, style), Text(check.name), Text(check.found, overflow="fold"))
    console = Console()
    console.print(table)
    for check in results:
        if check.fix:
            # Commands are printed unwrapped, so that they can be copied.
            console.print(Text(f"\n{check.name}:"), Text(f"  {check.fix}", "bold"), sep="\n", soft_wrap=True)
    return ok


def _goalreel() -> Check:
    problems = [*unmet(requirements("goalreel"))]
    if version("goalreel") is None:
        problems = ["not installed in this Python"]
    detail = "; ".join(problems) or f"{__version__} ({Path(__file__).parents[1]})"
    fix = install_goalreel() if problems else ""
    return Check("goalreel", "missing" if problems else "ok", detail, fix, required=True)


def _extra(extra: str) -> Check:
    name = f"[{extra}] {EXTRAS[extra].purpose}"
    needs = requirements("goalreel", extra)
    problems = [*dict.fromkeys(unmet(needs))]
    if problems or not needs:
        return Check(name, "missing", "; ".join(problems) or "unknown here", install_goalreel(extra))
    packages = [requirement.name for requirement in needs if requirement.name != "goalreel"]
    return Check(name, "ok", ", ".join(f"{package} {version(package)}" for package in packages))


def _nano() -> Check:
    name = "checkpoints: nano"
    if not checkpoints.NANO.is_dir():
        return Check(name, "missing", "goalreel-nano is not installed", install_beside("nano"))
    size = sum(f.stat().st_size for f in checkpoints.NANO.rglob("*") if f.is_file())
    return Check(name, "ok", f"{', '.join(checkpoints.NAMES)} ({size / 1e6:.0f} MB)")


def _models(role: Role) -> Check:
    from goalreel.models.registry import broken_plugins, kinds

    forms = ", ".join(f"{k.form} ({k.plugin})" if k.plugin else k.form for k in kinds(role))
    name = f"models: {role}s"
    if problems := broken_plugins(role):
        return Check(name, "warning", f"{forms}; {'; '.join(problems)}", "repair or uninstall the plugin")
    return Check(name, "ok", forms)


def _presets() -> Check:
    missing = {name: sorted(set(_missing_extras(name))) for name in presets.names()}
    waiting = [f"{name} needs [{', '.join(extras)}]" for name, extras in missing.items() if extras]
    ready = ", ".join(name for name, extras in missing.items() if not extras)
    if not waiting:
        return Check("presets", "ok", ready)
    extras = ",".join(sorted({extra for extras in missing.values() for extra in extras}))
    found = "; ".join(filter(None, (ready, *waiting)))
    return Check("presets", "missing", found, install_goalreel(extras))


def _missing_extras(preset: str) -> Iterator[str]:
    from goalreel.models.load import kinds_of
    from goalreel.models.registry import find

    chosen = presets.read(preset)
    for role, kind in kinds_of(chosen).items():
        kinds = [kind, find(role, chosen.model_name(role).inner)] if kind.asks_chat else [kind]
        extras = [k.extra for k in kinds] + (["annotate"] if kind.needs_recording else [])
        yield from (e for e in extras if e and not all(map(is_installed, EXTRAS[e].modules)))


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


def _native_checks() -> list[Callable[[], Check]]:
    """List the checks of native libraries, with what to do where one is absent or broken."""
    setups = sorted(Path("/opt/ros").glob("*/setup.bash"))
    ros = f"source {setups[-1]}" if setups else install_ros()
    ours = f"source the workspace you built ros_pkg/ in, or {install_ros()}"
    reinstall = install("--force-reinstall --no-deps av")
    apt = f"{'' if os.geteuid() == 0 else 'sudo '}apt-get install"
    if shutil.which("apt-get") is None:
        apt = "install with your system's package manager (names of Debian):"
    fonts = f"{apt} fonts-noto-cjk fonts-noto-core fonts-symbola libfribidi0"
    gl = f"{apt} libegl1 libegl-mesa0 libgl1-mesa-dri"
    egl = {} if sys.platform != "linux" or os.environ.get("MUJOCO_GL") else {"MUJOCO_GL": "egl"}
    extra = install_goalreel
    return [
        partial(_native, "video: PyAV", "av", PYAV, extra("annotate"), reinstall, SVT_LOG="1"),
        partial(_native, "fonts", "PIL", FONTS, extra(), fonts),
        partial(_native, "rendering: MuJoCo", "mujoco", MUJOCO, extra("sim"), gl, **egl),
        _gpu,
        partial(_native, "ROS 2", "rclpy", ROS, ros, ros),
        partial(_native, "ROS 2: goalreel's packages", "goalreel_ros", GOALREEL_ROS, ours, ours),
    ]


def _native(name: str, module: str, script: str, if_absent: str, if_broken: str, **environment: str) -> Check:
    if not is_installed(module):
        return Check(name, "missing", f"{module} is not installed", if_absent)
    ok, text = run_python(script, environment=environment)
    return Check(name, "ok" if ok else "warning", text, "" if ok else if_broken)


def _gpu() -> Check:
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    has_torch = is_installed("torch")
    torch = run_python(GPU) if has_torch else Outcome(False, "torch is not installed")
    if torch.ok:
        return Check("GPU", "ok", torch.text)
    card = run_program(query) if shutil.which("nvidia-smi") else Outcome(False, "no NVIDIA driver")
    if not card.ok:
        fix = "not needed for the presets hindsight, nano, api and server"
        return Check("GPU", "missing", f"{card.text}; {torch.text}", fix)
    fix = install("--force-reinstall torch") if has_torch else install_goalreel("gpu")
    return Check("GPU", "warning", f"{card.text}, but torch cannot use it: {torch.text}", fix)


class Outcome(NamedTuple):
    """The end of a probe: its last line of output, or its last line of complaint."""

    ok: bool
    text: str


def run_program(
    command: list[str], timeout: float = 90, environment: Mapping[str, str] | None = None
) -> Outcome:
    """Run a program; `environment` is added to ours. Never raises: what went wrong is in the outcome."""
    environment = os.environ | dict(environment or {})
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True}
    try:
        done = subprocess.run(command, timeout=timeout, env=environment, text=True, errors="replace", **pipes)
    except subprocess.TimeoutExpired:
        return Outcome(False, f"no answer within {timeout:g} s")
    except OSError as e:
        return Outcome(False, str(e))
    if done.returncode < 0:
        return Outcome(False, f"crashed: {signal.strsignal(-done.returncode)}")
    lines = (done.stdout if done.returncode == 0 else done.stderr or done.stdout).strip().splitlines()
    return Outcome(done.returncode == 0, lines[-1].strip() if lines else "")


def run_python(script: str, timeout: float = 90, environment: Mapping[str, str] | None = None) -> Outcome:
    """Run a script in this Python, without the current folder on its path."""
    return run_program([sys.executable, "-P", "-c", script], timeout, environment)


def _check_models(
    preset: str,
    overrides: Mapping[str, Any],
    frame: Path | None,
    instruction: str | None,
    out: Path,
    json_output: bool,
) -> bool:
    """Ask each model one question, print and save the replies; return False if one could not be used."""
    from goalreel.annotator.model_check import save_trial, trial_task, try_models
    from goalreel.annotator.plan import check_instruction
    from goalreel.cli.console import print_json
    from goalreel.image import Image
    from goalreel.models.memory import gpu_gb, memory_of

    if instruction is not None:
        check_instruction(instruction)
    names = presets.load(preset, **overrides)
    try:
        memory = memory_of(names)
        typer.echo(memory.line(gpu_gb()), err=json_output)
    except InputError:  # the role whose name is wrong says so below
        memory = None
    task = trial_task(Image.of(frame) if frame else None, instruction)

    def show(role: "RoleTrial") -> None:
        place = f"--{role.role}" if overrides.get(role.role) else str(presets.file(preset))
        typer.echo("\n".join(_lines(role, place)), err=json_output)

    result = try_models(names, task, show)
    record = save_trial(result, out)
    if json_output:
        print_json({**record, "memory": memory and memory.as_json(gpu_gb())})
    else:
        typer.echo(f"Raw replies and pictures: {out}")
    return result.usable


def _lines(role: "RoleTrial", place: str) -> list[str]:
    from goalreel.chat.json_reply import clean

    lines = [f"{role.role}: {role.model}"]
    lines += [f"  asked   {role.how}"] if role.how else []
    lines += [f"  note    {role.note}"] if role.note else []
    for number, reply in enumerate(role.replies, start=1):
        read = f"cannot be read: {reply.problem}" if reply.problem else f"read as {reply.read_as}"
        lines.append(f"  reply {number} {read}")
        text = reply.text if len(reply.text) <= MAX_SHOWN else f"{reply.text[:MAX_SHOWN]} [...]"
        lines += [f"    | {line}" for line in clean(text).splitlines()]
    times = [("loaded", role.load_s), ("answered", role.ask_s)]
    if took := [f"{what} in {seconds:.1f} s" for what, seconds in times if seconds is not None]:
        lines.append(f"  time    {', '.join(took)}")
    if role.problem is None:
        lines += [f"  gave    {clean(role.gave)}"]
        return [*lines, f"  looked  {role.sight}", ""] if role.sight else [*lines, ""]
    return [*lines, f"  failed  {clean(role.problem)}", f"  fix     it is named in {place}", ""]


GPU = """
import torch
if torch.cuda.is_available():
    free, total = torch.cuda.mem_get_info()
    (torch.ones(8, device="cuda") * 2).sum().item()
    print(f"{torch.cuda.get_device_name()}, {total / 2**30:.0f} GiB, CUDA {torch.version.cuda}")
elif torch.backends.mps.is_available():
    print("Apple GPU (mps)")
else:
    raise SystemExit(f"torch {torch.__version__}, CUDA {torch.version.cuda}, sees no GPU")
"""

MUJOCO = """
import mujoco
model = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody><light pos='0 0 3'/><geom type='plane' size='1 1 .1'/></worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, 32, 32) as renderer:
    renderer.update_scene(data)
    if renderer.render().max() == 0:
        raise SystemExit("the picture is black")
print(f"mujoco {mujoco.__version__} renders")
"""

PYAV = """
import io
import av
import numpy as np
for codec in ("h264", "libsvtav1"):
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as video:
        stream = video.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for shade in range(0, 250, 50):
            picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), shade, np.uint8), format="rgb24")
            video.mux(stream.encode(picture))
        video.mux(stream.encode())
    with av.open(io.BytesIO(file.getvalue())) as video:
        shades = [frame.to_ndarray(format="rgb24").mean() for frame in video.decode(video=0)]
    if len(shades) != 5 or shades != sorted(shades):
        raise SystemExit(f"{codec} does not read what it wrote")
print(f"av {av.__version__} writes and reads h264 and libsvtav1")
"""

FONTS = """
import PIL.features
from goalreel.annotator.report.sheet import SAMPLES, without_font
if scripts := without_font(SAMPLES):
    raise SystemExit(f"none for {', '.join(scripts)}: contact sheets and films show boxes instead")
if not PIL.features.check("raqm"):
    raise SystemExit("no libfribidi: Arabic, Hebrew and Indian scripts are drawn letter by letter")
print("every script is drawn")
"""

ROS = """
import os, rclpy
middleware = rclpy.get_rmw_implementation_identifier()
print(f"rclpy with {middleware}, ROS_DISTRO={os.environ.get('ROS_DISTRO', 'not set')}")
"""

GOALREEL_ROS = """
import goalreel_interfaces.msg, goalreel_ros, os
from rclpy.type_support import check_for_type_support
check_for_type_support(goalreel_interfaces.msg.SubGoal)
print(f"goalreel_interfaces loads; goalreel_ros in {os.path.dirname(goalreel_ros.__file__)}")
"""
