"""The README's picture: what is searched for, what is drawn; and the command that writes a scene."""

import importlib.util
import io
import os
from dataclasses import dataclass

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import PIL.Image
import pytest
from typer.testing import CliRunner

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from support import tabletop_models as models
from support.places import ROOT

from goalreel.batch import run
from goalreel.cli.tabletop import app
from goalreel.datasets.tabletop.readback import segment
from goalreel.datasets.tabletop.splits import split_of
from goalreel.evaluation.tabletop.scenes import walk
from goalreel.image import Image
from goalreel.models.load import Trio
from goalreel.types import Verdict

SCRIPT = ROOT / "scripts" / "nano_picture.py"
ONE = 0.5
"""The share of wrong edits with which the scene's seed makes one, in the first step."""
spec = importlib.util.spec_from_file_location("nano_picture", SCRIPT)
nano_picture = importlib.util.module_from_spec(spec)
spec.loader.exec_module(nano_picture)


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


def trio(scene, *, planner="true", critic="true", **errors) -> Trio:
    judge = SaysWhy(models.Critic([scene], how=critic))
    return Trio(models.Planner([scene], planner), models.Editor([scene], **errors), judge)


def board(scene, attempts=3, **how):
    made = trio(scene, **how)
    return next(run([scene.task], made.planner, made.editor, made.critic, max_attempts=attempts))


def test_only_validation_scenes_are_tried():
    tried = nano_picture.candidates()
    assert {split_of(next(tried)) for _ in range(20)} == {"validation"}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"planner": "drop"}, "plan"),
        ({"critic": "accept"}, "not one picture"),
        ({"terse": 1, "explicit": 1}, "never accepted"),
        ({"terse": 1, "how": "also", "critic": "accept"}, "not one picture"),
        ({"critic": "reject"}, "never accepted"),
        ({"terse": ONE}, None),
        ({"terse": 1}, "not one picture"),
    ],
)
def test_what_is_taken(scene, how, words):
    found = nano_picture.objection(scene, board(scene, **how))
    assert found is None if words is None else words in found


def test_a_verdict_that_the_simulator_does_not_share_is_not_shown(scene):
    shown = board(scene, terse=ONE)
    step = shown.steps[0]
    bad, good = step.attempts
    lucky = bad.model_copy(update={"image": good.image})
    steps = (step.model_copy(update={"attempts": (lucky, good)}), *shown.steps[1:])
    told = nano_picture.objection(scene, shown.model_copy(update={"steps": steps}))
    assert "does not agree" in told


def test_a_picture_that_smudges_something_is_not_shown(scene):
    shown = board(scene, terse=ONE)
    step = shown.steps[0]
    bad, good = step.attempts
    pixels = good.image.pixels.copy()
    blocks = segment(pixels)["red"]
    pixels[blocks] = pixels[blocks] // 4 + 90  # grey, but for a few columns
    pixels[:, ::3] = good.image.pixels[:, ::3]
    faded = good.model_copy(update={"image": Image(pixels)})
    steps = (step.model_copy(update={"attempts": (bad, faded)}), *shown.steps[1:])
    assert nano_picture.smudged(scene, shown) == set()
    assert nano_picture.smudged(scene, shown.model_copy(update={"steps": steps})) == {"red"}


def test_the_search_asks_as_the_command_line_does(scene, monkeypatch):
    monkeypatch.setattr(nano_picture, "walk", lambda seed: scene)
    seed, found = nano_picture.search([scene.seed], trio(scene, terse=0.3), 3)
    assert (seed, found.task.seed) == (scene.seed, 0)
    with pytest.raises(ValueError, match="no scene"):
        nano_picture.search([scene.seed], trio(scene), 3)


def test_the_picture_shows_both_attempts_and_its_seed(scene):
    picture = nano_picture.sheet(scene.seed, board(scene, terse=ONE))
    assert picture.size[0] == nano_picture.WIDTH
    for colour in ((0x17, 0x60, 0x3C), (0x9A, 0x23, 0x23)):
        assert (picture.pixels == colour).all(axis=2).sum() > 4000, "a frame is missing"
    with PIL.Image.open(io.BytesIO(nano_picture.png(scene.seed, picture))) as stored:
        assert stored.text["seed"] == str(scene.seed)
        assert (np.array(stored) == picture.pixels).all()


def test_a_reason_leaves_out_where_things_are():
    words = "red block c3 r5 stays; blue bowl c1 r1 gone. The blue bowl is gone. The red block did not move."
    assert nano_picture.reason(Verdict(success=False, reasoning=words)) == (
        "The blue bowl is gone. The red block did not move."
    )
    assert nano_picture.reason(Verdict(success=False, reasoning="blurred")) == "blurred"


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
