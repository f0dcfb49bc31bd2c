"""Which words are written: none for plain loaders, a task a frame, other wordings, phases."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from goalreel.datasets.parquet import array
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.goals import Goals, GoalSpan, read_goals
from goalreel.datasets.writing.language import language_row
from goalreel.datasets.writing.plan import TextOptions
from goalreel.errors import InputError
from goalreel.planners.kinematic.description import CLOSES, OPENS

PAD = "subgoal_is_pad"
LANGUAGE = ("language_persistent", "language_events")
STORY = "put the block in the bowl"
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


def test_words_in_doubt_are_no_subtask_and_their_pictures_are_goals(video_dataset, annotated, tmp_path):
    episodes = {0: {}, 1: {"doubts": ["no rule reads the whole instruction"]}}
    out = annotated(video_dataset, tmp_path / "out", episodes, text=TextOptions(task_per_frame=True))
    source = Source.open(out)
    lengths = {index: len(source.episode(index)) for index in (0, 1)}
    goals = read_goals(Records(out / FOLDER, ""), (0, 1), lengths, use_unverified=False)
    assert [len(goals[0].plan), len(goals[1].plan)] == [3, 0]
    assert [span.name for span in goals[1].spans] == [None] * 3
    assert all(span.picture for span in goals[1].spans)
    told = [row["task"] for row in load(out)]
    assert len(set(told[: lengths[0]])) == 3
    assert set(told[lengths[0] : sum(lengths.values())]) == {TASK}


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


def said(root, episode, style):
    """(text, frame at which it begins) of the rows of one style."""
    rows = load(root).hf_dataset.filter(lambda row: row["episode_index"] == episode)
    frame = {float(t): i for i, t in enumerate(rows["timestamp"])}
    kept = rows[0]["language_persistent"]
    return [(row["content"], frame[row["timestamp"]]) for row in kept if row["style"] == style]


@pytest.fixture
def several(video_dataset, tmp_path):
    """A dataset whose episodes list two tasks, that of their frames last."""
    root = shutil.copytree(video_dataset, tmp_path / "in")
    (path,) = (root / "meta/episodes").glob("*/*.parquet")
    table = pq.read_table(path)
    at = table.schema.get_field_index("tasks")
    listed = pa.array([["fold it", TASK]] * len(table), table.schema.field(at).type)
    pq.write_table(table.set_column(at, table.schema.field(at), listed), path)
    return root


SEVERAL = {"instruction": TASK, "statuses": ("verified", "verified", "unverified")}
PER_FRAME = TextOptions(task_per_frame=True)


@pytest.mark.parametrize(("text", "task"), [(PER_FRAME, "reach the block"), (TextOptions(), TASK)])
def test_of_several_tasks_in_any_order_the_first_frames_is_the_instruction(
    several, annotated, tmp_path, text, task
):
    assert Source.open(several).episode(0).instruction == TASK
    out = annotated(several, tmp_path / "out", {0: SEVERAL}, text=text)
    assert Source.open(out).episode(0).instruction == TASK
    assert load(out)[0]["task"] == task
    second = annotated(out, tmp_path / "second", {1: SEVERAL}, text=TextOptions())
    assert Source.open(second).episode(0).instruction == TASK
    assert load(second)[0]["task"] == task


def test_episodes_that_get_no_goals_keep_their_instruction_beside_those_that_do(several, annotated, tmp_path):
    out = annotated(several, tmp_path / "out", {0: SEVERAL}, text=PER_FRAME)
    assert Source.open(out).episode(1).instruction == TASK
    assert list(load(out).meta.episodes[1]["tasks"]) == [TASK, "fold it"]


def test_phases_are_motion_rows_under_the_subtasks(video_dataset, annotated, tmp_path):
    """Those of a step without an accepted picture are not said; the last one said does not hold on."""
    phases = [("reach", 0, 3), ("grasp", 3, 6), ("lift", 6, 8), ("place", 8, 12)]
    some = {"phases": phases, "statuses": ("verified", "unverified", "verified")}
    out = annotated(video_dataset, tmp_path / "out", {0: some, 2: {"phases": phases[:1]}})
    instruction = "put the block in the bowl"
    assert said(out, 0, "motion") == [("reach", 0), ("grasp", 3), (instruction, 4), ("place", 8)]
    assert [text for text, _ in said(out, 0, "subtask")] == [
        "reach the block",
        instruction,
        "put it in the bowl",
    ]
    assert said(out, 2, "motion") == [("reach", 0), (instruction, 3)]


def test_of_words_in_doubt_the_motion_of_the_hand_is_said(video_dataset, annotated, tmp_path):
    """And of others not: they have phases of their own, where these are asked for."""
    motion = [("the arm moves with the hand open", 0, 4), (CLOSES, 4, 6), (OPENS, 6, 9)]
    doubts = ["no rule reads the whole instruction"]
    episodes = {0: {"phases": motion, "doubts": doubts}, 1: {"phases": motion}}
    out = annotated(video_dataset, tmp_path / "out", episodes)
    assert said(out, 0, "motion") == [*((name, start) for name, start, _ in motion), (STORY, 9)]
    assert said(out, 0, "subtask") == said(out, 1, "motion") == []
    named = {0: {"phases": [("grasp the block", 0, 12)], "doubts": doubts}}
    assert said(annotated(video_dataset, tmp_path / "named", named), 0, "motion") == []


def test_the_motion_of_the_hand_takes_the_place_of_no_row_of_the_owner(video_dataset, annotated, tmp_path):
    own = annotated(video_dataset, tmp_path / "own", {0: {"phases": [("reach", 0, 12)]}})
    episodes = {0: {"phases": [(CLOSES, 2, 5)], "doubts": ["two hands move"]}}
    second = annotated(own, tmp_path / "second", episodes, text=TextOptions(replace_rows=True))
    assert said(second, 0, "motion") == [("reach", 0)]
    again = annotated(
        annotated(video_dataset, tmp_path / "hand", episodes),
        tmp_path / "again",
        {0: {"phases": [(OPENS, 3, 5)], "doubts": ["two hands move"]}},
    )
    assert said(again, 0, "motion") == [(OPENS, 3), (STORY, 5)]


OTHERS = [("plan", "their plan"), ("memory", "it was red"), ("motion", "theirs"), ("task_aug", "theirs")]


@pytest.mark.parametrize("broadcast", [True, False])
def test_rows_of_other_styles_are_carried_over(video_dataset, annotated, tmp_path, broadcast):
    """Of an owner who has no sub-tasks: on every frame, as lerobot has them, or where each begins."""
    own = annotated(video_dataset, tmp_path / "own", {2: {}})
    (path,) = (own / "data").glob("*/*.parquet")
    table = pq.read_table(path)
    times = table["timestamp"].to_pylist()
    rows = [language_row(style, text, np.float32(times[at])) for at, (style, text) in enumerate(OTHERS)]
    shown = [rows if broadcast else rows[i : i + 1] for i in range(12)] + [[]] * (len(table) - 12)
    event = {"role": "user", "content": "stop", "style": "interjection", "camera": None, "tool_calls": None}
    events = [[event] if i == 7 else [] for i in range(len(table))]
    for name, values in (("language_persistent", shown), ("language_events", events)):
        at = table.column_names.index(name)
        table = table.set_column(at, name, array(values, table.schema.field(name).type))
    pq.write_table(table, path)
    options = TextOptions(task_aug=True)
    episodes = {0: {"phases": [("reach", 0, 12)], "instruction": TASK}}
    out = annotated(own, tmp_path / "out", episodes, text=options)
    (path,) = (out / "data").glob("*/*.parquet")
    frames = pq.read_table(path).slice(0, 12).to_pylist()
    assert all(frame["language_persistent"] == frames[0]["language_persistent"] for frame in frames)
    styles = [style for style, _ in OTHERS]
    said = [(row["style"], row["content"]) for row in frames[0]["language_persistent"]]
    assert [pair for pair in said if pair[0] in styles[:3]] == OTHERS[:3]
    assert ("task_aug", "theirs") in said
    assert ("task_aug", TASK) in said
    assert [text for style, text in said if style == "subtask"] == [
        "reach the block",
        "grasp the block",
        "put it in the bowl",
    ]
    assert [frame["language_events"] for frame in frames] == events[:12]


def test_the_instruction_in_other_words(video_dataset, annotated, tmp_path):
    from lerobot.configs.recipe import MessageTurn, TrainingRecipe
    from lerobot.datasets.language_render import render_sample

    out = annotated(video_dataset, tmp_path / "out", {0: {}}, text=TextOptions(task_aug=True))
    texts = said(out, 0, "task_aug")
    assert len(texts) == 8
    assert ("put the block in the bowl", 0) in texts
    assert ("place the block into the bowl", 0) in texts
    turns = [
        MessageTurn(role="user", content="${task}", stream="high_level"),
        MessageTurn(role="assistant", content="${subtask}", stream="high_level", target=True),
    ]
    rows = load(out)[0]["language_persistent"]
    told = {
        render_sample(recipe=TrainingRecipe(messages=turns), persistent=rows, events=[], t=0.0, sample_idx=i)[
            "messages"
        ][0]["content"]
        for i in range(40)
    }
    assert told == {text for text, _ in texts}, "lerobot picks from all of them"
    plain = annotated(video_dataset, tmp_path / "plain", {0: {}})
    assert said(plain, 0, "task_aug") == []


def test_rows_that_stay_get_others_beside_them(annotated, spoken, tmp_path):
    text = TextOptions(task_aug=True)
    new = {"names": ("a", "b", "c"), "phases": [("reach", 0, 12)]}
    out = annotated(spoken, tmp_path / "out", {0: new}, text=text)
    for style in ("subtask", "plan"):
        assert said(out, 0, style) == said(spoken, 0, style) != []
    assert said(out, 0, "motion") == [("reach", 0)]
    assert len(said(out, 0, "task_aug")) == 8


def test_annotate_writes_what_it_is_asked_to(video_dataset, tmp_path):
    from goalreel import Options, annotate, load_models, open_dataset

    source = open_dataset(video_dataset)
    options = Options(motion_rows=True, task_aug=True, task_per_frame=True)
    models = load_models("hindsight", recordings=options.recorded(source))
    annotate(source, tmp_path / "out", models, options, episodes=[0])
    assert len(said(tmp_path / "out", 0, "motion")) > len(said(tmp_path / "out", 0, "subtask")) > 0
    assert said(tmp_path / "out", 0, "task_aug")
    with pytest.raises(InputError, match="leave out --no-language"):
        Options(language=False, task_aug=True)


def contents(root):
    files = (p for p in root.rglob("*") if p.is_file() and ".cache" not in p.parts)
    return {str(p.relative_to(root)): p.read_bytes() for p in files}


def test_a_subtask_ends_with_its_span():
    """Steps not found in the recording have no span; the one before does not hold on through them."""
    spans = (GoalSpan(0, 3, "a", None), GoalSpan(5, 7, "b", None), GoalSpan(7, 9, None, None))
    goals = Goals(0, "do it", (), spans, (), (), "")
    assert goals.edges(12) == [(0, "a"), (3, None), (5, "b"), (7, None)]
    late = replace(goals, spans=(GoalSpan(2, 4, None, None), GoalSpan(4, 12, "c", None)))
    assert late.edges(12) == [(4, "c")]
    assert replace(goals, spans=()).edges(12) == []


def test_a_mask_of_somebody_elses_does_not_change_the_instruction(several):
    told = json.loads((several / "meta/info.json").read_text())
    told["features"]["action_is_pad"] = {"dtype": "bool", "shape": [1], "names": None}
    (several / "meta/info.json").write_text(json.dumps(told))
    assert Source.open(several).episode(0).instruction == TASK
