"""The dialect `own` says what it said when the nano models were trained, to the byte."""

import json
from itertools import product

import numpy as np
from support.places import DATA
from support.scripted import ScriptedChat

from goalreel.image import Image
from goalreel.planners.chat import Conversation
from goalreel.planners.critic import ChatCritic
from goalreel.planners.planner import ChatPlanner, Underway
from goalreel.types import Attempt, Candidate, Step, Storyboard, StoryboardStep, Task, Verdict


def picture(width: int) -> Image:
    return Image(np.zeros((6, width, 3), np.uint8))


def told(conversations: list[Conversation]) -> list:
    """Every turn as [role, text or [width, height], ...]."""
    return [
        [[m.role, *(p if isinstance(p, str) else list(p.size) for p in m.parts)] for m in conversation]
        for conversation in conversations
    ]


def board(image: Image | None) -> Storyboard:
    attempt = Attempt(prompt="p", seed=0, image=picture(11), verdict=Verdict(success=True))
    steps = [Step(name=f"step {n}", instruction=f"state <image> {n}", prompt=f"do {n}") for n in (1, 2)]
    return Storyboard(
        task=Task(id="t", instruction="clear the table", image=image),
        steps=(
            StoryboardStep(step=steps[0], attempts=(attempt,), status="verified", chosen=0),
            StoryboardStep(step=steps[1]),
        ),
    )


def planner_turns() -> list:
    tasks = [
        Task(id="1", instruction="put the block in the bowl", image=picture(8)),
        Task(id="2", instruction="draw a cat"),
        Task(id="3", instruction="from <image> to the door", image=picture(9)),
    ]
    chat = ScriptedChat(["no"] * 3, ["no"] * 3, ["no"] * 6, ["no"] * 6)
    planner = ChatPlanner(chat, replies=2)
    planner.plan(tasks)
    ways = product((picture(8), None), (0, 1, 2))
    planner.continue_plan([Underway(board(i), done, picture(20) if done else None) for i, done in ways])
    return [told(call) for call in chat.calls]


def critic_turns() -> list:
    calls = []
    for mode, scores in product(("strict", "fast"), (False, True)):
        chat = ScriptedChat(["no"] * 2, ["no"] * 2)
        given = {"task_id": "t", "step": 0, "image": picture(9), "instruction": "it is <image> held"}
        candidates = [Candidate(source=s, prompt="grasp {it}", **given) for s in (picture(8), None)]
        ChatCritic(chat, mode=mode, scores=scores, replies=2).judge(candidates)
        calls += [told(call) for call in chat.calls]
    return calls


def test_it_says_what_it_said_when_the_nano_models_were_trained():
    recorded = json.loads((DATA / "dialects/own.json").read_text())
    assert planner_turns() == recorded["planner"]
    assert critic_turns() == recorded["critic"]
