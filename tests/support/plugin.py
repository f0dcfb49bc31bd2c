"""The fixtures and settings of every test."""

import gc
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

import support.process  # noqa: F401  (first)
from support.places import DATA, ROOT, SHARED, TESTS
from support.recordings import make_dataset, storyboard

# The same examples each time, however long a busy machine takes; `make soak` has new ones, and more.
settings.register_profile("new", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("same")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background job ignores Ctrl-C, and so would the processes to which tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is long, and put the longest files first: at the end, one worker would wait for the others.

    `python dev/long_tests.py` writes the list in that order from the times of `make test`.
    """
    long = (TESTS / "long.txt").read_text(encoding="utf-8").splitlines()
    for item in items:
        if item.nodeid.partition("[")[0] in long:
            item.add_marker(pytest.mark.long)
        if _is_laboratorys(item.path):
            item.add_marker(pytest.mark.lab)
    files = dict.fromkeys(name.partition("::")[0] for name in long)
    place = {file: number for number, file in enumerate(files)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(place)))


LAB = re.compile(r"^pytestmark = .*\bpytest\.mark\.lab\b", re.MULTILINE)
SMOKE = ("test_bench_report.py", "test_metaworld.py", "test_nano.py", "test_published_data.py", "test_zoo.py")
"""The modules of lab/tests that `make test` runs; `make lab` runs the others."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over modules of the laboratory's lane where it is left out: what they import loads for seconds."""
    if "not lab" in config.option.markexpr and collection_path.suffix == ".py":
        text = collection_path.read_text(encoding="utf-8")
        return _is_laboratorys(collection_path) or LAB.search(text) is not None or None
    return None


def _is_laboratorys(path: Path) -> bool:
    return path.is_relative_to(ROOT / "lab") and path.name not in SMOKE


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What imports make stays: to look through it again and again takes a sixth of the time of collecting.

    Nor does any later run of the collector look through it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def ordinary_priority() -> Iterator[None]:
    """No module leaves a thread with real-time priority, as encoders may: what it starts inherits it."""
    yield
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended meanwhile
            assert os.sched_getscheduler(int(thread.name)) not in (os.SCHED_FIFO, os.SCHED_RR)


@pytest.fixture(autouse=True, scope="module")
def ordinary_depth() -> Iterator[None]:
    """No module leaves a higher limit of recursion: torch raises it for good when it compiles."""
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


@pytest.fixture(autouse=True, scope="module")
def frozen_objects() -> Iterator[None]:
    """What a module's tests import and keep stays as well: each model that goes calls the collector."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def retry_pauses(monkeypatch) -> list[float]:
    """The pauses before a chat model is asked again, in seconds: noted, and not waited for."""
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("goalreel.http.client.sleep", note)
    return pauses


@pytest.fixture(scope="session")
def video_dataset(tmp_path_factory) -> Path:
    """Three episodes, two cameras, one file each. Read only."""
    return make_dataset(tmp_path_factory.mktemp("video") / "data")


@pytest.fixture
def root(video_dataset, tmp_path) -> Path:
    """A copy of it to change."""
    return Path(shutil.copytree(video_dataset, tmp_path / "in"))


@pytest.fixture(scope="session")
def image_dataset(tmp_path_factory) -> Path:
    """The same as stored images. Read only."""
    return make_dataset(tmp_path_factory.mktemp("image") / "data", dtype="image")


@pytest.fixture(scope="session")
def sharded_dataset(tmp_path_factory) -> Path:
    """Several data and video files, two episodes in some. Read only."""
    root = tmp_path_factory.mktemp("sharded") / "data"
    return make_dataset(root, (12, 9, 15, 8), data_files_size_in_mb=0.001, video_files_size_in_mb=0.005)


@pytest.fixture(scope="session")
def in_hindsight(video_dataset, tmp_path_factory) -> Path:
    """`video_dataset`, annotated with the default models. Read only."""
    from goalreel.annotator.annotate import annotate

    return annotate(video_dataset, tmp_path_factory.mktemp("in_hindsight") / "out").out


REAL = ("droid_new_setup", "g1_inspire")


@pytest.fixture(params=REAL)
def real_motions(request) -> Path:
    """Real episodes without their pictures. Read only."""
    return DATA / "real" / request.param


@pytest.fixture(params=REAL)
def real_dataset(request) -> Path:
    """The same with their pictures. Read only."""
    root = SHARED / request.param
    if not root.is_dir():
        pytest.skip(f"no real episodes at {root}")
    return root


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A browser for all tests of a module."""
    from support.browser import chromium

    yield from chromium(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="session")
def board():
    """`storyboard`, for tests of what is made from one."""
    return storyboard


@pytest.fixture(scope="session")
def annotated(board):
    """Annotate a dataset without any model: annotated(source, out, {episode: board keywords}, **build)."""
    from goalreel.datasets.records import Records
    from goalreel.datasets.source import Source
    from goalreel.datasets.writing.pipeline import build
    from goalreel.datasets.writing.plan import TextOptions

    def annotate(source: Path, out: Path, episodes: dict[int, dict], **options: object) -> Path:
        dataset = Source.open(source)
        options.setdefault("camera", dataset.camera(None))
        options.setdefault("text", TextOptions(replace_rows=True))
        options.setdefault("form", "plain")
        with Records.open(out, {"test": 1}, dataset.fingerprint()) as records:
            for episode, keywords in episodes.items():
                length = dataset.episode(episode).timestamps.size
                records.commit(episode, board(length, camera=options["camera"], **keywords))
            build(dataset, out, records, **options)
        return out

    return annotate
