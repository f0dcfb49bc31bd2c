"""The published shape, with prompts out of a made-up clone: nothing of it is run, every mark is filled."""

import logging
import re

import pytest
from support import told
from support.scripted import ScriptedChat
from support.told import picture

from goalreel.chat.conversation import Conversation
from goalreel.chat.dialects import OWN, Dialect, dialect, interleavethinker
from goalreel.chat.dialects.interleavethinker import MAX_BYTES, string_constants
from goalreel.critics.chat import ChatCritic
from goalreel.errors import InputError
from goalreel.planners.chat import ChatPlanner
from goalreel.types import Candidate, DoneStep, Plan, ReplanContext, Task, Verdict

CLONE = '''
import a_module_that_is_not_there
raise SystemExit("it was run")

NARRATIVE_PROMPT_JSON = """
Tell the tale of "{text_input}" with {braces} and 100 %.
"""

GUIDANCE_GLOBAL_PROMPT_JSON = (
    "Go on from "
    '"{text_input}"' ".\\n"
)

Iterative_T2I_PROMPT_QWEN = """
Asked: "{original_instruction}"
Now: "{rewritten_prompt}"
"""
'''
YES = "<think>It is.</think><answer>{'previous_step_success': True, 'refine_prompt': 'grasp it'}</answer>"
PLAN = (
    "<think></think><answer>{'execution_plan': [{'step_number': 3, 'step_name': 'a', 'instruction': 'b', "
    "'prompt': 'c', 'auxiliary_text': None}]}</answer>"
)


@pytest.fixture
def clone(tmp_path):
    (tmp_path / "UEval").mkdir()
    (tmp_path / "UEval/system.py").write_text(CLONE)
    return tmp_path


def parts(conversation: Conversation) -> list:
    """What the only turn holds; a picture as its size."""
    (message,) = conversation
    assert message.role == "user"
    return [p if isinstance(p, str) else p.size for p in message.parts]


def asked(given: Dialect, task: Task) -> list:
    chat = ScriptedChat([PLAN])
    (plan,) = ChatPlanner(chat, dialect=given).plan([task])
    assert isinstance(plan, Plan), plan
    return parts(chat.calls[0][0])


def test_a_plan_from_words_is_asked_with_the_narrative_prompt(clone):
    text = 'draw "{text_input}" and {original_instruction}'
    assert asked(interleavethinker(clone), Task(id="t", instruction=text)) == [
        f'\nTell the tale of "{text}" with {{braces}} and 100 %.\n'
    ]


def test_a_partial_sequence_is_one_line_a_done_step(clone):
    done = (DoneStep(instruction="it is <image> cut", image=picture(8)), DoneStep(instruction="it is told"))
    task = Task(id="t", instruction="How to cook?", done=done, image=picture(8))
    assert asked(interleavethinker(clone), task) == [
        'Go on from "How to cook?\nStep 1: it is [image] cut ',
        (8, 6),
        '\nStep 2: it is told".\n',
    ]
    words = Task(id="t", instruction="How to cook?", done=done[1:])
    assert asked(interleavethinker(clone), words) == ['Go on from "How to cook?\nStep 1: it is told".\n']
    live = task.model_copy(update={"image": picture(9)})
    assert asked(interleavethinker(clone), live)[-3:] == ["\nStep 2: it is told\nNow: ", (9, 6), '".\n']


def test_a_storyboard_under_way_goes_on_from_its_goal_images(clone):
    cut = told.step("cut", told.attempt("p", True))
    board = told.board(cut, told.step("cut"), instruction="cook")
    chat = ScriptedChat([PLAN])
    planner = ChatPlanner(chat, dialect=interleavethinker(clone))
    (plan,) = planner.continue_plan([ReplanContext(board, 1, picture(20))])
    assert isinstance(plan, Plan)
    assert parts(chat.calls[0][0]) == [
        'Go on from "',
        board.task.image.size,
        ". cook\nStep 1: cut is done ",
        (10, 8),
        "\nNow: ",
        (20, 6),
        '".\n',
    ]


def candidate(**given) -> Candidate:
    values = {"source": picture(8), "image": picture(9), "instruction": "it is held", "prompt": "grasp it"}
    return Candidate(task_id="t", step=0, **{**values, **given})


def test_the_critic_sees_both_pictures_first_then_both_prompts(clone):
    chat = ScriptedChat([YES, YES.replace("'grasp it'", "None")])
    critic = ChatCritic(chat, dialect=interleavethinker(clone))
    again = candidate(prompt="grasp {original_instruction} <image>", first_prompt="grasp {rewritten_prompt}")
    assert critic.judge([candidate(), again]) == [Verdict(success=True, reasoning="It is.")] * 2
    first, second = map(parts, chat.calls[0])
    assert first == [(8, 6), (9, 6), '\n\nAsked: "grasp it"\nNow: "grasp it"\n']
    asked, now = "grasp {rewritten_prompt}", "grasp {original_instruction} [image]"
    assert second[2] == f'\n\nAsked: "{asked}"\nNow: "{now}"\n'


def test_a_picture_made_from_nothing_comes_after_a_white_one(clone):
    chat = ScriptedChat([YES])
    ChatCritic(chat, dialect=interleavethinker(clone)).judge([candidate(source=None)])
    white, made, _ = chat.calls[0][0][0].parts
    assert white == picture(1024, 1024, 255)
    assert made == picture(9)


