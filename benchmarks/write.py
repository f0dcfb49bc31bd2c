"""Time to give a dataset language rows and a sub-goal camera, against recording it again with lerobot.

    python benchmarks/write.py --json

lerobot 0.6.1 cannot add a camera to a dataset (`add_features` refuses video). Its only way is to read every
frame back and to record it again through `LeRobotDataset.create` and `add_frame`, with the goal images as one
more camera. Both sides get the same dataset, storyboards and goal images, and write every episode. lerobot
uses its default encoder, unless --codec names another, and its fastest offline path: streaming encoding,
frames decoded in order. Its language columns are then written with its own `LanguageColumnsWriter`.

Keys of --json: `speedup`, `goalreel_s`, `lerobot_s`, `episodes`, `frames`, `cameras`, `width`, `height`.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("SVT_LOG", "1")  # errors only

import numpy as np
from common import argument_parser, parse, report
from lerobot.annotations.steerable_pipeline import LanguageColumnsWriter
from lerobot.annotations.steerable_pipeline.reader import iter_episodes
from lerobot.annotations.steerable_pipeline.staging import EpisodeStaging
from lerobot.configs.video import RGBEncoderConfig
from lerobot.datasets.language import language_feature_info
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.utils.constants import DEFAULT_FEATURES
from numpy.typing import NDArray
from parts.scale_data import record

from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import SUBGOAL, build
from goalreel.types import Attempt, Segment, Step, Storyboard, StoryboardStep, Task, Verdict

STEPS = 4
CAMERAS = ("observation.images.front", "observation.images.wrist")


def storyboards(source: Source, camera: str) -> dict[int, Storyboard]:
    """Cut every episode into STEPS equal segments, whose last frames are the goal images."""
    boards = {}
    for episode in map(source.episode, source.indices):
        steps, cuts = [], np.linspace(0, len(episode), STEPS + 1).astype(int).tolist()
        for i, (start, end) in enumerate(pairwise(cuts)):
            (goal,) = episode.frames(camera, [end - 1])
            attempt = Attempt(prompt="p", seed=0, image=goal, verdict=Verdict(success=True))
            step = Step(name=f"step {i}", instruction="i", prompt="p")
            place = Segment(start=start, end=end)
            made = StoryboardStep(step=step, segment=place, attempts=(attempt,), status="accepted", chosen=0)
            steps.append(made)
        task = Task(id=episode.id, instruction=episode.instruction)
        boards[episode.index] = Storyboard(task=task, steps=tuple(steps))
    return boards


def add_with_goalreel(source: Source, out: Path, boards: Mapping[int, Storyboard], camera: str) -> float:
    """Commit every storyboard and build `out`; seconds."""
    start = time.perf_counter()
    with Records.open(out, {}, source.fingerprint()) as records:
        for index, board in boards.items():
            records.commit(index, board)
        build(source, out, records, camera=camera)
    return time.perf_counter() - start


def record_with_lerobot(
    source: Source, out: Path, boards: Mapping[int, Storyboard], camera: str, codec: str | None
) -> float:
    """Record every frame again with one more camera, then write the language columns; seconds."""
    start = time.perf_counter()
    old = LeRobotDataset("local/in", root=source.root, return_uint8=True)
    features = {k: f for k, f in old.meta.features.items() if k not in DEFAULT_FEATURES}
    new = LeRobotDataset.create(
        "local/out",
        fps=old.fps,
        features={**features, SUBGOAL: {**features[camera], "info": None}},
        root=out,
        robot_type=old.meta.robot_type,
        rgb_encoder=RGBEncoderConfig(vcodec=codec) if codec else None,
        streaming_encoding=True,
    )
    assert old.meta.episodes is not None
    for index, board in boards.items():
        first = old.meta.episodes[index]["dataset_from_index"]
        for step, segment in segments(board):
            assert step.goal_image is not None
            for i in range(segment.start, segment.end):
                item = frame(old, first + i)
                views = {k: as_array(item[k], feature) for k, feature in features.items()}
                new.add_frame({**views, SUBGOAL: step.goal_image.pixels, "task": item["task"]})
        new.save_episode()
    new.finalize()
    write_rows(out, boards)
    return time.perf_counter() - start


def frame(dataset: LeRobotDataset, index: int) -> dict[str, Any]:
    """Read one frame of a dataset, by feature."""
    item = dataset[index]
    assert isinstance(item, dict)
    return item


def segments(board: Storyboard) -> Iterator[tuple[StoryboardStep, Segment]]:
    """Yield each step with its segment."""
    for step in board.steps:
        assert step.segment is not None
        yield step, step.segment


def as_array(value: object, feature: Mapping[str, Any]) -> NDArray[Any]:
    """Give a value that lerobot read the shape in which it records it."""
    is_picture = feature["dtype"] in ("image", "video")
    array = np.asarray(value)
    return array.transpose(1, 2, 0) if is_picture else array.reshape(feature["shape"])


def write_rows(out: Path, boards: Mapping[int, Storyboard]) -> None:
    """Write the same language rows through lerobot's staging and writer."""
    records = list(iter_episodes(out))
    with tempfile.TemporaryDirectory() as staging:
        for record in records:
            rows = language_rows(boards[record.episode_index], record.frame_timestamps)
            EpisodeStaging(Path(staging), record.episode_index).write("plan", rows)
        LanguageColumnsWriter().write_all(records, Path(staging), out)
    info = json.loads((out / "meta/info.json").read_text())
    info["features"] |= language_feature_info()
    (out / "meta/info.json").write_text(json.dumps(info, indent=4))


