"""Second passes, partial runs and odd inputs: what is not annotated stays exactly as it was."""

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goalreel.datasets.episode_rows import EpisodeRows
from goalreel.datasets.records import Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.pipeline import build
from goalreel.errors import DatasetError

KEY = "observation.images.subgoal"
PAD = "subgoal_is_pad"
FRONT = "observation.images.front"


def tree(root: Path) -> dict[str, str]:
    """Relative path -> digest of the bytes, of every file."""
    return {
        str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(root.rglob("*"))
        if p.is_file()
    }


def stamps(root: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(root.rglob("*")) if p.is_file()}


def rows(root: Path, *columns: str) -> dict[int, list[dict]]:
    """Episode -> its rows (all columns but pictures)."""
    found: dict[int, list[dict]] = {}
    for path in sorted((root / "data").glob("*/*.parquet")):
        table = pq.read_table(path)
        for row in table.select(list(columns or table.column_names)).to_pylist():
            found.setdefault(row["episode_index"], []).append(row)
    return found


def places(root: Path) -> dict[int, dict]:
    """Episode -> everything meta/episodes says."""
    files = sorted((root / "meta/episodes").glob("*/*.parquet"))
    return {r["episode_index"]: r for path in files for r in pq.read_table(path).to_pylist()}


def shown(root: Path, index: int, key: str = KEY) -> np.ndarray:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset("local/test", root=root, video_backend="pyav")[index][key].numpy()


def test_in_is_never_touched(video_dataset, annotated, tmp_path):
    source = tmp_path / "in"
    shutil.copytree(video_dataset, source)
    bytes_before, stamps_before = tree(source), stamps(source)
    out = annotated(source, tmp_path / "out", {0: {}, 2: {}})
    annotated(source, tmp_path / "out", {1: {}})
    annotated(out, tmp_path / "out2", {1: {}})
    assert (tree(source), stamps(source)) == (bytes_before, stamps_before)
    video = "videos/observation.images.front/chunk-000/file-000.mp4"
    assert (out / video).samefile(source / video)
    assert not (out / "meta/info.json").samefile(source / "meta/info.json")


def test_building_again_changes_nothing(sharded_dataset, annotated, tmp_path):
    out = annotated(sharded_dataset, tmp_path / "out", {0: {}, 1: {}})
    before, then = tree(out), stamps(out)
    annotated(sharded_dataset, out, {})
    assert tree(out) == before
    assert {p for p, s in stamps(out).items() if then[p] != s} == set()


def test_extending_ends_like_doing_all_at_once(sharded_dataset, annotated, tmp_path):
    at_once = annotated(sharded_dataset, tmp_path / "a", {0: {}, 1: {"tail": 2}, 3: {}})
    step_by_step = annotated(sharded_dataset, tmp_path / "b", {3: {}})
    annotated(sharded_dataset, step_by_step, {1: {"tail": 2}})
    annotated(sharded_dataset, step_by_step, {0: {}})
    assert tree(at_once) == tree(step_by_step)


def test_extending_rewrites_only_what_changes(sharded_dataset, annotated, tmp_path):
    out = annotated(sharded_dataset, tmp_path / "out", {0: {}})
    then = stamps(out)
    annotated(sharded_dataset, out, {3: {}})
    changed = {p.removeprefix(f"{out}/") for p, s in stamps(out).items() if then.get(p, s) != s}
    shard = places(out)[3]["data/file_index"]
    assert f"data/chunk-000/file-{shard:03d}.parquet" in changed
    assert not [p for p in changed if p.startswith("data/") and f"file-{shard:03d}" not in p]


