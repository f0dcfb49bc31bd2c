"""One noun, one meaning: a public class or type has a name of its own."""

import ast
import re
import subprocess
from collections import defaultdict

from support.places import ROOT

SHARED = {
    "PixelMask": "the same alias in two packages of one layer, which may not import from one another",
}
"""The names that several packages use, and why that misleads nobody. The list is exact."""


def public() -> dict[str, list[str]]:
    """Where each class and type alias without an underscore is defined, at the top of its module."""
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = defaultdict(list)
    for file in listed.stdout.split():
        if file.startswith(("tests/", "benchmarks/", "examples/")) or not (ROOT / file).is_file():
            continue
        for node in ast.parse((ROOT / file).read_text()).body:
            match node:
                case ast.ClassDef(name=name) | ast.TypeAlias(name=ast.Name(id=name)) if name[0] != "_":
                    found[name].append(f"{file}:{node.lineno}")
    return found


def test_every_name_means_one_thing():
    several = {name: places for name, places in public().items() if len(places) > 1}
    assert {name: places for name, places in several.items() if name not in SHARED} == {}
    assert SHARED.keys() - several.keys() == set(), "no longer shared: take it off the list"


def test_documents_speak_of_packages_and_layers():
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    former = re.compile(r"\b(rooms|hall|floors)\b", re.IGNORECASE)
    assert [(path.name, word) for path in documents for word in former.findall(path.read_text())] == []
