"""The house rules that a machine can check: packaging, import weight, one import package."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.places import ROOT

HEAVY = {"torch", "transformers", "diffusers", "rclpy", "lerobot", "mujoco", "cv2", "pyarrow", "av", "pandas"}
LIGHT = (
    "goalreel",
    "goalreel.types",
    "goalreel.batch",
    "goalreel.annotator",
    "goalreel.streaming.board",
    "goalreel.cli.node",
    "goalreel.cli.main",
)


def python(code: str, *, cwd: Path = ROOT, executable: str = sys.executable, path: str = "") -> str:
    """What code prints in a new Python, whose PYTHONPATH is `path` and no more."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYTHONPATH": path} if path else {}
    command = [executable, "-c", code]
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def tracked(folder: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [f for f in listed if (ROOT / f).is_file() or (ROOT / f).is_symlink()]


@pytest.mark.process
def test_imports_are_light():
    lines = [f"import {module}; print({module!r}, heavy & sys.modules.keys())" for module in LIGHT]
    printed = python("\n".join(["import sys", f"heavy = {HEAVY}", *lines]))
    assert printed.splitlines() == [f"{module} set()" for module in LIGHT]


DATASETS = "import importlib.util; print(importlib.util.find_spec('datasets').origin)"


def is_hugging_faces(origin: str) -> bool:
    """Whether what `import datasets` would run is the library, not our room of that name. It loads slowly."""
    package = Path(origin)
    return package.name == "__init__.py" and "load_dataset" in package.read_text()


@pytest.mark.process
def test_datasets_is_hugging_faces_from_inside_the_checkout():
    assert is_hugging_faces(python(DATASETS))


FLOORS = (
    ("goalreel", "checkpoints"),
    ("planners", "editors"),
    ("datasets",),
    ("models",),
    ("annotator",),
    ("serving", "streaming", "training", "evaluation"),
    ("cli",),
)
"""From the foundation up: a room imports from itself and from the floors below, never beside or above."""
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ROOMS = tuple(room for room in FLOOR if room != "goalreel")
LAZY = {("goalreel/__init__.py", "annotator"), ("goalreel/__init__.py", "models")}
"""The public API: three names that are loaded when they are used."""


def test_every_room_has_a_floor_and_a_link():
    links = {path.name for path in (ROOT / "goalreel").iterdir() if path.is_symlink()}
    assert links == set(ROOMS)
    assert all((ROOT / "goalreel" / room).samefile(ROOT / room) for room in ROOMS)


@pytest.mark.parametrize("room", FLOOR)
def test_a_room_imports_only_from_the_floors_below(room):
    """docs/architecture.md. For every form of import, wherever in a file it stands."""
    files = [f for f in tracked(room) if f.endswith(".py")]
    assert files
    for file in files:
        for node in ast.walk(ast.parse((ROOT / file).read_text())):
            for other in {_room(name) for name in _imported(node)} - {None, room}:
                assert FLOOR[other] < FLOOR[room] or (file, other) in LAZY, f"{file}:{node.lineno}: {other}"


@pytest.mark.parametrize(
    ("code", "rooms"),
    [
        ("from goalreel.models.load import load", {"models"}),
        ("from goalreel.models import load", {"models"}),
        ("from goalreel import models, types", {"models", "goalreel"}),
        ("import goalreel.models.load as l, os", {"models"}),
        ("import goalreel", {"goalreel"}),
        ("from . import models", {"goalreel"}),
        ("import_module('goalreel.cli.main')", {"cli"}),
    ],
)
def test_every_form_of_import_is_seen(code, rooms):
    found = {_room(name) for node in ast.walk(ast.parse(code)) for name in _imported(node)} - {None}
    assert found == rooms


def _imported(node: ast.AST) -> list[str]:
    """Every module a node may import, and of `from x import y` both x and x.y."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(level=0, module=str(module)):
            return [f"{module}.{alias.name}" for alias in node.names]
        case ast.ImportFrom():
            return ["goalreel"]  # relative: the linter allows none
        case ast.Call(func=ast.Name(id="import_module" | "__import__"), args=[ast.Constant(str(name)), *_]):
            return [name]
        case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(str(name)), *_]):
            return [name]
    return []


def _room(name: str) -> str | None:
    """The room that `goalreel.x.y` lies in; None for what is not ours."""
    first, _, rest = name.partition(".")
    if first != "goalreel":
        return None
    second = rest.partition(".")[0]
    return second if second in FLOOR else "goalreel"


def test_corpora_know_nothing_of_the_tabletop():
    """They are for any kind of row: recorded storyboards too."""
    files = [f for f in tracked("datasets/corpora") if f.endswith(".py")]
    assert files
    for file in files:
        imported = [
            name for node in ast.walk(ast.parse((ROOT / file).read_text())) for name in _imported(node)
        ]
        assert not [name for name in imported if name.startswith("goalreel.tabletop.sim")], file


def test_no_room_imports_ros():
    """Only ros_pkg/ does: goalreel runs where there is none."""
    ros = ("rclpy", "goalreel_interfaces", *(f"{m}_msgs" for m in ("sensor", "std", "diagnostic", "rcl")))
    imported = {
        f"{file}:{node.lineno} {name}"
        for room in ROOMS
        for file in tracked(room)
        if file.endswith(".py")
        for node in ast.walk(ast.parse((ROOT / file).read_text()))
        for name in _names(node)
        if name.split(".")[0] in ros
    }
    assert imported == set()


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_there_is_one_version():
    import goalreel

    for package in ("goalreel_interfaces", "goalreel_ros"):
        manifest = ElementTree.parse(ROOT / "ros_pkg" / package / "package.xml")
        assert manifest.findtext("version") == goalreel.__version__, package
    plugin = tomllib.loads((ROOT / "ros_pkg/lerobot_camera_goalreel/pyproject.toml").read_text())
    assert plugin["project"]["version"] == goalreel.__version__


def test_package_xml_names_every_ros_package_that_is_imported():
    folder = ROOT / "ros_pkg" / "goalreel_ros"
    declared = {d.text for d in ElementTree.parse(folder / "package.xml").findall("exec_depend")}
    files = [*(folder / "goalreel_ros").rglob("*.py"), *(ROOT / "launch").glob("*.py")]
    imported = {n.split(".")[0] for f in files for x in ast.walk(ast.parse(f.read_text())) for n in _names(x)}
    ros = {
        n for n in imported if n.endswith(("_msgs", "_interfaces")) or n in ("rclpy", "launch", "launch_ros")
    }
    assert {"rclpy", "launch", "goalreel_interfaces"} <= ros
    assert declared == ros | {"rviz2"}


def test_ros_packages_are_pinned_once():
    """The same versions run, are built against, and are tried with colcon."""
    main = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["ros"]
    file = tomllib.loads((ROOT / "ros_pkg/goalreel_interfaces/pyproject.toml").read_text())
    wanted = set(file["project"]["dependencies"])
    pinned = {pin for pin in main if pin.startswith("ros-")}
    assert wanted <= pinned <= set((ROOT / "constraints.txt").read_text().split())
    assert {pin for pin in wanted if "msgs" in pin} <= set(file["build-system"]["requires"])


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The tracked files: in the checkout itself setuptools would leave its work, and reuse it when stale."""
    folder = tmp_path_factory.mktemp("copy")
    for name in tracked("."):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


@pytest.fixture(scope="module")
def wheel(copy, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return next(out.glob("goalreel-*.whl"))


@pytest.mark.process
def test_the_wheel_holds_one_import_package_with_all_its_files(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.split("/")[0] for n in names if ".dist-info/" not in n} == {"goalreel"}
    for room in ROOMS:
        files = tracked(room)
        assert files, f"{room} holds no file"
        assert {f"goalreel/{f}" for f in files} <= set(names)
    assert "goalreel/py.typed" in names


def uv(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "uv", *map(str, words), "-q"], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def venv(tmp_path_factory) -> Path:
    """A Python with what goalreel depends on, and Hugging Face's datasets, and nothing of ours."""
    folder = tmp_path_factory.mktemp("venv") / "venv"
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    uv("venv", "--python", sys.executable, folder)
    install = ("pip", "install", "--python", folder / "bin/python", "-c", "constraints.txt")
    uv(*install, *wanted)
    uv(*install, "--no-deps", "datasets", "setuptools")
    return folder


WHERE = f"""
import importlib.util as u
for room in {ROOMS}:
    print(u.find_spec("goalreel." + room).submodule_search_locations[0])
import goalreel, goalreel.batch, goalreel.errors
print(goalreel.__path__[0])
"""


@pytest.mark.process
@pytest.mark.parametrize("how", ["wheel", "editable", "checkout"])
def test_it_works_installed_and_from_a_plain_checkout(how, venv, copy, tmp_path, request):
    executable = venv / "bin/python"
    if how == "checkout":
        uv("pip", "uninstall", "--python", executable, "goalreel")
    else:
        what = (
            ["--no-build-isolation", "-e", copy] if how == "editable" else [request.getfixturevalue("wheel")]
        )
        uv("pip", "install", "--python", executable, "--no-deps", "--reinstall", *what)
    path = str(ROOT) if how == "checkout" else ""
    run = partial(python, executable=str(executable), path=path)
    found = [Path(line) for line in run(WHERE, cwd=tmp_path).split()]
    assert [folder.name for folder in found] == [*ROOMS, "goalreel"]
    home = {"wheel": venv, "editable": copy, "checkout": ROOT}[how]
    assert all(folder.is_relative_to(home) for folder in found), found
    assert all(is_hugging_faces(run(DATASETS, cwd=cwd)) for cwd in (tmp_path, ROOT))
    if how != "checkout":
        command = [venv / "bin/goalreel", "--help"]
        said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "annotate" in said.stdout
