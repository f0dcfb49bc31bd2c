"""Time to give a dataset language rows and a sub-goal camera: goalreel against re-recording it with lerobot.

lerobot 0.6.1 cannot add a camera to a dataset (`add_features` refuses video), so its only way is to read
every frame back and record it anew through `LeRobotDataset.create` / `add_frame`, with the goal pictures as
one more camera. Both sides get the same dataset, storyboards and goal pictures, and write every episode.
lerobot uses its default encoder and its fastest offline path (streaming encoding, frames decoded in order);
its language columns are then written with its own `LanguageColumnsWriter`.

    python benchmarks/write.py [--dataset DIR] [--json]

The last line of `--json` is one object: speedup, goalreel_s, lerobot_s, episodes, frames, cameras, width,
height.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from lerobot.annotations.steerable_pipeline import LanguageColumnsWriter
from lerobot.annotations.steerable_pipeline.reader import iter_episodes
from lerobot.annotations.steerable_pipeline.staging import EpisodeStaging
from lerobot.datasets.language import language_feature_info
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.utils.constants import DEFAULT_FEATURES

from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import SUBGOAL, build
from goalreel.types import Attempt, Segment, Step, Storyboard, StoryboardStep, Task, Verdict

STEPS = 4


def make_dataset(root: Path, episodes: int, frames: int, size: int) -> None:
    """Two cameras of a moving square on a textured ground, recorded by lerobot with its defaults."""
    picture = {"dtype": "video", "shape": (size, size, 3), "names": ["height", "width", "channels"]}
    numbers = {"dtype": "float32", "shape": (7,), "names": None}
    features = {"observation.images.front": dict(picture), "observation.images.wrist": dict(picture)}
    features |= {"observation.state": dict(numbers), "action": dict(numbers)}
    dataset = LeRobotDataset.create("local/in", fps=10, features=features, root=root, streaming_encoding=True)
    x, y = np.meshgrid(np.arange(size), np.arange(size))
    ground = np.stack([(x + y) % 200, (2 * x) % 180, (3 * y) % 160], axis=2).astype(np.uint8)
    for episode in range(episodes):
        for i in range(frames):
            view, edge = ground.copy(), size // 5
            left = 2 * i % (size - edge)
            view[episode * 4 : episode * 4 + edge, left : left + edge] = (250, 40 * episode % 255, 20)
            state = np.full(7, i / frames, np.float32)
            views = {"observation.images.front": view, "observation.images.wrist": view[::-1].copy()}
            dataset.add_frame({**views, "observation.state": state, "action": state, "task": "move it"})
        dataset.save_episode()
    dataset.finalize()


def storyboards(source: Source, camera: str) -> dict[int, Storyboard]:
    """STEPS equal segments an episode; a goal is the segment's last frame."""
    boards = {}
    for episode in map(source.episode, source.indices):
        cuts = np.linspace(0, len(episode), STEPS + 1).astype(int).tolist()
        goals = episode.frames(camera, [cut - 1 for cut in cuts[1:]])
        steps = []
        for i, goal in enumerate(goals):
            attempt = Attempt(prompt="p", seed=0, image=goal, verdict=Verdict(success=True))
            steps.append(
                StoryboardStep(
                    step=Step(name=f"step {i}", instruction="i", prompt="p"),
                    segment=Segment(start=cuts[i], end=cuts[i + 1]),
                    attempts=(attempt,),
                    status="verified",
                    chosen=0,
                )
            )
        task = Task(id=episode.id, instruction=episode.instruction)
        boards[episode.index] = Storyboard(task=task, steps=tuple(steps))
    return boards


def ours(source: Source, out: Path, boards: dict[int, Storyboard], camera: str) -> float:
    """Commit every storyboard and build OUT; seconds."""
    begin = time.perf_counter()
    with Records.open(out, {}, source.fingerprint()) as records:
        for episode, board in boards.items():
            records.commit(episode, board)
        build(source.root, out, records, camera=camera)
    return time.perf_counter() - begin


