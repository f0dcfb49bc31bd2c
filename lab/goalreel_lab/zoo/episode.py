"""The simulator's knowledge of one episode, frame by frame, and its file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

type Numbers = NDArray[np.float64]

HZ, EVERY = 50, 4
"""Control steps a second, and steps a picture: to render one takes as long as to compute ten."""
CAMERAS = ("front", "side", "wrist", "moving")


@dataclass(frozen=True)
class SimulatedEpisode:
    """One episode of n frames at `HZ`."""

    success: NDArray[np.bool_]
    eef: Numbers
    """(n, 3), metres."""
    quaternion: Numbers
    """(n, 4), x y z w."""
    joints: Numbers
    """(n, joints), radians."""
    torques: Numbers
    """(n, joints)."""
    fingers: Numbers
    """(n, joints of the gripper), as the simulator has them."""
    width: Numbers
    """(n,): between the fingers' pads, metres."""
    command: Numbers
    """(n,), of the gripper: 1 closes, -1 opens."""
    target: Numbers
    """(n, 3): where the hand is told to be, metres."""
    touched: NDArray[np.bool_]
    """(n,): the gripper touches the task's body."""
    held: NDArray[np.bool_]
    """(n,): both sides of the gripper do."""
    pose: Numbers
    """(n, 3) or, of a hinge or a button, (n, 1)."""
    pictures: dict[str, list[bytes]]
    """Camera -> JPEG of each `EVERY`th frame."""

    def save(self, path: Path) -> None:
        """Write the file that `load` reads."""
        arrays = {name: value for name, value in vars(self).items() if name != "pictures"}
        for camera, files in self.pictures.items():
            arrays[f"{camera}.bytes"] = np.frombuffer(b"".join(files), np.uint8)
            arrays[f"{camera}.sizes"] = np.array([len(file) for file in files])
        partial = path.with_name(f"part-{path.name}")
        np.savez(partial, **arrays)
        partial.rename(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            values: dict[str, Any] = {name: file[name] for name in file if "." not in name}
            pictures = {}
            for camera in CAMERAS:
                ends = np.cumsum(file[f"{camera}.sizes"])
                data = file[f"{camera}.bytes"].tobytes()
                pictures[camera] = [data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        return cls(**values, pictures=pictures)