def test_the_published_critic_is_not_asked_for_scores(clone):
    with pytest.raises(InputError, match="the published Critic gives no scores: give --no-critic-scores"):
        ChatCritic(ScriptedChat(), scores=True, dialect=interleavethinker(clone))
    calls = []
    for mode in ("strict", "fast"):
        chat = ScriptedChat([YES])
        ChatCritic(chat, mode=mode, dialect=interleavethinker(clone)).judge([candidate()])
        calls.append(chat.calls)
    assert calls[0] == calls[1], "the mode is the checkpoint's"


# Where the prompts come from.


def test_the_clone_is_given_or_in_the_environment(clone, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("GOALREEL_INTERLEAVETHINKER", str(clone))
    found = dialect("interleavethinker")
    assert found.note is None
    assert asked(found, Task(id="t", instruction="x"))[0].startswith("\nTell the tale")
    monkeypatch.setenv("GOALREEL_INTERLEAVETHINKER", str(tmp_path / "elsewhere"))
    assert dialect("interleavethinker", clone).note is None
    with pytest.raises(InputError, match=r"elsewhere: no UEval/system\.py"):
        dialect("interleavethinker")
    assert caplog.text == ""


@pytest.mark.parametrize("variable", [None, ""])
def test_without_a_clone_it_asks_in_our_words_and_says_so(variable, monkeypatch, caplog):
    monkeypatch.delenv("GOALREEL_INTERLEAVETHINKER", raising=False)
    if variable is not None:
        monkeypatch.setenv("GOALREEL_INTERLEAVETHINKER", variable)
    with caplog.at_level(logging.WARNING):
        made = dialect("interleavethinker")
    (record,) = caplog.records
    for text in (record.getMessage(), made.note):
        assert "git clone https://github.com/zhengdian1/InterleaveThinker" in text
        assert "GOALREEL_INTERLEAVETHINKER" in text
    (told,) = asked(made, Task(id="t", instruction="draw a {original_instruction}"))
    assert 'Instruction: "draw a {original_instruction}"' in told
    before, size, after = asked(made, Task(id="t", instruction="clear it", image=picture(8)))
    assert size == (8, 6)
    assert after.startswith(". clear it")
    assert "auxiliary_text" in before
    chat = ScriptedChat([YES])
    ChatCritic(chat, dialect=made).judge([candidate(first_prompt="take it")])
    *sizes, text = parts(chat.calls[0][0])
    assert sizes == [(8, 6), (9, 6)]
    assert '"take it"' in text
    assert '"grasp it"' in text
    for whole in (told, before + after, text):
        assert "{text_input}" not in whole
        assert "_prompt}" not in whole
        assert "<answer>" in whole


def test_our_words_tell_the_limit_of_steps(monkeypatch):
    monkeypatch.delenv("GOALREEL_INTERLEAVETHINKER", raising=False)
    chat = ScriptedChat([PLAN], [PLAN])
    for made in (dialect("interleavethinker"), OWN):
        ChatPlanner(chat, dialect=made, max_steps=7).plan([Task(id="t", instruction="x")])
    for call in chat.calls:
        assert "no more than 7" in str(call[0][0].parts[0])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("NARRATIVE_PROMPT_JSON", "NARRATIVE", "no text NARRATIVE_PROMPT_JSON"),
        ('"""\nTell', 'open("x").read() + """\nTell', "no text NARRATIVE_PROMPT_JSON"),
        ("'\"{text_input}\"'", "'{input}'", "GUIDANCE_GLOBAL_PROMPT_JSON lacks {text_input}"),
        ("{rewritten_prompt}", "{prompt}", "Iterative_T2I_PROMPT_QWEN lacks {rewritten_prompt}"),
    ],
)
def test_a_clone_that_lacks_something_says_what(clone, old, new, said):
    assert old in CLONE
    (clone / "UEval/system.py").write_text(CLONE.replace(old, new))
    with pytest.raises(InputError, match=rf"\A.*{re.escape(said)}.*\Z"):
        interleavethinker(clone)


# Texts are read out of Python source as data: what would stop or harm the reader when run does nothing.

SOURCE = """
import a_module_that_is_not_there
ADDED = "four" + " and " + "five"
TYPED: str = r"raw \\d"
A = B = "both"
FILLED = f"a {b[0]} and {c}"
NUMBER = 3
BUILT = "x".join(["y"])
HALF = "x" + str(1)
A = "not this one"
pair, other = "a", "b"
DECLARED: str
class Prompts:
    INNER = "in a class"
"""


def test_every_text_that_a_name_is_given(tmp_path):
    path = tmp_path / "source.py"
    path.write_text(SOURCE)
    texts = {"ADDED": "four and five", "TYPED": "raw \\d", "A": "both", "B": "both"}
    assert string_constants(path) == texts | {"FILLED": "a {b[0]} and {c}", "INNER": "in a class"}
    for broken in (b"def (", b"\xff\xfe", b"x = " + b"(" * 100_000):
        path.write_bytes(broken)
        with pytest.raises(InputError, match=r"\A[^\n]*is no Python source[^\n]*\Z"):
            string_constants(path)
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(InputError, match="larger than 4096 KiB"):
        string_constants(path)
    with pytest.raises(InputError, match="cannot be read"):
        string_constants(tmp_path)
