"""What holds in each process that runs tests, before anything else is imported."""

import importlib
import os
import ssl
import sys
from functools import cache
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
# Of the processes that tests start.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")))
)
os.environ.setdefault("MUJOCO_GL", "egl")
# A worker for each core: threads of several that share one spin while they wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A machine that is busy with tests is no dead node.
os.environ.setdefault("GOALREEL_LEASE", "10")
# Each client of HTTP reads the machine's certificates anew, for 50 ms.
ssl.create_default_context = cache(ssl.create_default_context)
with pytest.MonkeyPatch.context() as patch:
    # Against forks, which no test may make, it would hear of each import, file and frame.
    patch.setattr(sys, "addaudithook", lambda hook: None)
    importlib.import_module("filelock")
importlib.import_module("sitecustomize")  # of its own, Python runs it in the processes that tests start
# Nothing that tests write has to outlive the machine, and the disk takes milliseconds for each file.
os.fsync = lambda handle: None
