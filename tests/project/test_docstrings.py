"""A docstring begins with an imperative or a noun, and each exception that it names exists and is one."""

import ast
import builtins
import doctest
import importlib
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest
from support.places import ROOT

FRAGMENTS = ("What ", "Whether ", "How ", "Where ", "Who ", "When ", "Of ", "As ", "If ", "That ", "Why ")
ELSEWHERE = {
    "DeviceAlreadyConnectedError": "lerobot.utils.errors",
    "DeviceNotConnectedError": "lerobot.utils.errors",
    "HTTPException": "starlette.exceptions",
}
"""Exceptions of others that a file of ours raises without importing them."""
RAISES = re.compile(r"^Raises[^\n]*:\n((?: +[^\n]*\n|\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}([A-Z][\w.]*(?:, [A-Z][\w.]*)*): ", re.MULTILINE)


@cache
def product() -> dict[Path, list[ast.AST]]:
    """The nodes of every module that is no test."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [n for n in listed.stdout.split() if not n.startswith("tests/") and "/tests/" not in n]
    paths = [ROOT / name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]
    return {path: list(ast.walk(ast.parse(path.read_text()))) for path in paths}


def test_no_docstring_begins_as_a_clause():
    found = [
        f"{path}:{node.value.lineno}"
        for path, nodes in product().items()
        for node in nodes
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and str(node.value.value).startswith(FRAGMENTS)
    ]
    assert len(product()) > 200
    assert found == []


@pytest.mark.long
def test_every_exception_under_raises_exists():
    classes = [node for nodes in product().values() for node in nodes if isinstance(node, ast.ClassDef)]
    bases = {node.name: [ast.unparse(base) for base in node.bases] for node in classes}
    unknown = []
    for path, nodes in product().items():
        statements = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
        imports = ELSEWHERE | {a.asname or a.name: node.module for node in statements for a in node.names}
        for node in nodes:
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                section = RAISES.search((ast.get_docstring(node) or "") + "\n")
                names = (
                    [n for entry in ENTRY.findall(section[1]) for n in entry.split(", ")] if section else []
                )
                unknown += [f"{path}: {name}" for name in names if not is_exception(name, bases, imports)]
    assert unknown == []


def is_exception(name: str, bases: dict[str, list[str]], imports: dict[str, str]) -> bool:
    """Tell whether a name stands for an exception: Python's, one of ours, or one that the file imports."""
    if name in bases:
        return any(is_exception(base, bases, imports) for base in bases[name])
    try:
        module = importlib.import_module(imports[name]) if name in imports else builtins
    except ModuleNotFoundError:  # of an extra that is not installed: nothing tells
        return True
    found = getattr(module, name, None)
    return isinstance(found, type) and issubclass(found, BaseException)


PACKAGES = ("ros_pkg/goalreel_ros/", "lab/")
"""Folders that are on the path, beside the packages that goalreel/ links to."""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def with_examples() -> list[str]:
    """The modules that hold any, as they are imported."""
    command = ["git", "grep", "-lE", r"^\s*>>> ", "--", "*.py", ":!tests", ":!lab/tests", ":!lab/studies"]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = [file.removesuffix(".py").removesuffix("/__init__") for file in files]
    for folder in PACKAGES:
        names = [name.removeprefix(folder) for name in names]
    inside = [name if name.startswith("goalreel") else f"goalreel/{name}" for name in names]
    return [name.replace("/", ".") for name in inside]


@pytest.mark.parametrize("name", with_examples())
def test_the_examples_of(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.failed == 0, "see the standard output"
