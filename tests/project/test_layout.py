"""The layout: one import package with layers, light imports, and every way to install it."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.request
import zipfile
from functools import cache, partial
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.pages import text_of
from support.places import ROOT

HEAVY = {"torch", "transformers", "diffusers", "rclpy", "lerobot", "mujoco", "cv2", "pyarrow", "av", "pandas"}
LIGHT = (
    "goalreel",
    "goalreel.types",
    "goalreel.drivers",
    "goalreel.models.presets",
    "goalreel.annotator",
    "goalreel.streaming.board",
    "goalreel.cli.node",
    "goalreel.cli.main",
    "goalreel.cli.serve",
)


def python(code: str, *, cwd: Path = ROOT, executable: str = sys.executable, path: str = "") -> str:
    """What code prints in a new Python, whose PYTHONPATH is `path` and no more."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYTHONPATH": path} if path else {}
    command = [executable, "-c", code]
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@cache
def nodes(file: str) -> list[ast.AST]:
    """Every node of a module's syntax tree."""
    return list(ast.walk(ast.parse((ROOT / file).read_text())))


@cache
def tracked(path: str) -> list[str]:
    """The files below a path that git knows and that are there."""
    listed = subprocess.run(
        ["git", "ls-files", path], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [f for f in listed if (ROOT / f).is_file() or (ROOT / f).is_symlink()]


@pytest.mark.process
def test_imports_are_light():
    lines = [f"import {module}; print({module!r}, heavy & sys.modules.keys())" for module in LIGHT]
    printed = python("\n".join(["import sys", f"heavy = {HEAVY}", *lines]))
    assert printed.splitlines() == [f"{module} set()" for module in LIGHT]


DATASETS = "import importlib.util; print(importlib.util.find_spec('datasets').origin)"


def is_hugging_faces(origin: str) -> bool:
    """Whether `import datasets` would run the library, not our package of that name. It loads slowly."""
    package = Path(origin)
    return package.name == "__init__.py" and "load_dataset" in package.read_text()


LINKS = ("annotator", "planners", "datasets")
"""The packages that the project's layout fixes at the top level; goalreel/ holds a link to each."""
LAYERS = (
    ("goalreel",),
    ("http",),
    ("chat",),
    ("planners", "editors", "boards"),
    ("critics",),
    ("datasets",),
    ("models",),
    ("annotator",),
    ("serving", "training"),
    ("streaming", "tabletop"),
    ("studio",),
    ("cli",),
)
"""From the bottom up: a package imports from itself and from the layers below, never beside or above."""
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
PACKAGES = tuple(package for package in LAYER if package != "goalreel")
FRONT_DOORS = {
    ("goalreel/__init__.py", "annotator"),  # the public API, loaded when it is used
    ("goalreel/__init__.py", "models"),
    ("goalreel/__main__.py", "cli"),  # python -m goalreel
}
"""Modules of the core that may import a higher layer."""


def folder(package: str) -> str:
    """Where a package's files are."""
    return package if package in (*LINKS, "goalreel") else f"goalreel/{package}"


def python_files(package: str) -> list[str]:
    """The tracked modules of a package; of the core, those directly in goalreel/."""
    files = [f for f in tracked(folder(package)) if f.endswith(".py")]
    return [f for f in files if f.count("/") == 1] if package == "goalreel" else files


def test_the_top_level_is_short_and_only_the_fixed_packages_are_links():
    folders = {Path(name).parts[0] for name in tracked(".") if "/" in name and name[0] != "."}
    product = {"goalreel", *LINKS, "ros_pkg", "launch", "examples", "lab", "nano"}
    assert folders == {*product, "benchmarks", "dev", "docker", "docs", "scripts", "tests"}
    links = {path for path in (ROOT / "goalreel").rglob("*") if path.is_symlink()}
    assert links == {ROOT / "goalreel" / name for name in LINKS}
    assert all(link.samefile(ROOT / link.name) for link in links)
    packages = {path.name for path in (ROOT / "goalreel").iterdir() if path.is_dir()} - {"__pycache__"}
    assert packages == set(PACKAGES)


ROS = ("rclpy", "goalreel_interfaces", "sensor_msgs", "std_msgs", "diagnostic_msgs", "rcl_msgs")


@pytest.mark.parametrize("package", LAYER)
def test_a_package_imports_only_from_the_layers_below_and_nothing_of_ros(package):
    """docs/explanation/architecture.md. For every form of import, wherever in a file it stands."""
    files = python_files(package)
    assert files
    for file in files:
        for node in nodes(file):
            names = _imported(node)
            assert not [name for name in names if name.split(".")[0] in ROS], f"{file}:{node.lineno}"
            for other in {_package(name) for name in names} - {None, package}:
                allowed = LAYER[other] < LAYER[package] or (file, other) in FRONT_DOORS
                assert allowed, f"{file}:{node.lineno}: {other}"


def test_the_product_never_imports_the_laboratory():
    folders = ("goalreel", *LINKS, "ros_pkg", "launch", "examples")
    for file in (f for folder in folders for f in tracked(folder) if f.endswith(".py")):
        assert not [n for node in nodes(file) for n in _imported(node) if n.startswith("goalreel_lab")], file


IMPORTED_AS = {
    **{f"{name}/": f"goalreel/{name}/" for name in LINKS},
    **dict.fromkeys(("lab/", "ros_pkg/goalreel_ros/", "ros_pkg/lerobot_camera_goalreel/"), ""),
}
"""Folder -> where its modules are for Python: through the links, and on the path."""


def test_no_modules_import_one_another_in_a_circle():
    """Through the links, and wherever in a file a statement stands; for types alone they may."""
    files = {}
    for file in tracked("."):
        if file.endswith(".py") and not file.startswith(("tests/", "lab/tests/", "dev/")):
            top = next((folder for folder in IMPORTED_AS if file.startswith(folder)), "")
            place = IMPORTED_AS.get(top, "") + file.removeprefix(top)
            files[place.removesuffix(".py").removesuffix("/__init__").replace("/", ".")] = file
    graph = {}
    for name, file in files.items():
        guards = [n for n in nodes(file) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
        for_types = {id(inner) for guard in guards for inner in ast.walk(guard)}
        statements = [n for n in nodes(file) if isinstance(n, ast.Import | ast.ImportFrom)]
        names = {found for node in statements if id(node) not in for_types for found in _imported(node)}
        graph[name] = {n if n in files else n.rpartition(".")[0] for n in names} & files.keys() - {name}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as e:
        pytest.fail(" -> ".join(e.args[1]))


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


def _package(name: str) -> str | None:
    """The package that `goalreel.x.y` lies in; None for what is not ours."""
    first, _, rest = name.partition(".")
    if first != "goalreel":
        return None
    second = rest.partition(".")[0]
    return second if second in LAYER else "goalreel"


ROSDEP = {"cv2": "python3-opencv"} | {
    name: f"python3-{name}" for name in ("numpy", "pydantic", "rich", "typer")
}
"""Keys of rosdistro's python.yaml for what is imported. goalreel itself has none."""


@pytest.mark.parametrize("package", ["goalreel_interfaces", "goalreel_ros", "lerobot_camera_goalreel"])
def test_a_package_carries_what_is_released_with_it(package):
    folder = ROOT / "ros_pkg" / package
    assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert f"Changelog for package {package}\n" in (folder / "CHANGELOG.rst").read_text()
    declared = (folder / "QUALITY_DECLARATION.md").read_text()
    assert declared.startswith(f"# Quality declaration of `{package}`\n")
    files = [ROOT / f for f in tracked(f"ros_pkg/{package}") if f.endswith((".py", ".cmake"))]
    assert [f for f in files if not f.read_text().startswith("# Copyright 2026 The goalreel")] == []


def test_there_is_one_version_and_one_pin_and_ros_packages_name_what_they_import():
    folder = ROOT / "ros_pkg" / "goalreel_ros"
    manifest = ElementTree.parse(folder / "package.xml")
    files = [*tracked("ros_pkg/goalreel_ros/goalreel_ros"), *tracked("launch")]
    files = [file for file in files if file.endswith(".py")]
    imported = {name.split(".")[0] for file in files for node in nodes(file) for name in _imported(node)}
    ros = {
        n for n in imported if n.endswith(("_msgs", "_interfaces")) or n in ("rclpy", "launch", "launch_ros")
    }
    assert {"rclpy", "launch", "goalreel_interfaces"} <= ros
    declared = {d.text for d in manifest.findall("exec_depend")}
    assert declared == ros | {ROSDEP[name] for name in imported & set(ROSDEP)}
    version = manifest.findtext("version")
    assert ElementTree.parse(ROOT / "ros_pkg/goalreel_interfaces/package.xml").findtext("version") == version
    for path in ("ros_pkg/lerobot_camera_goalreel", "nano", "lab"):
        project = tomllib.loads((ROOT / path / "pyproject.toml").read_text())["project"]
        assert project["version"] == version
    assert f"=={version}" in project["dependencies"][0]
    main = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["ros"]
    interfaces = tomllib.loads((ROOT / "ros_pkg/goalreel_interfaces/pyproject.toml").read_text())
    wanted = set(interfaces["project"]["dependencies"])
    pinned = {pin for pin in main if pin.startswith("ros-")}
    assert wanted <= pinned <= set((ROOT / "constraints.txt").read_text().split())
    assert {pin for pin in wanted if "msgs" in pin} <= set(interfaces["build-system"]["requires"])


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The tracked files: in the checkout itself setuptools would leave its work, and reuse it when stale.

    Weights are empty there: to pack 60 MB takes seconds.
    """
    checkout = tmp_path_factory.mktemp("copy")
    for name in tracked("."):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".safetensors"):
            (checkout / name).touch()
        else:
            shutil.copy2(ROOT / name, checkout / name, follow_symlinks=False)
    return checkout


@pytest.fixture(scope="module")
def distributions(copy, tmp_path_factory) -> Path:
    """A folder with the sdists of goalreel and what is beside it, and the wheels that are built from them."""
    out = tmp_path_factory.mktemp("distributions")
    for folder in (copy, copy / "lab", copy / "nano"):
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(folder)]
        result = subprocess.run(command, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
    return out


@pytest.fixture(scope="module")
def wheel(distributions) -> Path:
    return next(distributions.glob("goalreel-*.whl"))


@pytest.mark.process
def test_wheels_and_sdists_hold_one_import_package_with_all_its_files(wheel, distributions):
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.split("/")[0] for n in names if ".dist-info/" not in n} == {"goalreel"}
    with tarfile.open(next(distributions.glob("goalreel-*.tar.gz"))) as archive:
        members = archive.getmembers()
    assert not [member.name for member in members if member.issym() or member.islnk()]
    packed = {member.name.partition("/")[2] for member in members}
    core = [f for f in tracked("goalreel") if f.count("/") == 1 and not (ROOT / f).is_symlink()]
    assert set(core) <= set(names)
    for package in PACKAGES:
        files = [f"goalreel/{f.removeprefix('goalreel/')}" for f in tracked(folder(package))]
        assert files, f"{package} holds no file"
        assert set(files) <= set(names)
        assert set(files) <= packed
    for name in ("lab", "nano"):
        expected = {f.removeprefix(f"{name}/") for f in tracked(f"{name}/goalreel_{name}")}
        names = set(zipfile.ZipFile(next(distributions.glob(f"goalreel_{name}-*.whl"))).namelist())
        assert {file for file in names if ".dist-info/" not in file} == expected
        with tarfile.open(next(distributions.glob(f"goalreel_{name}-*.tar.gz"))) as archive:
            assert expected <= {member.name.partition("/")[2] for member in archive.getmembers()}


@pytest.mark.process
def test_the_laboratory_installed_beside_goalreel_adds_its_commands(distributions, venv, wheel, tmp_path):
    install = ("pip", "install", "--python", venv / "bin/python", "--no-deps", "--reinstall")
    command = [venv / "bin/goalreel", "eval", "metaworld", "--help"]
    uv(*install, wheel)
    alone = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (alone.returncode, alone.stdout) == (1, "")
    assert "`goalreel eval metaworld` comes with goalreel-lab: " in alone.stderr
    code = "from goalreel.checkpoints import located; print(located('nano-critic'))"
    nano = [venv / "bin/python", "-c", code]
    without = subprocess.run(nano, cwd=tmp_path, capture_output=True, text=True)
    assert "InputError: nano-critic comes with goalreel-nano: " in without.stderr
    uv(*install, next(distributions.glob("goalreel_nano-*.whl")))
    installed = subprocess.run(nano, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert Path(installed.stdout.strip(), "model.safetensors").is_file()
    uv(*install, next(distributions.glob("goalreel_lab-*.whl")))
    page = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "on Meta-World's own experts" in " ".join(page.stdout.split())
    uv("pip", "uninstall", "--python", venv / "bin/python", "goalreel-lab", "goalreel-nano")


@pytest.mark.process
@pytest.mark.parametrize("damage", ["links are text, as on Windows", "a link is missing"])
def test_a_checkout_without_links_says_how_to_get_a_good_one(damage, copy, tmp_path):
    checkout = tmp_path / "checkout"
    shutil.copytree(copy, checkout, symlinks=True, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    for link in (checkout / "goalreel" / name for name in LINKS):
        target = str(link.readlink())
        if "text" in damage or link.name == "datasets":
            link.unlink()
        if "text" in damage:
            link.write_text(target)
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    for words in (["-c", "import goalreel"], ["-m", "goalreel", "--help"], ["setup.py", "--version"]):
        command = [sys.executable, *words]
        result = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
        assert result.returncode != 0
        assert "git clone -c core.symlinks=true" in result.stderr.strip().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.process
def test_a_wheel_annotates_reviews_and_exports_alone(wheel, video_dataset, tmp_path):
    """The README's first two rows, used: as large as it says, below 600 MB, and no torch or lerobot."""
    venv = tmp_path / "venv"
    uv("venv", "--python", sys.executable, venv)
    uv("pip", "install", "--python", venv / "bin/python", f"{wheel}[annotate,serve]", "-c", "constraints.txt")
    [site] = venv.glob("lib/python*/site-packages")
    assert [name for name in ("torch", "lerobot") if (site / name).exists()] == []
    folder = tmp_path / "empty"
    folder.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    program = venv / "bin/goalreel"

    def run(*words: object) -> None:
        command = [program, *map(str, words)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    run("check", video_dataset)
    run("annotate", video_dataset, "--out", "goals")
    run("show", "goals")
    review = [program, "review", "goals", "--port", "0"]
    with subprocess.Popen(review, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = next(line.split()[2] for line in server.stderr if line.startswith("Look at "))
            assert "<title>" in urllib.request.urlopen(address, timeout=60).read().decode()
        finally:
            server.terminate()
    run("build", "goals")
    run("export", "goals", "--out", "steps.csv")
    assert (folder / "steps.csv").read_text().count("\n") > 1
    assert (folder / "goals-report/index.html").is_file()
    files = [path for path in venv.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files) / 1e6
    [told] = re.findall(r"\((\d+) MB, no torch\) \| `pip install '.\[annotate\]'`", text_of("README.md"))
    assert size == pytest.approx(int(told), rel=0.02)
    assert size < 600


def uv(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "uv", *map(str, words), "-q"], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def venv(tmp_path_factory) -> Path:
    """A Python with what goalreel depends on, and Hugging Face's datasets, and nothing of ours."""
    prefix = tmp_path_factory.mktemp("venv") / "venv"
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    uv("venv", "--python", sys.executable, prefix)
    install = ("pip", "install", "--python", prefix / "bin/python", "-c", "constraints.txt")
    uv(*install, *wanted)
    uv(*install, "--no-deps", "datasets", "setuptools")
    return prefix


WHERE = f"""
import importlib.util as u
for package in {PACKAGES}:
    print(u.find_spec("goalreel." + package).submodule_search_locations[0])
import goalreel, goalreel.drivers, goalreel.errors
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
    folders = [Path(line) for line in run(WHERE, cwd=tmp_path).split()]
    assert [path.name for path in folders] == [*PACKAGES, "goalreel"]
    home = {"wheel": venv, "editable": copy, "checkout": ROOT}[how]
    assert all(path.is_relative_to(home) for path in folders), folders
    assert all(is_hugging_faces(run(DATASETS, cwd=cwd)) for cwd in (tmp_path, ROOT))
    if how != "checkout":
        command = [venv / "bin/goalreel", "--help"]
        help_page = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "annotate" in help_page.stdout
