"""A docstring begins with an imperative or a noun, as in Hugging Face's libraries."""

import ast
import subprocess

from support.places import ROOT

FRAGMENTS = ("What ", "Whether ", "How ", "Where ", "Who ", "When ", "Of ", "As ", "If ", "That ", "Why ")


def test_no_docstring_begins_as_a_clause():
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [
        file for file in listed.stdout.split() if not file.startswith("tests/") and "/tests/" not in file
    ]
    assert len(files) > 300
    found = [
        f"{file}:{node.value.lineno}"
        for file in files
        if (ROOT / file).is_file()
        for node in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and str(node.value.value).startswith(FRAGMENTS)
    ]
    assert found == []
