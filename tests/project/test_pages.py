"""Commands and code of README, docs/ and examples/ run, and what the pages name and link to is there.

The commands of a page run in order, in one empty folder. The tutorials: `test_tutorials.py`.
"""

import io
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pytest
import site_pages
from support.chat_server import ChatServer
from support.cli import goalreel
from support.pages import blocks, commands, run_python, text_of
from support.places import ROOT
from support.published import agents

from goalreel.extras import EXTRAS

README = text_of("README.md")
MAKEFILE = text_of("Makefile")
EVIDENCE = re.compile(r"(?<![\w:/])((?:tests|lab|benchmarks|scripts|dev)/[\w/]+\.(?:py|yaml|sh|md))\b")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
DOCS = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *DOCS]
LOGS = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "dev/log").glob("*.md"))]
LAB = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "lab").rglob("*.md"))]
LINKING = [*PAGES, "benchmarks/README.md", "examples/README.md", "dev/LOG.md", *LOGS, *LAB]


@pytest.mark.parametrize("page", LINKING)
def test_what_a_page_names_and_links_to_is_there(page):
    text, folder = text_of(page), (ROOT / page).parent
    named = EVIDENCE.findall(text) if page in PAGES else []
    assert [name for name in named if not (ROOT / name).is_file()] == []
    made = {ROOT / "docs" / name for name in site_pages.PAGES if folder.is_relative_to(ROOT / "docs")}
    targets = [(folder / target).resolve() for target in LINK.findall(text)]
    assert [target for target in targets if not target.exists() and target not in made] == []


def test_each_entry_of_the_log_has_its_line_in_the_table_of_outcomes():
    entries = [m for page in LOGS for m in re.findall(r"^## (.*)$", text_of(page), re.MULTILINE)]
    rows = re.findall(r"^\| (\d{4}-\d\d-\d\d) \| (.*?) \| (.*) \|$", text_of("dev/LOG.md"), re.MULTILINE)
    assert sorted(" ".join(row) for row in rows) == sorted(entries)
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)


def test_the_scene_of_the_readme_is_that_of_its_picture_and_of_the_demo():
    """Where it fails, put the seed and instruction that `make picture` found into README and Makefile."""
    from goalreel.tabletop.grammar import sample_episode

    [(seed, instruction)] = re.findall(r'scene --seed (\d+) .*\ngoalreel plan \S+ "(.*?)"', README)
    assert instruction == sample_episode(int(seed)).instruction
    assert f"SCENE := {seed}\n" in MAKEFILE
    with PIL.Image.open(ROOT / "docs/images/storyboard.png") as picture:
        assert picture.info.get("seed") == seed


def test_the_pictures_of_the_readme_load_quickly():
    pictures = re.findall(r"!\[.*?\]\((\S+)\)", README)
    assert "docs/images/carry_over.gif" in pictures
    assert [name for name in pictures if (ROOT / name).stat().st_size > 1_500_000] == []


def test_the_demo_may_replace_the_rows_that_the_simulator_wrote():
    """`annotate` refuses without, and nothing else runs the demo."""
    demo = [line for line in MAKEFILE.splitlines() if "annotate $(DEMO)/recorded " in line]
    assert len(demo) == 2
    assert all("--replace-rows" in line for line in demo)


def source_of(folder: str) -> list[str]:
    """What resolves as `pip install FOLDER` does, extras included, but builds nothing that is static."""
    path, _, extras = folder.rstrip("]").partition("[")
    names = ("pyproject.toml", "setup.py")
    source = next(ROOT / path / name for name in names if (ROOT / path / name).is_file())
    return [str(source), *(f"--extra={extra}" for extra in extras.split(",") if extra)]


