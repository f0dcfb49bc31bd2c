"""Labelled episodes, from wherever they come, are carried over to the others of their instruction."""

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from support import robots
from support.chat_server import ChatServer, Reply, said
from support.cli import fails, goalreel, invoke, results
from support.faults import DATA, EPISODES, TASKS, column, info, table
from support.person import says
from support.recordings import make_dataset
from support.steady import contents
from support.watcher import pictures, segments, text_of

import goalreel as api
from goalreel.annotator.examples import read_examples, to_label
from goalreel.annotator.show import read_storyboards
from goalreel.claims import CARRIED, PERSON, ROWS, RULE
from goalreel.datasets.corrections.events import GiveVerdict
from goalreel.datasets.records import FOLDER

TASK = "räum die Tasse weg"
STEPS = ("nimm die Tasse", "in die Kiste damit", "fahr zurück")
SPEEDS = (8, 10, 12, 9, 11, 10)
RNG = np.random.default_rng(5)
STATES = [robots.pick_and_place(RNG, fps)[:, :4] for fps in SPEEDS]


def cuts(episode: int) -> list[int]:
    """Frames at which its steps begin, and its length."""
    return [0, *robots.cuts(SPEEDS[episode])]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """Six episodes of an arm of which nothing tells the closed end of the gripper, at 10 frames a second."""
    root = tmp_path_factory.mktemp("examples") / "arm"
    return make_dataset(root, states=STATES, cameras=("front",), task=TASK, robot_type="arm")


@pytest.fixture
def data(recorded, tmp_path) -> Path:
    return Path(shutil.copytree(recorded, tmp_path / "in"))


type Row = dict[str, Any]


def rows(*episodes: int) -> list[Row]:
    """A row a step, in seconds."""
    return [
        {"episode": e, "name": name, "start_s": start / 10, "end_s": end / 10}
        for e in episodes
        for name, (start, end) in zip(STEPS, pairwise(cuts(e)), strict=True)
    ]


def written(path: Path, labels: list[Row]) -> Path:
    made = pa.Table.from_pylist(labels)
    pq.write_table(made, path) if path.suffix == ".parquet" else csv.write_csv(made, path)
    return path


def annotated(root: Path) -> None:
    """Sub-tasks of lerobot's annotation tool for episodes 0 to 2."""
    spans = {
        str(e): {
            "subtasks": [{"label": r["name"], "start": r["start_s"], "end": r["end_s"]} for r in rows(e)]
        }
        for e in range(3)
    }
    (root / "meta/lerobot_annotations.json").write_text(json.dumps({"episodes": spans}))


def boards(out: Path) -> dict[int, Any]:
    return dict(read_storyboards(out))


def check_carried(out: Path, labelled: tuple[int, ...], by: str) -> None:
    """The labelled episodes keep their steps; those of the others begin within half a second of the truth."""
    for episode, board in boards(out).items():
        assert [s.step.name for s in board.steps] == list(STEPS)
        starts = [s.segment.start for s in board.steps]
        assert np.abs(np.subtract(starts, cuts(episode)[:-1])).max() <= (0 if episode in labelled else 5)
        made = {claim.by for s in board.steps for name, claim in s.claims.items() if name != "looks"}
        assert made == {by if episode in labelled else CARRIED}


def test_a_table_labels_the_others(tmp_path):
    states = [np.c_[s[:, :3], np.arange(len(s)) < len(s) / 2] for s in STATES]
    data = make_dataset(tmp_path / "in", states=states, cameras=("front",), task=TASK, robot_type="arm")
    labels = written(tmp_path / "labels.csv", rows(1, 3, 5))
    asked = fails("annotate", data, "--out", tmp_path / "asks")
    assert "which end of the gripper is closed is not known" in asked, "the rules ask first"
    result = invoke("annotate", data, "--out", tmp_path / "out", "--examples", labels, "--json")
    assert result.exit_code == 0, result.stderr
    check_carried(tmp_path / "out", (1, 3, 5), PERSON)
    said = "among your 3 labelled episodes 6 of 6 boundaries were found again"
    (measured,) = json.loads(result.stdout.splitlines()[-1])["measured"]
    keys = ("instruction", "examples", "found", "boundaries")
    assert [measured[key] for key in keys] == [TASK, 3, 6, 6]
    assert said in (tmp_path / "out/README.md").read_text()
    goalreel("show", tmp_path / "out")
    assert said in (tmp_path / "out-report/index.html").read_text()
    assert "carried over from labelled episodes" in (tmp_path / "out-report/index.html").read_text()


