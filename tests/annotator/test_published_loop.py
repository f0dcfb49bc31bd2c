"""The published loop end to end: steps from the second on, five attempts each, pictures with content."""

import json
from functools import partial

import cv2
import numpy as np
import pytest

pytest.importorskip("openai", reason="needs openai: pip install 'goalreel[api]'")

from support.chat_server import ChatServer, said
from support.cli import invoke
from support.serving_models import serving

from goalreel.image import Image
from goalreel.serving.settings import Models
from goalreel.storyboard_io import load_storyboard

ATTEMPTS = 5
THOUGHTS = "Each step shows it from nearer."


def agents(request, steps):
    """A Planner in the checkpoints' form, counting on from one step, and a Critic never content."""
    if "previous_step_success" in json.dumps(request.json["messages"]):
        answer = {"previous_step_success": False, "refine_prompt": "Show it from nearer still."}
        return said(f"<think>Too far.</think><answer>{answer}</answer>")
    plan = [
        {"step_number": n, "step_name": f"S{n}", "instruction": f"It is near, {n}.", "prompt": f"Nearer {n}."}
        for n in range(2, steps + 2)
    ]
    return said(f"<think>{THOUGHTS}</think>\n<answer>{ {'execution_plan': plan} }</answer>")


class Zoom:
    """Draws a texture, and shows a source from nearer, as it is asked."""

    def edit(self, edits):
        return [self._drawn(edit) for edit in edits]

    def _drawn(self, edit):
        rng = np.random.default_rng(edit.seed)
        if edit.image is None:
            coarse = rng.integers(0, 255, (16, 16, 3), np.uint8)
            return Image(cv2.resize(coarse, (128, 128), interpolation=cv2.INTER_CUBIC))
        near = cv2.resize(edit.image.pixels[10:-10, 10:-10], edit.image.size, interpolation=cv2.INTER_CUBIC)
        near[0, 0] = list(edit.seed.to_bytes(4))[:3]  # no two are equal: a question is asked once
        return Image(near)


@pytest.mark.parametrize("steps", [2, pytest.param(25, marks=pytest.mark.slow)])
def test_every_picture_of_the_published_loop_reaches_the_critic_and_the_last_one_is_kept(tmp_path, steps):
    with ChatServer(partial(agents, steps=steps)) as chat, serving(Models(editor=Zoom())) as url:
        model = f"openai:InterleaveThinker/Critic-SFT-8B@{chat.url}"
        words = ("plan", "show a shell", "--out", tmp_path, "--preset", "klein")
        result = invoke(*words, "--planner", model, "--critic", model, "--editor", f"server:{url}")
    board = load_storyboard(tmp_path)
    assert (len(board.steps), board.reasoning) == (steps, THOUGHTS), result.stderr
    assert {len(step.attempts) for step in board.steps} == {ATTEMPTS}
    assert len(chat.requests) == 1 + steps * ATTEMPTS
    assert {(step.status, step.chosen) for step in board.steps} == {("rejected", ATTEMPTS - 1)}
    assert {attempt.registration for step in board.steps for attempt in step.attempts} == {None}
    first, second = board.steps[0].attempts[:2]
    assert (first.prompt, second.prompt) == ("Nearer 2.", "Show it from nearer still.")
    assert all("temperature" not in request.json for request in chat.requests)
