"""Replies become a Plan, a Verdict or a Problem: realistic ones from files, the rest by Hypothesis."""

import json
import random
import re
import string

import pytest
from hypothesis import example, given, settings, strategies as st
from support.arms import sentences
from support.places import DATA

from goalreel.chat.json_reply import MAX_REPLY, Problem, clean
from goalreel.chat.plan import MAX_STEPS, parse_plan, plan_schema
from goalreel.chat.verdict import parse_observation, parse_verdict, verdict_schema
from goalreel.types import Plan, Step, Verdict

REPLIES = {f.stem: f.read_text(encoding="utf-8") for f in (DATA / "replies").iterdir()}
FRAMES = json.loads((DATA / "verdicts.json").read_text(encoding="utf-8"))
"""Replies of a Critic that are read and that are not; %s stands for a verdict that says yes."""
WHY = dict(sentences("unusable"))
STEP = {"step_number": 1, "step_name": "a", "instruction": "b", "prompt": "c", "auxiliary_text": None}


def plan_reply(steps: list[dict]) -> str:
    return f"<think>x</think><answer>{json.dumps({'execution_plan': steps})}</answer>"


@pytest.mark.parametrize("name", [n for n in sorted(REPLIES) if n.startswith("plan-") and n not in WHY])
def test_a_plan_is_read_whole(name):
    plan = parse_plan(REPLIES[name])
    assert isinstance(plan, Plan), plan
    assert len(plan.steps) == int(name.split("-")[1])


@pytest.mark.parametrize("name", [n for n in sorted(REPLIES) if n.startswith("verdict-") and n not in WHY])
def test_a_verdict_is_read_as_it_was_meant(name):
    verdict = parse_verdict(REPLIES[name], "Lower the open gripper onto the red block and close it.")
    assert isinstance(verdict, Verdict), verdict
    assert verdict.success == name.startswith("verdict-yes")
    assert (verdict.refined_prompt is None) == (verdict.success or name.endswith("without-prompt"))


@pytest.mark.parametrize("name", sorted(WHY))
def test_what_cannot_be_used_is_said(name):
    assert "-bad-" in name
    problem = (parse_plan if name.startswith("plan") else parse_verdict)(REPLIES[name])
    assert WHY[name] in problem.message


def test_what_the_published_format_means():
    plan = parse_plan(REPLIES["plan-3-published-format"])
    assert plan.reasoning == "The block is on the left, the bowl on the right. Reach, grasp, place."
    assert plan.steps[0] == Step(
        name="Reach the block",
        instruction="The open gripper is right above the red block.",
        prompt="Move the open gripper to just above the red block; "
        "the block, the blue bowl, the table and the light stay as they are.",
        auxiliary_text="Reaching.",
    )
    verdict = parse_verdict(REPLIES["verdict-no-published-format"])
    assert verdict.reasoning == "The gripper is still open."
    assert verdict.refined_prompt.startswith("Close the gripper around the red block this time")


YES = '{"previous_step_success": true, "refine_prompt": null}'
NO = '{"previous_step_success": false, "refine_prompt": "Move it further."}'
MOVE = "Move the wrong bar to the right, and do not change the table."
HOLDS = '{"holds": "yes", "reason": "it lies there"}'


@pytest.mark.parametrize("frame", FRAMES["honest"])
def test_honest_frames_are_read(frame):
    for reply, success in ((YES, True), (NO, False)):
        verdict = parse_verdict(frame.replace("%s", reply), MOVE)
        assert isinstance(verdict, Verdict), verdict
        assert verdict.success == success
        assert not re.search("`|json\\n|box", verdict.reasoning), "marks are no reason"
    assert parse_observation(frame.replace("%s", HOLDS), MOVE).success


@pytest.mark.parametrize("frame", FRAMES["taken back"])
def test_what_may_take_an_acceptance_back_is_no_answer(frame):
    for read, reply in ((parse_verdict, YES), (parse_observation, HOLDS)):
        assert isinstance(read(frame.replace("%s", reply), MOVE), Problem)


@pytest.mark.parametrize("reply", FRAMES["honest replies"])
def test_honest_replies_are_read(reply):
    assert parse_verdict(reply, MOVE).success


@pytest.mark.parametrize("reason", FRAMES["reasons that say no"])
def test_a_yes_whose_reason_says_no_is_no_answer(reason):
    assert isinstance(parse_observation(json.dumps({"holds": "yes", "reason": reason})), Problem)


