"""Videos under names that FFmpeg would take for something else."""

import shutil
from pathlib import Path

from support.cli import goalreel


def test_a_relative_path_with_a_colon(video_dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(video_dataset, "10:30")
    goalreel("annotate", "10:30", "--out", "11:00")
    assert list(Path("11:00/videos/observation.images.subgoal").glob("*/*.mp4"))
    goalreel("show", "11:00")
    goalreel("export", "11:00", "--to", "groot", "--out", "12:00")
    assert len(list(Path("12:00/videos").rglob("*.mp4"))) == 9
