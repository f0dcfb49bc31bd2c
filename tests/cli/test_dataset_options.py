"""What the command line refuses of the options on words, and `goalreel carry-over`."""

import shutil

import pytest
from support.cli import fails, goalreel

from goalreel.datasets.records import FOLDER


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (["--no-language", "--task-aug"], "leave out --no-language"),
        (["--motion-rows", "--planner", "openai:m@http://127.0.0.1:9/v1"], "with --planner kinematic"),
    ],
)
def test_words_that_nobody_would_write_are_refused(video_dataset, tmp_path, options, advice):
    out = tmp_path / "out"
    assert advice in fails("annotate", video_dataset, "--out", out, *options)
    assert not out.exists()


def test_carry_over(video_dataset, annotated, tmp_path):
    out = annotated(video_dataset, tmp_path / "out", {0: {}, 2: {}})
    edited = shutil.copytree(out, tmp_path / "edited")
    shutil.rmtree(edited / FOLDER)
    printed = goalreel("carry-over", edited, "--from", out)
    assert printed == "2 episodes got their records; 1 had none\n"
    assert (edited / FOLDER / "episodes/chunk-000/episode_000002.json").is_file()
    assert "has no records" in fails("carry-over", edited, "--from", video_dataset)
