"""The atheris target, for a bounded number of runs; `make fuzz` runs it for longer."""

import subprocess
import sys

import pytest
from support.places import DATA, SUPPORT

pytestmark = pytest.mark.process


@pytest.mark.slow
@pytest.mark.process
def test_fuzzing_replies_finds_nothing(tmp_path):
    pytest.importorskip("atheris", reason="atheris has wheels for Linux only")
    found = tmp_path / "found"
    found.mkdir()
    command = [sys.executable, str(SUPPORT / "fuzz_parsing.py"), str(found), str(DATA / "replies")]
    options = ["-atheris_runs=20000", "-max_len=4000", "-timeout=120", f"-artifact_prefix={tmp_path}/"]
    result = subprocess.run([*command, *options], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    assert "Done 20000" in result.stderr, result.stderr[-500:]