@pytest.mark.parametrize("more", FRAMES["other keys"])
def test_another_key_than_was_asked_for_is_no_answer(more):
    assert isinstance(parse_verdict(f"{YES[:-1]}, {more}}}"), Problem)
    assert isinstance(parse_observation(f"{HOLDS[:-1]}, {more}}}"), Problem)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Move it to the right.", True),
        ("move it  to the right", True),
        ("Move it: it is where it was.", False),
    ],
)
def test_an_acceptance_repeats_the_prompt_that_was_judged_or_none(written, read):
    reply = json.dumps({"previous_step_success": True, "refine_prompt": written})
    assert isinstance(parse_verdict(reply, "Move it to the right."), Verdict if read else Problem)
    assert isinstance(parse_verdict(reply), Problem)


def test_text_comes_through_unchanged():
    assert parse_plan(REPLIES["plan-1-html"]).steps[0].prompt.startswith('<script>alert("x")</script> Draw')
    assert parse_plan(REPLIES["plan-2-emoji"]).steps[0].name == "🤖 Reach 🧱"
    assert parse_plan(REPLIES["plan-2-emoji-escaped"]).steps[1].name == "🥣 Place"
    assert parse_plan(REPLIES["plan-2-right-to-left"]).steps[0].name == "امسك المكعب الأحمر"


@pytest.mark.parametrize(
    "prompt",
    [
        'The label must read "ACID", and the other one "BASE": both in red.',
        'Write "Menu", below it "Tea": 2 euros, and keep the cup.',
        'Set the display to "12:30", not "12:00": leave the rest.',
        'Move the "red", "blue" and "{x}" block.',
        'Put "🧱", "🥣": 🧱 🥣',
        'Arrange the labels ["A", "B"] in a row.',
        'Put {"A"} and {"B"} there.',
        'Write "[A]", then "None"]: none.',
        'The label must read "ACID".',
        'Write "caf\\u00e9" in the "C:\\\\new" window.',
    ],
)
def test_a_text_with_unescaped_quotes_is_never_cut_short(prompt):
    said = prompt.replace("\\u00e9", "é").replace("\\\\", "\\")
    verdict = parse_verdict(f'{{"previous_step_success": false, "refine_prompt": "{prompt}"}}')
    assert isinstance(verdict, Problem) or verdict.refined_prompt == said
    steps = (
        f'{{"step_number": {n}, "instruction": "b", "prompt": "{prompt}", "auxiliary_text": null}}'
        for n in (1, 2)
    )
    plan = parse_plan(f'{{"execution_plan": [{", ".join(steps)}]}}')
    assert isinstance(plan, Problem) or [s.prompt for s in plan.steps] == [said] * 2


@pytest.mark.parametrize(
    "reply",
    [
        '{{"previous_step_success": false, "refine_prompt": "{0}",}}',
        "{{'previous_step_success': False, 'refine_prompt': \"{0}\", 'scores': None}}",
        "{{'previous_step_success': false, 'refine_prompt': \"{0}\", 'scores': null}}",
    ],
)
def test_python_and_json_may_be_mixed(reply):
    prompt = "Keep \\u00e9 and none of it."
    verdict = parse_verdict(reply.format(prompt))
    assert isinstance(verdict, Verdict), verdict
    assert verdict.refined_prompt == prompt.replace("\\u00e9", "é")


def test_scores_are_the_lower_of_each_pair_and_overall_the_root_of_the_product():
    verdict = parse_verdict(REPLIES["verdict-yes-scores"])
    assert (verdict.semantics, verdict.quality) == (8, 7.5)
    assert verdict.score == pytest.approx(60**0.5)


COUNTED = ((0, 1, 2), (5, 6, 7), (1, 1, 1), (None, None, None), (1, None, 3), (None, 4, 5))
MISCOUNTED = ((1, 3, 4), (1, None, 4), (3, 2, 1), (-1, 0, 1), (1, 2, 10**400), (1, 2, True), (1, 2, "1e3"))


@pytest.mark.parametrize(
    ("numbers", "read"), [*((n, True) for n in COUNTED), *((n, False) for n in MISCOUNTED)]
)
def test_steps_are_renumbered_but_a_gap_is_a_lost_step(numbers, read):
    steps = [{**STEP, "step_number": n, "step_name": f"s{i}"} for i, n in enumerate(numbers)]
    result = parse_plan(plan_reply(steps))
    assert isinstance(result, Plan if read else Problem), result
    if read:
        assert [s.name for s in result.steps] == ["s0", "s1", "s2"]