def language_rows(board: Storyboard, timestamps: Sequence[float]) -> list[dict[str, Any]]:
    """List the plan and each sub-task of a storyboard as lerobot's rows."""
    plan = "\n".join(f"{i}. {s.step.name}" for i, s in enumerate(board.steps, start=1))
    texts = [("plan", plan, 0)]
    texts += [("subtask", step.step.name, segment.start) for step, segment in segments(board)]
    return [
        {"role": "assistant", "content": text, "style": style, "timestamp": timestamps[i]}
        for style, text, i in texts
    ]


def measure(root: Path, folder: Path, codec: str | None) -> dict[str, float | int]:
    """Run both ways on one dataset; the imports are over, so neither side pays for them."""
    source = Source.open(root)
    camera = source.camera(None)
    boards = storyboards(source, camera)
    shape = source.features[camera]["shape"]
    goalreel_s = add_with_goalreel(source, folder / "goalreel", boards, camera)
    lerobot_s = record_with_lerobot(source, folder / "lerobot", boards, camera, codec)
    for name in ("goalreel", "lerobot"):
        dataset = LeRobotDataset("local/out", root=folder / name, video_backend="pyav")
        assert frame(dataset, len(dataset) - 1)[SUBGOAL].shape[0] == 3
    return {
        "speedup": round(lerobot_s / goalreel_s, 1),
        "goalreel_s": round(goalreel_s, 3),
        "lerobot_s": round(lerobot_s, 3),
        "episodes": len(boards),
        "frames": int(source.info["total_frames"]),
        "cameras": len(source.cameras),
        "width": shape[1],
        "height": shape[0],
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--dataset", type=Path, help="a LeRobot v3.0 dataset (default: one is generated)")
    parser.add_argument("--episodes", type=int, default=6, help="of the generated dataset")
    parser.add_argument("--frames", type=int, default=120, help="an episode of the generated dataset")
    parser.add_argument("--size", type=int, default=256, help="of its square pictures, pixels")
    parser.add_argument("--codec", help="of lerobot's recordings (default: its own, SVT-AV1)")
    options = parse(parser, argv, episodes=1, frames=8, size=64, codec="h264")
    with tempfile.TemporaryDirectory(prefix="goalreel-bench-") as name:
        folder = Path(name)
        root = options.dataset
        if root is None:
            root = folder / "in"
            encoder = RGBEncoderConfig(vcodec=options.codec) if options.codec else None
            create = {"rgb_encoder": encoder, "streaming_encoding": True}
            record(root, options.episodes, options.frames, options.size, CAMERAS, **create)
        report(measure(root, folder, options.codec), options.json)


if __name__ == "__main__":
    main()
