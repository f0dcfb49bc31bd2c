"""`goalreel corpus import`: published data, rows that cannot be used, and what trains on it."""

import json
import os

import numpy as np
import pytest
from support.cli import fails, results
from support.corpora import read_rows

from goalreel.annotator.corpus.boards import find_boards
from goalreel.chat.dialects import InterleaveThinkerDialect
from goalreel.datasets.corpora.critic_rows import CRITIQUES, critique_lesson
from goalreel.datasets.corpora.published import import_corpus
from goalreel.datasets.corpora.rows import talks
from goalreel.errors import DatasetError, InputError
from goalreel.image import Image


def picture(path, value=40, size=(24, 16)):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(Image(np.full((size[1], size[0], 3), value, np.uint8)).png())
    return path.name


@pytest.fixture
def data(tmp_path):
    """A folder of pictures as the published rows name them."""
    picture(tmp_path / "data/white.png", 255)
    picture(tmp_path / "data/a.png", 40)
    picture(tmp_path / "data/b.png", 80, (1600, 1200))
    (tmp_path / "data/broken.png").write_bytes(b"no picture")
    picture(tmp_path / "secret.png")
    return tmp_path / "data"


def critique(**changes):
    row = {
        "origin_prompt": "Put the cup down.",
        "rewritten_prompt": "Place the red cup\u2028on the table.",
        "origin_image_path": "a.png",
        "edited_image_path": "b.png",
        "evaluation": {"success": True, "semantics": 9, "quality": 7.5},
        "seed": 3,
    }
    return row | changes


def write_lines(path, *rows):
    lines = (r if isinstance(r, str | bytes) else json.dumps(r, ensure_ascii=False) for r in rows)
    path.write_bytes(b"".join((r if isinstance(r, bytes) else r.encode()) + b"\n" for r in lines))
    return path


def test_the_published_rows_of_the_critic_become_critiques(data, tmp_path):
    """Bad rows are counted by their reason, and are never the end of the run."""
    bad = [
        "{not json",
        b'{"origin_prompt": "\xff"}',
        "[1]",
        critique(evaluation={"success": "yes", "semantics": 9, "quality": 7}),
        critique(evaluation={"success": True, "semantics": 90, "quality": 7}),
        critique(origin_prompt=" "),
        critique(edited_image_path="gone.png"),
        critique(edited_image_path="broken.png"),
        critique(edited_image_path="../secret.png"),
        critique(edited_image_path=str(tmp_path / "secret.png")),
        critique(origin_image_path=None),
    ]
    good = [
        critique(),
        critique(
            origin_image_path="white.png",
            rewritten_prompt=None,
            evaluation={"success": False, "semantics": 2, "quality": 0},
        ),
        critique(rewritten_prompt=""),
    ]
    file = write_lines(tmp_path / "critic_rl.jsonl", good[0], *bad, *good[1:])
    out = results("corpus", "import", file, "--images", data, "--out", tmp_path / "rl", "--json")
    assert (out["kind"], out["rows"]) == ("critiques", 3)
    assert out["dropped"] == {
        "a picture outside the folder of pictures (--images)": 2,
        "no evaluation with success, semantics and quality (0 to 10)": 2,
        "not a JSON object": 3,
        "a picture that cannot be read": 1,
        "a picture that is not there (--images)": 1,
        "a picture without a path": 1,
        "no origin_prompt": 1,
    }
    first, second, empty = read_rows(tmp_path / "rl", CRITIQUES)
    (asked,), _ = critique_lesson(empty, InterleaveThinkerDialect(None))
    assert (empty.prompt, empty.drawn_by) == ("", "Put the cup down.")
    assert 'planned: "Put the cup down."\nThe prompt that made the second picture: ""' in asked.parts[-1]
    assert "given to the editor: Put the cup down." in str(critique_lesson(empty)[0][1].parts)
    assert (first.first_prompt, first.prompt) == ("Put the cup down.", "Place the red cup\u2028on the table.")
    assert (first.success, first.semantics, first.quality, first.drawn) == (True, 9, 7.5, False)
    assert first.candidate.size[0] * first.candidate.size[1] <= 1024 * 1024
    assert (second.prompt, second.drawn, second.success) == ("Put the cup down.", True, False)
    again = results("corpus", "import", file, "--images", data, "--out", tmp_path / "rl", "--json")
    assert again == out
    pytest.importorskip("trl")
    from goalreel.chat.dialects import OWN
    from goalreel.training.rows import Critiques

    trained = Critiques([tmp_path / "rl"], held_out=lambda task_id: None)
    asked = trained.as_dataset(OWN, "strict")[0]
    assert [i.size for i in asked["images"]] == [(24, 16), trained.row(0).candidate.size]


