"""A run can be looked at while it is going on."""

import html
import shutil
import threading
from dataclasses import replace

from support.cli import fails, goalreel
from support.wait import until

from goalreel import Editor, Options, annotate, load_models, open_dataset
from goalreel.datasets.records import FOLDER, LOCAL


class Gate:
    """Renders as `editor` does, but holds episode 2 until it is opened."""

    def __init__(self, editor: Editor) -> None:
        self.editor, self.reached, self.open = editor, threading.Event(), threading.Event()

    def edit(self, edits):
        if any(edit.task_id == "episode_000002" for edit in edits):
            self.reached.set()
            assert self.open.wait(600)
        return self.editor.edit(edits)


def test_a_run_is_shown_while_it_is_going_on(video_dataset, tmp_path, monkeypatch):
    out, source = tmp_path / "out", open_dataset(video_dataset)
    models = load_models("hindsight", recordings=Options().recorded(source))
    gate = Gate(models.editor)
    work = (source, out, replace(models, editor=gate))
    run = threading.Thread(target=annotate, args=work, kwargs={"batch_size": 1, "in_flight": 1}, daemon=True)
    run.start()
    try:
        assert gate.reached.wait(600)
        until(lambda: len(list((out / FOLDER / "episodes").rglob("episode_*.json"))) == 2)
        goalreel("show", out)
        copied = shutil.copytree(out, tmp_path / "copied")
        (copied / LOCAL / "source").unlink()
        assert "not written yet: name the dataset that it is made from" in fails("show", copied)
        goalreel("show", copied, "--source", video_dataset)
    finally:
        gate.open.set()
        run.join(600)
    for report in ("out-report", "copied-report"):
        page = html.unescape((tmp_path / report / "index.html").read_text())
        assert "2 of 3" in page
        assert "Episode 1" in page
    monkeypatch.chdir(out)
    goalreel("show", ".")
    assert "2 of 3" not in (tmp_path / "out-report/index.html").read_text()