@pytest.mark.process
@pytest.mark.parametrize("command", re.findall(r"`(pip install .*?)`", README))
def test_what_the_readme_installs_can_be_installed(command):
    """Resolved, not installed; the built interfaces and the whole of CI show the rest."""
    _, _, *folders = shlex.split(command)
    resolve = [sys.executable, "-m", "uv", "pip", "compile", "-q", "-c", "constraints.txt"]
    words = [word for folder in folders for word in source_of(folder)]
    child = subprocess.run([*resolve, *words], cwd=ROOT, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    extras = re.search(r"\[(.*?)\]", folders[0])
    assert extras is not None
    assert set(extras[1].split(",")) <= {*EXTRAS, "ros"}


@pytest.mark.parametrize("block", blocks("docs/how-to/use-from-python.md", "python"))
def test_the_code_of_the_api_page_runs(block, video_dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recorded").symlink_to(video_dataset)
    cv2.imwrite("scene.png", np.full((128, 128, 3), 90, np.uint8))
    run_python(block.code)


def test_every_command_of_the_bags_page_runs(tmp_path, monkeypatch):
    from support import bags as b

    messages = [replace(s, topic="/front/image_raw") if s.topic == "/image" else s for s in b.robot(20)]
    messages += [b.storyboard(0, ("pick",), 0), b.subgoal(0, 0, "pick", picture=b.moving(25))]
    b.write_bag(tmp_path / "run", sorted(messages, key=lambda s: s.at))
    lines = commands("docs/how-to/bags.md")
    assert [words[0] for words in lines] == ["goalreel"] * 4
    monkeypatch.chdir(tmp_path)
    for words in lines:
        goalreel(*words[1:])
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"run"} | {
        f"{name}{end}" for name in ("goals", "shown") for end in ("", "-recorded", "-report")
    }


@pytest.mark.long
def test_every_command_of_the_dataset_pages_runs(video_dataset, annotated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("droid").symlink_to(video_dataset)
    annotated(video_dataset, Path("labelled"), {0: {}, 1: {}, 2: {}}, form="bordered")
    annotated(video_dataset, Path("pusht-goals"), {0: {}, 1: {}, 2: {}})
    [config] = blocks("docs/how-to/annotate.md", "yaml")
    Path("droid.yaml").write_text(config.code)
    guides = ("annotate", "keep-existing-labels", "export", "edit-with-lerobot")
    pages = [*(f"docs/how-to/{name}.md" for name in guides), "docs/reference/dataset-checks.md"]
    lines = [words for page in pages for words in commands(page)]
    assert {words[1] for words in lines} == {"check", "annotate", "show", "export", "review"}
    for words in lines:
        if words[1] != "review":  # which waits for a browser
            goalreel(*words[1:])
    made = {path.name for path in tmp_path.iterdir()}
    assert {"droid-goals-report", "droid-tasks", "labelled-goals", "steps.csv", "steps.parquet"} <= made


@pytest.mark.process
def test_the_rerun_commands_run(video_dataset, annotated, tmp_path, monkeypatch):
    pytest.importorskip("rerun", reason="needs rerun: pip install 'goalreel[rerun]'")
    from support.rrd import verify

    lines = commands("docs/how-to/see-the-plan.md")
    assert [words[0] for words in lines] == ["goalreel", "rerun"]
    monkeypatch.chdir(tmp_path)
    annotated(video_dataset, Path("annotated"), {0: {}, 1: {}})
    goalreel(*lines[0][1:])
    [pattern] = lines[1][1:]
    recordings = sorted(Path().glob(pattern))
    assert [p.name for p in recordings] == ["episode_000000.rrd", "episode_000001.rrd"]
    verify(*recordings)


EXAMPLES = ROOT / "examples"


def example(name: str, *arguments: object) -> str:
    """What a script prints, run in this process: lerobot and torch take seconds to load."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return printed.getvalue()


@pytest.fixture
def preset(tmp_path) -> Iterator[Path]:
    """A preset whose Planner has two steps, whose editor inverts, and whose Critic accepts."""
    from support.serving_models import TintEditor, serving

    from goalreel.serving.settings import Models

    path = tmp_path / "mine.yaml"
    with ChatServer(agents) as chat, serving(Models(editor=TintEditor())) as editor:
        model = f"openai:agent@{chat.url}"
        path.write_text(f"planner: {model}\neditor: server:{editor}\ncritic: {model}\nmax_attempts: 1\n")
        yield path


@pytest.fixture
def scene() -> np.ndarray:
    """A grey slope, 64 x 64."""
    rows = np.linspace(0, 250, 64).astype(np.uint8)
    return np.repeat(np.repeat(rows[:, None, None], 64, 1), 3, 2)


def test_all_of_them_are_run_here():
    files = (Path(__file__), ROOT / "tests" / "ros_pkg" / "test_policies.py")
    tested = "".join(file.read_text() for file in files)
    for script in EXAMPLES.glob("*.py"):
        assert f'"{script.name}"' in tested
        assert f"({script.name})" in (EXAMPLES / "README.md").read_text()


@pytest.mark.process
def test_annotating_and_reading_back(video_dataset, tmp_path):
    said = example("annotate_dataset.py", video_dataset, tmp_path / "out")
    assert "3 episodes annotated" in said
    assert "goal picture (3, 48, 48)" in said
    assert "0 episodes annotated, 3 before" in example("annotate_dataset.py", video_dataset, tmp_path / "out")
    command = [sys.executable, str(EXAMPLES / "read_storyboards.py"), str(tmp_path / "out")]
    read = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r"^episode \d: put the red block", read, re.MULTILINE)) == 3
    assert re.search(r"^ +observed  .*\(frames 0-\d+, \d attempts\)$", read, re.MULTILINE)


def test_an_editor_of_ones_own(scene, preset, tmp_path):
    cv2.imwrite(str(tmp_path / "scene.png"), scene)
    words = (tmp_path / "scene.png", "tidy up", tmp_path / "out", "--preset", preset)
    printed = example("own_editor.py", *words)
    assert (tmp_path / "out" / "index.html").is_file()
    assert printed.count("accepted") == 2
    drawn = cv2.imread(str(next((tmp_path / "out" / "images").glob("step_01_*"))))
    assert np.array_equal(drawn[:12], scene[:12]), "outside the part, the source's own pixels"
    assert np.array_equal(drawn[13:, 4:60], 255 - scene[13:, 4:60])


def test_a_storyboard_from_a_camera(scene, preset, tmp_path):
    film = cv2.VideoWriter(str(tmp_path / "film.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 64))
    for _ in range(5):
        film.write(scene)
    film.release()
    printed = example(
        "plan_from_webcam.py", tmp_path / "film.avi", "tidy up", tmp_path / "out", "--preset", preset
    )
    assert (tmp_path / "out" / "index.html").is_file()
    assert printed.count("accepted") == 2
