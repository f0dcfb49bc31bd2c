"""`--config FILE`: options of a command in a file; the command line goes first."""

import json

import pytest
from support.cli import fails, goalreel, invoke


@pytest.fixture
def config(tmp_path):
    def write(text: str):
        path = tmp_path / "options.yaml"
        path.write_text(text)
        return path

    return write


def test_a_file_gives_options_and_the_command_line_goes_first(config, video_dataset, tmp_path):
    out = tmp_path / "out"
    file = config(f"out: {out}\nepisodes: 0\nmax_attempts: 2\non-rejected: stop\nlanguage: false\nseed: 4\n")
    goalreel("annotate", video_dataset, "--config", file, "--seed", 7)
    settings = json.loads((out / "meta/goalreel/settings.json").read_text())["settings"]
    wanted = {"max_attempts": 2, "on_rejected": "stop", "language": False, "seed": 7}
    assert {name: settings[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_atempts: 2\n", "max_atempts: goalreel annotate has no such option"),
        ("dataset: x\n", "dataset: goalreel annotate has no such option"),
        ("config: x\n", "config: goalreel annotate has no such option"),
        ("max-attempts: many\n", "max-attempts: Input should be a valid integer"),
        ("critic-threshold: 1.5\n", "critic-threshold: Input should be less than or equal to 1"),
        ("granularity: coarse\n", "granularity: 'coarse' is not one of"),
        ("language: perhaps\n", "language: true or false, not 'perhaps'"),
        ("preset: true\n", "preset: True is no value of this option"),
        ("preset: [a, b]\n", "preset: ['a', 'b'] is no value of this option"),
        ("preset:\n", "preset: None is no value of this option"),
        ("- preset\n", "write one `option: value` a line"),
        ("preset: !!python/object/apply:os.system ['touch hacked']\n", "line 1: no YAML"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_that_names_the_key(config, text, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = config(text)
    stderr = fails("annotate", tmp_path, "--out", tmp_path / "out", "--config", file)
    assert f"{file}: {says}" in stderr
    assert not (tmp_path / "hacked").exists()


def test_plan_and_serve_take_one_too_and_a_list_where_an_option_may_be_repeated(config, tmp_path):
    for command in ("plan x --out o", "serve"):
        result = invoke(*command.split(), "--config", config("keep: first\n"))
        assert "keep: 'first' is not one of 'best', 'last'" in result.stderr
    file = config("image-topic: [/left, front=/right]\nstate_topic: /joints\n")
    out = ("--out", tmp_path / "out")
    assert "is no ROS 2 bag, so topics" in fails("annotate", tmp_path, *out, "--config", file)
    assert "cannot be read" in fails("plan", "x", *out, "--config", tmp_path / "none.yaml")
