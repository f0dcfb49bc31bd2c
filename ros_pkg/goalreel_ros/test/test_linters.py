# Copyright 2026 The goalreel developers. SPDX-License-Identifier: Apache-2.0
"""ament's linters, for `colcon test`. The project's own rules are stricter, but for the two that differ."""

from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
DOCSTRINGS = ["--convention", "google", "--add-ignore", *(f"D10{n}" for n in range(8))]


def test_flake8() -> None:
    linter = pytest.importorskip("ament_flake8.main")
    code, errors = linter.main_with_errors(argv=["--config", str(PACKAGE / "test/flake8.ini"), str(PACKAGE)])
    assert code == 0, errors


def test_pep257() -> None:
    """Docstrings are Google's, as ruff has them; ament leaves D100 to D107 out as well."""
    linter = pytest.importorskip("ament_pep257.main")
    assert linter.main(argv=[*DOCSTRINGS, "--", str(PACKAGE)]) == 0