def spreadsheet(path: Path) -> Path:
    """A table as spreadsheets write it with commas in numbers; its episodes end 0.1 s late."""
    last = {e: max(r["end_s"] for r in rows(e)) for e in (0, 2)}
    lines = ["episode;name;start_s;end_s"]
    for r in rows(0, 2):
        end = r["end_s"] + 0.1 * (r["end_s"] == last[r["episode"]])
        lines.append(f"{r['episode']};{r['name']};{r['start_s']:.1f};{end:.1f}".replace(".", ","))
    path.write_text("\r\n".join(lines), encoding="utf-8-sig")
    return path


FORMS: dict[str, Callable[[Path], Path]] = {
    "frames": lambda folder: written(
        folder / "t.parquet",
        [
            {"episode": r["episode"], "name": r["name"]}
            | {f"{edge}_frame": round(10 * r[f"{edge}_s"]) for edge in ("start", "end")}
            | {"instruction": TASK, "sub_goal": "it is so", "prompt": "make it so", "outcome": "done"}
            for r in rows(0, 2)
        ],
    ),
    "semicolons": lambda folder: spreadsheet(folder / "t.CSV"),
    "unsorted": lambda folder: written(folder / "t.csv", rows(2, 0)[::-1]),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_tables(form, recorded, tmp_path):
    examples = read_examples(FORMS[form](tmp_path), api.open_dataset(recorded))
    assert sorted(e.id for e in examples) == ["episode 0", "episode 2"]
    for example in examples:
        assert [s.start for s in example.segments] == cuts(int(example.id[-1]))[:-1]
        assert [s.name for s in example.steps] == list(STEPS)
        assert (example.steps[0].instruction == "it is so") == (form == "frames")
        assert (example.by, example.instruction) == (PERSON, TASK)


def with_row(**changes: object) -> list[Row]:
    return [*rows(0), *[{**row, **changes} for row in rows(1)[:1]]]


WRONG: dict[str, tuple[list[Row], str]] = {
    "overlap": (
        [*rows(0), {**rows(0)[1], "name": "wink"}],
        "episode 0: .* ends at .* after the next step's start at",
    ),
    "outside": (with_row(end_s=99.0), "episode 1: 'nimm die Tasse' ends at 99 s, after the episode's end"),
    "backwards": (with_row(start_s=3.0, end_s=1.0), "episode 1: 'nimm die Tasse' has no frames"),
    "no place": (with_row(start_s=None), "episode 1: 'nimm die Tasse' has no frames"),
    "no frame": (
        [{"episode": 1, "name": "a", "start_frame": n, "end_frame": 9} for n in (None, 3)],
        "episode 1: 'a' has no frames",
    ),
    "endless": (with_row(end_s=float("inf")), "episode 1: 'nimm die Tasse' has no frames"),
    "no episode": (with_row(episode=77), "no episode 77; it has 6 from 0 to 5"),
    "infinite episode": (with_row(episode=float("inf")), "no episode .an episode is a whole number"),
    "half an episode": (with_row(episode=1.5), "no episode .an episode is a whole number"),
    "no columns": ([{"episode": 0, "name": "a"}], "has the columns episode, name, start_s and end_s"),
    "another task": ([{**r, "instruction": "open"} for r in rows(0)], 'episode 0 is "open" there'),
    "no names": ([{**r, "name": ""} for r in rows(0)], "no row has a name"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_table_is_one_line(fault, recorded, tmp_path):
    labels, message = WRONG[fault]
    path = written(tmp_path / "labels.csv", labels)
    with pytest.raises((api.DatasetError, api.InputError), match=message) as caught:
        api.annotate(recorded, tmp_path / "out", examples=path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_table_of_another_encoding_is_one_line(recorded, tmp_path, encoding):
    path = tmp_path / "labels.csv"
    path.write_text("episode,name,start_s,end_s\n0,räum auf,0,1\n", encoding=encoding)
    with pytest.raises(api.DatasetError, match="is not UTF-8: save the table as CSV UTF-8"):
        read_examples(path, api.open_dataset(recorded))


def test_labels_of_the_dataset_itself_stay(data, tmp_path):
    annotated(data)
    before = contents(data)
    assert "episode 0 has" in fails("annotate", data, "--out", tmp_path / "out")
    goalreel("annotate", data, "--out", tmp_path / "out", "--examples", data)
    check_carried(tmp_path / "out", (0, 1, 2), ROWS)
    assert contents(data) == before
    some = written(tmp_path / "labels.csv", rows(0, 1))
    refused = fails("annotate", data, "--out", tmp_path / "other", "--examples", some)
    assert "episode 0 has" in refused, "a table is not the labels that would be lost"


def test_what_people_accepted_is_carried_to_another_dataset(data, recorded, tmp_path):
    labels, first = written(tmp_path / "labels.csv", rows(0, 1)), tmp_path / "first"
    goalreel("annotate", data, "--out", first, "--examples", labels)
    kept = read_examples(first, api.open_dataset(data))
    assert [e.id for e in kept] == ["episode 0 of first", "episode 1 of first"], "not what was carried over"
    says(first, 4, GiveVerdict(verdict="accept"))
    accepted = read_examples(first, api.open_dataset(data))
    assert {(e.id, e.by) for e in accepted} == {(f"episode {n} of first", PERSON) for n in (0, 1, 4)}
    printed = goalreel("annotate", recorded, "--out", tmp_path / "out", "--examples", first)
    assert "among your 3 labelled episodes" in " ".join(printed.split())
    assert {s.claims.what.by for s in boards(tmp_path / "out")[2].steps} == {CARRIED}
    other = make_dataset(
        tmp_path / "other", cameras=("front",), names=("x", "y", "gripper"), states=[STATES[0][:, 1:]]
    )
    line = fails("annotate", other, "--out", tmp_path / "no", "--examples", first)
    assert "labelled episodes are of the same robot" in line
    assert not (tmp_path / "no").exists()


def test_rules_are_no_examples(data, tmp_path):
    goalreel("annotate", data, "--out", tmp_path / "rules", "--layout", "closed=low")
    words = ("annotate", data, "--out", tmp_path / "out", "--examples")
    assert "review some episodes first" in fails(*words, tmp_path / "rules")
    goalreel("export", tmp_path / "rules", "--out", tmp_path / "steps.csv")
    assert "review some episodes first" in fails(*words, tmp_path / "steps.csv")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("tasks", [[TASK], []])
def test_too_few_boundaries_stop_the_run(tasks, data, tmp_path):
    column(EPISODES, "tasks", lambda old: [tasks] * len(old))(data)
    labels = rows(0, 1, 2)
    for row in labels[3:]:  # as if somebody had labelled something else
        row |= {"start_s": row["start_s"] / 3, "end_s": row["end_s"] / 3}
    path = written(tmp_path / "labels.csv", labels)
    words = ("annotate", data, "--out", tmp_path / "out", "--examples", path)
    asked = fails(*words)
    assert ("label more episodes of it" in asked, "of it, first " in asked) == (True, bool(tasks))
    assert not (tmp_path / "out").exists()
    assert results(*words, "--examples-anyway")["annotated"] == len(STATES)


ENGLISH = "put the cup in the box"


def told(root: Path, *texts: str) -> None:
    """Give each episode its instruction."""
    kinds = list(dict.fromkeys(texts))
    of_frames = [kinds.index(text) for e, text in enumerate(texts) for _ in range(cuts(e)[-1])]
    table(TASKS, lambda _: pa.table({"task_index": range(len(kinds)), "task": kinds}))(root)
    column(DATA, "task_index", lambda _: of_frames)(root)
    column(EPISODES, "tasks", lambda _: [[text] for text in texts])(root)
    info(lambda i: i.update(total_tasks=len(kinds)))(root)


def test_another_instruction_is_left_to_the_rules(data, tmp_path):
    told(data, *[TASK] * 5, ENGLISH)
    labels = written(tmp_path / "labels.csv", rows(0, 1, 2))
    words = ("annotate", data, "--out", tmp_path / "out", "--examples", labels)
    goalreel(*words, "--layout", "closed=low")
    made = boards(tmp_path / "out")
    assert [s.step.name for s in made[4].steps] == list(STEPS)
    assert {s.claims.what.by for s in made[5].steps} == {RULE}
    assert made[5].steps[0].step.name == "pick up the cup"
    other = written(tmp_path / "b.csv", rows(0))
    assert "examples was" in fails(*words[:-1], other, "--layout", "closed=low")
    assert TASK not in (tmp_path / "out" / FOLDER / "settings.json").read_text().partition("measured")[0]


def test_what_was_measured_of_other_episodes_stays(data, tmp_path):
    told(data, *[TASK] * 3, *[ENGLISH] * 3)
    labels = written(tmp_path / "labels.csv", rows(0, 1, 4, 5))
    for episodes in ("0-2", "3-5"):
        goalreel("annotate", data, "--out", tmp_path / "out", "--examples", labels, "--episodes", episodes)
    card = (tmp_path / "out/README.md").read_text()
    assert all(f'"{text}": among your 2 labelled episodes' in card for text in (TASK, ENGLISH))


@pytest.mark.parametrize("alike", [False, True])
def test_which_episodes_to_label(alike, data, tmp_path):
    told(data, TASK, *(TASK.replace("Tasse", letter) if alike else TASK for letter in "ABCDE"))
    words = ("check", data, "--layout", "closed=low")
    ((text, chosen),) = results(*words)["to_label"].items()
    assert text == TASK + " (and 5 like it)" * alike
    assert len(set(chosen)) == 3
    assert f'to label "{text}": episode {chosen[0]} first' in " ".join(goalreel(*words).split())
    said = goalreel("annotate", data, "--out", tmp_path / "out", "--layout", "closed=low")
    assert f"label episodes {chosen[0]}, {chosen[1]} and {chosen[2]}" in said
    assert f"--examples {tmp_path / 'out'}" in said


def test_a_model_labels_three_episodes_and_the_others_get_its_steps(recorded, tmp_path, caplog):
    """Here a scripted one behind a real HTTP server, which finds the first of them not as instructed."""

    def seer(request):
        text = text_of(request)
        if refuses in text:
            return counted(segments(text, pictures(request), agrees=False, seen="no cup"))
        return counted(segments(text, pictures(request)))

    def counted(answer):
        body = json.loads(said(answer).body) | {"usage": {"prompt_tokens": 100, "completion_tokens": 10}}
        return Reply(body=json.dumps(body).encode())

    first = next(iter(to_label(source := api.open_dataset(recorded), [(TASK, source.indices)])[TASK]))
    refuses = f"Frames 0 to {len(STATES[first]) - 1}"
    with ChatServer(seer) as server:
        planner = f"watch:openai:seer@{server.url}"
        words = ("annotate", recorded, "--out", tmp_path / "out", "--examples", 3, "--layout", "gripper=3")
        models = ("--preset", "watch", "--planner", planner, "--critic", "difference", "--json")
        assert "no model watches" in fails(*words)
        assert "leave out --shard" in fails(*words, *models, "--shard", "1/2")
        assert not server.requests
        done = invoke(*words, *models)
        asked = len(server.requests)
        again = invoke(*words, *models)
        assert len(server.requests) == asked == 5, "three, one again that stands still, another"
    assert (done.exit_code, again.exit_code) == (0, 0), done.stderr
    told = [message for message in caplog.messages if message.startswith("watching")]
    assert [m.partition(" takes")[0] for m in told[:2]] == [f"watching {n} episode(s)" for n in (3, 1)]
    assert "watching took 5 call(s) to the planner, with 500 tokens in and 50 out" in told[2]
    (measured,) = json.loads(done.stdout.splitlines()[-1])["measured"]
    assert (measured["examples"], measured["found"]) == (3, measured["boundaries"])
    card = (tmp_path / "out/README.md").read_text()
    assert "the 3 episodes that model watch:openai:seer labelled" in card
    makers = [board.steps[0].claims.what.by for _, board in read_storyboards(tmp_path / "out")]
    assert (makers.count("model watch:openai:seer"), makers.count(CARRIED)) == (3, 3)
    assert makers[first] == CARRIED
