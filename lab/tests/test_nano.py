"""The checkpoints that come with goalreel: what ships, how it loads, and the loop on them end to end.

How good they are is in lab/docs/nano.md; the numbers here only catch weights that are broken or misread.
"""

from pathlib import Path

import pytest

from goalreel import checkpoints, load_storyboard
from goalreel.checkpoints import NANO, located
from goalreel.drivers import run
from goalreel.models import presets
from goalreel.models.load import build_chat, load
from goalreel.models.model_set import ModelSet
from goalreel.types import Storyboard, Task, Verdict

if not NANO.is_dir():
    pytest.skip("goalreel-nano is not installed", allow_module_level=True)

from support.cli import goalreel, invoke, results

from goalreel.tabletop.splits import seeds
from goalreel_lab.bench.scenes import SIZE, Walk, walks
from goalreel_lab.corpora.rows import candidate_of
from goalreel_lab.corpora.verdicts import verdict_rows

ROLES = ("critic", "editor", "planner")
ODD = "bake a sourdough loaf, 寿司も, and fold 3 shirts!"


@pytest.fixture(scope="module")
def model_set() -> ModelSet:
    return load(presets.load("nano"))


@pytest.fixture(scope="module")
def scenes() -> list[Walk]:
    return walks(seeds("validation", 3), lambda *_: None)


@pytest.fixture(scope="module")
def frame(scenes, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("frame") / "frame.png"
    path.write_bytes(scenes[2].task.image.png())
    return path


@pytest.fixture(scope="module")
def planned(scenes, frame, tmp_path_factory) -> Path:
    """Folder of a storyboard by the default preset."""
    out = tmp_path_factory.mktemp("planned") / "plan"
    goalreel("plan", frame, scenes[2].task.instruction, "--out", out)
    return out


def test_three_checkpoints_in_60_mb_of_safetensors_and_text_with_model_cards():
    assert {*checkpoints.NAMES} == {f"nano-{role}" for role in ROLES}
    files = [f for f in NANO.rglob("*") if f.is_file()]
    assert sum(f.stat().st_size for f in files) <= 60e6
    assert {f.suffix for f in files} <= {".npz", ".safetensors", ".json", ".jinja", ".md", ".txt"}
    for file in (f for f in files if f.suffix not in (".safetensors", ".npz")):
        assert file.read_text(encoding="utf-8"), "weights are in safetensors alone, and statistics in npz"
    for role in ROLES:
        assert any((NANO / role).rglob("*.safetensors"))
        card = (NANO / role / "README.md").read_text(encoding="utf-8")
        for words in ("license: apache-2.0", "| seed |", "| commit |", "## What it cannot do"):
            assert words in card


def test_they_load_by_name_in_the_classes_of_the_full_models(model_set):
    preset = presets.load("nano")
    names = [name.partition("?")[0] for name in (preset.planner, preset.editor, preset.critic)]
    assert names == ["hf:nano-planner", "diffusers:nano-editor", "hf:nano-critic"]
    from diffusers import StableDiffusionInstructPix2PixPipeline

    for chat in (model_set.planner._chat, model_set.critic.chat):
        assert type(chat.model).__name__ == "Qwen3VLForConditionalGeneration"
    assert isinstance(model_set.editor.pipeline, StableDiffusionInstructPix2PixPipeline)


def test_a_shipped_name_is_its_folder_unless_one_of_that_name_is_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [located(f"nano-{role}") for role in ROLES] == [str(NANO / role) for role in ROLES]
    for other in ("nano", "planner", "nano-", "nano-other", "OWNER/nano-planner", "nano-planner/", ""):
        assert located(other) == other
    (tmp_path / "nano-planner").mkdir()
    assert located("nano-planner") == "nano-planner"
    with pytest.raises(ValueError, match="cannot load nano-planner as"):
        build_chat("hf:nano-planner", role="planner")


def shown(board: Storyboard) -> None:
    """Every step was drawn and looked at."""
    assert board.failure is None
    for step in board.steps:
        assert step.attempts
        for attempt in step.attempts:
            assert attempt.image.size == board.task.image.size
            assert attempt.verdict is not None or attempt.failure.stage == "judge"
        assert step.goal_image is not None


@pytest.mark.lab
def test_plan_writes_steps_attempts_and_verdicts_and_the_same_again(planned, scenes, frame, tmp_path):
    board = load_storyboard(planned)
    assert (board.task.instruction, board.task.image) == (scenes[2].task.instruction, scenes[2].task.image)
    shown(board)
    attempts = [a for step in board.steps for a in step.attempts]
    assert sum(a.verdict is not None for a in attempts) >= 0.9 * len(attempts)
    page = (planned / "index.html").read_text()
    assert "hf:nano-planner" in page, "nano is the default"
    assert board.steps[0].step.instruction in page
    goalreel("plan", frame, board.task.instruction, "--preset", "nano", "--seed", 0, "--out", tmp_path)
    for name in (p.relative_to(planned) for p in planned.rglob("*") if p.suffix in (".json", ".png", ".gif")):
        assert (tmp_path / name).read_bytes() == (planned / name).read_bytes(), name


@pytest.mark.lab
def test_words_it_never_learned_end_in_a_storyboard_or_one_line_and_cost_no_other_task(
    model_set, scenes, frame, tmp_path
):
    known = scenes[2].task
    odd = Task(id="odd", instruction=ODD, image=known.image)
    blank = Task(id="blank", instruction=known.instruction)
    found = run([known, odd, blank], model_set.planner, model_set.editor, model_set.critic, max_attempts=1)
    boards = {board.task.id: board for board in found}
    assert {i: board.task for i, board in boards.items()} == {t.id: t for t in (known, odd, blank)}
    shown(boards[known.id])
    for board in boards.values():
        assert board.steps or board.failure.message, "a plan, or why there is none"
    out = tmp_path / "odd"
    result = invoke("plan", frame, ODD, "--out", out, "--max-attempts", 1)
    board = load_storyboard(out)
    assert board.task.instruction == ODD
    assert (result.exit_code == 0) == bool(board.steps)
    assert "Traceback" not in result.stderr
    assert board.failure is None or f"goalreel: no plan: {board.failure.message}" in result.stderr
    assert (out / "index.html").is_file()


@pytest.mark.lab
def test_the_bench_gives_the_issue_s_numbers(tmp_path):
    """On two episodes of one sub-goal."""
    words = ("eval", "tabletop", "--preset", "nano", "--episodes", 2, "--first", 11)
    report = results(*words, "--parts", "plan,edit,critic,loop", "--out", tmp_path / "bench")
    assert report["models"]["planner"] == presets.load("nano").planner
    assert (report["split"], report["episodes"]) == ("validation", 2)
    assert report["edit.score"] >= 0.5
    assert report["critic.balanced_accuracy"] >= 0.7
    assert "loop_terse.gap_closed" in report, "null where there is no gap to close"


@pytest.mark.lab
def test_the_critic_is_as_sure_as_its_word_says(model_set):
    rows = list(verdict_rows(seeds("validation", 1), SIZE))
    verdicts = model_set.critic.judge([candidate_of(row) for row in rows])
    told = [v for v in verdicts if isinstance(v, Verdict)]
    assert {v.success for v in told} == {True, False}
    assert all((v.probability >= 0.5) == v.success for v in told)
