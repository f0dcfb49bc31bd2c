"""The folder that `goalreel plan` writes, and the journal that keeps its answers."""

import numpy as np
import pytest
from support.steady import Drawless, Steady

import goalreel
from goalreel.drivers import run
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models.journal import Journal
from goalreel.models.model_set import ModelSet
from goalreel.types import Storyboard, Task

TASK = Task(id="task", instruction="tidy up", image=Image(np.zeros((24, 32, 3), np.uint8)))


def board(model: Steady, journal: Journal | None = None) -> Storyboard:
    models = ModelSet(model, model, model)
    if journal:
        keys = dict.fromkeys(("plan", "edit", "judge"), "m")
        models = models.with_middleware(journal.middleware(keys))
    return next(run([TASK], models.planner, models.editor, models.critic, max_attempts=3))


def test_what_was_answered_is_not_asked_again_unless_it_is_damaged_or_a_failure(tmp_path):
    journal, first, second, third = (
        Journal(tmp_path),
        Steady(3, 128, dies_at=3),
        Steady(3, 128),
        Steady(3, 128),
    )
    expected = board(whole := Steady(3, 128))
    with pytest.raises(KeyboardInterrupt):
        board(first, journal)
    assert board(second, journal) == expected
    assert first.asked + second.asked == whole.asked
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-9])
    assert board(third, journal) == expected
    assert third.asked == whole.asked
    lost = Journal(tmp_path / "lost")
    assert {s.status for s in board(Drawless(3), lost).steps} == {"failed"}
    assert board(Steady(3, 128), lost) == expected


def test_other_models_other_answers(tmp_path):
    journal, model = Journal(tmp_path), Steady()
    for key in ("a", "b", "a"):
        ModelSet(model, model, model).with_middleware(journal.middleware({"plan": key})).planner.plan([TASK])
    assert model.asked["plan"] == 2


def test_a_storyboard_is_saved_and_loaded(tmp_path):
    made = board(Steady(3, 128))
    goalreel.save_storyboard(made, tmp_path)
    assert goalreel.load_storyboard(tmp_path) == made
    assert (tmp_path / "images/first.png").is_file()
    assert (tmp_path / "images/step_01_attempt_1.png").is_file()


@pytest.mark.parametrize("name", ["../outside.png", "/etc/hostname", "images/none.png"])
def test_pictures_outside_the_folder_are_refused(name, tmp_path):
    goalreel.save_storyboard(board(Steady()), tmp_path / "in")
    (tmp_path / "outside.png").write_bytes(TASK.image.png())
    path = tmp_path / "in" / "storyboard.json"
    path.write_text(path.read_text().replace("images/first.png", name))
    with pytest.raises(ValueError, match="no picture"):
        goalreel.load_storyboard(tmp_path / "in")


def test_a_folder_keeps_the_storyboard_of_its_task_and_no_picture_of_another(tmp_path, caplog):
    def plan(instruction: str = "tidy up", model: Steady | None = None, image: Image = TASK.image, **more):
        model = model or Steady(2)
        models = ModelSet(model, model, model)
        return goalreel.plan(image, instruction, out=tmp_path, models=models, **more)

    def files() -> dict[str, bytes]:
        names = ("storyboard.json", "index.html", "images/*.png", "preview.gif")
        return {str(p): p.read_bytes() for name in names for p in tmp_path.glob(name)}

    made = plan()
    before = files()
    with pytest.raises(InputError, match=r"made from another task \(“tidy up”\): choose another --out"):
        plan("bake a cake")
    with pytest.raises(InputError, match="another picture"):
        plan(image=Image(np.ones((24, 32, 3), np.uint8)))
    assert files() == before
    assert plan(model=Drawless(2), seed=1).degraded
    assert "is kept" in caplog.text
    assert files() == before
    assert plan(seed=1) != made  # the same task once more
    drawn = plan(seed=1, model=(refuser := Steady(2, 0)), num_draws=2)
    assert (drawn.drawn, drawn.kept, refuser.asked["plan"]) == (2, 1, 2)
    assert "Kept 1 of 2" in (tmp_path / "index.html").read_text()
    (tmp_path / "storyboards").mkdir()
    with pytest.raises(InputError, match="file of prompts"):
        plan()
    fewer = made.model_copy(update={"steps": made.steps[:1]})
    goalreel.save_storyboard(fewer, tmp_path)
    assert not list(tmp_path.glob("images/step_02*"))
    assert goalreel.load_storyboard(tmp_path) == fewer
