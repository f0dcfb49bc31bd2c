"""The predictive loop end to end: agents over a real HTTP server, a real diffusers pipeline, the CLI.

The server's replies are written here, in the published checkpoints' format, since random weights say nothing.
"""

import itertools
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pyarrow.parquet as pq
import pytest
from support.chat_server import ChatServer, said
from support.cli import fails, goalreel, results
from support.faults import DATA
from support.serving_models import CriticChat, PlannerChat, serving
from support.tiny_pipelines import tiny_pipeline

from goalreel import load_storyboard as load
from goalreel.annotator.align import FOUND, align, ends, features
from goalreel.datasets.records import FOLDER, Records
from goalreel.editors.catalogue import Entry
from goalreel.files import exclusive
from goalreel.image import Image
from goalreel.models.load import build_editor
from goalreel.serving.settings import Models
from goalreel.types import Attempt, Edit, Step, Storyboard, StoryboardStep, Task, Verdict

STEPS = ("grasp the red block", "put the red block in the blue bowl")


def answer(request):
    """Plan two steps; reject the first attempt at each prompt that has not been refined."""
    if request.json["model"] == "planner":
        steps = [
            {"step_number": i, "step_name": name, "instruction": f"done: {name}", "prompt": name}
            for i, name in enumerate(STEPS, start=1)
        ]
        return said(f"<think>two</think><answer>{json.dumps({'execution_plan': steps})}</answer>")
    good = "slowly" in request.text or "In all: " in request.text
    verdict = {"previous_step_success": good, "refine_prompt": None if good else "do it slowly"}
    return said(f"<think>look</think><answer>{json.dumps(verdict)}</answer>")


@pytest.fixture(scope="module")
def server():
    with ChatServer(answer) as running:
        yield running


@pytest.fixture(scope="module")
def models(server, tmp_path_factory) -> list[str]:
    folder = tiny_pipeline("Flux2KleinPipeline", tmp_path_factory.mktemp("editor"))
    Entry(
        pipeline="Flux2KleinPipeline",
        kinds=("text-to-image", "edit"),
        steps=2,
        guidance={"guidance_scale": 1.0},
        arguments={"max_sequence_length": 32},
        size=(96, 96),
    ).save(folder)
    chat = f"@{server.url}"
    names = ("--planner", f"openai:planner{chat}", "--critic", f"openai:critic{chat}")
    return [*names, "--editor", f"diffusers:{folder}"]


