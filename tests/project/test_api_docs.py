"""docs/api.md names what there is, and its code runs."""

import re

import cv2
import numpy as np
import pytest
from support.places import ROOT

import goalreel

TEXT = (ROOT / "docs" / "api.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_every_public_name_is_there():
    table = TEXT.split("## Annotate")[0]
    assert set(goalreel.__all__) <= set(re.findall(r"`(\w+)`", table))


@pytest.mark.parametrize("block", BLOCKS)
def test_the_code_runs(block, video_dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recorded").symlink_to(video_dataset)
    cv2.imwrite("scene.png", np.full((128, 128, 3), 90, np.uint8))
    exec(compile(block, "docs/api.md", "exec"), {})
