"""The experiment of scarce words on Meta-World: what its policies learn from, and the whole of it, small."""

import json

import pytest

pytest.importorskip("metaworld", reason="needs metaworld: pip install 'goalreel-lab'")

import metaworld_pieces
import metaworld_scarce
import typer
from typer.testing import CliRunner

pytestmark = pytest.mark.lab

TASKS = ("button-press-v3", "drawer-open-v3")


def run(out, *words):
    app = typer.Typer()
    app.command()(metaworld_scarce.main)
    sizes = "--episodes 1 --worded 1 --positions 1 --seeds 1 --backbone-steps 1 --steps 2 --held-out none"
    command = ["--out", str(out), "--tasks", ",".join(TASKS), *sizes.split(), "--workers", "0", "--json"]
    return CliRunner().invoke(app, [*command, *words])


def test_the_whole_goes_on_where_it_was_and_says_the_same_again(tmp_path, monkeypatch):
    monkeypatch.setattr(metaworld_pieces, "LONGEST", 3)
    first = run(tmp_path, "--arms", "g")
    assert first.exit_code == 0, first.output
    goals_alone = json.loads(first.stdout.splitlines()[-1])
    assert set(goals_alone["by_task"]) == set(TASKS)
    assert goals_alone["hours_whole"].keys() == metaworld_scarce.whole_units().keys()
    pieces = [path for kind in ("*.npz", "*.pt") for path in tmp_path.rglob(kind)]
    made = {path: path.stat().st_mtime_ns for path in pieces}
    both = run(tmp_path, "--arms", "g,a1_n")
    assert both.exit_code == 0, both.output
    found = json.loads(both.stdout.splitlines()[-1])
    assert {"g_minus_a1_n.unseen_positions", "g_minus_a1_n.unseen_positions_low"} <= found.keys()
    assert found["g.unseen_positions"] == goals_alone["g.unseen_positions"]
    assert all(path.stat().st_mtime_ns == time for path, time in made.items())
    other = run(tmp_path, "--tasks", TASKS[0])
    assert other.exit_code == 1
    assert "choose another --out" in other.output
