"""Which words and numbers are written: no words, a task a frame, other wordings, phases."""

import itertools
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.faults import DATA, EPISODES, column, feature, info
from support.recordings import load

from goalreel import Options, annotate, load_models, open_dataset
from goalreel.datasets.parquet import array
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.datasets.writing.goals import read_goals
from goalreel.datasets.writing.language import language_row
from goalreel.datasets.writing.plan import TextOptions
from goalreel.errors import InputError
from goalreel.planners.kinematic.description import CLOSES, OPENS

PAD = "subgoal_is_pad"
LANGUAGE = {"language_persistent", "language_events"}
STORY = "put the block in the bowl"
TASK = "put the red block in the blue bowl"
STEPS = ("reach the block", "grasp the block", "put it in the bowl")
SOME = ("accepted", "rejected", "accepted")
DOUBT = {"doubts": ["no rule reads the whole instruction"]}
PER_FRAME, AUGMENTED = TextOptions(task_per_frame=True), TextOptions(task_aug=True)


def tasks(root) -> list[str]:
    dataset = load(root)
    return [dataset[i]["task"] for i in range(len(dataset))]


def said(root, episode, style):
    """(text, frame at which it begins) of the rows of one style."""
    rows = load(root, episodes=[episode]).hf_dataset
    frame = {float(t): i for i, t in enumerate(rows["timestamp"])}
    kept = rows[0]["language_persistent"]
    return [(row["content"], frame[row["timestamp"]]) for row in kept if row["style"] == style]


def rendered(rows, draws: int) -> set[str]:
    """The instructions that lerobot's recipes pick at random."""
    from lerobot.configs.recipe import MessageTurn, TrainingRecipe
    from lerobot.datasets.language_render import render_sample

    turns = [MessageTurn(role="user", content="${task}", stream="high_level")]
    turns.append(MessageTurn(role="assistant", content="${subtask}", stream="high_level", target=True))
    told = {"recipe": TrainingRecipe(messages=turns), "persistent": rows, "events": [], "t": 0.0}
    return {render_sample(**told, sample_idx=i)["messages"][0]["content"] for i in range(draws)}


@pytest.fixture(scope="module")
def spoken(video_dataset, annotated, tmp_path_factory):
    """OUT with language columns."""
    return annotated(video_dataset, tmp_path_factory.mktemp("spoken") / "out", {0: {}})


@pytest.mark.parametrize("second", [False, True])
def test_a_plain_loader_takes_a_dataset_without_language(video_dataset, spoken, annotated, tmp_path, second):
    import datasets
    from lerobot.utils.collate import lerobot_collate_fn
    from torch.utils.data import DataLoader

    source = spoken if second else video_dataset
    out = annotated(source, tmp_path / "out", {0: {}}, text=TextOptions(language=False))
    assert next(iter(DataLoader(load(out), batch_size=4)))[PAD].tolist() == [False] * 4
    assert not LANGUAGE & {*pq.read_schema(out / DATA).names}
    assert not LANGUAGE & {*datasets.Dataset.from_parquet(str(out / DATA)).features}
    assert not LANGUAGE & {*json.loads((out / "meta/info.json").read_text())["features"]}
    with pytest.raises(TypeError, match="NoneType"):
        next(iter(DataLoader(load(spoken), batch_size=4)))
    batch = next(iter(DataLoader(load(spoken), batch_size=4, collate_fn=lerobot_collate_fn)))
    assert batch["observation.state"].shape == (4, 4), "lerobot's own collate function is the way"


def test_every_frame_may_have_its_subtask_as_its_task(sharded_dataset, annotated, tmp_path):
    """Episode 1 has a step without an accepted picture, episode 2 ends outside every step."""
    episodes = {1: {"statuses": SOME}, 2: {"tail": 3}}
    out = annotated(sharded_dataset, tmp_path / "out", episodes, text=PER_FRAME)
    dataset = load(out)
    second = [STEPS[0]] * 3 + [TASK] * 3 + [STEPS[2]] * 3
    third = [step for step in STEPS for _ in range(4)] + [TASK] * 3
    assert tasks(out) == [TASK] * 12 + second + third + [TASK] * 8
    indices = dataset.meta.tasks["task_index"].to_dict()
    assert indices == {TASK: 0, STEPS[0]: 1, STEPS[2]: 2, STEPS[1]: 3}
    assert dataset.meta.total_tasks == 4
    listed = [list(dataset.meta.episodes[i]["tasks"]) for i in range(4)]
    assert listed == [[TASK], [TASK, STEPS[0], STEPS[2]], [TASK, *STEPS], [TASK]]
    assert [Source.open(out).episode(i).instruction for i in range(4)] == [TASK] * 4
    for path in (out / "data").glob("*/*.parquet"):
        was = pq.read_schema(sharded_dataset / path.relative_to(out))
        assert pq.read_schema(path).field("task_index") == was.field("task_index")
    frames = np.array([indices[text] for text in tasks(out)])
    files = sorted((out / "meta/episodes").glob("*/*.parquet"))
    per_episode = [row for path in files for row in pq.read_table(path).to_pylist()]
    held = [*np.split(frames, [12, 21, 36]), frames]
    for end in ("min", "max", "mean"):
        stats = [row[f"stats/task_index/{end}"][0] for row in per_episode]
        stats.append(dataset.meta.stats["task_index"][end][0])
        assert stats == pytest.approx([getattr(values, end)() for values in held])


