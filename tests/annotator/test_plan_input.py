"""What `goalreel plan` is given: several pictures among the words, or a storyboard to go on from."""

import pytest
from support.cli import fails, goalreel
from support.serving_models import CriticChat, PlannerChat, TintEditor, picture, serving

from goalreel import InputError, load_models, load_storyboard, plan
from goalreel.annotator.plan import accepted, continue_task, make_task, write_plan
from goalreel.models import presets
from goalreel.serving.settings import Models
from goalreel.storyboard_io import save_storyboard
from goalreel.types import (
    Attempt,
    DoneStep,
    EndCheck,
    Failure,
    Step,
    Storyboard,
    StoryboardStep,
    Task,
    Verdict,
)

A, B, NOW = picture(1), picture(2), picture(3)


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
    for name, image in (("a", A), ("b", B), ("now", NOW)):
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
    refused = refused.model_copy(
        update={"end": EndCheck(answer=Verdict(success=False, reasoning="it is untidy"))}
    )
    write_plan(refused, tmp_path / "r", {}, None)
    page = (tmp_path / "r" / "index.html").read_text()
    assert "The end was refused: it is untidy." in page
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
        (["a.png", "broken.png", "<image> <image>"], "broken.png: not a readable image: of no known format"),
        ([" "], "the instruction is empty"),
        ([], "the instruction is missing: goalreel plan"),
        (["tidy up", "--done", "1"], "--done counts the steps of a storyboard: name its folder"),
        (
            ["--continue", "plan", "a.png", "tidy up"],
            "the instruction is the folder's: give one FRAME at most",
        ),
        (["--continue", "nowhere"], "nowhere: holds no storyboard.json"),
        (["--continue", "p"], "p is the storyboard to continue: give another --out"),
    ],
    ids=" ".join,
)
def test_what_does_not_fit_is_one_line(words, said, files, models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.png").write_text("no picture")
    assert said in fails("plan", *words, "--out", "p", *models)


def test_continue_task_from_a_folder(files, models, planner, tmp_path):
    goalreel("plan", files[0], "# # three", "--out", tmp_path / "first", *models)
    before = load_storyboard(tmp_path / "first")
    rest = (
        "plan",
        "--continue",
        tmp_path / "first",
        "--done",
        1,
        files[2],
        "--out",
        tmp_path / "rest",
        *models,
    )
    goalreel(*rest)
    board = load_storyboard(tmp_path / "rest")
    step = before.steps[0]
    behind = (DoneStep(instruction=step.step.instruction, image=step.goal_image),)
    assert (board.task.instruction, board.task.image, board.task.done) == ("# # three", NOW, behind)
    asked = planner.batches[-1][0]
    assert behind[0].instruction in asked
    number = len(planner.batches)
    goalreel(*rest)
    assert len(planner.batches) == number, "run again, it asks nobody"
    goalreel("plan", "--continue", tmp_path / "rest", "--out", tmp_path / "more", *models)
    more = load_storyboard(tmp_path / "more").task
    assert more.done[0] == behind[0], "what was behind us before stays there"
    assert len(more.done) == 1 + len(board.steps)
    assert more.image == board.steps[-1].goal_image


def board_of(*statuses: str) -> Storyboard:
    task = Task(id="task", instruction="i", image=A)
    return Storyboard(task=task, steps=tuple(map(step_of, statuses)))


def step_of(status: str) -> StoryboardStep:
    step = Step(name="s", instruction="s is so", prompt=None if status == "text" else "p", auxiliary_text="t")
    if status in ("text", "skipped"):
        return StoryboardStep(step=step, status=status)
    attempt = Attempt(prompt="p", seed=0, image=B, verdict=Verdict(success=status == "accepted"))
    return StoryboardStep(step=step, attempts=(attempt,), status=status, chosen=0)


@pytest.mark.parametrize(
    ("statuses", "number"),
    [
        (("accepted", "text", "rejected", "accepted"), 2),
        (("rejected", "accepted"), 0),
        (("accepted", "accepted"), 2),
        (("text",), 1),
    ],
)
def test_what_is_behind_us_unless_one_says_otherwise(statuses, number):
    board = board_of(*statuses)
    assert accepted(board) == len(continue_task(board).done) == number
    pictured = any(s != "text" for s in statuses[:number])
    assert continue_task(board).image == (B if pictured else A)
    assert continue_task(board, NOW).image == NOW


def test_continue_task_keeps_the_cameras_size_where_the_editor_has_its_own():
    large = B.resized((72, 40))
    attempt = Attempt(prompt="p", seed=0, image=large, verdict=Verdict(success=True))
    step = StoryboardStep(step=step_of("accepted").step, attempts=(attempt,), status="accepted", chosen=0)
    board = Storyboard(task=Task(id="task", instruction="i", image=A), steps=(step,))
    task = continue_task(board)
    assert task.image == task.done[0].image == board.goal_images()[0]
    assert task.image.size == A.size
    drawn = board.model_copy(update={"task": Task(id="task", instruction="i")})
    assert continue_task(drawn).image == large, "from text alone there is no camera"


def test_more_steps_than_there_are(tmp_path):
    save_storyboard(board_of("accepted"), tmp_path / "first")
    said = fails("plan", "--continue", tmp_path / "first", "--done", 2, "--out", tmp_path / "rest")
    assert "2 steps done, but the plan has 1" in said
    none = Storyboard(task=Task(id="t", instruction="i"), failure=Failure(stage="plan", message="no"))
    with pytest.raises(InputError, match="no plan to continue"):
        continue_task(none)


def test_from_python(models, tmp_path):
    planner, editor, critic = models[1::2]
    model_set = load_models(presets.load("server", planner=planner, editor=editor, critic=critic))
    done = [DoneStep(instruction="x", image=NOW)]
    board = plan("# <image>", None, tmp_path / "p", model_set, images=[A], done=done)
    assert (board.task.image, board.task.images, board.task.done) == (NOW, (A,), tuple(done))
    assert load_storyboard(tmp_path / "p") == board
    assert plan("#", NOW, tmp_path / "q", model_set).task == make_task("#", NOW)
