"""Details beside a step's words: the option, the records, the exports. Real sensors, real servers."""

import json

import numpy as np
import pyarrow.parquet as pq
from support.arms import Motions
from support.chat_server import ChatServer, Reply, Request, said
from support.cli import fails, goalreel, invoke
from support.watcher import segments, text_of, watch

from goalreel.annotator.align import with_details
from goalreel.claims import FailureDetail
from goalreel.datasets.records import FOLDER
from goalreel.planners.kinematic.layout import Layout
from goalreel.types import Segment, Step, Storyboard, StoryboardStep, Task


def annotate(dataset, out, *words):
    goalreel("annotate", dataset, "--out", out, *words)
    return out


def settings(out) -> dict:
    return json.loads((out / FOLDER / "settings.json").read_text())["settings"]


def test_nothing_tells_of_it_without_the_option(video_dataset, tmp_path):
    out = annotate(video_dataset, tmp_path / "plain")
    assert "details" not in settings(out)
    assert not any("details" in path.read_text() for path in (out / FOLDER).rglob("*.json"))
    out = annotate(video_dataset, tmp_path / "out", "--details", " pose,")
    assert settings(out)["details"] == "pose"


def steps(out, episode: int) -> list[dict]:
    record = out / FOLDER / f"episodes/chunk-000/episode_{episode:06d}.json"
    return [step["step"] for step in json.loads(record.read_text())["steps"]]


def test_rules_tell_motion_and_pose_and_every_reader_has_them(video_dataset, tmp_path):
    out = tmp_path / "out"
    result = invoke("annotate", video_dataset, "--out", out, "--details", "pose,motion", "--json")
    assert json.loads(result.stdout.splitlines()[-1])["details"]["pose"]["by"] == {"rule": 5}
    first, last = (step["details"] for step in steps(out, 0))
    assert first["motion"]["text"] == "the arm moves up by 0.85 and sideways by 0.467, the hand closes"
    assert first["pose"]["text"] == "the arm is at x 0.5, y 0, z 0.995, the hand is 100% closed"
    assert last["motion"]["text"].endswith("the hand opens")
    assert (first["scene"], first["pose"]["by"], first["pose"]["checked"]) == (None, "rule", "nobody")
    goalreel("export", out, "--out", tmp_path / "steps.parquet")
    row = pq.read_table(tmp_path / "steps.parquet").to_pylist()[0]
    assert row["detail_motion"] == first["motion"]["text"]
    assert (row["detail_motion_by"], row["detail_scene"], row["error_cause"]) == ("rule", None, None)
    goalreel("show", out, "--out", tmp_path / "report")
    pages = "".join(path.read_text() for path in (tmp_path / "report").rglob("*.html"))
    assert "Motion: the arm moves up by 0.85" in pages
    assert "details of its steps (motion, pose)" in (out / "README.md").read_text()


def test_a_failed_grasp_has_its_cause_and_whether_it_was_mended():
    """The hand closes on air, and again on the thing that it then carries."""
    recording = carry(closings=((10, 18), (30, 60)))
    layout = Layout(gripper=(3,), position=(0, 1, 2), vertical=2, closed="high", complete=True)
    spans = (Segment(start=0, end=25), Segment(start=25, end=80))
    board = Storyboard(
        task=Task(id="a", instruction="pick it up"),
        steps=tuple(
            StoryboardStep(step=Step(name=n, instruction=n, prompt=n, outcome=n), segment=span)
            for n, span in zip(("failed", "done"), spans, strict=True)
        ),
    )
    tried, done = (s.step.details for s in with_details(board, recording, layout, ("failure",)).steps)
    assert tried is not None
    assert tried.failure == FailureDetail(
        text="the hand closed and carried nothing", by="rule", restorable=True
    )
    assert done is None


def carry(closings) -> Motions:
    """An arm that stays down for the first closing, and goes up in the last."""
    state = np.zeros((80, 4), np.float32)
    state[:, 2] = np.interp(np.arange(80), [0, 5, 40, 50, 79], [1, 0, 0, 1, 1])
    for start, end in closings:
        state[start:end, 3] = 1
    return Motions("pick it up", state)


def teller(request: Request) -> Reply:
    """Cuts and names as `watch`. What it tells of a step is no answer at first, and never of the last."""
    text = text_of(request)
    if "describe it" not in text:
        if "You watch a recorded robot episode" in text and "Frames 0 to 8" in text:
            return said(segments(text, outcome="failed"))
        return watch(request)
    if "Segment: move away" in text and "error_cause" not in text:
        return said('<answer>{"scene": "a bowl", "reasoning": "cut o', finish_reason="length")
    if "cannot be used" not in text:
        return said('<answer>{"scene": "", "reasoning": "it is next"}</answer>')
    answer = {"scene": "a red block beside a bowl", "reasoning": "the block comes first", "mood": "good"}
    cause = {"error_cause": "the gripper closed beside the block", "restorable": False}
    return said(f"<answer>{json.dumps(answer | (cause if 'error_cause' in text else {}))}</answer>")


def test_a_model_that_watches_tells_scene_reasoning_and_failures(video_dataset, tmp_path, caplog):
    out = tmp_path / "out"
    with ChatServer(teller) as server:
        model = f"openai:seer@{server.url}"
        models = ("--preset", "watch", "--planner", f"watch:{model}", "--critic", model)
        annotate(video_dataset, out, *models, "--details", "scene,reasoning,failure")
    first, *_, last = steps(out, 0)
    by = {"by": "model watch:openai:seer", "checked": "nobody"}
    assert first["details"]["scene"] == {"text": "a red block beside a bowl"} | by
    assert first["details"]["failure"] is None
    assert "details" not in last, "a reply that was cut off is no answer"
    assert any("the model gave no details" in message for message in caplog.messages)
    (tried,) = steps(out, 1)
    cause = {"text": "the gripper closed beside the block", "restorable": False}
    assert tried["details"]["failure"] == cause | by


def test_what_cannot_be_told_is_one_line(video_dataset, tmp_path):
    command = ("annotate", video_dataset, "--out", tmp_path / "out", "--details")
    assert "needs a planner that watches: use --planner watch:CHAT" in fails(*command, "scene")
    assert "there is no detail 'mood': --details takes" in fails(*command, "pose,mood")
