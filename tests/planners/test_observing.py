"""The Critic of recorded frames, behind a real HTTP server: yes, no, and cannot tell."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.chat_server import ChatServer, said
from support.cli import goalreel

from goalreel.chat.dialects.own import ObservedDialect
from goalreel.datasets.records import FOLDER, Records
from goalreel.image import Image
from goalreel.models.load import build_critic
from goalreel.types import Candidate, Failure


def answer(holds: object, reason: str = "the arm is in front of it") -> str:
    return f"<think>look</think><answer>{json.dumps({'holds': holds, 'reason': reason})}</answer>"


def candidate() -> Candidate:
    picture = Image(np.zeros((6, 8, 3), np.uint8))
    return Candidate(task_id="t", step=0, source=picture, image=picture, instruction="it is shut", prompt="p")


@pytest.mark.parametrize(
    ("holds", "success", "words"),
    [
        ("yes", True, "the arm"),
        ("No.", False, "The state does not hold: "),
        ("cannot_tell", False, "Cannot see: the arm"),
    ],
)
def test_three_answers(holds, success, words):
    with ChatServer(lambda request: said(answer(holds))) as server:
        critic = build_critic(f"openai:m@{server.url}", dialect=ObservedDialect())
        verdict = critic.judge([candidate()])[0]
    assert (verdict.success, verdict.refined_prompt) == (success, None)
    assert verdict.reasoning.startswith(words)
    asked = json.dumps(server.requests[0].json)
    assert asked.count("image_url") >= 2
    assert "it is shut" in asked
    assert "editor" not in asked


def test_anything_else_is_asked_again_and_never_accepted():
    with ChatServer(lambda request: said(answer("perhaps"))) as server:
        verdict = build_critic(f"openai:m@{server.url}", dialect=ObservedDialect()).judge([candidate()])[0]
    assert isinstance(verdict, Failure)
    assert len(server.requests) == 3


def test_hindsight_tries_the_next_frame_and_ends_rejected_with_the_reason(video_dataset, tmp_path):
    """Chosen by itself, since the editor takes frames of the recording."""
    out = tmp_path / "out"
    with ChatServer(lambda request: said(answer("cannot tell"))) as server:
        critic = ["--critic", f"openai:m@{server.url}", "--max-attempts", "2"]
        done = goalreel("annotate", video_dataset, "--out", out, "--episodes", "0", *critic, "--json")
    summary = json.loads(done.splitlines()[-1])
    steps = Records(out / FOLDER, source="").outline(0).steps
    assert summary["steps"] == {"rejected": len(steps)}
    assert summary["incomplete"] == 1
    first, second = steps[-1].attempts  # of the first the hand shows its claim in one frame alone
    assert first.image.frame != second.image.frame
    assert second.verdict.reasoning == "Cannot see: the arm is in front of it"
    (data,) = (out / "data").glob("*/*.parquet")
    assert all(pq.read_table(data)["subgoal_is_pad"].to_pylist()[:12])
