"""WGO-Bench and RoboRewardBench in miniature: real videos, in the shapes that were published."""

import io
import json
import re
from pathlib import Path

import av
import numpy as np
import pyarrow
import pyarrow.parquet

from support.chat_server import Reply, Request, said
from support.watcher import text_of

FRAMES, FPS = 30, 10
GOLD = {
    "homer_1": [(0, 1.5, "put the cup down"), (1.5, 3, "close the lid")],
    "droid_1": [(0, 3, "wipe the table")],
}
"""Episode -> segments in s, and their words."""
TASK = "put the spoon in the pot"


def clip(shade: int = 200) -> bytes:
    """An MP4 file of FRAMES frames that grow from black to a shade."""
    packed = io.BytesIO()
    with av.open(packed, "w", format="mp4") as out:
        stream = out.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for i in range(FRAMES):
            pixels = np.full((48, 64, 3), shade * i // FRAMES, np.uint8)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        out.mux(stream.encode())
    return packed.getvalue()


def wgo_data(folder: Path, **changes: object) -> Path:
    """The benchmark's one file; `changes` are values of the first row."""
    rows = [
        {
            "id": name,
            "video": clip(),
            "instruction": "" if name == "droid_1" else "tidy up",
            "segments": [{"start_sec": float(a), "end_sec": float(b), "subtask": c} for a, b, c in gold],
            "metadata": "{}",
        }
        for name, gold in GOLD.items()
    ]
    rows[0] |= changes
    path = folder / "data" / "annotations.parquet"
    path.parent.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return folder


def wgo_models(request: Request) -> Reply:
    """A planner, a model that labels, and a judge, by their names."""
    match request.json["model"]:
        case "planner":
            end = int(re.findall(r"the last ends at (\d+)", text_of(request))[-1])
            cuts = [(0, end // 2, "put the cup down"), (end // 2, end, "open the lid")]
            rest = {"outcome": "done", "agrees": True}
            spans = [{"start": a, "end": b, "name": c, "state": f"{c}: done", **rest} for a, b, c in cuts]
            return said(f"<answer>{json.dumps({'segments': spans})}</answer>")
        case "labeller":
            return said("I see a cup.\n**Put the cup down.**")
    return said("DIFFERENT" if "wipe" not in text_of(request) else "Who knows?")


def roboreward_data(folder: Path, rewards: dict[str, int]) -> Path:
    """Rollouts with their rewards, by the paths of their videos; all are of one task."""
    rows = []
    for number, (name, reward) in enumerate(rewards.items()):
        path = folder / "test" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(clip(100 + number))
        rows.append({"file_name": name, "task": TASK, "reward": reward})
    (folder / "test" / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