@pytest.mark.parametrize("names", [("messages", "role", "content"), ("conversations", "from", "value")])
def test_chats_become_conversations_that_training_reads(names, data, tmp_path):
    key, role, content = names
    user, assistant = ("user", "assistant") if role == "role" else ("human", "gpt")

    def chat(*turns, images=()):
        return {key: [{role: r, content: text} for r, text in turns], "images": list(images)}

    rows = [
        chat((user, "<image>What now?"), (assistant, "Lift it."), images=["a.png"]),
        chat((user, "<image>What now?"), (assistant, "Lift it.")),
        chat((user, "What now?")),
        chat((user, "What now?"), (assistant, " ")),
        {key: "text"},
        chat((user, "What now?"), ("robot", "Lift it.")),
        chat((user, "No picture."), (assistant, "Right.")),
    ]
    file = tmp_path / "planner_sft.json"
    file.write_text(json.dumps(rows))
    report = import_corpus(file, data, tmp_path / "sft")
    assert (report.kind, report.rows, sum(report.dropped.values())) == ("conversations", 2, 5)
    first, _ = read_rows(tmp_path / "sft", talks("conversations"))
    (message,), reply = first.lesson
    assert [type(part) for part in message.parts] == [Image, str]
    assert reply == "Lift it."
    pytest.importorskip("trl")
    from goalreel.training.rows import read_rows as read_training_rows

    assert len(read_training_rows([tmp_path / "sft/sharegpt/conversations.json"])) == 2


def test_what_holds_no_rows_is_one_line(data, tmp_path):
    unusable = json.dumps(critique(origin_prompt=""))
    for name, text, problem in (
        ("a.json", "{", "cannot be read as JSON"),
        ("b.json", "{}", "holds no list of rows"),
        ("c.jsonl", '{"x": 1}\n', "no row has evaluation"),
        ("d.jsonl", unusable, "no row can be used; most often: no origin_prompt"),
    ):
        (tmp_path / name).write_text(text)
        command = ("corpus", "import", tmp_path / name, "--images", data, "--out", tmp_path / f"out_{name}")
        assert problem in fails(*command)
    missing = tmp_path / "gone.json"
    assert "cannot be read" in fails("corpus", "import", missing, "--out", tmp_path / "x")


def test_a_raw_trajectory_of_the_reference_is_a_storyboard(tmp_path):
    """As its data generation writes it: paths of another machine, and no prompt after a success."""
    folder = tmp_path / "raw" / "7_draw_a_cup"
    folder.mkdir(parents=True)
    plan = [
        {
            "step_number": n,
            "step_name": "s",
            "instruction": f"it is {n}",
            "prompt": f"do {n}",
            "auxiliary_text": None,
        }
        for n in (1, 2)
    ]
    said = [(1, False, "do 1 better"), (1, True, ""), (2, True, "")]
    steps = []
    for number, (step, success, refined) in enumerate(said):
        name = picture(folder / f"step{step}_{number}.png", 40 + number)
        told = {"prompt": f"do {step}", "source_img": "white.png", "target_img": f"/data/x/{name}"}
        steps.append(
            {**told, "step": step, "success": success, "reasoning": "seen", "refine_prompt": refined}
        )
    record = {"user_input": "draw a cup", "steps": steps}
    record["global_context"] = {"reasoning": "First the rim.", "execution_plan": plan}
    (folder / "execution_record.json").write_text(json.dumps(record))
    (stored,) = find_boards([tmp_path / "raw"])
    board = stored.load()
    assert (stored.task_id, board.task.instruction) == ("7_draw_a_cup", "draw a cup")
    assert board.reasoning == "First the rim."
    assert [[a.prompt for a in step.attempts] for step in board.steps] == [["do 1", "do 1 better"], ["do 2"]]
    assert [step.status for step in board.steps] == ["accepted", "accepted"]
    assert board.steps[0].attempts[0].verdict.refined_prompt == "do 1 better"
    (folder / "step1_0.png").unlink()
    with pytest.raises(DatasetError, match="picture that is not there"):
        stored.load()
    os.mkfifo(folder / "step1_0.png")
    with pytest.raises(DatasetError, match="picture that cannot be read"):
        stored.load()
    (folder / "execution_record.json").write_text("[" * 200_000)
    with pytest.raises(DatasetError, match="nested too deeply"):
        stored.load()
    (folder / "execution_record.json").unlink()
    os.mkfifo(folder / "execution_record.json")
    with pytest.raises(InputError, match="holds no storyboard"):
        find_boards([tmp_path / "raw"])
