"""Steps in words alone, how sure the Critic is, pictures of another size: plan, annotate, report."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from support.provenance import named

from goalreel import load_storyboard
from goalreel.annotator.annotate import annotate, open_dataset
from goalreel.annotator.job import Summary
from goalreel.annotator.options import Options
from goalreel.annotator.plan import plan
from goalreel.annotator.show import show
from goalreel.cli.console import live_view, show_summary
from goalreel.datasets.records import FOLDER, Records
from goalreel.image import Image
from goalreel.models.model_set import ModelSet
from goalreel.types import ROLES, Plan, Segment, Step, Storyboard, Verdict

SAID = "Wait until the water boils."
SURE = 0.93


class Cook:
    """Three steps, the middle one in words; goals of twice the source's size and a little wider."""

    def __init__(self, *sure: float) -> None:
        """`sure`: of each rejected picture in turn; without any the first is accepted."""
        self._sure = list(sure)

    def plan(self, tasks):
        steps = (
            Step(
                name="fill", instruction="the pot is full", prompt="fill it", auxiliary_text="Fill the pot."
            ),
            Step(name="boil", instruction="the water boils", prompt=None, auxiliary_text=SAID),
            Step(name="pour", instruction="the cup is full", prompt="pour it"),
        )
        return [Plan(steps=steps) for _ in tasks]

    def edit(self, edits):
        return [self._drawn(e) for e in edits]

    def _drawn(self, edit) -> Image:
        width, height = edit.image.size
        if edit.step == 0:
            width, height = 2 * width + 16, 2 * height
        return Image(np.full((height, width, 3), 120 + 60 * edit.step // 2, np.uint8))

    def judge(self, candidates):
        if self._sure:
            return [Verdict(success=False, probability=self._sure.pop(0)) for _ in candidates]
        return [Verdict(success=True, reasoning="as wanted", probability=SURE) for _ in candidates]


def model_set(cook: Cook, **names) -> ModelSet:
    return ModelSet(cook, cook, cook, replace(named(**names), uncached=frozenset(ROLES)))


FRAME = Image(np.full((48, 64, 3), 40, np.uint8))


@pytest.fixture(scope="module")
def planned(tmp_path_factory) -> tuple[Path, Storyboard]:
    out = tmp_path_factory.mktemp("plan") / "out"
    return out, plan(FRAME, "make tea", out, model_set(Cook()))


def test_a_plan_keeps_words_and_numbers(planned):
    out, board = planned
    assert load_storyboard(out) == board
    assert [s.status for s in board.steps] == ["accepted", "text", "accepted"]
    assert board.complete
    assert board.steps[0].attempts[0].verdict.probability == SURE
    assert board.steps[2].goal_image.size == (144, 96), "it starts from the first one's own picture"
    assert [p and p.size for p in board.goal_images()] == [(64, 48), None, (64, 48)], "the frame's size"
    with PIL.Image.open(out / "make-tea.gif") as shown:
        assert shown.n_frames == 4, "the first frame, two pictures, and a step in words"
    page = (out / "index.html").read_text()
    assert page.count(SAID) == 1
    assert "In words only" in page
    assert page.count('class="badge text"') == 1
    assert "2 of 2 steps accepted, 1 in words alone" in page
    assert f"probability of success {SURE}" in page


def test_the_terminal_says_what_is_in_words_and_how_sure_the_critic_is(tmp_path, capsys):
    with live_view() as observe:
        plan(FRAME, "make tea", tmp_path / "out", model_set(Cook(0.25)), observe=observe)
    rows = capsys.readouterr().err
    assert [text for text in ("in words", "0.25", str(SURE)) if text not in rows] == []
    show_summary(Summary(Path("out"), "front", steps=Counter(text=2)))
    assert "steps text" in capsys.readouterr().out


class TimedCook(Cook):
    """Says when each step was done, as planners that read recordings do."""

    def plan(self, tasks):
        third = tuple(Segment(start=start, end=start + 3) for start in (0, 3, 6))
        return [plan.model_copy(update={"segments": third}) for plan in super().plan(tasks)]


@pytest.fixture(scope="module")
def annotated(video_dataset, tmp_path_factory) -> tuple[Path, Summary]:
    out = tmp_path_factory.mktemp("annotated") / "out"
    return out, annotate(open_dataset(video_dataset), out, model_set(TimedCook()), Options())


def test_an_episode_has_words_between_its_pictures(annotated, tmp_path):
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    out, summary = annotated
    assert summary.steps == Counter(accepted=6, text=3)
    source, records = open_dataset(out), Records(out / FOLDER, source="")
    for index in source.indices:
        steps = records.outline(index).steps
        assert [s.status for s in steps] == ["accepted", "text", "accepted"]
        assert steps[0].segment.end == steps[1].segment.start < steps[1].segment.end == steps[2].segment.start
        assert steps[0].attempts[0].verdict.probability == SURE
    first, words, _ = records.outline(0).steps
    dataset = LeRobotDataset("local/out", root=out, video_backend="pyav")
    shown, hidden = dataset[first.segment.start], dataset[words.segment.start]
    assert [bool(item["subgoal_is_pad"]) for item in (shown, hidden)] == [False, True]
    picture = (255 * shown["observation.images.subgoal"].numpy()).round()
    assert np.abs(picture[:, 8:-8, 8:-8] - 120).max() <= 3, (
        "no black border, in another shape than the editor's"
    )
    assert not hidden["observation.images.subgoal"].any()
    told = {(r["style"], r["content"]) for r in shown["language_persistent"]}
    assert {("subtask", "boil"), ("plan", "1. fill\n2. boil\n3. pour")} <= told
    page = show(out, tmp_path / "report").read_text()
    assert "In words only" in page
    assert "<dt>text</dt>" in page


@pytest.mark.parametrize(("keep", "kept"), [("best", 0), ("last", 1)])
def test_annotate_keeps_the_picture_that_it_is_told_to(video_dataset, tmp_path, keep, kept):
    models = model_set(Cook(0.4, 0.2), keep=keep, max_attempts=2)
    annotate(open_dataset(video_dataset), tmp_path / "out", models, Options(), episodes=[0])
    step = Records(tmp_path / "out" / FOLDER, source="").outline(0).steps[0]
    assert (step.status, step.chosen) == ("rejected", kept)