@pytest.mark.parametrize("limit", [1, MAX_STEPS, 120])
def test_a_plan_has_a_limit_that_can_be_set(limit):
    steps = [{**STEP, "step_number": n + 1} for n in range(limit + 1)]
    assert len(parse_plan(plan_reply(steps[:-1]), max_steps=limit).steps) == limit
    result = parse_plan(plan_reply(steps), max_steps=limit)
    assert f"at most {limit}" in result.message
    assert plan_schema(limit)["properties"]["execution_plan"]["maxItems"] == limit


def test_a_step_in_words_alone_has_no_prompt_and_its_words_for_an_instruction():
    first, second = parse_plan(REPLIES["plan-2-words-alone"]).steps
    assert first == Step(
        name="First picture",
        instruction="The gripper waits above the block; the bowl's still empty.",
        prompt=None,
        auxiliary_text="The gripper waits above the block; the bowl's still empty.",
    )
    assert second.prompt is None
    told = parse_plan(plan_reply([{**STEP, "prompt": None, "auxiliary_text": "why"}])).steps[0]
    assert (told.instruction, told.prompt, told.auxiliary_text) == ("b", None, "why")


def test_a_missing_name_is_made_of_the_steps_words():
    named = [s.name for s in parse_plan(REPLIES["plan-2-no-names"]).steps]
    assert named == ["The open gripper is right", "The gripper's fingers hold the"]
    words = {**STEP, "step_name": None, "instruction": None, "prompt": None, "auxiliary_text": "字" * 300}
    assert parse_plan(plan_reply([words])).steps[0].name == "字" * 60


@pytest.mark.parametrize(("steps", "prompt", "least"), [(15, 840, 12_000), (25, 1_200, 30_000)])
def test_a_long_python_literal_is_read_to_the_letter(steps, prompt, least):
    said = {**STEP, "instruction": "it's there", "prompt": ('the "red" block\'s ' * 100)[:prompt] + "."}
    numbered = [{**said, "step_number": n} for n in range(1, steps + 1)]
    reply = f"<think>x</think><answer>{ {'execution_plan': numbered} }</answer>"
    assert len(reply) > least
    plan = parse_plan(reply)
    assert isinstance(plan, Plan), plan
    assert [(s.instruction, s.prompt) for s in plan.steps] == [("it's there", said["prompt"])] * steps


@pytest.mark.parametrize(
    "reply",
    [
        "x" * (MAX_REPLY + 1),
        "{" * 50_000,
        '{"execution_plan":' + "[" * 40_000 + "]" * 40_000 + "}",
        '{"execution_plan":' * 5_000 + "1" + "}" * 5_000,
        "{'execution_plan" + '{"' * 90 + 'x" ' * 2_000 + "}" * 91,
        "{'execution_plan': '" + "x" * 12_000 + "'}",
        "{'execution_plan':" + "{'a':" * 60 + "1" + "}" * 61,
        "{'execution_plan':[" + "{x}," * 200 + "]}",
        '{"' * 40_000,
        "{'execution_plan':" + "('" * 20_000 + "}",
        "\ud800" * 1_000 + "\x00" * 1_000,
    ],
    ids=lambda r: r[:20].encode("unicode_escape").decode(),
)
def test_huge_and_nested_replies_are_none(reply):
    assert isinstance(parse_plan(reply), Problem)
    assert isinstance(parse_verdict(reply.replace("execution_plan", "previous_step_success")), Problem)


def test_text_is_made_valid_unicode():
    assert clean("\ud83d\ude00 \ud800 a\x00b\tc \u202ed") == "😀 \ufffd a b\tc  d"
    reply = plan_reply([{**STEP, "prompt": "grasp \ud800 it\x00", "step_name": "\U0001f9f1"}])
    plan = parse_plan(reply)
    assert plan.steps[0].prompt == "grasp \ufffd it"
    assert plan.steps[0].name == "🧱"
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_schemas_ask_for_every_key_and_no_other():
    for schema in (plan_schema(), verdict_schema(scores=True), verdict_schema(scores=False)):
        objects = [schema, *schema.get("$defs", {}).values()]
        assert all(o["additionalProperties"] is False for o in objects)
        assert all(set(o["required"]) == set(o["properties"]) for o in objects if "properties" in o)
        assert '"default"' not in json.dumps(schema)
    assert "scores" not in verdict_schema(scores=False)["properties"]


TRICKY = st.text(st.sampled_from("ab'\"{}[],:<>\\/\n é🧱"), min_size=1, max_size=12).map(lambda s: f"w{s}w")
STEPS = st.lists(
    st.fixed_dictionaries({"step_name": TRICKY, "instruction": TRICKY, "prompt": TRICKY}),
    min_size=1,
    max_size=4,
)
STYLES = st.sampled_from(
    [json.dumps, lambda o: json.dumps(o, ensure_ascii=False), lambda o: json.dumps(o, indent=1)]
)


