"""Copies a LeRobot v3.0 dataset without its cameras and statistics: `without_pictures.py DATASET COPY`."""

import json
import shutil
import sys
from pathlib import Path

import pyarrow.parquet as pq


def copy(root: Path, out: Path) -> None:
    """Write the state, action, tasks and times of `root` to `out`, the numbers bit for bit."""
    info = json.loads((root / "meta/info.json").read_text())
    info["features"] = {k: f for k, f in info["features"].items() if not k.startswith("observation.images.")}
    del info["video_path"]
    for path in root.rglob("*.parquet"):
        target = out / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        table = pq.read_table(path)
        kept = [name for name in table.column_names if not name.startswith(("stats/", "videos/"))]
        pq.write_table(table.select(kept), target, compression="zstd")
    (out / "meta/info.json").write_text(json.dumps(info, indent=1) + "\n")
    shutil.copyfile(root / "LICENSE", out / "LICENSE")


if __name__ == "__main__":
    copy(Path(sys.argv[1]), Path(sys.argv[2]))
