"""Everything is in pyproject.toml; this only refuses a checkout whose links are missing."""

import sys
from pathlib import Path

from setuptools import setup

package = Path(__file__).parent / "goalreel"
if not all((package / name).is_dir() for name in ("annotator", "datasets", "planners")):
    sys.exit(
        "this checkout of goalreel has no symbolic links: git clone -c core.symlinks=true makes a good one "
        "(on Windows in developer mode); a zip has none"
    )
setup()
