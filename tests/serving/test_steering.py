"""`goalreel serve` as the planner of lerobot's rollout (lerobot#4675), asked by lerobot's own client."""

import json

import numpy as np
import pytest
from PIL import Image as Picture
from support.scripted import TextChat
from support.serving_models import serving

from goalreel.chat.json_reply import tagged_reply
from goalreel.image import Image
from goalreel.serving.settings import Models

pytest.importorskip("lerobot", reason="needs lerobot: pip install 'goalreel[lerobot]'")

from lerobot.annotations.steerable_pipeline.config import VlmConfig
from lerobot.annotations.steerable_pipeline.vlm_client import make_vlm_client

GOAL = "put red in the bowl; close the drawer"
FORMAT = (
    'Reply as one JSON object: "scene": ...; "previous_command": one of "completed", "failed"; "instruction"'
)


class Colours(TextChat):
    """A Planner of two steps, and a Critic to whom a step is done where the picture's red is above 100."""

    def __init__(self) -> None:
        self.planned: list[str] = []

    def replies(self, conversations, *, schema=None):
        return [self._answer(c) for c in conversations]

    def _answer(self, conversation) -> str:
        said = [part for message in conversation for part in message.parts]
        text = " ".join(p for p in said if isinstance(p, str))
        if "execution_plan" not in text:
            red = [p for p in said if isinstance(p, Image)][-1].pixels[0, 0, 0]
            return tagged_reply(
                f"red {red}", {"previous_step_success": bool(red > 100), "refine_prompt": None}
            )
        self.planned.append(text)
        names = ("put red in the bowl", "close the drawer")
        steps = [
            {"step_name": n, "instruction": f"{n} is so", "prompt": None, "auxiliary_text": n} for n in names
        ]
        return json.dumps({"execution_plan": steps})


@pytest.fixture
def chat():
    return Colours()


@pytest.fixture
def ask(chat):
    """Asks as VlmPlanner of lerobot#4675 does: (red of the present picture, commands so far, more lines)."""
    with serving(Models(planner=chat, critic=chat)) as url:
        client = make_vlm_client(VlmConfig(model_id="steer", api_base=f"{url}/v1", auto_serve=False))

        def seen(label: str, red: int):
            pixels = np.full((24, 32, 3), (red, 0, 0), np.uint8)
            picture = {"type": "image", "image": Picture.fromarray(pixels)}
            return [{"type": "text", "text": label}, {"type": "text", "text": "Camera: front"}, picture]

        def ask(red: int, commands=(), *more: str):
            lines = ["Robot: so101", f"Current instruction: {GOAL}", f"Request: {GOAL}", *more, FORMAT]
            content = [{"type": "text", "text": "\n".join(lines)}]
            for number, command in enumerate(commands, 1):
                content += seen(f"Observation {number}:", 0)
                content.append(
                    {"type": "text", "text": f"Command given after observation {number}: {command}"}
                )
            content += seen("Current observation:", red)
            system = {"role": "system", "content": "Help operate the robot using its current camera images."}
            (answer,) = client.generate_json([[system, {"role": "user", "content": content}]])
            return answer

        yield ask


def test_a_command_is_repeated_until_the_critic_sees_that_it_is_done(ask, chat):
    first = ask(0)
    assert first == {"scene": "planned", "previous_command": "none", "instruction": "put red in the bowl"}
    given = [first["instruction"]]
    held = ask(0, given)
    assert (held["previous_command"], held["instruction"]) == ("in progress", "put red in the bowl")
    assert "red 0" in held["scene"]
    went_on = ask(200, given * 2)
    assert (went_on["previous_command"], went_on["instruction"]) == ("completed", "close the drawer")
    assert ask(200, given)["instruction"] == "done"
    assert ask(0, given)["instruction"] == "done"
    assert len(chat.planned) == 1


def test_what_is_never_done_is_planned_anew_and_a_new_rollout_begins_anew(ask, chat):
    assert "knows of no earlier command" in ask(0, ["wave"])["scene"], "nothing lost looks like a plan"
    chat.planned.clear()
    given = [ask(0)["instruction"]]
    said = [ask(0, given)["previous_command"] for _ in range(3)]
    assert said == ["in progress", "in progress", "failed"]
    assert len(chat.planned) == 2
    ask(200, given)
    assert ask(0)["previous_command"] == "none"
    assert ask(0, given)["instruction"] == "put red in the bowl"


def test_a_command_that_the_policy_does_not_know_is_refused(ask):
    known = "Choose exactly one of these allowed instructions: ['put red in the bowl', 'wait']"
    assert ask(0, (), known)["instruction"] == "put red in the bowl"
    with pytest.raises(Exception, match="'close the drawer', which is not allowed"):
        ask(200, ["put red in the bowl"], known)
