"""OUT is looked at as it is now: what somebody changed there is refused or written anew, and never mixed."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.cli import fails, goalreel
from support.killing import tree

from goalreel.datasets.records import FOLDER
from goalreel.datasets.writing.files import content_digest
from goalreel.datasets.writing.plan import TextOptions
from goalreel.errors import DatasetError

FRONT = "observation.images.front"
DATA, VIDEO = "data/chunk-000/file-000.parquet", "chunk-000/file-000.mp4"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"


def opened(root: Path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset("local/test", root=root, video_backend="pyav")


def stamps(root: Path) -> dict[Path, tuple[int, int]]:
    return {p: (p.stat().st_mtime_ns, p.stat().st_ino) for p in root.rglob("*") if p.is_file()}


def rename_task(out: Path) -> None:
    from lerobot.datasets.dataset_tools import modify_tasks

    modify_tasks(opened(out), episode_tasks={1: "put the red block in the blue bowl"})


def recompute_statistics(out: Path) -> None:
    from lerobot.datasets.dataset_tools import recompute_stats

    path = out / "meta/stats.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"action": {"count": [1]}}))
    recompute_stats(opened(out))


def write_data_with_pandas(out: Path) -> None:
    frame = pd.read_parquet(out / DATA)
    frame.to_parquet(out / DATA)


def change_one_cell(out: Path) -> None:
    table = pq.read_table(out / DATA)
    at, values = table.column_names.index("timestamp"), table["timestamp"].to_numpy().copy()
    values[-1] += 0.001
    pq.write_table(table.set_column(at, table.schema.field(at), pa.array(values)), out / DATA)


def change_episodes(out: Path) -> None:
    frame = pd.read_parquet(out / EPISODES)
    frame["tasks"] = [["another task"]] * len(frame)
    frame.to_parquet(out / EPISODES)


def change_info(out: Path) -> None:
    path = out / "meta/info.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"robot_type": "so101"}, indent=4))


def change_video(camera: str):
    def replace(out: Path) -> None:
        path = out / "videos" / camera / VIDEO
        data = path.read_bytes()
        path.unlink()  # it may be a link to IN's
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

    return replace


def rename_file(out: Path) -> None:
    (out / DATA).rename(out / "data/chunk-000/file-007.parquet")


def add_episode(out: Path) -> None:
    shutil.copy(out / DATA, out / "data/chunk-000/file-001.parquet")


EDITS = (
    (DATA, rename_task),
    ("meta/stats.json", recompute_statistics),
    (DATA, write_data_with_pandas),
    (DATA, change_one_cell),
    (EPISODES, change_episodes),
    ("meta/info.json", change_info),
    (f"videos/{FRONT}/{VIDEO}", change_video(FRONT)),
    (f"videos/observation.images.subgoal/{VIDEO}", change_video("observation.images.subgoal")),
    ("data/chunk-000/file-007.parquet", rename_file),
    ("data/chunk-000/file-001.parquet", add_episode),
)


@pytest.mark.parametrize(
    ("file", "edit", "per_frame"), [(*edit, False) for edit in EDITS] + [(DATA, rename_task, True)]
)
def test_what_somebody_changed_is_refused_or_written_anew(
    video_dataset, annotated, tmp_path, file, edit, per_frame
):
    text = TextOptions(replace_rows=True, task_per_frame=per_frame)
    out = annotated(video_dataset, tmp_path / "out", {0: {}, 1: {}}, text=text)
    before = tree(out)
    edit(out)
    changed = tree(out)
    with pytest.raises(DatasetError, match=r"changed by hand since .*--overwrite") as error:
        annotated(video_dataset, out, {}, text=text)
    assert file in str(error.value)
    assert str(video_dataset) in str(error.value)
    assert "\n" not in str(error.value)
    assert tree(out) == changed, "nothing is written before it is refused"
    annotated(video_dataset, out, {}, text=text, overwrite=True)
    assert tree(out) == before
    annotated(video_dataset, out, {}, text=text)


def test_a_file_that_is_gone_is_made_again(sharded_dataset, annotated, tmp_path):
    out = annotated(sharded_dataset, tmp_path / "out", {0: {}, 1: {}})
    before = tree(out)
    for name in (DATA, EPISODES, f"videos/{FRONT}/{VIDEO}", f"videos/observation.images.subgoal/{VIDEO}"):
        (out / name).unlink()
    (out / "meta/info.json").unlink()
    annotated(sharded_dataset, out, {})
    assert tree(out) == before


def test_a_copy_is_not_made_anew(video_dataset, annotated, tmp_path):
    """As rsync, Git LFS and the hub leave it: other times, no links, nothing of `.cache`."""
    out = annotated(video_dataset, tmp_path / "out", {0: {}, 1: {}})
    copied = tmp_path / "copied"
    shutil.copytree(out, copied, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns(".cache"))
    before = stamps(copied)
    annotated(video_dataset, copied, {})
    assert {path: stamp for path, stamp in stamps(copied).items() if path in before} == before
    assert tree(copied) == tree(out)


def test_the_owners_other_files_stay(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {0: {}})
    mine = {name: f"mine: {name}" for name in (".gitattributes", "notes.txt", "meta/notes.md")}
    for name, text in mine.items():
        (out / name).write_text(text)
    annotated(video_dataset, out, {1: {}})
    assert {name: (out / name).read_text() for name in mine} == mine


def test_a_dataset_in_that_changed_is_no_change_by_hand(video_dataset, annotated, tmp_path):
    source, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(video_dataset, source)
    annotated(source, out, {0: {}})
    info = json.loads((source / "meta/info.json").read_text())
    (source / "meta/info.json").write_text(json.dumps(info | {"robot_type": "so101"}))
    (source / "meta/more.json").write_text("{}")
    annotated(source, out, {1: {}})
    assert opened(out).meta.info.robot_type == "so101"
    (source / "meta/more.json").write_text("[1]")
    annotated(source, out, {})
    assert (out / "meta/more.json").read_text() == "[1]"


def test_commands_say_so_before_models_are_asked(video_dataset, tmp_path):
    out = tmp_path / "out"
    goalreel("annotate", video_dataset, "--out", out, "--episodes", "0")
    change_info(out)
    assert "meta/info.json: make the change in" in fails("build", out)
    assert "meta/info.json: make the change in" in fails("annotate", video_dataset, "--out", out)
    assert not (out / FOLDER / "episodes/chunk-000/episode_000001.json").exists()
    goalreel("annotate", video_dataset, "--out", out, "--overwrite")
    assert (out / FOLDER / "episodes/chunk-000/episode_000001.json").is_file()
    change_info(out)
    goalreel("build", out, "--overwrite")
    assert opened(out)[0]["task"]


def test_an_output_without_marks_is_made_anew(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {0: {}})
    before = tree(out)
    shutil.rmtree(out / FOLDER / "files")
    change_info(out)
    annotated(video_dataset, out, {})
    assert tree(out) == before


def test_a_second_pass_has_no_marks_of_the_first(video_dataset, annotated, tmp_path):
    first = annotated(video_dataset, tmp_path / "first", {0: {}})
    second = annotated(first, tmp_path / "second", {1: {}})
    assert (second / FOLDER / "previous/episodes/chunk-000/episode_000000.json").is_file()
    assert not (second / FOLDER / "previous/files").exists()


def test_a_large_video_is_known_by_blocks_from_all_over_it(tmp_path):
    data = np.random.default_rng(0).integers(0, 256, 3 << 20, np.uint8)
    for name in ("a.mp4", "a.parquet"):
        (tmp_path / name).write_bytes(data.tobytes())
    video, table = (content_digest(tmp_path / name) for name in ("a.mp4", "a.parquet"))
    for at in (0, len(data) // 3, len(data) - 1):
        data[at] ^= 1
        (tmp_path / "a.parquet").write_bytes(data.tobytes())
        assert content_digest(tmp_path / "a.parquet") != table
        data[at] ^= 1
    for at in (0, len(data) - 1):
        data[at] ^= 1
        (tmp_path / "a.mp4").write_bytes(data.tobytes())
        assert content_digest(tmp_path / "a.mp4") != video
        data[at] ^= 1
    (tmp_path / "a.mp4").write_bytes(data.tobytes()[:-1])
    assert content_digest(tmp_path / "a.mp4") != video
