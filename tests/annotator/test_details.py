"""Details beside a step's words: the option, the records, the exports. Real sensors, real servers."""

import json

import pytest
from support.cli import invoke

from goalreel.annotator.options import Options
from goalreel.datasets.records import FOLDER
from goalreel.errors import InputError


def annotate(dataset, out, *words):
    result = invoke("annotate", dataset, "--out", out, *words)
    assert result.exit_code == 0, result.stderr
    return out


def settings(out) -> dict:
    return json.loads((out / FOLDER / "settings.json").read_text())["settings"]


def test_without_the_option_nothing_tells_of_it(video_dataset, tmp_path):
    out = annotate(video_dataset, tmp_path / "out")
    assert "details" not in settings(out)
    assert "progress" not in json.loads((out / "meta/info.json").read_text())["features"]
    assert not (out / "sarm_progress.parquet").exists()
    assert not any("details" in path.read_text() for path in (out / FOLDER).rglob("*.json"))


def test_the_exports_take_the_progress_along(video_dataset, tmp_path):
    out = annotate(video_dataset, tmp_path / "out", "--details", " progress,")
    assert settings(out)["details"] == "progress"
    for shape in ("sarm", "groot"):
        result = invoke("export", out, "--to", shape, "--out", tmp_path / shape)
        assert result.exit_code == 0, result.stderr
    ours, theirs = (root / "sarm_progress.parquet" for root in (out, tmp_path / "sarm"))
    assert ours.read_bytes() == theirs.read_bytes()
    kept = json.loads((tmp_path / "groot/meta/stats.json").read_text())
    assert "progress" not in kept
    assert "action" in kept


def test_an_unknown_detail_is_one_line():
    with pytest.raises(InputError, match="there is no detail 'mood': --details takes"):
        Options(details="progress,mood")