@pytest.mark.parametrize("text", [PER_FRAME, TextOptions(replace_rows=True)])
def test_a_second_pass_gives_frames_their_instruction_back(video_dataset, annotated, tmp_path, text):
    """Asked for again or not: a sub-task of the first pass would contradict the rows."""
    first = annotated(video_dataset, tmp_path / "first", {0: {}}, text=PER_FRAME)
    other = {"statuses": ("accepted", "rejected", "rejected"), "instruction": TASK}
    second = annotated(first, tmp_path / "second", {0: other}, text=text)
    assert tasks(second)[:12] == [STEPS[0]] * 4 + [TASK] * 8


def test_words_in_doubt_are_no_subtask_and_their_pictures_are_goals(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {0: {}, 1: DOUBT}, text=PER_FRAME)
    goals = read_goals(Records(out / FOLDER, ""), (0, 1), {0: 12, 1: 9}, use_rejected=False)
    assert [len(goals[0].plan), len(goals[1].plan)] == [3, 0]
    assert [span.name for span in goals[1].spans] == [None] * 3
    assert all(span.picture for span in goals[1].spans)
    assert len(set(tasks(out)[:12])) == 3
    assert set(tasks(out)[12:21]) == {TASK}


SEVERAL = {"instruction": TASK, "statuses": ("accepted", "accepted", "rejected")}


@pytest.mark.parametrize(("text", "task"), [(PER_FRAME, STEPS[0]), (TextOptions(), TASK)])
def test_of_several_tasks_in_any_order_the_first_frames_is_the_instruction(
    video_dataset, annotated, tmp_path, text, task
):
    """Episodes list two tasks, that of their frames last; a mask of somebody else's changes nothing."""
    several = shutil.copytree(video_dataset, tmp_path / "in")
    column(EPISODES, "tasks", lambda old: [["fold it", TASK]] * len(old))(several)
    feature("action_is_pad", dtype="bool", shape=[1], names=None)(several)
    assert Source.open(several).episode(0).instruction == TASK
    info(lambda i: i["features"].pop("action_is_pad"))(several)
    out = annotated(several, tmp_path / "out", {0: SEVERAL}, text=text)
    second = annotated(out, tmp_path / "second", {1: SEVERAL}, text=TextOptions())
    for root in (out, second):
        assert Source.open(root).episode(0).instruction == TASK
        assert load(root)[0]["task"] == task
    assert Source.open(out).episode(1).instruction == TASK
    if text == PER_FRAME:
        assert list(load(out).meta.episodes[1]["tasks"]) == [TASK, "fold it"]


def test_phases_are_motion_rows_under_the_subtasks(video_dataset, annotated, tmp_path):
    """Those of a step without an accepted picture are not said; the last one said does not hold on.

    Nor does it once the rows are read back and written again.
    """
    from lerobot.datasets.language_render import active_at

    phases = [("reach", 0, 3), ("grasp", 3, 6), ("lift", 6, 8), ("place", 8, 12)]
    some = {"phases": phases, "statuses": SOME}
    out = annotated(video_dataset, tmp_path / "out", {0: some, 2: {"phases": phases[:1]}})
    assert said(out, 0, "motion") == [("reach", 0), ("grasp", 3), ("place", 8)]
    assert said(out, 2, "motion") == [("reach", 0)]
    again = annotated(out, tmp_path / "again", {0: some}, text=TextOptions(task_aug=True))
    assert said(out, 0, "task_aug") != said(again, 0, "task_aug")
    wanted = {"subtask": [STEPS[0]] * 4, "motion": ["reach"] * 3 + ["grasp"]}
    for root, (style, first) in itertools.product((out, again), wanted.items()):
        dataset = load(root)
        shown = [dataset[i] for i in range(12)]
        rows = [active_at(i["timestamp"], persistent=i["language_persistent"], style=style) for i in shown]
        last = STEPS[2] if style == "subtask" else "place"
        assert [row and row["content"] for row in rows] == [*first, *[None] * 4, *[last] * 4]


