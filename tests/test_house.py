"""The house rules that a machine can check: packaging, import weight, one import package."""

import ast
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "transformers", "diffusers", "rclpy", "lerobot", "mujoco", "cv2", "pyarrow", "av", "pandas")


def python(code: str, *, cwd: Path = ROOT, executable: str = sys.executable) -> str:
    result = subprocess.run([executable, "-c", code], cwd=cwd, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def tracked(folder: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return [f for f in listed if (ROOT / f).is_file()]


@pytest.mark.parametrize(
    "module",
    ["goalreel.annotator", "goalreel.annotator.types", "goalreel.annotator.batch", "goalreel.annotator.cli"],
)
def test_imports_are_light(module):
    code = f"import {module}, sys; print([m for m in {HEAVY} if m in sys.modules])"
    assert python(code) == "[]"


def test_datasets_is_hugging_faces_from_inside_the_checkout():
    assert Path(python("import datasets; print(datasets.__file__)")).parts[-2:] == ("datasets", "__init__.py")
    where = python("import datasets; print(hasattr(datasets, 'load_dataset'))")
    assert where == "True"


CORE = {f"annotator.{m}" for m in ("types", "image", "pixels", "loop", "batch", "errors")}
MAY_IMPORT = {
    "annotator/types.py": {"annotator.image"},
    "annotator/loop.py": {"annotator.image", "annotator.types"},
    "annotator/batch.py": {"annotator.loop", "annotator.types"},
    "planners": CORE | {"planners", "datasets.errors"},
    "editors": CORE | {"editors", "datasets.errors"},
    "datasets": CORE | {"datasets"},
}


@pytest.mark.parametrize("place", MAY_IMPORT)
def test_imports_go_one_way(place):
    """docs/architecture.md: the loop imports nothing of ours; planners, editors, datasets only its types."""
    allowed = tuple(f"goalreel.{name}" for name in MAY_IMPORT[place])
    files = [f for f in tracked(place) if f.endswith(".py")]
    assert files
    for file in files:
        for node in ast.walk(ast.parse((ROOT / file).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("goalreel."):
                assert node.module.startswith(allowed), f"{file}:{node.lineno} imports {node.module}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy: setuptools would leave its work in the checkout, and reuse it when stale."""
    out, copy = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("copy")
    for name in tracked("."):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return next(out.glob("goalreel-*.whl"))


def test_the_wheel_holds_one_import_package_with_all_its_files(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {n.split("/")[0] for n in names if ".dist-info/" not in n} == {"goalreel"}
    for room in ("annotator", "planners", "editors", "datasets", "evaluation", "serving"):
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
    code = (
        "import datasets, goalreel.annotator.batch, goalreel.datasets.errors;"
        "print(hasattr(datasets, 'load_dataset'))"
    )
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
