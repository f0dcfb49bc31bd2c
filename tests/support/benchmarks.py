"""Run a benchmark at its smallest size, and compare its keys with its docstring."""

import ast
import importlib
import io
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import pytest


@cache
def smoke(file: Path, *options: str, alone: bool = False) -> dict[str, object]:
    """The JSON object that a benchmark prints on its last line; `alone`: run in a process of its own."""
    if alone:
        from support.ros import ENV

        command = [sys.executable, file, "--smoke", *options]
        child = subprocess.run(command, env={**os.environ, **ENV}, capture_output=True, text=True)
        assert child.returncode == 0, child.stderr
        output = child.stdout
    else:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as stream:
            patch.syspath_prepend(str(file.parent))
            importlib.import_module(file.stem).main(["--smoke", *options])
        output = stream.getvalue()
    return json.loads(output.splitlines()[-1])


def check(file: Path, result: dict[str, object]) -> None:
    """Assert that a result has keys, all of them documented, and finite numbers."""
    documented = set(re.findall(r"`([\w.]+)`", ast.get_docstring(ast.parse(file.read_text())) or ""))
    keys = {re.sub(r"^\d+x\d+", "WIDTHxHEIGHT", key) for key in result}
    assert keys
    assert keys <= documented
    assert all(map(math.isfinite, numbers(result)))


def numbers(value: object) -> Iterator[float]:
    """Every number in a JSON value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float):
        yield value
