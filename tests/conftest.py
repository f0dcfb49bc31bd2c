"""Small real LeRobot datasets, made by lerobot itself."""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("MUJOCO_GL", "egl")
# A worker for each core: threads of several that share one spin while they wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# However long a busy machine takes for an example; the same ones each time, and new ones in `make soak`.
settings.register_profile("new", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores Ctrl-C, and so would the processes to which tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST = ("test_colcon.py", "test_readme.py", "test_training_editor.py")
SHARED = Path(__file__).parents[1] / ".." / "shared" / "data"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files begin: at the end, one worker would wait for the other."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(autouse=True)
def ordinary_priority() -> Iterator[None]:
    """No test leaves a thread with real-time priority: what it starts next would starve the machine."""
    yield
    policies = {_policy(int(thread.name)) for thread in Path("/proc/self/task").iterdir()}
    assert not policies & {os.SCHED_FIFO, os.SCHED_RR}


def _policy(thread: int) -> int | None:
    try:
        return os.sched_getscheduler(thread)
    except ProcessLookupError:  # it has ended meanwhile
        return None


def moving_square(frame: int, episode: int, size: int = 48) -> np.ndarray:
    """A picture that tells its frame and episode apart: a bright square on a dark, textured ground."""
    rng = np.random.default_rng(0)
    picture = rng.integers(20, 60, (size, size, 3), np.uint8)
    left = 2 * frame % (size - 12)
    picture[10 + 4 * episode : 22 + 4 * episode, left : left + 12] = (250, 60 * episode, 20)
    return picture


def make_dataset(
    root: Path,
    lengths: Sequence[int] = (12, 9, 15),
    *,
    dtype: str = "video",
    cameras: Sequence[str] = ("front", "wrist"),
    fps: int = 10,
    task: str = "put the red block in the blue bowl",
    **create: object,
) -> Path:
    """Write a dataset through `LeRobotDataset.create`: state x, y, z, gripper; one grasp an episode."""
    from lerobot.configs.video import RGBEncoderConfig
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    picture = {"dtype": dtype, "shape": (48, 48, 3), "names": ["height", "width", "channels"]}
    numbers = {"dtype": "float32", "shape": (4,), "names": ["x", "y", "z", "gripper"]}
    dataset = LeRobotDataset.create(
        "local/test",
        fps=fps,
        features={
            **{f"observation.images.{c}": dict(picture) for c in cameras},
            "observation.state": dict(numbers),
            "action": dict(numbers),
        },
        root=root,
        use_videos=dtype == "video",
        rgb_encoder=RGBEncoderConfig(vcodec="h264", g=4, crf=18) if dtype == "video" else None,
        **create,
    )
    for episode, length in enumerate(lengths):
        for i in range(length):
            grip = 0.0 if length // 3 <= i < 2 * length // 3 else 1.0
            state = np.array([0.1 * i, 0.05 * episode, np.sin(i / 3), grip], np.float32)
            pictures = {f"observation.images.{c}": moving_square(i, episode) for c in cameras}
            dataset.add_frame({**pictures, "observation.state": state, "action": state, "task": task})
        dataset.save_episode()
    dataset.finalize()
    return root


@pytest.fixture(scope="session")
def video_dataset(tmp_path_factory) -> Path:
    """Three episodes, two cameras, one file each. Read only."""
    return make_dataset(tmp_path_factory.mktemp("video") / "data")


@pytest.fixture(scope="session")
def image_dataset(tmp_path_factory) -> Path:
    """The same as stored images. Read only."""
    return make_dataset(tmp_path_factory.mktemp("image") / "data", dtype="image")


@pytest.fixture(scope="session")
def sharded_dataset(tmp_path_factory) -> Path:
    """Several data and video files, two episodes in some. Read only."""
    root = tmp_path_factory.mktemp("sharded") / "data"
    return make_dataset(root, (12, 9, 15, 8), data_files_size_in_mb=0.001, video_files_size_in_mb=0.005)


@pytest.fixture(params=["droid_new_setup", "g1_inspire"])
def real_dataset(request) -> Path:
    root = SHARED / request.param
    if not root.is_dir():
        pytest.skip(f"no real episodes at {root}")
    return root


def storyboard(
    length: int,
    statuses: Sequence[str] = ("verified", "verified", "verified"),
    *,
    camera: str = "observation.images.front",
    names: Sequence[str] = ("reach the block", "grasp the block", "put it in the bowl"),
    drawn: Sequence[int] = (),
    tail: int = 0,
):
    """A storyboard of an episode of `length` frames, its last `tail` frames outside every segment.

    Steps in `drawn` have a picture that is no frame of the recording.
    """
    from goalreel.image import Image
    from goalreel.types import Attempt, Segment, Step, Storyboard, StoryboardStep, Task, Verdict

    cuts = np.linspace(0, length - tail, len(statuses) + 1).astype(int).tolist()
    steps = []
    for i, status in enumerate(statuses):
        frame, pixels = f"{camera}#{cuts[i + 1] - 1}", np.zeros((48, 48, 3), np.uint8)
        if i in drawn:
            pixels[:, :, i % 3], frame = 40 * (i + 1), None
        verdict = Verdict(success=status == "verified")
        attempt = Attempt(prompt="p", seed=i, image=Image(pixels, frame=frame), verdict=verdict)
        step = Step(name=names[i], instruction=names[i], prompt=names[i])
        segment = Segment(start=cuts[i], end=cuts[i + 1])
        steps.append(StoryboardStep(step=step, segment=segment, attempts=(attempt,), status=status, chosen=0))
    return Storyboard(task=Task(id="t", instruction="put the block in the bowl"), steps=tuple(steps))


@pytest.fixture(scope="session")
def board():
    """`storyboard`, for tests of what is made from one."""
    return storyboard


@pytest.fixture(scope="session")
def annotated(board):
    """Annotate a dataset without any model: annotated(source, out, {episode: board keywords}, **build)."""
    from goalreel.datasets.build import build
    from goalreel.datasets.records import Records
    from goalreel.datasets.source import Source

    def annotate(source: Path, out: Path, episodes: dict[int, dict], **options: object) -> Path:
        dataset = Source.open(source)
        options.setdefault("camera", dataset.camera(None))
        with Records.open(out, {"test": 1}, dataset.fingerprint()) as records:
            for episode, keywords in episodes.items():
                length = dataset.episode(episode).timestamps.size
                records.commit(episode, board(length, camera=options["camera"], **keywords))
            build(source, out, records, **options)
        return out

    return annotate
