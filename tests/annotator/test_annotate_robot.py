"""A run says how it read the robot."""

import json
from pathlib import Path

from goalreel.annotator.annotate import annotate
from goalreel.annotator.options import Options
from goalreel.datasets.records import FOLDER, Records
from goalreel.datasets.source import Source
from goalreel.models.load import load
from goalreel.models.presets import load as preset


def run(root: Path, out: Path, options: Options | None = None, **models: str):
    source, options = Source.open(root), options or Options()
    names = preset("hindsight", **models)
    return annotate(source, out, load(names, recordings=options.recorded(source)), options)


def test_what_was_understood_is_in_summary_settings_and_card(video_dataset, tmp_path):
    out = tmp_path / "out"
    summary = run(video_dataset, out)
    told = json.loads(summary.as_json())["robot"]
    assert told["layout"] == "gripper=3,position=0:3,vertical=2,closed=low"
    assert {f["field"] for f in told["findings"]} == {"gripper", "closed", "position", "vertical", "camera"}
    assert Records(out / FOLDER, source="").settings()["robot"] == told
    card = (out / "README.md").read_text()
    assert "- closed: `low` (likely: lerobot's 0-100 grippers close at 0" in card
    given = run(video_dataset, tmp_path / "given", Options(layout="closed=low"))
    assert "- closed: `low` (given: by --layout)" in (given.out / "README.md").read_text()