@pytest.fixture(scope="module")
def frame(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("frame") / "frame.png"
    cv2.imwrite(str(path), np.random.default_rng(0).integers(0, 256, (72, 96, 3), np.uint8))
    return path


def test_plan_from_a_frame(frame, models, tmp_path):
    out = tmp_path / "plan"
    printed = results("plan", frame, "put the red block in the blue bowl", "--out", out, *models)
    assert printed["complete"] is True
    assert list(printed["claims"]) == ["what", "looks"], "nothing was recorded"
    assert printed["claims"]["what"]["checked"] == {"nobody": len(STEPS)}
    (checker,) = printed["claims"]["looks"]["checked"]
    assert checker.startswith("model ")
    board = load(out)
    assert board.steps[0].claims.looks.checked == checker, "storyboard.json says the same"
    assert [s.step.name for s in board.steps] == list(STEPS)
    for step in board.steps:
        assert [a.verdict.success for a in step.attempts] == [False, True]
        assert [a.prompt for a in step.attempts] == [step.step.prompt, "do it slowly"]
        assert step.attempts[0].seed != step.attempts[1].seed
        assert step.goal_image.size == (107, 80), "the largest of its shape that the editor draws"
    assert {goal.size for goal in board.goal_images()} == {(96, 72)}, "handed out, the frame's"
    page = (out / "index.html").read_text()
    assert "put the red block in the blue bowl" in page
    with PIL.Image.open(out / "put-the-red-block-in-the-blue-bowl.gif") as shown:
        assert (shown.n_frames, shown.size[0]) == (1 + 2 * len(STEPS), 960), "every attempt"
    assert (out / "put-the-red-block-in-the-blue-bowl.png").is_file()


def test_plan_again_asks_nothing_but_new_weights(frame, models, server, tmp_path):
    """Such as after an update of goalreel, whose checkpoints are always called the same."""
    editor = Path(shutil.copytree(models[-1].removeprefix("diffusers:"), tmp_path / "editor"))
    command = ("plan", frame, "tidy up", "--out", tmp_path / "plan", *models[:-1], f"diffusers:{editor}")
    goalreel(*command)
    answers, board = set((tmp_path / "plan/answers").glob("*.json")), load(tmp_path / "plan")
    before = len(server.requests)
    goalreel(*command)
    assert load(tmp_path / "plan") == board
    os.utime(next(editor.rglob("*.safetensors")), (0, 0))
    goalreel(*command)
    fresh = set((tmp_path / "plan/answers").glob("*.json")) - answers
    assert len(fresh) == len(STEPS) * 2, "an edit for each attempt; plan and verdicts are kept"
    assert len(server.requests) == before


def test_a_dead_server_or_another_run_is_one_line(frame, models, tmp_path, retry_pauses):
    dead = ["--planner", "openai:planner@http://127.0.0.1:9/v1", *models[2:]]
    assert "no plan: " in fails("plan", frame, "tidy up", "--out", tmp_path / "p", *dead)
    with exclusive(tmp_path / "p" / "answers", tmp_path / "p"):
        said = fails("plan", frame, "tidy up", "--out", tmp_path / "p", *models)
    assert "another goalreel run is writing there" in said


def test_from_a_laptop_to_a_server(frame, models, tmp_path):
    """The whole preset `server` against `goalreel serve`'s application, over real HTTP on loopback."""
    served = Models(planner=PlannerChat(), critic=CriticChat(), editor=build_editor(models[-1]))
    with serving(served) as url:
        names = [word for role in ("planner", "editor", "critic") for word in (f"--{role}", f"server:{url}")]
        goalreel("plan", frame, "# #", "--out", tmp_path / "far", "--preset", "server", *names)
    near, far = (build_editor(models[-1]), load(tmp_path / "far"))
    assert far.complete
    assert [len(s.attempts) for s in far.steps] == [2, 2]
    first = far.steps[0].attempts[0]
    edit = Edit(task_id="t", step=0, attempt=0, image=far.task.image, prompt=first.prompt, seed=first.seed)
    assert near.edit([edit]) == [first.image], "nothing is lost on the way"


def test_predicted_goals_that_resemble_nothing_are_unaligned(models, video_dataset, tmp_path):
    """Random weights paint noise: the steps are kept, and are no training data."""
    out = tmp_path / "out"
    summary = results("annotate", video_dataset, "--out", out, "--preset", "api", *models)
    assert (summary["annotated"], summary["unaligned"]) == (3, 6)
    for episode in range(3):
        steps = Records(out / FOLDER, source="").outline(episode).steps
        assert [s.step.name for s in steps] == list(STEPS)
        assert all(s.segment is None and s.unaligned for s in steps)
        assert steps[0].goal_image.frame.startswith("images/"), "a predicted picture, not a recorded frame"
    page = Path(goalreel("show", out).strip().removeprefix("Look at "))
    assert "<dt>not found in the recording</dt>" in page.read_text()
    assert "Not found in the recording: " in "".join(p.read_text() for p in page.parent.rglob("*.html"))

    table = pq.read_table(out / DATA)
    assert all(table["subgoal_is_pad"].to_pylist())
    assert not table["language_persistent"][0].as_py(), "not in the plan either"


def test_predicted_goals_for_segments_that_are_known(models, video_dataset, tmp_path):
    out = tmp_path / "out"
    known = ["--planner", "kinematic", *models[2:], "--episodes", "0"]
    how = ("--on-rejected", "continue", "--use-rejected", "--subgoal-form", "plain")
    goalreel("annotate", video_dataset, "--out", out, "--preset", "api", *known, *how)
    records = Records(out / FOLDER, source="")

    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    item = LeRobotDataset("local/out", root=out)[0]
    assert not bool(item["subgoal_is_pad"])
    # Random weights paint noise, which video compresses badly: the pattern is compared, in grey.
    shown = item["observation.images.subgoal"].numpy().mean(axis=0)
    kept = records.image(records.outline(0).steps[0].goal_image.frame)
    goal = kept.resized(shown.shape[::-1]).pixels.mean(axis=2)
    assert kept.size != shown.shape[::-1], "the record has the editor's own size"
    assert np.corrcoef(goal.ravel(), shown.ravel())[0, 1] > 0.9


def scene(position: float, lift: float = 0.0, noise: int = 0) -> Image:
    """A square that stands at `position` (0-1) along the table; noise differs from call to call."""
    pixels = np.random.default_rng(noise).integers(90, 110, (64, 64, 3), np.uint8)
    left, top = int(position * 48), int(40 - lift * 30)
    pixels[top : top + 14, left : left + 14] = (220, 40, 40)
    return Image(pixels)


class Recorded:
    """As much of a Recording as aligning needs: the arm stands where `places` says."""

    id, instruction, fps = "a", "go", 10.0
    state_names: tuple[str, ...] = ("x",)
    action_names: tuple[str, ...] = ()

    def __init__(self, frames: list[Image], places: Sequence[float]):
        self._frames = frames
        self.timestamps = (np.arange(len(frames)) / 10).astype(np.float32)
        self.state = np.array(places, np.float32)[:, None]
        self.action = np.zeros((len(frames), 0), np.float32)

    def frames(self, camera, indices):
        return [self._frames[i] for i in indices]


PLACES = [0.0] * 8 + list(np.linspace(0, 0.4, 15)) + [0.4] * 8 + list(np.linspace(0.4, 0.7, 10))
PLACES += [0.7] * 8 + list(np.linspace(0.7, 1, 10)) + [1.0] * 8
"""Three moves with rests of 8 frames between them."""
FRAMES = [scene(p, noise=i) for i, p in enumerate(PLACES)]
RESTS = [23, 41]
"""Where the first and the second move are over."""


def test_no_step_is_shorter_than_the_least():
    goals = [scene(0.4, noise=901), scene(0.4, noise=902), scene(1.0, noise=903)]
    for least in (2, 4, 9):
        found = ends(FRAMES[0], goals, features(FRAMES), range(1, len(FRAMES)), least)
        path = [0, *(end for end, _ in found)]
        assert min(b - a for a, b in itertools.pairwise(path)) >= least
    for many, frames, cuts, least in (
        ([goals[0]] * 8, FRAMES, range(len(FRAMES)), 9),
        (goals, FRAMES, [27], 5),  # two cuts are wanted and one is proposed
        (goals, FRAMES[:3], [1, 2], 5),
    ):
        assert ends(FRAMES[0], many, features(frames), cuts, least) is None


def test_a_state_seen_twice_takes_the_one_that_fits_the_order():
    there_and_back = [0.0] * 4 + [0.5] * 4 + [1.0] * 4 + [0.5] * 4
    seen = features([scene(p, noise=i) for i, p in enumerate(there_and_back)])
    for places, wanted in (((1.0, 0.5), [12, 16]), ((0.5, 1.0, 0.5), [8, 12, 16])):
        goals = [scene(p, noise=92) for p in places]
        assert [end for end, _ in ends(FRAMES[0], goals, seen, [4, 8, 12], 2)] == wanted


def test_a_goal_that_was_never_seen_does_not_move_the_others():
    nowhere = Image(np.random.default_rng(1).integers(0, 255, (64, 64, 3), np.uint8))
    goals = [scene(0.4, noise=901), nowhere, scene(1.0, noise=903)]
    found = ends(FRAMES[0], goals, features(FRAMES), [15, 27, 45], 5)
    assert [cost <= FOUND for _, cost in found] == [True, False, True]
    assert found[0][0] == 27


def board(*goals: Image | None) -> Storyboard:
    """A step a goal; None is one in words alone."""
    wait = Step(name="s", instruction="i", prompt=None, auxiliary_text="wait")
    step = Step(name="s", instruction="i", prompt="p")

    def made(goal: Image | None) -> StoryboardStep:
        if goal is None:
            return StoryboardStep(step=wait, status="text")
        attempt = Attempt(prompt="p", seed=0, image=goal, verdict=Verdict(success=True))
        return StoryboardStep(step=step, attempts=(attempt,), status="accepted", chosen=0)

    return Storyboard(task=Task(id="t", instruction="go"), steps=tuple(map(made, goals)))


def aligned(*goals: Image | None) -> tuple[StoryboardStep, ...]:
    return align(board(*goals), Recorded(FRAMES, PLACES), "front").steps


def test_a_storyboard_gets_segments_that_cover_the_episode():
    steps = aligned(*(scene(p) for p in (0.4, 0.7, 1.0)))
    segments = [s.segment for s in steps]
    assert (segments[0].start, segments[-1].end) == (0, len(FRAMES))
    assert all(a.end == b.start for a, b in itertools.pairwise(segments))
    for got, rest in zip(segments[:-1], RESTS, strict=True):
        assert rest <= got.end <= rest + 8, "anywhere in the rest that follows the move shows the goal"
    assert all(s.alignment.reason is None and s.alignment.cost < 0.2 for s in steps)
    assert not any(s.unaligned for s in steps)


def test_what_is_not_found_is_unaligned_and_so_is_what_begins_there():
    steps = aligned(scene(0.4), scene(0.0, noise=7), scene(1.0))
    assert [s.unaligned for s in steps] == [s.segment is None for s in steps] == [False, True, True]
    assert "nothing like its goal image was recorded" in steps[1].alignment.reason
    assert steps[2].alignment.reason == "where the step before it ends is not known"
    assert steps[2].alignment.cost < 0.2, "kept all the same"
    # A washed out goal is not a thing that has gone: where the square was it is like any frame without it.
    (step,) = aligned(Image(np.random.default_rng(1).integers(60, 140, (64, 64, 3), np.uint8)))
    assert step.unaligned
    assert step.alignment.cost > 1
    steps = aligned(scene(0.4), None, scene(1.0))
    assert [s.unaligned for s in steps] == [False, True, True]
    assert "no picture to look for" in steps[1].alignment.reason
    assert steps[1].alignment.cost is None


def test_where_there_is_no_room_all_steps_are_unaligned():
    steps = aligned(*[scene(0.4)] * 20)
    assert all(s.unaligned and "no room for 20 steps of 0.5 s" in s.alignment.reason for s in steps)
    lost = align(board(scene(0.4)), Recorded(FRAMES[:3], PLACES[:3]), "front").steps
    assert [s.alignment.reason for s in lost] == [
        "no room for 1 steps of 0.5 s or more: the motion changes at 0 places in 0.3 s"
    ]
