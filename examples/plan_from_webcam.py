"""One frame of a camera, an instruction, a storyboard.

python examples/plan_from_webcam.py 0 "open the drawer" drawer --preset klein
python examples/plan_from_webcam.py rtsp://camera/stream "clear the table" table --preset server
"""

import argparse
from pathlib import Path

import cv2
import numpy as np

import goalreel


def grab(camera: str) -> np.ndarray:
    """Read a frame of camera number `camera`, or of a video file or stream: RGB, uint8, (height, width, 3).

    Raises:
        InputError: it gives none.
    """
    capture = cv2.VideoCapture(int(camera) if camera.isdecimal() else camera)
    try:
        for _ in range(4):  # the first frames of many webcams are dark
            capture.grab()
        read, bgr = capture.read()
    finally:
        capture.release()
    if not read:
        raise goalreel.InputError(f"no frame from {camera}: is it there, and in use by nobody else?")
    return np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("camera", help="a number, a video file or an address")
    parser.add_argument("instruction")
    parser.add_argument("out", type=Path)
    parser.add_argument("--preset", default="nano", help="nano knows the simulated tabletop alone")
    arguments = parser.parse_args()

    frame = grab(arguments.camera)
    board = goalreel.plan(frame, arguments.instruction, arguments.out, preset=arguments.preset)
    if board.failure is not None:
        raise SystemExit(f"no plan: {board.failure.message}")
    for step in board.steps:
        print(f"{step.status:>10}  {step.step.name}")
    print(f"Look at {arguments.out / 'index.html'}")


if __name__ == "__main__":
    main()
