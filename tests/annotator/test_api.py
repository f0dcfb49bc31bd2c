"""`goalreel.annotate` and `goalreel.plan` in one call: paths, pictures, names and objects as arguments."""

import json
from pathlib import Path

import PIL.Image
import pytest
from support.serving_models import picture
from support.steady import Steady

import goalreel
from goalreel import InputError, ModelSet, Task
from goalreel.types import DoneStep

FRAME = picture(1, (64, 48))


class Planning(Steady):
    """Keeps what it was asked to plan; draws without a picture too."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[Task] = []

    def plan(self, tasks):
        self.tasks += tasks
        return super().plan(tasks)


def own() -> dict[str, object]:
    return {"planner": Planning(), "editor": Steady(), "critic": Steady()}


def test_a_dataset_is_annotated_in_one_call(video_dataset, tmp_path):
    summary = goalreel.annotate(str(video_dataset), tmp_path / "out", preset="hindsight")
    assert (summary.annotated, summary.out) == (3, tmp_path / "out")
    by_default = goalreel.annotate(video_dataset, str(tmp_path / "again"), episodes=[1])
    assert by_default.annotated == 1
    boards, one = (dict(goalreel.read_storyboards(tmp_path / name)) for name in ("out", "again"))
    assert one == {1: boards[1]}


def test_annotating_with_a_model_of_ones_own(video_dataset, tmp_path):
    """The other two are the preset's, and its editor finds its pictures by the plan's segments."""

    critic, source = Steady(), goalreel.open_dataset(video_dataset)
    options = goalreel.Options(granularity="subtask")
    chosen = {"options": options, "critic": critic, "batch_size": 2, "in_flight": 2}
    summary = goalreel.annotate(source, tmp_path / "out", **chosen)
    assert summary.annotated == 3
    assert summary.steps.keys() == {"accepted"}
    assert critic.asked["judge"] == summary.steps["accepted"] + summary.examination.asked
    examined = json.loads(summary.as_json())["examination"]
    assert (examined["judged"], examined["passed"]) == (summary.steps["accepted"], False)
    assert examined["line"] in (tmp_path / "out/README.md").read_text()
    assert goalreel.annotate(source, tmp_path / "out", **chosen).examination == summary.examination


@pytest.fixture
def pictures(tmp_path) -> dict[str, object]:
    """The same picture in every form."""
    path = tmp_path / "scene.png"
    path.write_bytes(FRAME.png())
    pil = PIL.Image.fromarray(FRAME.pixels)
    return {"path": path, "name": str(path), "array": FRAME.pixels.copy(), "pil": pil, "image": FRAME}


@pytest.mark.parametrize("form", ["path", "name", "array", "pil", "image"])
def test_a_picture_in_any_form(form, pictures):
    board = goalreel.plan(pictures[form], "dim the light", **own())
    pictures["array"][:] = 0  # an array stays its owner's
    assert board.complete
    assert board.task == Task(id="task", instruction="dim the light", image=FRAME)


def test_one_storyboard_in_memory_and_in_folders(pictures, tmp_path):
    boards = [
        goalreel.plan(pictures["name"], "dim the light", **own()),
        goalreel.plan(FRAME, "dim the light", tmp_path / "a", ModelSet(**own())),
        goalreel.plan(instruction="dim the light", image=FRAME, out=tmp_path / "b", models=ModelSet(**own())),
    ]
    assert boards == boards[:1] * len(boards)
    assert goalreel.load_storyboard(tmp_path / "a") == goalreel.load_storyboard(tmp_path / "b") == boards[0]


def test_from_text_alone_and_with_more_pictures(pictures):
    for board in (
        goalreel.plan(None, "tie a knot", **own()),
        goalreel.plan(instruction="tie a knot", models=ModelSet(**own())),
    ):
        assert board.task == Task(id="task", instruction="tie a knot")
    before = DoneStep(instruction="x")
    board = goalreel.plan(None, "like <image>", images=[pictures["path"]], done=[before], seed=3, **own())
    assert board.task == Task(
        id="task", instruction="like <image>", image=FRAME, images=(FRAME,), done=(before,), seed=3
    )


def test_models_of_ones_own_beside_a_presets(tmp_path):
    """The preset leaves the two others open; objects take their places."""
    models = own()
    assert goalreel.plan(FRAME, "dim it", tmp_path, preset="api", **models).complete
    assert [task.instruction for task in models["planner"].tasks] == ["dim it"]
    assert "test_api.Planning" in (tmp_path / "index.html").read_text()
    del models["critic"]
    with pytest.raises(InputError, match="preset api leaves open which models to ask: give --critic"):
        goalreel.plan(FRAME, "dim it", preset="api", **models)


WRONG_TYPES = [
    ((3, "dim it"), {}, r"a picture is a path, a NumPy array, a PIL image or a goalreel\.Image, not int"),
    ((FRAME, "dim it"), {"planner": FRAME}, r"planner is .* with a method plan\(\), not .*Image"),
    ((FRAME, "dim it"), {"critic": Steady}, r"critic is .* with a method judge\(\), not the class Steady"),
    ((FRAME, "dim it"), {"models": "nano"}, r"models is a goalreel\.ModelSet, not str"),
    ((FRAME, "dim it", 7), own(), r"out is a folder's path, not int"),
    ((FRAME,), {"instruction": 7}, "an instruction is a str, not int"),
    ((FRAME, "dim it"), {"presett": "nano"}, "unexpected keyword argument 'presett'"),
]
WRONG_VALUES = [
    ((FRAME,), {}, "there is no instruction"),
    ((FRAME, "scene.png"), {}, r"scene\.png is a file, and there is no instruction"),
    ((), {}, "there is no instruction"),
    ((FRAME, " "), {}, "there is no instruction"),
    (("nowhere.png", "dim it"), {}, r"nowhere\.png: cannot be read"),
    ((FRAME.pixels / 255, "dim it"), {}, r"an image is \(height, width, 3\) uint8, got .* float64"),
    ((FRAME, "dim it"), {"preset": "nano2"}, "no preset 'nano2'"),
    ((FRAME, "dim it"), {"editor": "crayon"}, "no editor called 'crayon'"),
    ((FRAME, "dim it", None, ModelSet(**own())), {"preset": "nano"}, "models and preset both say"),
]


@pytest.mark.parametrize(
    ("error", "arguments", "keywords", "message"),
    [*((TypeError, *row) for row in WRONG_TYPES), *((InputError, *row) for row in WRONG_VALUES)],
)
def test_what_cannot_be_planned(error, arguments, keywords, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        goalreel.plan(*arguments, **keywords)


def test_what_cannot_be_annotated(video_dataset, tmp_path):
    with pytest.raises(TypeError, match="source is a folder's path, not int"):
        goalreel.annotate(3, tmp_path / "out")
    with pytest.raises(TypeError, match=r"options is a goalreel\.Options, not dict"):
        goalreel.annotate(video_dataset, tmp_path / "out", options={})
    with pytest.raises(goalreel.DatasetError, match="nowhere"):
        goalreel.annotate(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(InputError, match="no critic called 'nobody'"):
        goalreel.annotate(video_dataset, tmp_path / "out", critic="nobody")
    assert not Path(tmp_path / "out").exists()
