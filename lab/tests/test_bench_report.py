"""TabletopBench's intervals, its report, its command, and the whole job on a recording."""

import json

import numpy as np
import pytest
from support.tabletop_models import quiet, values
from typer.testing import CliRunner

from goalreel.annotator.statistics import Measurement, balanced_accuracy, share, with_interval
from goalreel.cli.evaluate import app
from goalreel.datasets.source import Source
from goalreel.models.load import load
from goalreel.tabletop.splits import seeds
from goalreel.tabletop.truth import read_truth
from goalreel.types import Alignment, Step
from goalreel_lab.bench.job import annotated, score_job
from goalreel_lab.bench.scenes import walks
from goalreel_lab.statistics import gap_share, points, roc_area, share_with_interval


def test_the_interval_is_that_of_the_binomial():
    rng = np.random.default_rng(1)
    found = share_with_interval((seed, bool(rng.random() < 0.8)) for seed in range(400))
    wide = 1.96 * np.sqrt(found.value * (1 - found.value) / 400)
    assert found.low == pytest.approx(found.value - wide, abs=0.008)
    assert found.high == pytest.approx(found.value + wide, abs=0.008)


def test_episodes_are_drawn_not_rows_and_more_of_them_narrow_the_interval():
    one_each = share_with_interval((seed, seed % 2 == 0) for seed in range(40))
    assert share_with_interval((seed, seed % 2 == 0) for seed in range(40) for _ in range(10)) == one_each
    few = [(1.0, 1.0), (0.0, 1.0)] * 5
    wide, narrow = with_interval(few, share), with_interval(few * 20, share)
    assert wide.low < 0.5 < wide.high
    assert narrow.high - narrow.low < (wide.high - wide.low) / 2
    assert with_interval(few, share) == wide
    assert share_with_interval([]) == with_interval([(0, 0), (0, 0)], share) == Measurement(value=None)
    rare = with_interval([(0, 1), *[(0, 0)] * 9], share)
    assert (rare.value, rare.low, rare.high) == (0, 0, 0), "a draw without anything to measure"


@pytest.mark.parametrize(
    ("statistic", "sums", "value"),
    [
        (balanced_accuracy, (9, 10, 1, 2), 0.7),
        (points, (9, 7, 10), 20),
        (gap_share, (8, 5, 10), 0.6),
        (gap_share, (4, 5, 10), -0.2),
        (gap_share, (5, 5, 5), np.nan),
        (gap_share, (5, 5, 4), np.nan),
        (roc_area, (0, 0, 3, 3, 0, 0), 1),
        (roc_area, (3, 0, 0, 0, 0, 3), 0),
        (roc_area, (1, 1, 1, 1), 0.5),
        (roc_area, (1, 3, 2, 2), 0.625),
    ],
)
def test_statistics(statistic, sums, value):
    assert float(statistic(np.array(sums, float))) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--parts", "foo"], "no part 'foo': choose from plan, edit"),
        (["--preset", "hindsight", "--parts", "plan"], "only reads recordings"),
        (["--look", "unseen", "--parts", "annotate"], "plain scenes from the front"),
        (["--preset", "klein", "--planner", "foo", "--parts", "plan"], "no planner called 'foo'"),
    ],
)
def test_bad_input_is_one_line(tmp_path, arguments, why):
    result = CliRunner().invoke(
        app, ["tabletop", "--episodes", "1", "--out", str(tmp_path / "b"), *arguments]
    )
    assert result.exit_code == 1
    assert why in result.stderr


@pytest.mark.lab
def test_the_whole_job_is_measured_and_scores_less_when_it_is_done_less_well(tmp_path):
    """Two episodes, recorded and annotated in hindsight."""
    line = ["--preset", "hindsight", "--parts", "annotate", "--episodes", "2", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["tabletop", *line, "--json"])
    assert result.exit_code == 0, result.stderr
    found, folder = json.loads(result.stdout.splitlines()[-1]), next(tmp_path.glob("annotate-*"))
    assert found["split"] == "validation"
    assert found["annotate.boundary_f1"] > 0.9
    assert found["annotate.goal_images"] > 0.9
    scenes = walks(seeds("validation", 2), quiet)
    seed_numbers = [w.seed for w in scenes]
    boards = annotated(seed_numbers, lambda read: load("hindsight", recordings=read), folder, quiet)
    assert all(s.status == "observed" for b in boards for s in b.steps), "the critic sees what was done"
    truth = read_truth(folder / "recording").episodes
    fps = Source.open(folder / "recording").fps

    def score(changed):
        return values(score_job(scenes, truth, changed, fps))

    assert score(boards)["labels"] == found["annotate.labels"]
    assert score([None, None])["labels"] == score([None, None])["goal_images"] == 0
    renamed = [b.model_copy(update={"steps": tuple(map(anonymous, b.steps))}) for b in boards]
    assert score(renamed)["labels"] == 0
    assert score(renamed)["goal_images"] == found["annotate.goal_images"]
    lost = [b.model_copy(update={"steps": (*b.steps[:-1], unaligned(b.steps[-1]))}) for b in boards]
    assert score(lost)["boundary_f1"] == found["annotate.boundary_f1"], "where the last one begins is told"
    assert 0 < score(lost)["labels"] < found["annotate.labels"]
    mixed = [b.model_copy(update={"steps": turned(b.steps)}) for b in boards]
    assert score(mixed)["goal_images"] < found["annotate.goal_images"]
    assert score(mixed)["boundary_f1"] == found["annotate.boundary_f1"]


def anonymous(step):
    return step.model_copy(update={"step": Step(name="x", instruction="tidy up", prompt="tidy up")})


def unaligned(step):
    return step.model_copy(update={"segment": None, "alignment": Alignment(reason="not found")})


def turned(steps):
    """Every step with the attempts of the next one."""
    return tuple(
        a.model_copy(update={k: getattr(b, k) for k in ("attempts", "status", "chosen")})
        for a, b in zip(steps, [*steps[1:], steps[0]], strict=True)
    )
