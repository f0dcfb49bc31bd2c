"""What each process of the tests runs when it starts: `conftest.py` puts this folder into PYTHONPATH.

diffusers and transformers ask Python which package brings which module. To answer, Python looks whether each
of 40,000 installed files is there, for 2 seconds of the processor, in each process. Here the packages' own
lists of files answer.
"""

import gc
import sys
from collections.abc import Mapping
from functools import cache


class ImportWatcher:
    """Replaces that function of Python where one of the two is imported, and finds no module."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in ("diffusers", "transformers"):
            import importlib.metadata

            importlib.metadata.packages_distributions = packages_distributions


@cache
def packages_distributions() -> Mapping[str, list[str]]:
    """The names of the packages that bring each module."""
    import importlib.metadata

    found: dict[str, list[str]] = {}
    for package in importlib.metadata.distributions():
        names = (package.read_text("top_level.txt") or "").split()
        if not names:
            files = [line.partition(",")[0] for line in (package.read_text("RECORD") or "").splitlines()]
            names = {file.partition("/")[0].removesuffix(".py") for file in files}
        for name in names:
            if "." not in name:
                found.setdefault(name, []).append(package.metadata["Name"])
    return found


sys.meta_path.insert(0, ImportWatcher())
gc.set_threshold(50_000, 20, 20)  # imports and tests make many objects and few circles