def test_a_second_pass_over_one_episode_leaves_all_others(sharded_dataset, annotated, tmp_path):
    first = annotated(sharded_dataset, tmp_path / "one", {0: {}, 1: {"tail": 4}, 2: {}})
    before = tree(first)
    names = ("open the drawer", "take the cup", "close it")
    second = annotated(first, tmp_path / "two", {1: {"names": names, "drawn": (0,)}})
    assert tree(first) == before
    old, new = rows(first), rows(second)
    assert [e for e in old if old[e] != new[e]] == [1]
    texts = [r["content"] for r in new[1][0]["language_persistent"]]
    assert texts == ["1. open the drawer\n2. take the cup\n3. close it", *names]
    was, now = places(first), places(second)
    assert [e for e in was if was[e] != now[e]] == [1]
    for path in (first / "videos").rglob("*.mp4"):
        assert path.samefile(second / path.relative_to(first))
    chunk, file = now[1][f"videos/{KEY}/chunk_index"], now[1][f"videos/{KEY}/file_index"]
    assert not (first / f"videos/{KEY}/chunk-{chunk:03d}/file-{file:03d}.mp4").exists()
    start = now[1]["dataset_from_index"]
    assert not np.allclose(shown(first, start), shown(second, start), atol=0.1)
    for index in (0, start - 1, now[1]["dataset_to_index"], now[3]["dataset_from_index"]):
        assert np.array_equal(shown(first, index), shown(second, index))
    assert (second / "meta/goalreel/previous/episodes/chunk-000/episode_000000.json").is_file()


def test_a_first_pass_over_one_episode_leaves_the_rows_of_all_others(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {1: {}})
    old, new = rows(video_dataset), rows(out)
    for episode in (0, 2):
        ours = {"language_persistent": [], "language_events": [], PAD: True}
        assert new[episode] == [{**row, **ours} for row in old[episode]]
    info = json.loads((out / "meta/info.json").read_text())
    assert not info["features"][FRONT].keys() ^ info["features"][KEY].keys()


def test_linked_folders_are_passed_on_whole(video_dataset, annotated, tmp_path):
    root, disk = shutil.copytree(video_dataset, tmp_path / "in"), tmp_path / "disk"
    shutil.move(root / "videos", disk)
    (root / "videos").symlink_to(disk)
    (disk / "back").symlink_to(root)
    assert Source.open(root).fingerprint() == Source.open(video_dataset).fingerprint()
    out = annotated(root, tmp_path / "out", {0: {}}, follow_links=True)
    assert tree(out / "videos" / FRONT) == tree(video_dataset / "videos" / FRONT)
    assert not (out / "videos" / "back").exists()
    assert shown(out, 20, FRONT).shape == (3, 48, 48)


def test_a_dataset_without_one_of_its_data_files_is_one_line(sharded_dataset, annotated, tmp_path):
    root = shutil.copytree(sharded_dataset, tmp_path / "in")
    annotated(sharded_dataset, tmp_path / "out", {3: {}})
    Source.open(root).data_path(3).unlink()
    with pytest.raises(DatasetError, match=r"file-00\d.parquet is missing: copy the dataset again"):
        annotated(root, tmp_path / "out", {})


def test_episodes_mixed_up_in_a_file_are_one_line(video_dataset, annotated, tmp_path):
    root = shutil.copytree(video_dataset, tmp_path / "in")
    (path,) = (root / "data").glob("*/*.parquet")
    pq.write_table(pq.read_table(path).sort_by("frame_index"), path)
    with pytest.raises(DatasetError, match=r"file-000.parquet: its episodes are mixed up"):
        annotated(root, tmp_path / "out", {0: {}})


def test_an_episode_without_a_plan_stays_as_it_was(video_dataset, annotated, tmp_path):
    from goalreel.types import Failure, Storyboard, Task

    failed = Storyboard(task=Task(id="t", instruction="x"), failure=Failure(stage="plan", message="no plan"))
    dataset = Source.open(video_dataset)
    with Records.open(tmp_path / "out", {"test": 1}, dataset.fingerprint()) as records:
        records.commit(0, failed)
        build(dataset, tmp_path / "out", records, camera=FRONT)
    assert not any(r["language_persistent"] or not r[PAD] for r in rows(tmp_path / "out")[0])


def subtasks(root: Path) -> list[tuple[str, int]]:
    """Of episode 0: the text of each row and the frame it begins at."""
    frames = rows(root)[0]
    at = {row["timestamp"]: i for i, row in enumerate(frames)}
    said = [row for row in frames[0]["language_persistent"] if row["style"] == "subtask"]
    return [(row["content"], at[np.float32(row["timestamp"])]) for row in said]


