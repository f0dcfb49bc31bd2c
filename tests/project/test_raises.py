"""Every exception that a docstring names under `Raises:` exists, and is one."""

import ast
import builtins
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.places import ROOT

ELSEWHERE = {
    "DeviceAlreadyConnectedError": "lerobot.utils.errors",
    "DeviceNotConnectedError": "lerobot.utils.errors",
    "HTTPException": "starlette.exceptions",
}
"""Exceptions of others that a file of ours raises without importing them."""
ENTRY = re.compile(r"^(?P<indent> *)(?P<names>[A-Z][\w.]*(?:, [A-Z][\w.]*)*): ")


def product() -> dict[Path, ast.Module]:
    """Every module that is no test."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in listed.stdout.split() if not name.startswith(("tests/", "dev/"))]
    return {path: ast.parse(path.read_text()) for path in paths if path.is_file() and not path.is_symlink()}


def raised(docstring: str) -> Iterator[str]:
    """The names under `Raises:` or `Raises (...):`.

    >>> list(raised("Do it.\\n\\nRaises:\\n    InputError, OSError: it is wrong,\\n        or so.\\n"))
    ['InputError', 'OSError']
    """
    section = re.search(r"^Raises[^\n]*:\n((?: +[^\n]*\n|\n)*)", docstring + "\n", re.MULTILINE)
    for line in section[1].splitlines() if section else ():
        if (entry := ENTRY.match(line)) and len(entry["indent"]) == 4:
            yield from entry["names"].split(", ")


@pytest.mark.long
def test_every_exception_exists():
    modules = product()
    bases = {
        node.name: [ast.unparse(base) for base in node.bases]
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    unknown = []
    for path, tree in modules.items():
        imports = ELSEWHERE | {
            alias.asname or alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for name in raised(ast.get_docstring(node) or ""):
                if not is_exception(name, bases, imports):
                    unknown.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)} {name}")
    assert unknown == [], "\n".join(unknown)


def is_exception(name: str, bases: dict[str, list[str]], imports: dict[str, str]) -> bool:
    """Whether a name stands for an exception: Python's, one of ours, or one that the file imports."""
    found = getattr(builtins, name, None)
    if isinstance(found, type):
        return issubclass(found, BaseException)
    if name in bases:
        return any(is_exception(base, bases, imports) for base in bases[name])
    if name not in imports:
        return False
    try:
        found = getattr(importlib.import_module(imports[name]), name)
    except ModuleNotFoundError:  # of an extra that is not installed: nothing tells
        return True
    return isinstance(found, type) and issubclass(found, BaseException)
