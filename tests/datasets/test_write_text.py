"""Which words are written: none for plain loaders, a task a frame, other wordings, phases."""

import json

import pyarrow.parquet as pq
import pytest

from goalreel.datasets.source import Source
from goalreel.datasets.writing.text import TextOptions

PAD = "subgoal_is_pad"
LANGUAGE = ("language_persistent", "language_events")
TASK = "put the red block in the blue bowl"


def load(root):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset("local/test", root=root, video_backend="pyav")


@pytest.fixture(scope="module")
def spoken(video_dataset, annotated, tmp_path_factory):
    """OUT with language columns."""
    return annotated(video_dataset, tmp_path_factory.mktemp("spoken") / "out", {0: {}})


@pytest.mark.parametrize("second", [False, True])
def test_a_plain_loader_takes_a_dataset_without_language(video_dataset, spoken, annotated, tmp_path, second):
    import datasets
    from torch.utils.data import DataLoader

    source = spoken if second else video_dataset
    out = annotated(source, tmp_path / "out", {0: {}}, text=TextOptions(language=False))
    batch = next(iter(DataLoader(load(out), batch_size=4)))
    assert batch[PAD].tolist() == [False] * 4
    (path,) = (out / "data").glob("*/*.parquet")
    assert not {*LANGUAGE} & {*pq.read_schema(path).names}
    assert not {*LANGUAGE} & {*datasets.Dataset.from_parquet(str(path)).features}
    assert not {*LANGUAGE} & {*json.loads((out / "meta/info.json").read_text())["features"]}


def test_with_language_lerobots_own_collate_function_is_the_way(spoken):
    from lerobot.utils.collate import lerobot_collate_fn
    from torch.utils.data import DataLoader

    with pytest.raises(TypeError, match="NoneType"):
        next(iter(DataLoader(load(spoken), batch_size=4)))
    batch = next(iter(DataLoader(load(spoken), batch_size=4, collate_fn=lerobot_collate_fn)))
    assert batch["observation.state"].shape == (4, 4)


def test_every_frame_may_have_its_subtask_as_its_task(sharded_dataset, annotated, tmp_path):
    """Episode 1 has a step without an accepted picture, episode 2 ends outside every step."""
    episodes = {1: {"statuses": ("verified", "unverified", "verified")}, 2: {"tail": 3}}
    out = annotated(sharded_dataset, tmp_path / "out", episodes, text=TextOptions(task_per_frame=True))
    dataset = load(out)
    told = [dataset[i]["task"] for i in range(len(dataset))]
    steps = ("reach the block", "grasp the block", "put it in the bowl")
    second = [steps[0]] * 3 + [TASK] * 3 + [steps[2]] * 3
    third = [step for step in steps for _ in range(4)] + [TASK] * 3
    assert told == [TASK] * 12 + second + third + [TASK] * 8
    assert dataset.meta.tasks["task_index"].to_dict() == {
        TASK: 0,
        "reach the block": 1,
        "put it in the bowl": 2,
        "grasp the block": 3,
    }
    assert dataset.meta.total_tasks == 4
    listed = [list(dataset.meta.episodes[i]["tasks"]) for i in range(4)]
    assert listed == [[TASK], [TASK, steps[0], steps[2]], [TASK, *steps], [TASK]]
    assert [Source.open(out).episode(i).instruction for i in range(4)] == [TASK] * 4
    for path in (out / "data").glob("*/*.parquet"):
        was = pq.read_schema(sharded_dataset / path.relative_to(out))
        assert pq.read_schema(path).field("task_index") == was.field("task_index")


def test_a_second_pass_gives_frames_their_instruction_back(video_dataset, annotated, tmp_path):
    per_frame = TextOptions(task_per_frame=True)
    first = annotated(video_dataset, tmp_path / "first", {0: {}}, text=per_frame)
    other = {"statuses": ("verified", "unverified", "unverified"), "instruction": TASK}
    second = annotated(first, tmp_path / "second", {0: other}, text=per_frame)
    dataset = load(second)
    assert [dataset[i]["task"] for i in range(12)] == ["reach the block"] * 4 + [TASK] * 8


def test_more_episodes_give_the_same_bytes_as_all_at_once(sharded_dataset, annotated, tmp_path):
    """A new text in an early episode moves the indices of the others: their files follow."""
    text = TextOptions(task_per_frame=True)
    late = {2: {"names": ("reach the block", "lift the block", "let go")}}
    early = {0: {"names": ("open the hand", "grasp the block", "put it in the bowl")}}
    annotated(sharded_dataset, tmp_path / "grown", late, text=text)
    annotated(sharded_dataset, tmp_path / "grown", early, text=text)
    annotated(sharded_dataset, tmp_path / "once", early | late, text=text)
    assert contents(tmp_path / "grown") == contents(tmp_path / "once")


def contents(root):
    files = (p for p in root.rglob("*") if p.is_file() and ".cache" not in p.parts)
    return {str(p.relative_to(root)): p.read_bytes() for p in files}