def test_unverified_steps_are_training_data_only_when_asked_for(video_dataset, annotated, tmp_path):
    statuses = {0: {"statuses": ("verified", "unverified", "unverified")}}
    strict = annotated(video_dataset, tmp_path / "strict", statuses)
    loose = annotated(video_dataset, tmp_path / "loose", statuses, use_unverified=True)
    assert [r[PAD] for r in rows(strict)[0]] == [False] * 4 + [True] * 8
    assert [r[PAD] for r in rows(loose)[0]] == [False] * 12
    instruction = "put the block in the bowl"
    assert subtasks(strict) == [("reach the block", 0), (instruction, 4)], "else the first would hold on"
    assert subtasks(loose) == [("reach the block", 0), ("grasp the block", 4), ("put it in the bowl", 8)]


def test_a_step_tried_in_vain_is_no_training_data(video_dataset, annotated, tmp_path):
    tried = annotated(video_dataset, tmp_path / "tried", {0: {"vain": (1,)}})
    assert [r[PAD] for r in rows(tried)[0]] == [False] * 4 + [True] * 4 + [False] * 4
    said = [("reach the block", 0), ("put the block in the bowl", 4), ("put it in the bowl", 8)]
    assert subtasks(tried) == said


def test_the_plan_tells_only_what_may_be_said(video_dataset, annotated, tmp_path):
    def plan(out: Path) -> list[str]:
        return [r["content"] for r in rows(out)[0][0]["language_persistent"] if r["style"] == "plan"]

    some = {0: {"statuses": ("verified", "unverified", "verified")}}
    none = {0: {"statuses": ("unverified",) * 3}}
    assert plan(annotated(video_dataset, tmp_path / "some", some)) == [
        "1. reach the block\n2. put it in the bowl"
    ]
    assert plan(annotated(video_dataset, tmp_path / "vain", {0: {"vain": (0, 1)}})) == [
        "1. put it in the bowl"
    ]
    assert plan(annotated(video_dataset, tmp_path / "none", none)) == []
    loose = annotated(video_dataset, tmp_path / "loose", none, use_unverified=True)
    assert plan(loose) == ["1. reach the block\n2. grasp the block\n3. put it in the bowl"]


@pytest.fixture
def spoken(video_dataset, tmp_path) -> Path:
    """A dataset that lerobot's own writer has annotated, with its types: double times and null columns."""
    from lerobot.annotations.steerable_pipeline import LanguageColumnsWriter
    from lerobot.annotations.steerable_pipeline.reader import iter_episodes
    from lerobot.annotations.steerable_pipeline.staging import EpisodeStaging
    from lerobot.annotations.steerable_pipeline.writer import speech_atom
    from lerobot.datasets.language import language_feature_info

    root = tmp_path / "spoken"
    shutil.copytree(video_dataset, root)
    records = list(iter_episodes(root))
    for record in records:
        t = record.frame_timestamps
        said = [("subtask", "theirs", 0), ("plan", "their plan", 0), ("plan", "their new plan", 5)]
        said += [("memory", "seen it", 0), ("motion", "down", 2)]
        plain = {"role": "assistant", "camera": None, "tool_calls": None}
        persistent = [{**plain, "content": c, "style": s, "timestamp": t[i]} for s, c, i in said]
        question = {"style": "vqa", "camera": FRONT, "timestamp": t[3], "tool_calls": None}
        asked = [
            {**question, "role": "user", "content": "how many blocks?"},
            {**question, "role": "assistant", "content": json.dumps({"label": "block", "count": 2})},
        ]
        staging = EpisodeStaging(tmp_path / "staging", record.episode_index)
        staging.write("plan", persistent)
        staging.write("vqa", asked)
        wish = {**plain, "role": "user", "content": "slower", "style": "interjection", "timestamp": t[5]}
        staging.write("interjections", [wish, speech_atom(t[5], "as you wish")])
    LanguageColumnsWriter().write_all(records, tmp_path / "staging", root)
    info = json.loads((root / "meta/info.json").read_text())
    info["features"] |= language_feature_info()
    (root / "meta/info.json").write_text(json.dumps(info))
    return root


def decoded(persistent: list[dict]) -> list[dict]:
    """Rows with their tool calls read back from JSON, as lerobot hands them out."""
    return [
        {
            **r,
            "tool_calls": r["tool_calls"]
            and [json.loads(c) if isinstance(c, str) else c for c in r["tool_calls"]],
        }
        for r in persistent
    ]


