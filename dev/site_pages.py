"""MkDocs hook: makes the generated pages of the site, and index.md from the README.

The pages under reference/ come from what they describe: commands, public names, kinds of models, editors,
preset files, the node's parameters and the storyboard's model. So none of them can be out of date.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import site_commands
import site_models
import site_schema
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import goalreel
from goalreel.models import presets

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#\s]+)[^)\s]*\)")
"""A link to a file of another folder."""
PARAMETER = re.compile(r"((?:^    # .*\n)+)^    ([\w.]+): (.*)$", re.MULTILINE)
"""A parameter in launch/goalreel.yaml, below its comment."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file holds."""
    for path, make_text in PAGES.items():
        files.append(File.generated(config, path, content=make_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Name the files outside docs/ by their paths, as the site does not have them."""
    docs = ROOT / "docs"
    folder = (docs / page.file.src_uri).parent

    def name_file(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link[2]))
        return link[0] if target.is_relative_to(docs) else f"{link[1]} (`{target.relative_to(ROOT)}`)"

    return LINK.sub(name_file, markdown)


def index() -> str:
    """Make the first page from the README: the same text, with links as docs/ has them."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.sub(r"\]\((?!https?:|docs/|#)([^)]+)\)", r"](../\1)", text).replace("](docs/", "](")


def public_names() -> str:
    """List the public names as `goalreel` exports them; mkdocstrings reads their docstrings."""
    kinds = defaultdict(list)
    for name in dir(goalreel):
        value = getattr(goalreel, name)
        is_error = isinstance(value, type) and issubclass(value, Exception)
        kinds["Errors" if is_error else "Types" if isinstance(value, type) else "Functions"].append(
            (name, value)
        )
    lines = [
        "# Python, every name",
        "",
        "`import goalreel` is the whole public API. [Examples](../how-to/use-from-python.md).",
        "",
    ]
    for kind in ("Functions", "Types", "Errors"):
        lines += [f"## {kind}", ""]
        for name, value in kinds[kind]:
            place = f"{value.__module__}.{value.__name__}"
            lines += [f"::: {place}", f"    options: {{heading: goalreel.{name}}}", ""]
    return "\n".join(lines)


def preset_files() -> str:
    """Show each preset as it ships, what its first comment says above it."""
    text = """# Presets

A preset names a Planner, an Editor and a Critic, and their options: `--preset NAME`. Which to choose:
[models](../how-to/models.md). How a model's name is written: [model names](model-names.md).
"""
    for file in sorted(Path(presets.__file__).parent.glob("*.yaml")):
        lines = file.read_text(encoding="utf-8").splitlines()
        comment = list(takewhile(lambda line: line.startswith("#"), lines))
        words = " ".join(line.lstrip("# ") for line in comment)
        fields = "\n".join(lines[len(comment) :])
        text += f"\n## {file.stem}\n\n{site_commands.link_pages(words)}\n\n```yaml\n{fields}\n```\n"
    return text


def node_parameters() -> str:
    """Make a table of the node's parameter file, which describes each of them in a comment."""
    rows = []
    for comment, name, default in PARAMETER.findall((ROOT / "launch/goalreel.yaml").read_text("utf-8")):
        words = " ".join(line.strip().lstrip("# ") for line in comment.splitlines()).replace("|", "\\|")
        rows.append(f"| `{name}` = `{default}` | {words} |")
    return f"""# Node parameters

Give one at the start, `goalreel node -- -p NAME:=VALUE`, or all in a file like `launch/goalreel.yaml`.
What is fixed can only be set before the node is configured; the rest at any time, with `ros2 param set`.
ROS refuses `5` for a floating-point parameter: write `5.0`.

| parameter and default | what it does |
|---|---|
{"\n".join(rows)}
"""


PAGES: dict[str, Callable[[], str]] = {
    "index.md": index,
    "reference/cli.md": site_commands.page,
    "reference/editors.md": site_models.editors,
    "reference/model-names.md": site_models.names,
    "reference/node-parameters.md": node_parameters,
    "reference/presets.md": preset_files,
    "reference/python.md": public_names,
    "reference/storyboard-schema.md": site_schema.page,
}
"""Page -> what makes its text."""
