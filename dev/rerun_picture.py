"""Make docs/images/rerun.png: an episode that the nano models annotated, as Rerun's own viewer shows it.

The viewer needs a display and Vulkan: on Debian without either, the packages xvfb and mesa-vulkan-drivers.

    .venv/bin/python dev/rerun_picture.py docs/images/rerun.png
"""

import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import PIL.Image

from goalreel.files import write_bytes

GOALREEL: Final = Path(sys.executable).with_name("goalreel")
SIZE: Final = (1400, 900)
SCREEN: Final = "6000x4000x24"
"""So large that the mouse, in its middle, points at nothing in the window."""
SOFTWARE: Final = Path("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json")


def look(recording: Path, png: Path) -> None:
    """Let the viewer open a recording and write what it shows."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    display = ("xvfb-run", "-a", "-s", f"-screen 0 {SCREEN}") if shutil.which("xvfb-run") else ()
    viewer = (
        sys.executable,
        "-m",
        "rerun_cli",
        "--bind",
        "127.0.0.1",
        "--port",
        port,
        "--renderer",
        "vulkan",
    )
    shot = ("--window-size", f"{SIZE[0]}x{SIZE[1]}", "--screenshot-to", str(png), str(recording))
    software = {"VK_ICD_FILENAMES": str(SOFTWARE)} if SOFTWARE.is_file() else {}
    # Once the picture is there, version 0.33.1 ends with a panic.
    subprocess.run([*display, *viewer, *shot], env={**os.environ, **software}, timeout=300, check=False)


def main(out: str) -> None:
    """Record, annotate, write the recordings, look at the first."""
    with tempfile.TemporaryDirectory(prefix="goalreel-picture-") as folder:
        recorded, dataset, frames = (Path(folder) / name for name in ("recorded", "dataset", "seen"))
        record = ("tabletop", "record", "--episodes", "2", "--split", "validation", "--size", "192")
        subprocess.run([GOALREEL, *record, "--out", recorded], check=True)
        annotate = ("annotate", recorded, "--replace-rows", "--preset", "nano", "--out", dataset)
        subprocess.run([GOALREEL, *annotate], check=False)  # 1 where a goal was rejected
        subprocess.run([GOALREEL, "show", dataset, "--rerun", frames], check=True)
        look(min(frames.iterdir()), Path(folder) / "picture.png")
        with PIL.Image.open(Path(folder) / "picture.png") as picture:
            thumbnail = picture.convert("RGB").resize(SIZE, PIL.Image.Resampling.LANCZOS)
    small = io.BytesIO()
    thumbnail.quantize(256, PIL.Image.Quantize.MEDIANCUT, kmeans=5).save(small, "PNG", optimize=True)
    write_bytes(Path(out), small.getvalue())


if __name__ == "__main__":
    main(sys.argv[1])
