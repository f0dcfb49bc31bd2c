"""Records: durable, atomic, one writer at a time, and nothing outside their folder."""

import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from goalreel.claims import attributed, makers
from goalreel.datasets.fingerprint import Fingerprint
from goalreel.datasets.records import Records
from goalreel.errors import DatasetError
from goalreel.files import write_bytes
from goalreel.image import Image


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


RECORDINGS = {episode: f"{episode:064x}" for episode in (0, 1, 2, 3, 5, 7, 1003)}


def opened(out: Path, settings=None, source="s", recordings=RECORDINGS):
    return Records.open(out, settings or {"planner": "kinematic"}, Fingerprint(source, recordings))


def frame(reference: str) -> Image:
    camera, _, index = reference.rpartition("#")
    assert camera == "observation.images.front"
    return Image(np.zeros((48, 48, 3), np.uint8), frame=f"{camera}#{index}")


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_storyboard_survives_and_its_pictures_are_stored_once(out, board):
    mine = board(12, drawn=(1,))
    with opened(out) as records:
        records.commit(3, mine)
        records.commit(1003, mine)
        assert records.load(3, frame) == attributed(mine, makers({"planner": "kinematic"}.get))
        assert records.load(3, frame).steps[0].goal_image.frame == "observation.images.front#3"
        assert records.done() == {3, 1003}
        assert records.path(1003) == out / "meta/goalreel/episodes/chunk-001/episode_001003.json"
    pictures = list((out / "meta/goalreel/images").rglob("*.png"))
    assert len(pictures) == 1
    assert b"base64" not in records.path(3).read_bytes()
    assert "frame:observation.images.front#3" in records.path(3).read_text()


def test_reopening_sweeps_leftovers_and_keeps_the_work(out, board):
    with opened(out) as records:
        records.commit(0, board(12, drawn=(0,)))
    before = files(out)
    for name in ("episodes/chunk-000/.goalreel-tmp-episode_000001.json", "images/.goalreel-tmp-x.png"):
        (out / "meta/goalreel" / name).write_bytes(b"half")
    with opened(out) as records:
        assert records.done() == {0}
    assert files(out) == before


@pytest.mark.parametrize("keep", [0, 1, 100, -3])
def test_a_truncated_record_is_not_done(out, board, caplog, keep):
    with opened(out) as records:
        for episode in (0, 1):
            records.commit(episode, board(12))
        data = records.path(1).read_bytes()
        records.path(1).write_bytes(data[:keep])
        assert records.done() == {0}
        with pytest.raises(DatasetError, match="damaged record"):
            records.load(1, frame)
    (message,) = [r.getMessage() for r in caplog.records]
    assert "episode_000001.json" in message
    assert "\n" not in message


def test_a_lost_or_damaged_picture_is_noticed(out, board):
    with opened(out) as records:
        records.commit(0, board(12, drawn=(0,)))
        (picture,) = (out / "meta/goalreel/images").rglob("*.png")
        picture.write_bytes(Image(np.ones((4, 4, 3), np.uint8)).png())
        with pytest.raises(DatasetError, match="damaged picture"):
            records.load(0, frame)
        picture.unlink()
        assert records.done() == set()


@pytest.mark.parametrize(
    "reference",
    [
        "images/../../../secret.png",
        "/etc/passwd",
        "images/aa/../../secret.png",
        "images/aa/" + "b" * 64 + ".png",
    ],
)
def test_a_record_cannot_point_outside(out, board, tmp_path, reference):
    (tmp_path / "secret.png").write_bytes(Image(np.ones((4, 4, 3), np.uint8)).png())
    with opened(out) as records:
        records.commit(0, board(12, drawn=(0,)))
        record = json.loads(records.path(0).read_text())
        record["steps"][0]["attempts"][0]["image"] = reference
        records.path(0).write_text(json.dumps(record))
        with pytest.raises(DatasetError, match="names no stored picture"):
            records.load(0, frame)
        assert records.done() == set()


def test_a_second_run_is_refused_and_a_later_one_is_not(out):
    with opened(out), pytest.raises(DatasetError, match="another goalreel run is writing there"), opened(out):
        pass
    with opened(out):
        pass


def test_other_settings_are_refused_in_one_line_that_names_them(out):
    first = {"planner": "kinematic", "seed": 0, "robot": {"layout": "closed=low", "findings": []}}
    with opened(out, first):
        pass
    other = first | {"seed": 1, "robot": {"layout": "closed=high", "findings": []}}
    with pytest.raises(DatasetError) as refused, opened(out, other):
        pass
    assert "--layout as read was 'closed=low' and is now 'closed=high', seed was 0" in str(refused.value)
    assert "planner" not in str(refused.value)
    assert "\n" not in str(refused.value)
    with opened(out, {"seed": 0, "planner": "kinematic"}):
        pass


def test_a_folder_with_other_files_is_refused(out):
    out.mkdir()
    (out / "thesis.tex").touch()
    with pytest.raises(DatasetError, match="did not write"), opened(out):
        pass
    with pytest.raises(DatasetError, match="is a file: choose another"), opened(out / "thesis.tex"):
        pass
    assert [p.name for p in out.rglob("*")] == ["thesis.tex"]


def test_the_dataset_annotated_is_known_on_this_machine_alone(out, tmp_path):
    with opened(out) as records:
        assert records.source_root() is None
        records.remember(tmp_path / "in")
        assert records.source_root() == tmp_path / "in"
    assert str(tmp_path).encode() not in b"".join(files(out / "meta").values())


def test_a_pipe_or_a_device_is_not_replaced(tmp_path):
    """`--out /dev/null` of a root in a container would be the end of that device."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="is no file, but a folder, a pipe or a device"):
            write_bytes(tmp_path / name, b"new")
    assert stat.S_ISFIFO((tmp_path / "link").stat().st_mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "pipe"]
