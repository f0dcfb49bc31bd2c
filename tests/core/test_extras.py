"""What `import goalreel` brings, light until it is used, and what extras bring besides."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from support.cli import fails, forget
from support.places import ROOT

import goalreel
from goalreel import extras

OPTIONAL = {"torchao"}
"""Modules whose absence the code that wants them explains itself."""


def imported(tree: ast.Module) -> Iterator[str]:
    """The top-level modules that a file imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_every_package_that_the_code_imports_has_an_extra_or_is_always_there():
    folders = [ROOT / name for name in ("goalreel", "annotator", "datasets", "planners")]
    trees = (ast.parse(p.read_text()) for folder in folders for p in folder.rglob("*.py"))
    modules = {module for tree in trees for module in imported(tree)} - set(sys.stdlib_module_names)
    always = {r.name for r in extras.requirements("goalreel")} | {"pydantic-core"}
    basic = {file.parts[0].removesuffix(".py") for name in always for file in metadata.files(name) or ()}
    others = modules - basic - OPTIONAL - {"goalreel", *extras.ROS}
    assert {m for m in others if not extras.absent(ModuleNotFoundError(name=m))} == set()


@pytest.mark.parametrize("module", ["fastapi", "starlette", "uvicorn"])
def test_review_without_its_extra_says_what_to_install(module, monkeypatch, tmp_path):
    forget(monkeypatch, ("goalreel.annotator.review", "goalreel.http.server", f"{module}."))
    monkeypatch.setitem(sys.modules, module, None)
    assert fails("review", tmp_path, "--port", 0).endswith("is not installed: pip install 'goalreel[serve]'")


def distribution(folder: Path, name: str, version: str, *requires: str) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    (info / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")


def test_what_an_extra_lacks_is_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    extra = (
        'zz-mid[video]>=2; extra == "all"',
        'zz-absent; extra == "all"',
        'zz-windows; sys_platform == "win31"',
    )
    distribution(tmp_path, "zz_top", "1.0", "zz-old", *extra)
    distribution(tmp_path, "zz_mid", "1.5", 'zz-deep; extra == "video"', 'zz-mid[video]; extra == "video"')
    distribution(tmp_path, "zz_old", "1.5")
    assert [str(r) for r in extras.requirements("zz-top")] == ["zz-old"]
    assert list(extras.unmet(extras.requirements("zz-top"))) == []
    lacks = ["zz-mid 1.5, but >=2 is needed", "zz-deep is not installed", "zz-absent is not installed"]
    assert list(extras.unmet(extras.requirements("zz-top", "all"))) == lacks
    assert extras.requirements("zz-nowhere") == []


def test_the_command_installs_into_this_python_from_the_checkout_where_there_is_one(monkeypatch, tmp_path):
    assert extras.install_ros().endswith(
        f'-e "{ROOT}[ros,api]" "{ROOT}/ros_pkg/goalreel_interfaces" -e "{ROOT}/ros_pkg/goalreel_ros"'
    )
    monkeypatch.setattr(extras, "is_installed", lambda module: True)
    assert extras.install("x") == f"{sys.executable} -m pip install x"
    monkeypatch.setattr(extras, "is_installed", lambda module: False)
    assert extras.install("x") == f"uv pip install --python {sys.executable} x"
    assert extras.install_goalreel("gpu").endswith(f' -e "{ROOT}[gpu]"')
    assert f'-c "{ROOT / "constraints.txt"}"' in extras.install_goalreel()
    monkeypatch.setattr(extras.goalreel, "__file__", str(tmp_path / "goalreel" / "__init__.py"))
    assert extras.install_goalreel("sim").endswith(' "goalreel[sim]"')
    assert extras.install_ros().startswith("in a checkout of goalreel: ")


@pytest.mark.parametrize("name", goalreel.__all__)
def test_every_public_name_is_there(name):
    assert getattr(goalreel, name).__doc__


def test_what_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        goalreel.nonsense  # noqa: B018
    assert set(dir(goalreel)) == set(goalreel.__all__)


@pytest.mark.process
def test_it_loads_nothing_by_itself():
    heavy = ("torch", "cv2", "pyarrow", "lerobot", "numpy", "pydantic", "goalreel.models", "goalreel.types")
    code = f"import goalreel, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.process
def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "goalreel", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Usage: goalreel [OPTIONS] COMMAND" in done.stdout


def test_a_folder_without_a_storyboard_is_one_line(tmp_path):
    with pytest.raises(goalreel.InputError, match=r"holds no storyboard\.json"):
        goalreel.load_storyboard(tmp_path)
    (tmp_path / "storyboard.json").write_text('{"task": {}}')
    with pytest.raises(goalreel.InputError, match=r"storyboard\.json: task\.id: Field required") as caught:
        goalreel.load_storyboard(tmp_path)
    assert "\n" not in str(caught.value)
    (tmp_path / "odd/storyboard.json").mkdir(parents=True)
    with pytest.raises(goalreel.InputError, match=r"storyboard\.json: cannot be read"):
        goalreel.load_storyboard(tmp_path / "odd")
