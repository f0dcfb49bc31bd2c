"""The generated pages of the documentation show all of what they describe, and printed commands exist."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import site_commands
import site_models
import site_pages
import site_schema
import typer.main
import yaml
from support.browser import chromium, needs_chromium
from support.pages import text_of
from support.places import ROOT
from support.wait import until
from typer.core import TyperGroup

import goalreel
from goalreel.cli.main import app
from goalreel.editors.catalogue import catalogue
from goalreel.models import presets
from goalreel.models.registry import kinds
from goalreel.types import ROLES


def test_every_kind_of_model_option_editor_parameter_and_preset_is_listed_and_described():
    page = site_models.names()
    listed = {line.split("`")[1] for line in page.splitlines() if "| `" in line}
    for kind in (kind for role in ROLES for kind in kinds(role, plugins=False)):
        assert f"| `{kind.form}` |" in page
        assert set(kind.options.model_fields) <= listed
    rows = page.partition("## Options of")[2].splitlines()
    assert [row for row in rows if row.startswith("| `") and not row.split("|")[2].strip()] == []
    servers = page.partition("`openai:MODEL@URL`, `server:URL`")[2].partition("## ")[0]
    assert "Default: 16, of an editor 8." in servers
    editors = site_models.editors()
    assert [name for name in catalogue() if f"| `{name}` | `" not in editors] == []
    file = yaml.safe_load((ROOT / "launch/goalreel.yaml").read_text())
    parameters = list(file["/**"]["ros__parameters"])
    assert re.findall(r"^\| `([\w.]+)` = `", site_pages.node_parameters(), re.MULTILINE) == parameters
    page = site_pages.preset_files()
    assert "\n## hindsight\n\nAny recorded dataset, on a CPU, without weights.\n\n```yaml\nplanner: " in page
    assert set(re.findall(r"^## (.*)$", page, re.MULTILINE)) == set(presets.names())


def test_every_field_of_a_storyboard_is_in_a_table():
    tables, _, schema = site_schema.page().partition("## As a JSON schema")
    fields = goalreel.StoryboardStep.model_fields
    section = tables.partition("\n## StoryboardStep\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(fields)
    assert "| `attempts` | list of [Attempt](#attempt) | Default: `[]`. |" in section
    assert "- `accepted`: a model or a person" in section
    [block] = re.findall(r"```json\n(.*)\n```", schema, re.DOTALL)
    assert json.loads(block) == goalreel.Storyboard.model_json_schema()


def test_every_command_has_its_examples_as_lines_of_a_shell():
    page = site_commands.page()
    assert "- `goalreel" not in page
    assert "Examples:\n\n```sh\ngoalreel doctor\n" in page
    annotate = page.partition("\n## goalreel annotate\n")[2].partition("\n## ")[0]
    assert "--examples droid-goals  # of which some are reviewed\n" in annotate
    assert "| `--fps <int>` | Frames a second." in annotate
    assert annotate.count("[docs/how-to/models.md]") == 3
    assert "\n### goalreel eval tabletop\n" in page


@pytest.mark.parametrize("name", site_pages.PAGES)
def test_a_page_has_one_title(name):
    assert site_pages.PAGES[name]().startswith("# ")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built as `make docs` builds it."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(out)]  # -q counts no dead link
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


FOUND = """
return [...document.querySelectorAll(".md-search-result__link")].map((link) => link.pathname + link.hash)
"""
TYPED = """
const field = document.querySelector("[data-md-component=search-query]");
field.value = arguments[0];
field.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }));
"""
HELP = "/how-to/troubleshooting.html#the-gripper-is-wrong-or-which-end-is-closed-is-not-known"
FINDS = {
    "ollama": "/how-to/hosted-models.html#on-your-own-machine",
    "bimanual": "/how-to/annotate.html#what-check-tells-you",
    "wandb": "/how-to/train-a-policy.html",
    "delete episode": "/how-to/edit-with-lerobot.html",
    "gripper is wrong": HELP,
}
"""What somebody types -> a page among the first three that the search shows."""


@pytest.mark.process
@pytest.mark.long
@needs_chromium
def test_the_search_finds_what_people_type(site, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=site))
    Thread(target=server.serve_forever, daemon=True).start()
    browser = chromium(tmp_path / "profile")
    page = next(browser)
    try:
        page.get(f"http://127.0.0.1:{server.server_port}/index.html")
        for words, place in FINDS.items():
            page.execute_script(TYPED, words)
            until(lambda place=place: place in page.execute_script(FOUND)[:3])
    finally:
        browser.close()
        server.shutdown()


@pytest.mark.process
def test_tabs_land_on_tasks_and_the_page_of_python_shows_what_is_exported(site):
    tabs = re.findall(r'href="([^"]+)" class="md-tabs__link">\s*(.*?)\s*<', (site / "index.html").read_text())
    assert ("how-to/annotate.html", "How to") in tabs
    page = (site / "reference/python.html").read_text()
    headings = [re.sub("<[^>]+>", " ", text) for text in re.findall(r"<h3.*?>(.*?)</h3>", page, re.DOTALL)]
    assert {text.split()[0] for text in headings} == {f"goalreel.{name}" for name in dir(goalreel)}


COMMAND_PAGE = "docs/reference/cli.md"
WRITTEN = [page for folder in ("docs", "lab") for page in sorted((ROOT / folder).rglob("*.md"))]
PAGES = ["README.md", COMMAND_PAGE, *(page.relative_to(ROOT).as_posix() for page in WRITTEN)]
COMMANDS = typer.main.get_command(app)
FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def printed_commands(page: str) -> Iterator[list[str]]:
    """The arguments of each `goalreel` command in the shell blocks of a page."""
    text = site_commands.page() if page == COMMAND_PAGE else text_of(page)
    shell = (code for language, code in FENCE.findall(text) if language in ("", "sh", "bash"))
    for code in shell:
        for line in code.replace("\\\n", " ").replace("$(which goalreel)", "; goalreel").splitlines():
            tokens = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
            tokens.whitespace_split = True
            words: list[str] = []
            for word in (*tokens, ";"):
                if set(word) <= set("|&;<>()"):
                    if words[:1] == ["goalreel"]:
                        yield words[1:]
                    words = []
                elif words or not re.match(r"[A-Z_]+=", word):
                    words.append(word)


@pytest.mark.parametrize("page", PAGES)
def test_every_printed_command_has_options_that_exist(page):
    lines = list(printed_commands(page))
    assert len(lines) > {COMMAND_PAGE: 50, "README.md": 2}.get(page, -1)
    for arguments in lines:
        command, rest = COMMANDS, list(arguments)
        context = typer.Context(command, info_name="goalreel")
        while isinstance(command, TyperGroup):
            _, command, rest = command.resolve_command(context, rest)
            context = typer.Context(command, context, info_name=command.name, **command.context_settings)
        command.make_parser(context).parse_args(rest)
