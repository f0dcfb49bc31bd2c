"""The dialect `own` says what it said when the nano models were trained, to the byte."""

import json
import logging
import shutil
from itertools import product

import pytest
from support.places import DATA
from support.scripted import ScriptedChat, words
from support.told import picture

from goalreel.chat.conversation import Conversation
from goalreel.chat.dialects import default_dialect, number_of, write_trained_steps
from goalreel.checkpoints import NANO
from goalreel.critics.chat import ChatCritic
from goalreel.image import Image
from goalreel.models.load import dialect_of
from goalreel.planners.chat import ChatPlanner
from goalreel.training.card import Card, write_card
from goalreel.types import (
    Attempt,
    Candidate,
    DoneStep,
    Plan,
    ReplanContext,
    Step,
    Storyboard,
    StoryboardStep,
    Task,
    Verdict,
)


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
            StoryboardStep(step=steps[0], attempts=(attempt,), status="accepted", chosen=0),
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
    planner.continue_plan([ReplanContext(board(i), done, picture(20) if done else None) for i, done in ways])
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


def user_turn(task: Task, first: int = 1) -> str:
    steps = [{"step_number": first, "step_name": "a", "instruction": "b", "prompt": "c"}]
    chat = ScriptedChat([json.dumps({"execution_plan": steps})])
    (plan,) = ChatPlanner(chat).plan([task])
    assert isinstance(plan, Plan), plan
    return words(chat.calls[0][0][1:])


def test_pictures_go_to_their_marks_and_the_scene_is_not_shown_twice():
    given = {"id": "t", "instruction": "from <image> to <image>, please", "images": (picture(8), picture(9))}
    shown = "Instruction: from \n[8x6]\n to \n[9x6]\n, please\n\nWrite the plan."
    assert user_turn(Task(**given)) == shown
    assert user_turn(Task(**given, image=picture(9))) == shown
    apart = user_turn(Task(**given, image=picture(10)))
    assert apart == "The scene as it is now: \n[10x6]\n\n\n" + shown


def test_a_partial_sequence_is_continued():
    done = (DoneStep(instruction="it is <image> cut", image=picture(8)), DoneStep(instruction="it is told"))
    task = Task(id="t", instruction="like <image>", images=(picture(7),), done=done, image=picture(8))
    text = user_turn(task, 3)
    assert text.startswith(
        "Instruction: like \n[7x6]\n\n\nAlready done:\nStep 1: it is [image] cut \n[8x6]\n"
    )
    assert "\nStep 2: it is told\n\nWrite the plan for what remains" in text
    assert text.endswith("Its first step has number 3.")
    assert "may no longer fit" not in text
    now = user_turn(task.model_copy(update={"image": picture(10)}), 3)
    assert "The scene as it is now, which may differ from what was planned: \n[10x6]\n" in now


def test_a_task_that_had_done_steps_is_replanned_after_them():
    task = Task(id="t", instruction="cook", done=(DoneStep(instruction="it is cut", image=picture(8)),))
    behind = board(None).model_copy(update={"task": task})
    chat = ScriptedChat(["no"], ["no"])
    ChatPlanner(chat, replies=2).continue_plan([ReplanContext(behind, 1, picture(20))])
    text = words(chat.calls[1][0][1:])
    places = [text.index(t) for t in ("Step 1: it is cut", "[8x6]", "Step 2, step 1:", "[11x6]", "[20x6]")]
    assert places == sorted(places)
    assert "first step has number 3" in text
    assert '"step_number": 3' in text


def test_a_planner_is_asked_with_the_number_of_steps_that_it_was_trained_on(tmp_path):
    """By the file in its folder; the limit counts all the same, after the reply."""
    plan = {"execution_plan": [{"instruction": f"state {n}", "prompt": "do"} for n in range(3)]}
    task = Task(id="t", instruction="clear the table")
    for steps, limit, named in ((None, 2, 2), (40, 2, 40), (40, 90, 40)):
        if steps:
            write_trained_steps(tmp_path, steps)
        dialect = dialect_of(f"hf:{tmp_path}", "planner")
        chat = ScriptedChat([json.dumps(plan)])
        (answer,) = ChatPlanner(chat, replies=1, dialect=dialect, max_steps=limit).plan([task])
        assert f"no more than {named}." in told(chat.calls[0])[0][0][1]
        assert isinstance(answer, Plan) == (limit > 2)
    assert number_of(str(NANO / "planner"), "trained_steps") == 40
    assert number_of(str(NANO / "critic"), "trained_steps") is None


