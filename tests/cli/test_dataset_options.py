"""What the command line refuses of the options on words."""

import pytest
from support.cli import fails


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
