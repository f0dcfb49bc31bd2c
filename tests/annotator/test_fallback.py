"""A second editor, asked for what the first cannot draw: on the command line, in records and reports."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from support.cli import fails, goalreel, results

from goalreel import load_storyboard
from goalreel.datasets.records import FOLDER, Records
from goalreel.image import Image
from goalreel.models.load import build_editor
from goalreel.models.names import ModelName, ModelOptions
from goalreel.models.registry import critics, editors, planners
from goalreel.types import Candidate, Edit, Plan, Step, Task, Verdict

GREY, RED = 90, 200


@dataclass
class Painter:
    """Paints pictures of one shade; `edits` are what it was asked."""

    shade: int
    edits: list[Edit] = field(default_factory=list)

    def edit(self, edits: Sequence[Edit]) -> list[Image]:
        self.edits += edits
        return [Image(np.full((24, 32, 3), self.shade + e.step, np.uint8)) for e in edits]


class Steps:
    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        steps = tuple(Step(name=f"s{n}", instruction=f"i{n}", prompt=f"p{n}") for n in range(2))
        return [Plan(steps=steps)] * len(tasks)


class WantsRedAtTheEnd:
    """Accepts any picture of the first step, and of the second none but a red one."""

    def judge(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        return [Verdict(success=c.step == 0 or int(c.image.pixels.max()) >= RED) for c in candidates]


@pytest.fixture
def painters() -> Iterator[dict[str, Painter]]:
    """Two kinds of editor that are there while a test runs, with a planner and a critic that suit them."""
    made = {"grey": Painter(GREY), "red": Painter(RED)}
    for name, painter in made.items():
        editors.kind(
            name,
            "A test's.",
            ModelOptions,
            works=lambda name: {"edit", "references"} if name.target == "red" else {"edit"},
        )(lambda spec, painter=painter: painter)
    planners.kind("two-steps", "A test's.", ModelOptions)(lambda spec: Steps())
    critics.kind("wants-red", "A test's.", ModelOptions)(lambda spec: WantsRedAtTheEnd())
    yield made
    for registry, names in ((editors, made), (planners, ["two-steps"]), (critics, ["wants-red"])):
        for name in names:
            registry._kinds.pop(name)


@pytest.fixture
def frame(tmp_path):
    path = tmp_path / "frame.png"
    path.write_bytes(Image(np.zeros((24, 32, 3), np.uint8)).png())
    return path


MODELS = ("--planner", "two-steps", "--critic", "wants-red", "--max-attempts", 2)


def asked(painters: dict[str, Painter]) -> dict[str, list[tuple[int, int]]]:
    return {name: [(e.step, e.attempt) for e in painter.edits] for name, painter in painters.items()}


def test_a_second_editor_draws_what_the_first_could_not(painters, frame, tmp_path):
    out = tmp_path / "out"
    printed = results("plan", frame, "go", "--out", out, *MODELS, "--editor", "grey", "--editor", "red")
    assert asked(painters) == {"grey": [(0, 0), (1, 0), (1, 1)], "red": [(1, 2)]}
    board = load_storyboard(out)
    assert [[a.by for a in step.attempts] for step in board.steps] == [
        ["model grey"],
        ["model grey", "model grey", "model red"],
    ]
    assert board.complete
    assert printed["claims"]["looks"]["by"] == {"model grey": 1, "model red": 1}
    page = (out / "index.html").read_text()
    assert "by red" in page
    assert "grey else red" in page
    for painter in painters.values():
        painter.edits.clear()
    goalreel("plan", frame, "go", "--out", out, *MODELS, "--editor", "grey else red")
    assert asked(painters) == {"grey": [], "red": []}
    assert load_storyboard(out) == board


def test_what_the_first_editor_drew_is_not_drawn_again_where_a_second_is_added(painters, frame, tmp_path):
    out = tmp_path / "out"
    goalreel("plan", frame, "go", "--out", out, *MODELS, "--editor", "grey")
    assert "by" not in load_storyboard(out).steps[1].attempts[0].model_dump()
    painters["grey"].edits.clear()
    goalreel("plan", frame, "go", "--out", out, *MODELS, "--editor", "grey", "--editor", "red")
    assert asked(painters) == {"grey": [], "red": [(1, 2)]}


def test_a_file_of_options_and_a_preset_name_two_editors(painters, frame, tmp_path):
    config = tmp_path / "options.yaml"
    config.write_text("editor: [grey, red]\n")
    goalreel("plan", frame, "go", "--out", tmp_path / "a", *MODELS, "--config", config)
    preset = tmp_path / "mine.yaml"
    preset.write_text("planner: two-steps\neditor: grey else red\ncritic: wants-red\nmax_attempts: 2\n")
    goalreel("plan", frame, "go", "--out", tmp_path / "b", "--preset", preset)
    assert load_storyboard(tmp_path / "a") == load_storyboard(tmp_path / "b")
    assert asked(painters)["red"] == [(1, 2), (1, 2)]


def test_annotate_records_who_drew_what(painters, video_dataset, tmp_path):
    out = tmp_path / "out"
    models = (*MODELS, "--editor", "grey", "--editor", "red", "--episodes", 0)
    results("annotate", video_dataset, "--out", out, *models)
    records = Records(out / FOLDER, source="")
    assert records.settings()["editor"] == "grey else red"
    steps = records.outline(0).steps
    assert [a.by for a in steps[1].attempts] == ["model grey", "model grey", "model red"]
    assert dict(steps[1].claims.items())["looks"].by == "model red"
    drawn = sum(len(painter.edits) for painter in painters.values())
    assert results("annotate", video_dataset, "--out", out, *models)["resumed"] == 1
    assert sum(len(painter.edits) for painter in painters.values()) == drawn
    results(
        "annotate", video_dataset, "--out", tmp_path / "one", *MODELS, "--editor", "grey", "--episodes", 0
    )
    settings = Records(tmp_path / "one" / FOLDER, source="").settings()
    assert settings["editor"] == "grey"
    assert settings["references"] == "none", "all that decides the result is written"
    models = ("--editor", "hindsight", "--editor", "red")
    said = fails("annotate", video_dataset, "--out", tmp_path / "out", *models)
    assert "hindsight takes goal images from the recording: leave out other editors" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("grey else paint", "no editor called 'paint'"),
        ("grey else ", "no editor called ''"),
        ("grey?shade=3 else red", "grey: shade is wrong"),
        ("hindsight else red", "hindsight only reads recordings"),
    ],
)
def test_a_second_editor_that_is_none_is_one_line_before_any_work(name, said, painters, frame, tmp_path):
    assert said in fails("plan", frame, "go", "--out", tmp_path / "out", *MODELS, "--editor", name)
    assert asked(painters) == {"grey": [], "red": []}


def test_the_parts_of_a_name():
    name = ModelName.parse("server:http://me:secret@h?concurrency=2 else qwen-image+openai:m@http://i/v1")
    assert [part.kind for part in name.alternatives] == ["server", ""]
    assert name.plain() == "server:http://h else qwen-image+openai:m@http://i/v1"
    assert name.identity() == "server else qwen-image+openai:m"
    assert name.brief() == "h else qwen-image+m"
    assert name.nameless
    assert name.labels == ("model server", "model qwen-image+openai:m")
    assert ModelName.parse("nano else b").fingerprint() == " ".join([ModelName.parse("b").fingerprint()] * 2)
    assert ModelName.parse("red").labels == ()


def test_an_edit_goes_to_the_editor_whose_number_it_carries_which_is_loaded_then(painters):
    built = []
    editors.kind("late", "A test's.", ModelOptions)(lambda spec: built.append(spec) or painters["red"])
    painters["late"] = painters["red"]  # to be removed with the others
    edit = Edit(task_id="t", step=0, attempt=0, image=None, prompt="p", seed=1)
    editor = build_editor("grey else late")
    editor.edit([edit])
    assert not built
    for _ in range(2):
        drawn = editor.edit([edit.model_copy(update={"editor": n}) for n in (1, 0, 1)])
        assert [int(a.pixels[0, 0, 0]) for a in drawn if isinstance(a, Image)] == [RED, GREY, RED]
    assert len(built) == 1


def test_the_first_frame_goes_with_each_edit_where_an_option_says_so(painters, frame, tmp_path):
    models = (*MODELS, "--references", "first")
    goalreel("plan", frame, "go", "--out", tmp_path / "out", *models, "--editor", "red")
    first = Image.of(frame)
    assert [e.references for e in painters["red"].edits] == [(), (first,)]
    both = ("--editor", "red", "--editor", "grey")
    said = fails("plan", frame, "go", "--out", tmp_path / "no", *models, *both)
    assert "--references first: red else grey takes one picture an edit" in said
    said = fails("serve", *both, "--references", "all")
    assert "--references all: red else grey takes one picture an edit" in said
    assert "no editor called 'paint'" in fails("serve", "--editor", "red", "--editor", "paint")
