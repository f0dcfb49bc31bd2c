"""`goalreel corpus from-storyboards --scorer simulator`: what counts is the picture, not its record."""

import pytest
from support.cli import goalreel, invoke
from support.corpora import read_rows
from support.told import attempt, board, step

pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")

from goalreel.datasets.corpora.critic_rows import JUDGEMENTS
from goalreel.storyboard_io import save_storyboard
from goalreel.tabletop.grammar import state_of
from goalreel.tabletop.splits import seeds
from goalreel_lab.corpora.plans import walk

(SEED,) = seeds("train", 1, first=12)


@pytest.fixture(scope="module")
def told():
    """A simulated scene: nothing moved at first, then the goal held; its Critic had it reversed."""
    some = walk([SEED], 128, stream=9)
    done = next(some)
    some.close()
    tries = (("move a block", True, done.source), ("move the right block", False, done.target))
    attempts = [attempt(p, said).model_copy(update={"image": image}) for p, said, image in tries]
    tried = step("a", *attempts)
    plan = tried.step.model_copy(update={"instruction": state_of(done.goal)})
    whole = board(tried.model_copy(update={"step": plan}))
    return whole.model_copy(update={"task": whole.task.model_copy(update={"image": done.source})})


def test_right_and_wrong_are_what_the_pictures_show(told, tmp_path):
    save_storyboard(told, tmp_path / "in" / f"tabletop-{SEED}")
    order = ("corpus", "from-storyboards", tmp_path / "in", "--scorer", "simulator", "--rl-variance", 25)
    goalreel(*order, "--out", tmp_path / "out")
    wrong, right = read_rows(tmp_path / "out/sft", JUDGEMENTS)
    assert (wrong.success, wrong.semantics, wrong.quality) == (False, 0, 10)
    assert "from its place" in wrong.reasoning
    assert wrong.refined_prompt == right.prompt == "move the right block"
    assert (right.success, right.semantics, right.quality) == (True, 10, 10)
    assert "the goal holds" in right.reasoning
    assert right.refined_prompt is None
    save_storyboard(told, tmp_path / "other" / "kitchen")
    result = invoke(*order[:2], tmp_path / "other", *order[3:], "--out", tmp_path / "none")
    assert result.exit_code == 0
    assert "most were dropped for: unscored (2)" in result.stderr, "a storyboard of no known scene"
    assert "simulator scored none: name a judge" in result.stderr
