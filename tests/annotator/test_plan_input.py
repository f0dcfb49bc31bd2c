"""What `goalreel plan` is given: several pictures among the words, or a storyboard to go on from."""

import pytest
from support.cli import fails, goalreel
from support.serving_models import CriticChat, PlannerChat, TintEditor, picture, serving

from goalreel import load_storyboard
from goalreel.annotator.plan import make_task, write_plan
from goalreel.serving.settings import Models
from goalreel.types import EndCheck, Verdict

A, B = picture(1), picture(2)


@pytest.fixture(scope="module")
def planner():
    return PlannerChat()


@pytest.fixture(scope="module")
def models(planner) -> list[str]:
    with serving(Models(planner=planner, critic=CriticChat(), editor=TintEditor())) as url:
        yield [word for role in ("planner", "editor", "critic") for word in (f"--{role}", f"server:{url}")]


@pytest.fixture
def files(tmp_path) -> list[str]:
    paths = []
    for name, image in (("a", A), ("b", B)):
        (tmp_path / f"{name}.png").write_bytes(image.png())
        paths.append(str(tmp_path / f"{name}.png"))
    return paths


def test_pictures_at_their_marks(files, models, planner, tmp_path):
    goalreel("plan", *files[:2], "# from <image> to <image>", "--out", tmp_path / "p", *models)
    board = load_storyboard(tmp_path / "p")
    assert (board.task.images, board.task.image) == ((A, B), B)
    assert board.complete
    first, second = (f"20x10:{','.join(map(str, image.pixels[0, 0]))}" for image in (A, B))
    asked = planner.batches[-1][0]
    assert f"# from  {first}  to  {second}" in asked, "each picture stands at its mark"
    printed = goalreel("plan", files[0], "# tidy <image>", "--out", tmp_path / "q", *models)
    end = "The end fulfils the whole instruction, says model server."
    assert printed.splitlines()[0] == f"Steps: 1 accepted. {end}"
    refused = load_storyboard(tmp_path / "q")
    answer = Verdict(success=False, reasoning="red block c1 r2 stays. The table is untidy.")
    refused = refused.model_copy(update={"end": EndCheck(answer=answer)})
    write_plan(refused, tmp_path / "r", {}, None)
    page = (tmp_path / "r" / "index.html").read_text()
    assert "The end was refused: The table is untidy." in page
    assert "the end in doubt" in page
    assert 'data-status="accepted"' not in page
    assert end in (tmp_path / "q" / "index.html").read_text()
    task = load_storyboard(tmp_path / "q").task
    assert (task.images, task.image) == ((A,), A), "one picture is the scene too"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.png", "b.png", "tidy up"], "2 pictures and no <image> mark: put quotes around the instruction"),
        (["a.png", "tidy", "up"], "2 pictures and no <image> mark: put quotes around the instruction"),
        (["a.png", "from <image> to <image>"], "pictures: 1, <image> marks in the instruction: 2"),
        (["a.png", "b.png", "only <image>"], "pictures: 2, <image> marks in the instruction: 1"),
        (["only <image>"], "pictures: 0, <image> marks in the instruction: 1"),
        (["none.png", "tidy up"], "none.png: cannot be read"),
        (["a.png", "broken.png", "<image> <image>"], "broken.png: not a readable image: send one of"),
        ([" "], "there is no instruction"),
        ([], "the instruction is missing: goalreel plan"),
    ],
    ids=" ".join,
)
def test_what_does_not_fit_is_one_line(words, said, files, models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.png").write_text("no picture")
    assert said in fails("plan", *words, "--out", "p", *models)


def test_a_servers_client_learns_of_no_path():
    assert make_task(__file__).instruction == __file__
