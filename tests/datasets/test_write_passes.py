"""Second passes, partial runs, odd inputs and edits by hand: what is not annotated stays as it was."""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.cli import fails, goalreel
from support.faults import DATA, EPISODES, FRONT, Fault, both, column, info, table, video
from support.killing import tree
from support.recordings import load

from goalreel.datasets.episode import EpisodeRows
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.files import content_digest
from goalreel.datasets.writing.pipeline import build
from goalreel.datasets.writing.plan import TextOptions
from goalreel.errors import DatasetError
from goalreel.types import Failure, Storyboard, Task

KEY = "observation.images.subgoal"
PAD = "subgoal_is_pad"


def stamps(root: Path) -> dict[str, tuple[int, int, int]]:
    files = [path for path in root.rglob("*") if path.is_file()]
    stats = {str(path.relative_to(root)): path.stat() for path in files}
    return {name: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in stats.items()}


def rows(root: Path) -> dict[int, list[dict]]:
    """Episode -> its rows (all columns but pictures)."""
    found: dict[int, list[dict]] = {}
    for path in sorted((root / "data").glob("*/*.parquet")):
        for row in pq.read_table(path).to_pylist():
            found.setdefault(row["episode_index"], []).append(row)
    return found


def places(root: Path) -> dict[int, dict]:
    """Episode -> everything meta/episodes says."""
    files = sorted((root / "meta/episodes").glob("*/*.parquet"))
    return {r["episode_index"]: r for path in files for r in pq.read_table(path).to_pylist()}


@pytest.fixture
def source(root) -> Path:
    return root


def test_in_is_never_touched_and_its_other_files_come_along(source, annotated, tmp_path):
    (source / "README.md").write_text("hello")
    (source / "meta/tabletop.json").write_text("{}")
    (source / ".cache/huggingface").mkdir(parents=True)
    (source / ".cache/huggingface/x").write_text("x")
    before = tree(source), stamps(source)
    out = annotated(source, tmp_path / "out", {0: {}, 2: {}})
    annotated(source, tmp_path / "out", {1: {}})
    annotated(out, tmp_path / "out2", {1: {}})
    assert (tree(source), stamps(source)) == before
    assert (out / video(FRONT)).samefile(source / video(FRONT))
    assert not (out / "meta/info.json").samefile(source / "meta/info.json")
    assert "\nhello\n" in (out / "README.md").read_text()
    assert (out / "README.md").stat().st_nlink == 1
    assert (out / "meta/tabletop.json").read_text() == "{}"
    assert not (out / ".cache/huggingface/x").exists()


def test_building_again_and_a_copy_change_nothing_and_more_episodes_only_their_files(
    sharded_dataset, annotated, tmp_path
):
    """A copy is as rsync, Git LFS and the hub leave it: other times, no links, nothing of `.cache`."""
    out, copied = annotated(sharded_dataset, tmp_path / "out", {0: {}, 1: {"tail": 2}}), tmp_path / "copied"
    shutil.copytree(out, copied, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns(".cache"))
    for root in (out, copied):
        then, before = stamps(root), tree(out)
        annotated(sharded_dataset, root, {})
        assert {name: stamp for name, stamp in stamps(root).items() if name in then} == then
        assert tree(root) == before
    then = stamps(out)
    annotated(sharded_dataset, out, {3: {}})
    changed = [name for name, stamp in stamps(out).items() if then.get(name, stamp) != stamp]
    shard = f"data/chunk-000/file-{places(out)[3]['data/file_index']:03d}.parquet"
    assert [name for name in changed if name.startswith("data/")] == [shard]
    at_once = annotated(sharded_dataset, tmp_path / "a", {0: {}, 1: {"tail": 2}, 3: {}})
    assert tree(at_once) == tree(out)