# A folder's files tell the dialect; where nothing does, a warning names both options.


QWEN = {"model_type": "qwen3_vl", "text_config": {"hidden_size": 4096}}
LLAMA_FACTORY = """---
library_name: transformers
base_model: Qwen/Qwen3-VL-8B-Instruct
tags: [llama-factory, full, generated_from_trainer]
model-index:
- name: weights
  results: []
---
This model is a fine-tuned version of Qwen/Qwen3-VL-8B-Instruct on the sft_planner dataset.
"""
CITATION = "# Critic\n\nSee [the paper](https://arxiv.org/abs/2606.13679)."
OTHER = "---\nbase_model: Qwen/Qwen3-VL-8B-Instruct\n---\n# My captions\n"


def folder_of(path, *, card=None, config=QWEN):
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    if card is not None:
        (path / "README.md").write_text(card)
    return path


@pytest.mark.parametrize(
    ("name", "card", "config"),
    [
        ("ckpt/planner_sft", None, QWEN),
        ("ckpt/critic_rl/global_step_50/actor/huggingface", None, QWEN),
        ("weights/Critic-SFT-8B", None, QWEN),
        ("hub/models--InterleaveThinker--Critic-SFT-8B/snapshots/" + "a1" * 20, None, QWEN),
        ("weights/a", LLAMA_FACTORY, QWEN),
        ("weights/b", CITATION, QWEN),
        ("weights/c", "---\nbase_model: InterleaveThinker/Critic-SFT-8B\n---\n# Quantized", QWEN),
        ("weights/d", None, QWEN | {"_name_or_path": "/home/me/ckpt/critic_sft"}),
    ],
)
def test_a_published_model_is_known_by_its_folder(tmp_path, name, card, config, caplog):
    folder = folder_of(tmp_path / name, card=card, config=config)
    assert default_dialect(str(folder)) == "interleavethinker"
    link = tmp_path / "model"
    link.symlink_to(folder)
    assert default_dialect(f"{link}/") == "interleavethinker"
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("name", "card", "config"),
    [
        ("Qwen3-VL-8B-Instruct", None, QWEN),
        ("weights", OTHER, QWEN),
        ("weights", None, {"model_type": "qwen3_vl", "text_config": {"hidden_size": 2560}}),
        ("weights", "---\n: [\n---\n", []),
    ],
)
def test_other_models_are_asked_in_our_words_without_a_warning(tmp_path, name, card, config, caplog):
    assert default_dialect(str(folder_of(tmp_path / name, card=card, config=config))) == "own"
    assert caplog.text == ""


def test_our_own_trainer_says_it_in_the_card(tmp_path, caplog):
    folder = folder_of(tmp_path / "ckpt/critic_rl")
    facts = {"summary": "After InterleaveThinker.", "use": "", "library": "x", "task": "", "seed": 0}
    write_card(folder, Card("critic", **facts, limits=""))
    assert default_dialect(str(folder)) == "own"
    write_card(folder, Card("critic", **facts, limits="", tags=("interleavethinker",)))
    assert default_dialect(str(folder)) == "interleavethinker"
    nano = tmp_path / "planner_sft"
    shutil.copytree(NANO / "planner", nano, ignore=shutil.ignore_patterns("*.safetensors"))
    assert default_dialect(str(nano)) == "own"
    assert dialect_of("hf:nano-critic", "critic").name == "own"
    assert caplog.text == ""


def test_what_may_be_one_is_said_once(tmp_path, caplog):
    unknown = folder_of(tmp_path / "weights")
    small = folder_of(tmp_path / "my-planner", config={"model_type": "qwen3_vl"})
    names = [f"hf:{unknown}", f"hf:{small}", "openai:critic-8b@http://h/v1", "hf:somebody/Interleave-8B"]
    with caplog.at_level(logging.WARNING):
        for name in [*names, *names]:
            assert dialect_of(name, "critic").name == "own"
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == len(names)
    for text in told:
        assert "Add ?dialect=interleavethinker if it is one, or ?dialect=own if not" in text
    caplog.clear()
    for name in (f"hf:{small}?dialect=own", "openai:critic@http://h/v1", "openai:gpt-5@http://h/v1"):
        assert dialect_of(name, "critic").name == "own"
    assert caplog.text == ""
