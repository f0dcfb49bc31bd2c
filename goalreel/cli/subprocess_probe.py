"""Short scripts run in a Python of their own: a broken native library may crash that, not us."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

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

_ENCODE = """
import io
import av
import numpy as np

def encode(codec):
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as video:
        stream = video.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for shade in range(0, 250, 50):
            picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), shade, np.uint8), format="rgb24")
            video.mux(stream.encode(picture))
        video.mux(stream.encode())
    return file.getvalue()
"""

PYAV = (
    _ENCODE
    + """
works = []
for codec in ("h264", "libsvtav1"):
    try:
        with av.open(io.BytesIO(encode(codec))) as video:
            shades = [frame.to_ndarray(format="rgb24").mean() for frame in video.decode(video=0)]
    except (OSError, ValueError):
        continue
    if len(shades) == 5 and shades == sorted(shades):
        works.append(codec)
if len(works) < 2:
    raise SystemExit(f"writes and reads only: {' '.join(works) or 'nothing'}")
print(f"av {av.__version__} writes and reads {' and '.join(works)}")
"""
)

TORCHCODEC = (
    _ENCODE
    + """
import torchcodec
from torchcodec.decoders import VideoDecoder
for codec in ("h264", "libsvtav1"):
    if len(VideoDecoder(encode(codec))[:]) != 5:
        raise SystemExit(f"decodes {codec} wrongly")
print(f"torchcodec {torchcodec.__version__} reads h264 and libsvtav1")
"""
)

FONTS = """
import PIL.features
from goalreel.annotator.report.sheet import SAMPLES, without_font
if scripts := without_font(SAMPLES):
    raise SystemExit(f"none for {', '.join(scripts)}: contact sheets name such text in brackets instead")
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a probe ended: its last line of output, or its last line of complaint."""

    ok: bool
    text: str


def run(command: list[str], timeout: float = 90, environment: Mapping[str, str] | None = None) -> Outcome:
    """Run a program; `environment` is added to ours. Never raises: what went wrong is in the outcome."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
            env=os.environ | dict(environment or {}),
        )
    except subprocess.TimeoutExpired:
        return Outcome(False, f"no answer within {timeout:g} s")
    except OSError as e:
        return Outcome(False, e.strerror or str(e))
    if done.returncode < 0:
        return Outcome(False, f"crashed: {signal.strsignal(-done.returncode)}")
    lines = (done.stdout if done.returncode == 0 else done.stderr or done.stdout).strip().splitlines()
    return Outcome(done.returncode == 0, lines[-1].strip() if lines else "")


def python(script: str, timeout: float = 90, environment: Mapping[str, str] | None = None) -> Outcome:
    """Run a script in this Python, without the current folder on its path."""
    return run([sys.executable, "-P", "-c", script], timeout, environment)