def test_of_words_in_doubt_the_motion_of_the_hand_is_said(video_dataset, annotated, tmp_path):
    """And of others not: they have phases of their own, where these are asked for."""
    motion = [("the arm moves with the hand open", 0, 4), (CLOSES, 4, 6), (OPENS, 6, 9)]
    named = {"phases": [("grasp the block", 0, 12)], **DOUBT}
    episodes = {0: {"phases": motion, **DOUBT}, 1: {"phases": motion}, 2: named}
    out = annotated(video_dataset, tmp_path / "out", episodes)
    assert said(out, 0, "motion") == [(name, start) for name, start, _ in motion]
    assert said(out, 0, "subtask") == said(out, 1, "motion") == said(out, 2, "motion") == []
    own = annotated(video_dataset, tmp_path / "own", {0: {"phases": [("reach", 0, 12)]}})
    episodes = {0: {"phases": [(CLOSES, 2, 5)], **DOUBT}}
    second = annotated(own, tmp_path / "second", episodes, text=TextOptions(replace_rows=True))
    assert said(second, 0, "motion") == [("reach", 0)], "it takes the place of no row of the owner"
    hand = annotated(video_dataset, tmp_path / "hand", episodes)
    again = annotated(hand, tmp_path / "again", {0: {"phases": [(OPENS, 3, 5)], **DOUBT}})
    assert said(again, 0, "motion") == [(OPENS, 3)]


OTHERS = [("plan", "their plan"), ("memory", "it was red"), ("motion", "theirs"), ("task_aug", "theirs")]


@pytest.mark.parametrize("broadcast", [True, False])
def test_rows_of_other_styles_are_carried_over(video_dataset, annotated, tmp_path, broadcast):
    """Of an owner who has no sub-tasks: on every frame, as lerobot has them, or where each begins."""
    own = annotated(video_dataset, tmp_path / "own", {2: {}})
    table = pq.read_table(own / DATA)
    times = table["timestamp"].to_pylist()
    rows = [language_row(style, text, np.float32(times[at])) for at, (style, text) in enumerate(OTHERS)]
    shown = [rows if broadcast else rows[i : i + 1] for i in range(12)] + [[]] * (len(table) - 12)
    event = {"role": "user", "content": "stop", "style": "interjection", "camera": None, "tool_calls": None}
    events = [[event] if i == 7 else [] for i in range(len(table))]
    for name, values in (("language_persistent", shown), ("language_events", events)):
        at = table.column_names.index(name)
        table = table.set_column(at, name, array(values, table.schema.field(name).type))
    pq.write_table(table, own / DATA)
    episodes = {0: {"phases": [("reach", 0, 12)], "instruction": TASK}}
    out = annotated(own, tmp_path / "out", episodes, text=AUGMENTED)
    frames = pq.read_table(out / DATA).slice(0, 12).to_pylist()
    assert all(frame["language_persistent"] == frames[0]["language_persistent"] for frame in frames)
    told = [(row["style"], row["content"]) for row in frames[0]["language_persistent"]]
    assert [pair for pair in told if pair[0] in ("plan", "memory", "motion")] == OTHERS[:3]
    assert {("task_aug", "theirs"), ("task_aug", TASK)} <= {*told}
    assert [text for style, text in told if style == "subtask"] == [*STEPS]
    assert [frame["language_events"] for frame in frames] == events[:12]


def test_the_instruction_in_other_words(video_dataset, spoken, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {0: {}}, text=AUGMENTED)
    texts = said(out, 0, "task_aug")
    assert len(texts) == 8
    assert {(STORY, 0), ("place the block into the bowl", 0)} <= {*texts}
    assert rendered(load(out)[0]["language_persistent"], 40) == {text for text, _ in texts}
    assert said(spoken, 0, "task_aug") == []
    new = {"names": ("a", "b", "c"), "phases": [("reach", 0, 12)]}
    beside = annotated(spoken, tmp_path / "beside", {0: new}, text=AUGMENTED)
    for style in ("subtask", "plan"):
        assert said(beside, 0, style) == said(spoken, 0, style) != [], "rows that stay get others beside them"
    assert said(beside, 0, "motion") == [("reach", 0)]
    assert len(said(beside, 0, "task_aug")) == 8


def test_annotate_writes_what_it_is_asked_to(video_dataset, tmp_path):
    source = open_dataset(video_dataset)
    options = Options(motion_rows=True, task_aug=True, task_per_frame=True)
    models = load_models("hindsight", recordings=options.recorded(source))
    annotate(source, tmp_path / "out", models, options, episodes=[0])
    assert len(said(tmp_path / "out", 0, "motion")) > len(said(tmp_path / "out", 0, "subtask")) > 0
    assert said(tmp_path / "out", 0, "task_aug")
    with pytest.raises(InputError, match="leave out --no-language"):
        Options(language=False, task_aug=True)
