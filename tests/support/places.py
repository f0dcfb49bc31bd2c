"""Where things are."""

from pathlib import Path

TESTS = Path(__file__).parents[1]
SUPPORT = TESTS / "support"
DATA = TESTS / "data"
ROOT = TESTS.parent
SHARED = ROOT.parent / "shared" / "data"
"""Real robot episodes, which the project does not ship."""