def test_a_second_pass_over_one_episode_leaves_all_others(sharded_dataset, annotated, tmp_path):
    first = annotated(sharded_dataset, tmp_path / "one", {0: {}, 1: {"tail": 4}, 2: {}})
    before = tree(first)
    names = ("open the drawer", "take the cup", "close it")
    second = annotated(first, tmp_path / "two", {1: {"names": names, "drawn": (0,)}})
    assert tree(first) == before
    old, new = rows(first), rows(second)
    assert [e for e in old if old[e] != new[e]] == [1]
    texts = [r["content"] for r in new[1][0]["language_persistent"] if r["style"] != "memory"]
    assert texts == ["1. open the drawer\n2. take the cup\n3. close it", *names]
    was, now = places(first), places(second)
    assert [e for e in was if was[e] != now[e]] == [1]
    for path in (first / "videos").rglob("*.mp4"):
        assert path.samefile(second / path.relative_to(first))
    chunk, file = now[1][f"videos/{KEY}/chunk_index"], now[1][f"videos/{KEY}/file_index"]
    assert not (first / f"videos/{KEY}/chunk-{chunk:03d}/file-{file:03d}.mp4").exists()
    start, shown = now[1]["dataset_from_index"], [load(first), load(second)]
    assert not np.allclose(*(dataset[start][KEY] for dataset in shown), atol=0.1)
    for index in (0, start - 1, now[1]["dataset_to_index"], now[3]["dataset_from_index"]):
        assert np.array_equal(*(dataset[index][KEY].numpy() for dataset in shown))
    assert (second / FOLDER / "previous/episodes/chunk-000/episode_000000.json").is_file()
    assert not (second / FOLDER / "previous/files").exists(), "no marks of the first"


@pytest.mark.parametrize("damage", [{"mean": [[1.0], [2.0, 3.0]]}, {"count": "x"}, None])
def test_a_video_with_a_damaged_note_is_made_again(damage, video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {0: {}})
    before, marks = tree(out), (out / FOLDER / "files").rglob("*.mp4*")
    for path in marks:
        mark = json.loads(path.read_text())
        mark["note"] = {e: damage and stats | damage for e, stats in mark["note"].items()}
        path.write_text(json.dumps(mark))
    assert tree(out) != before
    assert annotated(video_dataset, out, {0: {}}) == out
    assert tree(out) == before


def test_a_first_pass_leaves_the_rows_of_other_episodes_and_of_one_without_a_plan(
    video_dataset, annotated, tmp_path
):
    failed = Storyboard(task=Task(id="t", instruction="x"), failure=Failure(stage="plan", message="no plan"))
    dataset, out = Source.open(video_dataset), tmp_path / "out"
    with Records.open(out, {"test": 1}, dataset.fingerprint()) as records:
        records.commit(0, failed)
        build(dataset, out, records, camera=FRONT)
    annotated(video_dataset, tmp_path / "one", {1: {}})
    old, features = rows(video_dataset), json.loads((out / "meta/info.json").read_text())["features"]
    for root, episodes in ((out, (0, 1, 2)), (tmp_path / "one", (0, 2))):
        ours = {"language_persistent": [], "language_events": [], PAD: True}
        assert all(rows(root)[e] == [{**row, **ours} for row in old[e]] for e in episodes)
    assert not features[FRONT].keys() ^ features[KEY].keys()


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


STEPS = ("reach the block", "grasp the block", "put it in the bowl")
UNSURE = ("accepted", "rejected", "rejected")
SAID = {
    "those that were accepted": ({"statuses": UNSURE}, {}, [0], ["0"]),
    "one in the middle": ({"statuses": ("rejected", "accepted", "rejected")}, {}, [1], ["1"]),
    "one in vain": ({"vain": (1,)}, {}, [0, 2], ["0"]),
    "all": ({}, {}, [0, 1, 2], ["0", "01"]),
    "none": ({"statuses": ("rejected",) * 3}, {}, [], []),
}
"""Episode, options; the steps that are said, of a third of the frames each; those done in each memory."""