def test_rows_of_others_are_kept(spoken, annotated, tmp_path):
    from lerobot.datasets.language import language_events_arrow_type, language_persistent_arrow_type

    out = annotated(spoken, tmp_path / "out", {1: {}})
    old, new = rows(spoken), rows(out)
    for episode in old:
        for before, after in zip(old[episode], new[episode], strict=True):
            for name in ("language_persistent", "language_events"):
                if (episode, name) != (1, "language_persistent"):
                    assert decoded(after[name]) == decoded(before[name])
    mine = [(r["style"], r["content"]) for r in new[1][0]["language_persistent"]]
    plan = "1. reach the block\n2. grasp the block\n3. put it in the bowl"
    assert mine == [
        ("memory", "seen it"),
        ("plan", plan),
        ("subtask", "reach the block"),
        ("motion", "down"),
        ("subtask", "grasp the block"),
        ("plan", "their new plan"),  # lerobot wants it: an interjection was made at that moment
        ("subtask", "put it in the bowl"),
    ]
    schema = pq.read_schema(next((out / "data").glob("*/*.parquet")))
    assert schema.field("language_persistent").type == language_persistent_arrow_type()
    assert schema.field("language_events").type == language_events_arrow_type()


def test_symbolic_links_become_whole_files(video_dataset, annotated, tmp_path):
    """A Hugging Face cache is a tree of relative links; a link copied as a link would dangle."""
    source = tmp_path / "in"
    for path in sorted(p for p in video_dataset.rglob("*") if p.is_file()):
        blob = source / ".cache" / hashlib.sha256(path.read_bytes()).hexdigest()
        link = source / path.relative_to(video_dataset)
        for folder in (blob.parent, link.parent):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, blob)
        link.symlink_to(os.path.relpath(blob, link.parent))
    out = annotated(source, tmp_path / "elsewhere" / "out", {0: {}})
    shutil.rmtree(source)
    assert not any(p.is_symlink() for p in out.rglob("*"))
    assert shown(out, 0).shape == (3, 48, 48)


def test_another_disk_gets_copies(video_dataset, annotated, tmp_path, monkeypatch):
    linked = annotated(video_dataset, tmp_path / "linked", {0: {}})

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    copied = annotated(video_dataset, tmp_path / "copied", {0: {}})
    assert tree(copied) == tree(linked)
    assert all(p.stat().st_nlink == 1 for p in copied.rglob("*.mp4"))
    then = stamps(copied)
    annotated(video_dataset, copied, {})
    assert stamps(copied) == then


def test_other_files_come_along(video_dataset, annotated, tmp_path):
    source = tmp_path / "in"
    shutil.copytree(video_dataset, source)
    (source / "README.md").write_text("hello")
    (source / "meta/tabletop.json").write_text("{}")
    (source / ".cache/huggingface").mkdir(parents=True)
    (source / ".cache/huggingface/x").write_text("x")
    out = annotated(source, tmp_path / "out", {0: {}})
    assert "\nhello\n" in (out / "README.md").read_text()
    assert (out / "README.md").stat().st_nlink == 1
    assert (out / "meta/tabletop.json").read_text() == "{}"
    assert not (out / ".cache/huggingface/x").exists()


@pytest.mark.parametrize("kind", ["video_dataset", "image_dataset"])
def test_a_dataset_that_names_files_outside_out_is_refused(kind, request, annotated, tmp_path):
    """By a camera's name such files would be removed, by the path of videos one would be replaced."""
    source = shutil.copytree(request.getfixturevalue(kind), tmp_path / "in")
    mine = tmp_path / "home" / "chunk-000" / "mine.mp4"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    info = json.loads((source / "meta/info.json").read_text())
    if kind == "video_dataset":
        info["features"]["../../home"] = info["features"][FRONT]
    else:
        info["video_path"] = "../home/chunk-000/mine.mp4"
    (source / "meta/info.json").write_text(json.dumps(info))
    for _ in range(2):
        with pytest.raises(DatasetError, match=r"meta/info\.json"):
            annotated(source, tmp_path / "out", {0: {}}, camera=FRONT)
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("where", ["in/out", "in", "."])
def test_out_inside_in_is_refused(video_dataset, tmp_path, where):
    source = tmp_path / "in"
    shutil.copytree(video_dataset, source)
    before = tree(source)
    records = Records(tmp_path / "elsewhere", "s")
    with pytest.raises(DatasetError, match="never changed"):
        build(Source.open(source), tmp_path / where, records, camera=FRONT)
    assert tree(source) == before


