"""Every command that prints results has --json: one JSON object on stdout, and nothing else there."""

import json

import av
import pytest
from support.cli import commands, results
from typer.testing import CliRunner

from goalreel.cli.main import app

WITHOUT_RESULTS = {
    ("node",): "runs until it is stopped",
    ("review",): "serves a page until it is stopped",
    ("serve",): "runs until it is stopped",
    ("studio",): "serves a page until it is stopped",
}
"""Command -> why it has no --json. The list is exact."""


def test_every_command_that_prints_results_has_it():
    ends = {words: command for words, command in commands().items() if not hasattr(command, "commands")}
    contexts = {words: c.make_context(words[-1], [], resilient_parsing=True) for words, c in ends.items()}
    options = {w: [o for p in c.get_params(contexts[w]) for o in p.opts] for w, c in ends.items()}
    without = {words for words in ends if "--json" not in options[words]}
    assert without == WITHOUT_RESULTS.keys()


def test_an_annotated_dataset(video_dataset, tmp_path):
    out = tmp_path / "out"
    assert results("annotate", video_dataset, "--out", out)["annotated"] == 3
    assert results("build", out) == {"out": str(out), "missing": [], "corrections": {}}
    index = tmp_path / "report/index.html"
    assert results("show", out, "--out", index.parent) == {"report": str(index)}
    [film] = results("show", out, "--movie", tmp_path / "films", "--episodes", "0")["films"]
    with av.open(film) as file:
        [video] = file.streams.video
        assert (video.frames, video.width) == (12, 1280), "one for each frame of the episode"
    table = tmp_path / "steps.csv"
    assert results("export", out, "--out", table)["rows"] > 0


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        ("show absent", 1, "absent: no such folder"),
        ("show", 2, "Missing argument 'dataset'."),
        ("eval review x --bins", 2, "No such option: --bins"),
        ("annot x", 2, "No such command 'annot'. Did you mean 'annotate'?"),
        ("--shout show", 2, "No such option: --shout"),
    ],
)
def test_an_error_of_use_is_json_too(words, status, error, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, [*words.split(), "--json"])
    assert done.exit_code == status
    assert json.loads(done.stdout)["error"] == error
    assert error.split()[0] in done.stderr


@pytest.mark.lab
def test_the_tabletop(tmp_path):
    pytest.importorskip("mujoco", reason="needs mujoco: pip install 'goalreel[sim]'")
    scene = tmp_path / "scene.png"
    assert results("tabletop", "scene", "--seed", 900301, "--out", scene)["instruction"].startswith("first")
    corpus = tmp_path / "plans"
    made = results("corpus", "make", "--kind", "plans", "--episodes", 3, "--out", corpus)
    assert (made["out"], made["episodes"]) == (str(corpus), 3)
    assert 1 <= made["rows"] <= 3
    recorded = tmp_path / "recorded"
    size = ("--size", 64, "--cameras", "front")
    made = results("tabletop", "record", "--episodes", 1, *size, "--out", recorded)
    assert (made["out"], made["episodes"]) == (str(recorded), 1)
    measured = results("eval", "segmentation", recorded)
    assert measured["episodes"] == 1
