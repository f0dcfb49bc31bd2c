"""The house rules that a machine can check: packaging, import weight, one import package."""

import ast
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.places import ROOT

HEAVY = ("torch", "transformers", "diffusers", "rclpy", "lerobot", "mujoco", "cv2", "pyarrow", "av", "pandas")


def python(code: str, *, cwd: Path = ROOT, executable: str = sys.executable) -> str:
    result = subprocess.run([executable, "-c", code], cwd=cwd, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def tracked(folder: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [f for f in listed if (ROOT / f).is_file() or (ROOT / f).is_symlink()]


@pytest.mark.parametrize(
    "module",
    [
        "goalreel",
        "goalreel.annotator",
        "goalreel.batch",
        "goalreel.cli.main",
        "goalreel.types",
        "goalreel.streaming.board",
        "goalreel.cli.node",
    ],
)
def test_imports_are_light(module):
    code = f"import {module}, sys; print([m for m in {HEAVY} if m in sys.modules])"
    assert python(code) == "[]"


def test_datasets_is_hugging_faces_from_inside_the_checkout():
    assert Path(python("import datasets; print(datasets.__file__)")).parts[-2:] == ("datasets", "__init__.py")
    where = python("import datasets; print(hasattr(datasets, 'load_dataset'))")
    assert where == "True"


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
def test_imports_go_one_way(room):
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
def test_no_form_of_import_is_overlooked(code, rooms):
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
def wheel(tmp_path_factory) -> Path:
    """Built from a copy: setuptools would leave its work in the checkout, and reuse it when stale."""
    out, copy = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("copy")
    for name in tracked("."):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return next(out.glob("goalreel-*.whl"))


def test_the_wheel_holds_one_import_package_with_all_its_files(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.split("/")[0] for n in names if ".dist-info/" not in n} == {"goalreel"}
    for room in ROOMS:
        files = tracked(room)
        assert files, f"{room} holds no file"
        assert {f"goalreel/{f}" for f in files} <= set(names)


def test_the_wheel_in_a_clean_venv(wheel, tmp_path):
    executable = str(tmp_path / "venv/bin/python")
    for command in (
        ["venv", "-q", "--python", sys.executable, str(tmp_path / "venv")],
        ["pip", "install", "-q", "--python", executable, "-c", "constraints.txt", str(wheel), "datasets"],
    ):
        subprocess.run([sys.executable, "-m", "uv", *command], cwd=ROOT, check=True)
    where = python("import goalreel; print(goalreel.__file__)", cwd=tmp_path, executable=executable)
    assert Path(where).is_relative_to(tmp_path)
    code = "import datasets, goalreel.batch, goalreel.errors;print(hasattr(datasets, 'load_dataset'))"
    for cwd in (tmp_path, ROOT):
        assert python(code, cwd=cwd, executable=executable) == "True"
    help_text = subprocess.run(
        [str(tmp_path / "venv/bin/goalreel"), "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "annotate" in help_text.stdout