@given(steps=STEPS, style=st.one_of(STYLES, st.just(repr)), tags=st.booleans())
def test_a_truncated_plan_is_never_a_shorter_plan(steps, style, tags):
    numbered = [{"step_number": n, **s, "auxiliary_text": None} for n, s in enumerate(steps, 1)]
    reply = style({"execution_plan": numbered})
    reply = f"<think>x</think><answer>{reply}</answer>" if tags else reply
    for end in range(len(reply)):
        result = parse_plan(reply[:end])
        assert isinstance(result, Problem) or len(result.steps) == len(steps), reply[:end]


MARKS = """false False no null None maybe 1 0.5 NaN ' " { } [ ] , : \\ /* */ // ``` <think> </think> <answer>
</answer> ( ) “ ” "previous_step_success" 'previous_step_success' previous_step_success "refine_prompt"
"scores" "execution_plan" "step_number" "prompt" "instruction" {} [] <image> 🧱"""
JUNK = [*MARKS.split(), "\n", " ", "\ud800", "\x00", "\u202e"]
SPLICE = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(JUNK)), max_size=6)


def spliced(text: str, cuts: list[tuple[float, int, str]]) -> str:
    for at, drop, junk in cuts:
        place = int(at * len(text))
        text = text[:place] + junk + text[place + drop :]
    return text


@settings(max_examples=4 * settings.default.max_examples)
@given(
    reply=st.one_of(
        st.sampled_from(sorted(REPLIES.values())), st.lists(st.sampled_from(JUNK), max_size=40).map("".join)
    ),
    cuts=SPLICE,
)
def test_nothing_but_a_plan_a_verdict_or_a_problem_comes_out(reply, cuts):
    text = spliced(reply, cuts)
    plan, verdict = parse_plan(text), parse_verdict(text)
    assert isinstance(plan, Plan | Problem)
    assert isinstance(verdict, Verdict | Problem)
    for result in (plan, verdict):
        if isinstance(result, Problem):
            assert result.message.strip()
            result.message.encode()
        else:
            assert type(result).model_validate_json(result.model_dump_json()) == result


@settings(max_examples=4 * settings.default.max_examples)
@given(
    reply=st.sampled_from(
        [v for n, v in sorted(REPLIES.items()) if "-no-" in n and "true" not in v.casefold()]
    ),
    cuts=SPLICE,
)
@example(reply='{"previous_step_success": false}', cuts=[])
def test_a_damaged_rejection_is_never_an_acceptance(reply, cuts):
    result = parse_verdict(spliced(reply, cuts))
    assert isinstance(result, Problem) or not result.success


# After a brace that closes the object there is prose, and after a colon another key.
WITHIN = st.text(string.ascii_letters + " ',\"{/|&;#()[]", max_size=14)


@settings(max_examples=4 * settings.default.max_examples)
@given(
    between=WITHIN,
    quote=st.sampled_from(["", '"', "'"]),
    tag=st.sampled_from(["", "</answer>"]),
    opening=st.sampled_from(["", "(", "not ", "```"]),
)
@example(between=" or ", quote="", tag="", opening="")
@example(between="' '", quote="'", tag="", opening="")
def test_true_and_false_in_one_value_are_never_an_acceptance(between, quote, tag, opening):
    value = f"{opening}{quote}true{between}false{quote}"
    result = parse_verdict(f'{{"previous_step_success": {value}, "refine_prompt": null}}{tag}')
    assert isinstance(result, Problem) or not result.success, value


@pytest.mark.parametrize("value", ["!true", "~yes", "true?", "<true>", "= true", "tr]ue", "(yes"])
def test_a_mark_at_a_yes_is_not_lost(value):
    for ending in (', "refine_prompt": null}', "}", ', refine_prompt: "",}'):
        assert isinstance(parse_verdict(f'{{"previous_step_success": {value}{ending}'), Problem)


# Texts as models write them, with quotes as they are: each is read whole, or the model is asked again.

KEYS = ("step_name", "instruction", "prompt", "auxiliary_text")


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
}


def written(plan, style, rng, comma=""):
    value, null = STYLES[style], "null" if style == "json" else "None"
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
    if style == "json":
        assert not isinstance(read, Problem)
    if not isinstance(read, Problem):
        texts = [(s.name, s.instruction, s.prompt) for s in read.steps]
        for said, step in zip(texts, plan, strict=True):  # a quote too many at an end changes no word
            assert [re.findall(r"\w+", s) for s in said] == [re.findall(r"\w+", step[k]) for k in KEYS[:3]]