@pytest.mark.parametrize("name", SAID)
def test_only_steps_that_may_be_said_are_training_data(name, video_dataset, annotated, tmp_path):
    """As lerobot reads them: a frame without a step that may be said has no sub-task, not the last one."""
    from lerobot.datasets.language_render import active_at

    episode, options, plan, memories = SAID[name]
    frames = rows(annotated(video_dataset, tmp_path / "out", {0: episode}, **options))[0]
    for i, frame in enumerate(frames):
        row = active_at(frame["timestamp"], persistent=frame["language_persistent"], style="subtask")
        assert (row and row["content"]) == (STEPS[i // 4] if i // 4 in plan else None), i
        assert frame[PAD] == (i // 4 not in plan)
    told = [(row["style"], row["content"]) for row in frames[0]["language_persistent"]]
    text = "\n".join(f"{i}. {STEPS[step]}" for i, step in enumerate(plan, start=1))
    assert [text for style, text in told if style == "plan"] == ([text] if text else [])
    done = [f"Done so far: {'; '.join(STEPS[int(i)] for i in steps)}" for steps in memories]
    assert [text for style, text in told if style == "memory"] == done


@pytest.fixture
def spoken(source, tmp_path) -> Path:
    """A dataset that lerobot's own writer has annotated, with its types: double times and null columns."""
    from lerobot.annotations.steerable_pipeline import LanguageColumnsWriter
    from lerobot.annotations.steerable_pipeline.reader import iter_episodes
    from lerobot.annotations.steerable_pipeline.staging import EpisodeStaging
    from lerobot.annotations.steerable_pipeline.writer import speech_atom
    from lerobot.datasets.language import language_feature_info

    records = list(iter_episodes(source))
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
    LanguageColumnsWriter().write_all(records, tmp_path / "staging", source)
    info(lambda i: i["features"].update(language_feature_info()))(source)
    return source


def decoded(persistent: list[dict]) -> list[dict]:
    """Rows with their tool calls read back from JSON, as lerobot hands them out."""
    told = ([json.loads(c) if isinstance(c, str) else c for c in r["tool_calls"] or ()] for r in persistent)
    return [{**r, "tool_calls": calls} for r, calls in zip(persistent, told, strict=True)]


def test_rows_of_others_are_kept(spoken, annotated, tmp_path):
    from lerobot.datasets.language import language_events_arrow_type, language_persistent_arrow_type

    assert Source.open(spoken).episode(0).frames(FRONT, [0])[0].size == (48, 48)
    out = annotated(spoken, tmp_path / "out", {1: {}})
    old, new = rows(spoken), rows(out)
    for episode in old:
        for before, after in zip(old[episode], new[episode], strict=True):
            for name in ("language_persistent", "language_events"):
                if (episode, name) != (1, "language_persistent"):
                    assert decoded(after[name]) == decoded(before[name])
    assert [(r["style"], r["content"]) for r in new[1][0]["language_persistent"]] == [
        ("plan", "1. reach the block\n2. grasp the block\n3. put it in the bowl"),
        ("subtask", "reach the block"),
        ("motion", "down"),
        ("memory", "Done so far: reach the block"),
        ("subtask", "grasp the block"),
        ("plan", "their new plan"),  # lerobot wants it: an interjection was made at that moment
        ("memory", "Done so far: reach the block; grasp the block"),
        ("subtask", "put it in the bowl"),
    ]
    schema = pq.read_schema(next((out / "data").glob("*/*.parquet")))
    assert schema.field("language_persistent").type == language_persistent_arrow_type()
    assert schema.field("language_events").type == language_events_arrow_type()
    none = annotated(spoken, tmp_path / "none", {1: {"statuses": ("rejected",) * 3}})
    said = [r["content"] for r in rows(none)[1][0]["language_persistent"]]
    assert said == ["down", "their new plan"], "no old row stays where there is none to put in its place"


@pytest.mark.parametrize("where", ["in/out", "in", "."])
def test_out_inside_in_is_refused(source, tmp_path, where):
    before = tree(source)
    with pytest.raises(DatasetError, match="never changed"):
        build(Source.open(source), tmp_path / where, Records(tmp_path / "elsewhere", "s"), camera=FRONT)
    assert tree(source) == before


@pytest.mark.parametrize("key", ["observation.images.wrist", "observation.images.front", "../x", "subgoal"])
def test_a_camera_that_is_taken_or_is_none_is_refused(image_dataset, annotated, tmp_path, key):
    with pytest.raises(DatasetError, match="cannot hold the goal images"):
        annotated(image_dataset, tmp_path / "out", {0: {}}, camera_key=key)
    assert not (tmp_path / "out/meta/info.json").exists()


def test_what_no_copy_can_be_made_of_is_one_line(source, sharded_dataset, annotated, board, tmp_path):
    dataset = Source.open(source)
    with Records.open(tmp_path / "long", {}, dataset.fingerprint()) as records:
        records.commit(1, board(30))
        with pytest.raises(DatasetError, match=r"episode_000001\.json: its segments do not fit .* 9 frames"):
            build(dataset, tmp_path / "long", records, camera=FRONT)
    table(DATA, lambda t: t.sort_by("frame_index"))(source)
    with pytest.raises(DatasetError, match=r"file-000.parquet: its episodes are mixed up"):
        annotated(source, tmp_path / "mixed", {0: {}})
    poor = shutil.copytree(sharded_dataset, tmp_path / "poor")
    annotated(sharded_dataset, tmp_path / "out", {3: {}})
    Source.open(poor).data_path(3).unlink()
    with pytest.raises(DatasetError, match=r"file-00\d.parquet is missing: copy the dataset again"):
        annotated(poor, tmp_path / "out", {})


def test_long_files_are_split_and_every_timestamp_is_found():
    from goalreel.datasets.writing.layout import MAX_SECONDS, EpisodeClock, arrange, places

    class Sparse:
        rows, info, fps = EpisodeRows(pa.table({"episode_index": [0]})), {"chunks_size": 2}, 30.0

    clock = {e: EpisodeClock(30 * 60 + 7, 0.0, 60 + 7 / 30, True, Path("a")) for e in range(40)}
    files = arrange(Sparse, clock, set(clock), KEY)
    assert [e for f in files for e in f.episodes] == list(clock)
    assert all(f.frames <= MAX_SECONDS * 30 for f in files)
    assert [(f.chunk, f.file) for f in files] == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    own = (np.arange(30 * 60 + 7) / 30).astype(np.float32).astype(np.float64)
    for episode, place in places(files, clock, 30.0).items():
        asked = (place.from_timestamp + own).astype(np.float32)
        start = round(place.from_timestamp * 30)
        stored = ((start + np.arange(len(own))) / 30).astype(np.float32)
        assert np.abs(asked - stored).max() < 5e-5, episode


def test_row_groups_of_in_and_out_do_not_change_the_rows(
    source, video_dataset, annotated, tmp_path, monkeypatch
):
    table(DATA, lambda t: t)(source)
    monkeypatch.setattr("goalreel.datasets.parquet._ROWS", 5)  # an episode does not fit into one read
    sources = {"many": video_dataset, "one": source}
    outs = [annotated(root, tmp_path / name, {1: {}}) for name, root in sources.items()]
    monkeypatch.setattr("goalreel.datasets.writing.language.GROUPS", 2)
    outs.append(annotated(video_dataset, tmp_path / "few", {1: {}}))
    assert [pq.ParquetFile(out / DATA).num_row_groups for out in outs] == [3, 3, 2]
    assert all(pq.read_table(out / DATA).equals(pq.read_table(outs[0] / DATA)) for out in outs)


# -- what somebody changed in OUT


def rename_task(out: Path) -> None:
    from lerobot.datasets.dataset_tools import modify_tasks

    modify_tasks(load(out), episode_tasks={1: "put the red block in the blue bowl"})


def recompute_statistics(out: Path) -> None:
    from lerobot.datasets.dataset_tools import recompute_stats

    path = out / "meta/stats.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"action": {"count": [1]}}))
    recompute_stats(load(out))


def change_video(camera: str) -> Fault:
    def replace(out: Path) -> None:
        path = out / video(camera)
        data = path.read_bytes()
        path.unlink()  # it may be a link to IN's
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))

    return replace


change_info = info(lambda i: i.update(robot_type="so101"))
SEVENTH, SECOND = "data/chunk-000/file-007.parquet", "data/chunk-000/file-001.parquet"
EDITS: dict[str, tuple[str, Fault]] = {
    "a task renamed": (DATA, rename_task),
    "statistics made anew": ("meta/stats.json", recompute_statistics),
    "one cell": (DATA, column(DATA, "timestamp", lambda old: [*old[:-1], old[-1] + 0.001])),
    "episodes": (EPISODES, column(EPISODES, "tasks", lambda old: [["another task"]] * len(old))),
    "a video": (video(FRONT), change_video(FRONT)),
    "the goals": (video(KEY), change_video(KEY)),
    "a file renamed": (SEVENTH, lambda out: (out / DATA).rename(out / SEVENTH)),
    "a task renamed, tasks per frame": (DATA, rename_task),
}


@pytest.mark.parametrize("name", EDITS)
def test_what_somebody_changed_is_refused_or_written_anew(name, video_dataset, annotated, tmp_path):
    (file, edit), text = EDITS[name], TextOptions(replace_rows=True, task_per_frame="per frame" in name)
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


GONE = both(
    *((lambda out, name=name: (out / name).unlink()) for name in (DATA, EPISODES, video(FRONT), video(KEY)))
)
UNMARKED = both(lambda out: shutil.rmtree(out / FOLDER / "files"), change_info)


@pytest.mark.parametrize("edit", [GONE, UNMARKED], ids=["files that are gone", "an output without marks"])
def test_what_is_not_known_to_be_changed_is_made_again(edit, sharded_dataset, annotated, tmp_path):
    out = annotated(sharded_dataset, tmp_path / "out", {0: {}, 1: {}})
    before = tree(out)
    edit(out)
    annotated(sharded_dataset, out, {})
    assert tree(out) == before


def test_a_dataset_in_that_changed_is_no_change_by_hand_and_the_owners_files_stay(
    source, annotated, tmp_path
):
    out = annotated(source, tmp_path / "out", {0: {}})
    mine = {name: f"mine: {name}" for name in (".gitattributes", "notes.txt", "meta/notes.md")}
    for name, text in mine.items():
        (out / name).write_text(text)
    change_info(source)
    (source / "meta/more.json").write_text("{}")
    annotated(source, out, {1: {}})
    assert load(out).meta.info.robot_type == "so101"
    (source / "meta/more.json").write_text("[1]")
    annotated(source, out, {})
    assert (out / "meta/more.json").read_text() == "[1]"
    assert {name: (out / name).read_text() for name in mine} == mine


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
    assert load(out)[0]["task"]


def test_a_large_video_is_known_by_blocks_from_all_over_it(tmp_path):
    data = np.random.default_rng(0).integers(0, 256, 3 << 20, np.uint8)

    def digest(name: str, content: bytes) -> str:
        (tmp_path / name).write_bytes(content)
        return content_digest(tmp_path / name)

    was = {name: digest(name, data.tobytes()) for name in ("a.mp4", "a.parquet")}
    for at in (0, len(data) // 3, len(data) - 1):
        changed = data.copy()
        changed[at] ^= 1
        assert digest("a.parquet", changed.tobytes()) != was["a.parquet"]
        assert at == len(data) // 3 or digest("a.mp4", changed.tobytes()) != was["a.mp4"]
    assert digest("a.mp4", data.tobytes()[:-1]) != was["a.mp4"]