def theirs(source: Source, out: Path, boards: dict[int, Storyboard], camera: str) -> float:
    """Record every frame again with one more camera, then write the language columns; seconds."""
    begin = time.perf_counter()
    old = LeRobotDataset("local/in", root=source.root, return_uint8=True)
    kept = {k: f for k, f in old.meta.features.items() if k not in DEFAULT_FEATURES}
    goal_camera = {**kept[camera], "info": None}
    new = LeRobotDataset.create(
        "local/out",
        fps=old.fps,
        features={**kept, SUBGOAL: goal_camera},
        root=out,
        robot_type=old.meta.robot_type,
        streaming_encoding=True,
    )
    for episode, board in boards.items():
        start = old.meta.episodes[episode]["dataset_from_index"]
        for i, goal in enumerate(goal_pictures(board)):
            item = old[start + i]
            frame = {k: as_array(item[k], kept[k]) for k in kept}
            new.add_frame({**frame, SUBGOAL: goal, "task": item["task"]})
        new.save_episode()
    new.finalize()
    write_rows(out, boards)
    return time.perf_counter() - begin


def goal_pictures(board: Storyboard) -> Iterator[np.ndarray]:
    for step in board.steps:
        for _ in range(step.segment.start, step.segment.end):
            yield step.goal_image.pixels


def as_array(value: object, feature: dict) -> np.ndarray:
    array = np.asarray(value)
    if feature["dtype"] in ("image", "video"):
        return array.transpose(1, 2, 0)
    return array.reshape(feature["shape"])


def write_rows(out: Path, boards: dict[int, Storyboard]) -> None:
    """The same rows through lerobot's staging and writer."""
    records = list(iter_episodes(out))
    with tempfile.TemporaryDirectory() as staging:
        for record in records:
            steps = boards[record.episode_index].steps
            plan = "\n".join(f"{i}. {s.step.name}" for i, s in enumerate(steps, start=1))
            texts = [("plan", plan, 0)] + [("subtask", s.step.name, s.segment.start) for s in steps]
            rows = [
                {"role": "assistant", "content": c, "style": s, "timestamp": record.frame_timestamps[i]}
                for s, c, i in texts
            ]
            EpisodeStaging(Path(staging), record.episode_index).write("plan", rows)
        LanguageColumnsWriter().write_all(records, Path(staging), out)
    info = json.loads((out / "meta/info.json").read_text())
    info["features"] |= language_feature_info()
    (out / "meta/info.json").write_text(json.dumps(info, indent=4))


def measure(root: Path, work: Path) -> dict[str, float | int]:
    """Both ways on one dataset; the imports are done, so neither side pays for them."""
    source = Source.open(root)
    camera = source.camera(None)
    boards = storyboards(source, camera)
    shape = source.features[camera]["shape"]
    goalreel_s = ours(source, work / "goalreel", boards, camera)
    lerobot_s = theirs(source, work / "lerobot", boards, camera)
    for name in ("goalreel", "lerobot"):
        dataset = LeRobotDataset("local/out", root=work / name, video_backend="pyav")
        assert dataset[len(dataset) - 1][SUBGOAL].shape[0] == 3
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", type=Path, help="a LeRobot v3.0 dataset (default: one is generated)")
    parser.add_argument("--episodes", type=int, default=6, help="of the generated dataset")
    parser.add_argument("--frames", type=int, default=120, help="an episode of the generated dataset")
    parser.add_argument("--size", type=int, default=256, help="of its square pictures, pixels")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="goalreel-bench-"))
    try:
        root = options.dataset
        if root is None:
            root = work / "in"
            make_dataset(root, options.episodes, options.frames, options.size)
        found = measure(root, work)
    finally:
        shutil.rmtree(work)
    if options.json:
        sys.stdout.write(json.dumps(found) + "\n")
    else:
        print(
            "{frames} frames of {cameras} cameras at {width}x{height}: goalreel {goalreel_s} s, "
            "lerobot {lerobot_s} s, {speedup} times as fast".format(**found)
        )


if __name__ == "__main__":
    main()