@pytest.mark.parametrize("key", ["observation.images.wrist", "observation.images.front", "../x", "subgoal"])
def test_a_camera_that_is_taken_or_is_none_is_refused(image_dataset, annotated, tmp_path, key):
    with pytest.raises(DatasetError, match="cannot hold the goal images"):
        annotated(image_dataset, tmp_path / "out", {0: {}}, camera_key=key)
    assert not (tmp_path / "out/meta/info.json").exists()


def test_segments_beyond_the_episode_are_refused(video_dataset, board, tmp_path):
    dataset = Source.open(video_dataset)
    with Records.open(tmp_path / "out", {}, dataset.fingerprint()) as records:
        records.commit(1, board(30))
        with pytest.raises(DatasetError, match=r"episode_000001\.json: its segments do not fit .* 9 frames"):
            build(dataset, tmp_path / "out", records, camera=FRONT)


def test_long_files_are_split_and_every_timestamp_is_found(tmp_path):
    from goalreel.datasets.writing.layout import MAX_SECONDS, EpisodeClock, arrange, places

    class Sparse:
        rows, info, fps = EpisodeRows(pa.table({"episode_index": [0]})), {"chunks_size": 2}, 30.0

    clock = {e: EpisodeClock(30 * 60 + 7, 0.0, 60 + 7 / 30, True, Path("a")) for e in range(40)}
    files = arrange(Sparse, clock, set(clock), KEY)
    assert [e for f in files for e in f.episodes] == list(clock)
    assert all(f.frames <= MAX_SECONDS * 30 for f in files)
    assert [(f.chunk, f.file) for f in files] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    found = places(files, clock, 30.0)
    own = (np.arange(30 * 60 + 7) / 30).astype(np.float32).astype(np.float64)
    for episode, place in found.items():
        asked = (place.from_timestamp + own).astype(np.float32)
        start = round(place.from_timestamp * 30)
        stored = ((start + np.arange(len(own))) / 30).astype(np.float32)
        assert np.abs(asked - stored).max() < 5e-5, episode


def test_row_groups_of_in_and_out_do_not_change_the_rows(video_dataset, annotated, tmp_path, monkeypatch):
    shutil.copytree(video_dataset, tmp_path / "in")
    (path,) = (tmp_path / "in" / "data").glob("*/*.parquet")
    pq.write_table(pq.read_table(path), path)
    monkeypatch.setattr("goalreel.datasets.parquet._ROWS", 5)  # an episode does not fit into one read
    outs = [
        annotated(video_dataset, tmp_path / "many", {1: {}}),
        annotated(path.parents[2], tmp_path / "one", {1: {}}),
    ]
    monkeypatch.setattr("goalreel.datasets.writing.shards.GROUPS", 2)
    outs.append(annotated(video_dataset, tmp_path / "few", {1: {}}))
    written = [next((out / "data").glob("*/*.parquet")) for out in outs]
    assert [pq.ParquetFile(path).num_row_groups for path in written] == [3, 3, 2]
    assert all(pq.read_table(path).equals(pq.read_table(written[0])) for path in written)


def test_what_comes_before_the_first_accepted_step_has_no_words(video_dataset, annotated, tmp_path):
    statuses = {0: {"statuses": ("unverified", "verified", "unverified")}}
    out = annotated(video_dataset, tmp_path / "out", statuses)
    assert subtasks(out) == [("grasp the block", 4), ("put the block in the bowl", 8)]


def test_rows_of_others_are_kept_where_no_step_of_ours_was_accepted(spoken, annotated, tmp_path):
    out = annotated(spoken, tmp_path / "out", {1: {"statuses": ("unverified",) * 3}})
    said = [r["content"] for r in rows(out)[1][0]["language_persistent"] if r["style"] == "subtask"]
    assert said == ["theirs"]


def test_goals_of_another_shape_are_letterboxed():
    from goalreel.subgoal_camera import fit

    white = np.full((20, 40, 3), 255, np.uint8)
    shown = fit(white, (64, 64))
    assert shown.shape == (64, 64, 3)
    assert shown[16:48].min() == 255
    assert shown[:16].max() == shown[48:].max() == 0
    assert fit(white, (80, 40)).min() == 255
