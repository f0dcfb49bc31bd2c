"""The search for the README's picture takes what the simulator confirms; and a scene is written as shown."""

import os
from dataclasses import dataclass

os.environ.setdefault("MUJOCO_GL", "egl")

import pytest
from typer.testing import CliRunner

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

import nano_picture
from support import tabletop_models as models

from goalreel.batch import run
from goalreel.cli.tabletop import app
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models.load import Trio
from goalreel.tabletop.bench.loop import TruePlanner
from goalreel.tabletop.bench.scenes import walk
from goalreel.tabletop.sim.readback import segment

ONE = 0.5
"""The share of wrong edits with which the scene's seed makes one, in the first step."""


@pytest.fixture(scope="module")
def scene():
    yield walk(next(nano_picture.candidates()))
    models.close()


@dataclass
class SaysWhy:
    """A critic that knows the truth, with the nano Critic's kind of words."""

    critic: models.Critic

    def judge(self, candidates):
        words = {"reasoning": "red block c3 r5 stays. The red block did not move."}
        return [verdict.model_copy(update=words) for verdict in self.critic.judge(candidates)]


def trio(scene, wrong):
    planner = TruePlanner({scene.task.id: scene}, "terse")
    return Trio(planner, models.Editor([scene], terse=wrong), SaysWhy(models.Critic([scene])))


@pytest.fixture(scope="module")
def found(scene):
    """A storyboard whose first edit was wrong, and noticed."""
    made = trio(scene, ONE)
    return next(run([scene.task], made.planner, made.editor, made.critic, max_attempts=3))


def with_first_step(board, **changes):
    first = board.steps[0].model_copy(update=changes)
    return board.model_copy(update={"steps": (first, *board.steps[1:])})


def test_only_a_storyboard_that_the_simulator_confirms_is_taken(scene, found):
    assert nano_picture.objection(scene, found) is None
    bad, good = found.steps[0].attempts
    lucky = with_first_step(found, attempts=(bad.model_copy(update={"image": good.image}), good))
    assert "does not agree" in nano_picture.objection(scene, lucky)
    assert "not one picture" in nano_picture.objection(scene, with_first_step(found, attempts=(good,)))
    other = with_first_step(found, step=found.steps[-1].step)
    assert "plan is wrong" in nano_picture.objection(scene, other)


def test_the_search_asks_as_the_command_line_does_and_may_find_nothing(scene):
    seed, board = nano_picture.search([scene.seed], trio(scene, 0.3), 3)
    assert (seed, board.task.seed) == (scene.seed, 0)
    with pytest.raises(InputError, match="no scene"):
        nano_picture.search([scene.seed], trio(scene, 0), 3)


def test_a_scene_in_which_something_hides_a_block_is_passed_over(scene):
    """In the other one the blue block comes to stand before the green one."""
    behind = walk(900_090)
    assert [nano_picture.hides(some) for some in (scene, behind)] == [False, True]
    with pytest.raises(InputError, match="no scene"):
        nano_picture.search([behind.seed], trio(behind, 0.3), 3)


def test_a_picture_that_smudges_something_is_not_shown(scene, found):
    bad, good = found.steps[0].attempts
    pixels = good.image.pixels.copy()
    blocks = segment(pixels)["red"]
    pixels[blocks] = pixels[blocks] // 4 + 90  # grey, but for a few columns
    pixels[:, ::3] = good.image.pixels[:, ::3]
    faded = with_first_step(found, attempts=(bad, good.model_copy(update={"image": Image(pixels)})))
    assert nano_picture.smudged(scene, found) == set()
    assert nano_picture.smudged(scene, faded) == {"red"}


def test_the_picture_shows_both_attempts(scene, found):
    picture = nano_picture.sheet(scene.seed, found)
    for colour in ((0x17, 0x60, 0x3C), (0x9A, 0x23, 0x23)):
        assert (picture.pixels == colour).all(axis=2).sum() > 4000, "a frame is missing"


def test_a_scene_is_written_as_the_models_see_it(scene, tmp_path):
    out = tmp_path / "new" / "scene.png"
    done = CliRunner().invoke(app, ["scene", "--seed", str(scene.seed), "--out", str(out)])
    assert (done.exit_code, done.stdout) == (0, f"{scene.episode.instruction}\n")
    assert Image.decode(out.read_bytes()) == scene.task.image


def test_a_seed_of_no_split_is_refused(tmp_path):
    done = CliRunner().invoke(app, ["scene", "--seed", "1000000", "--out", str(tmp_path / "a.png")])
    assert done.exit_code == 1
    assert "outside" in done.stderr
    assert not list(tmp_path.iterdir())
