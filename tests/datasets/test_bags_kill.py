"""A conversion killed anywhere and run again ends with the bytes of one that was not."""

import json
import subprocess
import sys

import pytest
from support import bags as b

pytestmark = pytest.mark.process

MS = 1_000_000


@pytest.mark.parametrize(
    "kills", [pytest.param(3, marks=pytest.mark.lab), pytest.param(60, marks=pytest.mark.slow)]
)
def test_killed_and_run_again(tmp_path, kills):
    other = 10_000 * MS
    sent = [*b.robot(20), *b.robot(20, after=other)]
    sent += [
        b.subgoal(at, i, name, picture=b.moving(20 + i), task=task, id_=id_)
        for at, i, name, task, id_ in (
            (0, 0, "pick", "tidy", b.STORYBOARD_ID),
            (1000 * MS, 1, "place", "tidy", b.STORYBOARD_ID),
            (other, 0, "wipe", "wipe", b.STORYBOARD_ID[::-1]),
        )
    ]
    sent.append(b.subgoal(2000 * MS, 1, "place", active=False))
    bag = b.write_bag(tmp_path / "bag", sent)
    command = [sys.executable, "-m", "support.killing", "bag", bag, tmp_path, str(kills), "0"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["wrong"] == []
    assert report["half"] == 0
    assert report["before_done"] >= kills // 2
    assert len(set(report["stages"])) > 1
