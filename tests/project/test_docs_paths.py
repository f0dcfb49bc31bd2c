"""Every test, benchmark and script that a page names as its evidence is there, and every file it links to."""

import re

import pytest
from support.places import ROOT

NAMED = re.compile(r"\b((?:tests|benchmarks|scripts)/[\w/]+\.(?:py|yaml|sh))\b")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


def test_the_pages_name_some():
    assert len({name for page in PAGES for name in NAMED.findall(page.read_text())}) > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page):
    assert [n for n in NAMED.findall(page.read_text()) if not (ROOT / n).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page):
    assert [to for to in LINK.findall(page.read_text()) if not (page.parent / to).exists()] == []
