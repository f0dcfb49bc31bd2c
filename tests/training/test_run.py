"""One process at a time trains in a folder."""

import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'goalreel[train]'")

from goalreel.errors import InputError
from goalreel.training.run import hold

HOLDS = """
import multiprocessing, sys, time
from pathlib import Path
from goalreel.training.run import hold

def child():
    print("there", flush=True)
    time.sleep(600)

hold(Path(sys.argv[1]))
multiprocessing.get_context("fork").Process(target=child).start()
time.sleep(600)
"""


@pytest.mark.process
def test_a_folder_is_its_processs_until_that_ends_however_it_ends(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-c", HOLDS, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "there\n"
            with pytest.raises(InputError, match="another run is training there: wait, or give another"):
                hold(out)
            other.kill()
            other.wait()
            hold(out)  # its child lives on, and has let go
            hold(out)
        finally:
            os.killpg(other.pid, signal.SIGKILL)
