"""The benchmark of large datasets measures what it says; how long it takes is not looked at."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from goalreel.datasets.source import Source

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
EPISODES, BLOCK = 7, 3


@pytest.fixture(scope="module")
def benchmark():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("scale")


@pytest.mark.long
def test_every_episode_of_a_large_dataset_is_recorded_and_written(benchmark, tmp_path):
    folder = tmp_path / "data"
    benchmark.prepare(folder, EPISODES, 2, BLOCK)
    root = folder / "in"
    source = Source.open(root)
    for index in (0, BLOCK, EPISODES - 1):
        episode = source.episode(index)
        episode.check(source.camera(None))
        first, repeated = (
            source.episode(i).frames(source.camera(None), [3])[0] for i in (index % BLOCK, index)
        )
        assert np.array_equal(first.pixels, repeated.pixels)
    run = benchmark.measure(folder, tmp_path / "out", 0, EPISODES, sample=EPISODES, repeats=1)
    row = benchmark.summary((EPISODES, 2), [run, run])
    assert len(row["runs_ms"]) == 2
    written = Source.open(tmp_path / "out")
    assert len(written.indices) == EPISODES
    assert "observation.images.subgoal" in written.features


def test_the_ratio_comes_with_the_middle_of_all_pairs(benchmark):
    assert benchmark.cost_ratio([11.0, 10.0, 12.0], [10.0, 10.0, 20.0]) == (1.1, [0.52, 1.2])
