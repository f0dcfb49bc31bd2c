"""Plans as models write them, with quotes in the texts as they are: each is read whole, or not at all."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalreel.chat.json_reply import Problem
from goalreel.chat.known_keys import UnclearError, quote_texts
from goalreel.chat.parsing import parse_plan, parse_verdict

KEYS = ("step_name", "instruction", "prompt", "auxiliary_text")
CLAUSES = (
    "move the robot's arm over the table",
    "don't touch the children's cups",
    "close the gripper on what's marked 'fragile'",
    "the two robots' grippers, now open, don't collide",
    'the box that says "Don\'t open" stays closed',
    "keep everything else as it's (the cloth, the bowl: all of it)",
    "so that it's 5' long, not 3' or 4'",
    "write 'it's done', then \"stop\", on the board",
    "the mug\u2019s handle points to the \u201cleft\u201d edge",
    "put the bowl [the blue one] on the {wooden} tray's rim",
    "wait\nand then lift it; that's all",
    "\u5c06\u84dd\u8272\u7684\u2018\u676f\u5b50\u2019\u653e\u597d \U0001f642",
)


def plan_of(rng, steps, clauses):
    def text():
        return " and ".join(rng.sample(CLAUSES, clauses)) + rng.choice([".", "", "'", '"', " (the robot's)"])

    made = []
    for _ in range(steps):
        values = {key: text() for key in KEYS}
        values["auxiliary_text"] = rng.choice([None, values["auxiliary_text"]])
        made.append(values)
    return made


def as_raw(quotes):
    """A writer of texts that escapes nothing, whatever is in them; `quotes` are (opening, closing) pairs."""

    def write(text, rng):
        opening, closing = rng.choice(quotes)
        return f"{opening}{text}{closing}"

    return write


STYLES = {
    "python": lambda text, rng: repr(text),
    "json": lambda text, rng: json.dumps(text, ensure_ascii=rng.random() < 0.5),
    "raw single": as_raw([("'", "'")]),
    "raw double": as_raw([('"', '"')]),
    "smart": as_raw([("\u201c", "\u201d"), ("\u2018", "\u2019")]),
    "mixed": as_raw([("'", "'"), ('"', '"'), ("\u201c", "\u201d")]),
    "escaped": lambda text, rng: "'" + text.replace("'", r"\'").replace("\n", r"\n") + "'",
}
NULLS = {"json": "null"}


def written(plan, style, rng, comma=""):
    value, null = STYLES[style], NULLS.get(style, "None")
    quote = value("", rng)[0] if style in ("smart", "json", "raw double") else "'"
    line = rng.choice(["\n  ", " "])

    def pair(key, text):
        return f"{quote}{key}{quote}: {text}"

    steps = []
    for number, step in enumerate(plan, 1):
        pairs = [pair("step_number", number)]
        pairs += [pair(key, null if step[key] is None else value(step[key], rng)) for key in KEYS]
        steps.append("{" + f",{line}".join(pairs) + comma + "}")
    return "{" + pair("execution_plan", f"[{line}{f',{line}'.join(steps)}{comma}{line}]") + comma + "}"


FRAMES = (
    "{}",
    "<think>What's to do? It's easy: {{a}} first.</think>\n<answer>{}</answer>",
    "```json\n{}\n```",
    "Sure, here's the plan:\n\n{}\n\nI hope it's what you're looking for: don't hesitate to ask.",
    '```python\n{}\n```\nLet me know if you\'d like "more".',
)


def texts_of(reply):
    plan = parse_plan(reply)
    assert not isinstance(plan, Problem), (plan, reply)
    return [
        {
            "step_name": s.name,
            "instruction": s.instruction,
            "prompt": s.prompt,
            "auxiliary_text": s.auxiliary_text,
        }
        for s in plan.steps
    ]


@pytest.mark.parametrize(("steps", "clauses"), [(4, 1), (4, 3), (8, 3), (25, 4)])
@pytest.mark.parametrize("style", sorted(STYLES))
def test_sixty_plans_are_read_whole(style, steps, clauses):
    rng = random.Random(f"{style} {steps} {clauses}")
    for number in range(60 if steps < 25 else 5):
        plan = plan_of(rng, steps, clauses)
        reply = FRAMES[number % len(FRAMES)].format(written(plan, style, rng, rng.choice(["", ","])))
        assert texts_of(reply) == plan


TEXT = st.text(st.sampled_from("ab '\"\u201c\u2019,.:;{}[]()\n\u00e9"), min_size=1, max_size=30)


@given(
    texts=st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=3),
    style=st.sampled_from(sorted(STYLES)),
    frame=st.sampled_from(FRAMES),
    seed=st.integers(0, 9),
)
def test_what_is_read_of_any_texts_is_what_was_written(texts, style, frame, seed):
    plan = [dict(zip(KEYS, (f"a{a}z", f"a{b}z", f"a{c}z", None), strict=True)) for a, b, c in texts]
    read = parse_plan(frame.format(written(plan, style, random.Random(seed))))
    if style in ("python", "json"):
        assert not isinstance(read, Problem)
    if not isinstance(read, Problem):
        assert [(s.name, s.instruction, s.prompt) for s in read.steps] == [
            tuple(step[key] for key in KEYS[:3]) for step in plan
        ]


def test_a_verdict_with_apostrophes_is_read():
    prompt = "Don't move 'it', the robot's \"claw\""
    reply = f"<answer>{{'previous_step_success': False, 'refine_prompt': '{prompt}'}}</answer>"
    assert parse_verdict(reply).refined_prompt == prompt
    scores = "'scores': {'success': 7, 'over_editing': 6.5, 'naturalness': 9, 'artefacts': 8,}"
    verdict = parse_verdict(f"{{'refine_prompt': '{prompt}', {scores}, 'previous_step_success': False}}")
    assert (verdict.refined_prompt, verdict.semantics) == (prompt, 6.5)


FIELDS = ("execution_plan", "instruction", "prompt")


@pytest.mark.parametrize(
    "text",
    [
        "{'instruction': 'it's', 'note': 'that's all', 'prompt': 'x'}",  # is the note a part of the text?
        "{'instruction': 'it's', note: 'that's all', 'prompt': 'x'}",
        "{'instruction': 'it's', // 'a comment'\n 'prompt': 'x'}",
        "{'instruction': 'it's '\n 'in two pieces', 'prompt': 'x'}",
        "{'instruction': 'it's ' + 'in two pieces', 'prompt': 'x'}",
        "{'instruction': 'it's' 'prompt': 'x'}",
        "{'instruction': 'it's the 'prompt': here', 'prompt': 'x'}",
        "{'instruction': 'it's, 'prompt': 'x'}",
        "{'instruction': it's, 'prompt': 'x'}",
        "{'instruction': 'a', 'prompt': 'say 'x'} or 'y'}",
        "{'instruction': 'it's in C:\\dir', 'prompt': 'x'}",
        "{'execution_plan': [{'instruction': 'it's', 'prompt': 'x'}",
        "{'execution_plan': [{'instruction': 'it's', 'prompt': 'the robot's",
        "{'outer': {'instruction': 'it's', 'prompt': 'x'}}",
        "[{'instruction': 'it's', 'prompt': 'x'}]",
        "'instruction': 'it's'",
        "",
    ],
)
def test_what_could_be_read_in_two_ways_is_not_read(text):
    with pytest.raises(UnclearError):
        quote_texts(text, FIELDS)


HOSTILE = ("{'prompt': '", "', ", "'\n", "'}", "{", ", 'prompt'", "\\", "' , a", "'" + " " * 99, "'prompt':")


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("head", ["{'prompt': '", "{'prompt': 'a', 'instruction': '"])
def test_hostile_text_costs_no_more_than_its_length(unit, head):
    """A quadratic reading of it would take hours."""
    with pytest.raises(UnclearError):
        quote_texts(head + unit * (200_000 // len(unit)), FIELDS)


def test_a_megabyte_is_read_in_one_go():
    text = "it's" + " " * 500_000 + "\n" * 500_000 + "all"
    assert quote_texts(f"{{'prompt': '{text}'}}", FIELDS) == f'{{"prompt": "{text}"}}'
