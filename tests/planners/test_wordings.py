"""What the planner reads in an instruction: what no rule reads whole stays word for word."""

import pytest
from hypothesis import given, strategies as st
from support.arms import A, Arm, B, C, sentences

from goalreel.planners.kinematic.clauses import read
from goalreel.planners.kinematic.naming import unmentioned
from goalreel.planners.kinematic.paraphrases import paraphrases
from goalreel.planners.kinematic.words import is_noun
from goalreel.types import DoneStep, Step

ONCE = Arm().take(A).put(B).home()
TWICE = Arm().take(A).put(B).take(C).put(A).home()
RED, BLUE = "put the red block in the yellow bowl", "put the blue block in the purple bowl"


def labels(text):
    return [clause.name for clause in read(text)]


@pytest.mark.parametrize("instruction", sentences("unread"))
def test_a_wording_that_no_rule_reads_whole_stays_word_for_word(instruction):
    """But for its white space: a name is one line."""
    for arm in (ONCE, TWICE):
        for granularity in ("event", "subtask"):
            steps = arm.plan(instruction, granularity).steps
            assert all("no rule reads the whole instruction" in step.doubts for step in steps)
            assert {step.name for step in steps} - {"close the hand"} == {" ".join(instruction.split())}


@pytest.mark.parametrize(("instruction", "name"), sentences("read"))
def test_a_wording_that_a_rule_reads_has_a_name_and_is_explained_by_one_grasp(instruction, name):
    (clause,) = read(instruction)
    assert clause.understood
    assert clause.name == name
    assert ONCE.plan(instruction).steps[0].doubts == ()


@pytest.mark.parametrize(("instruction", "name", "means"), sentences("touches"))
def test_what_a_hand_does_without_a_grasp_is_read(instruction, name, means):
    (clause,) = read(instruction)
    assert (clause.name, clause.means, clause.understood) == (name, means, True)


@pytest.mark.parametrize("text", sentences("same"))
def test_one_label_for_one_meaning(text):
    assert labels(text) == [RED, BLUE]


@pytest.mark.parametrize(("text", "name", "state"), sentences("states"))
def test_names_and_states(text, name, state):
    (clause,) = read(text)
    assert (clause.name, clause.state) == (name, state)
    assert clause.prompt == f"{name[0].upper()}{name[1:]}. Keep everything else unchanged."


def test_it_and_a_listed_sort_are_spelled_out():
    assert labels("open the drawer, put the cup in it, then close it") == [
        "open the drawer",
        "put the cup in the drawer",
        "close the drawer",
    ]
    assert labels("put the red cup on the plate and the lid on top of it")[1] == "put the lid on the red cup"
    blocks = "the red block, the blue block and the pink block"
    assert labels(f"sort {blocks} into the bowls of their own colour") == [
        f"put the {c} block in the {c} bowl" for c in ("red", "blue", "pink")
    ]
    assert len(read("sort the blocks into the bowls of their own colour")) == 1


def test_one_thing_or_several():
    several = ("put all the cups in the box", "sort the blocks by colour", "put two cups in the box")
    for text in (*several, "put the glass in the box", "clear the bowl"):
        (clause,) = read(text)
        assert clause.several is (text in several)
        assert (clause.kind == "many") is (clause.several or text == "clear the bowl")
    for text in ("put the 2 cups in the box", "pick up the cups and put them in the box"):
        assert labels(text)[0].startswith("put the")
        assert TWICE.plan(text).steps[0].doubts == ()
    assert any("do not tell" in doubt for doubt in TWICE.plan("put 3 cups in the box").steps[0].doubts)


def test_a_plain_noun():
    assert all(map(is_noun, ("the orange", "jelly", "the cutting board", "box A", "3 cups")))
    assert not any(map(is_noun, ("a red", "a b box", "cup 3 lid", "everything")))


def test_every_named_sub_goal_of_the_tabletop_gets_its_true_label():
    """Seeds of the training split; clauses that do not name their objects are left out."""
    pytest.importorskip("mujoco")
    from goalreel.tabletop.grammar import sample_episode

    checked = 0
    for seed in range(150):
        episode = sample_episode(seed)
        if any("of their own colour" in mission.text for mission in episode.missions):
            continue
        wanted = [
            g.text
            for mission in episode.missions
            for g in mission.goals
            if mission.kind not in ("clear_all", "sort") and not mission.text.startswith(("clear", "empty"))
        ]
        checked += len(wanted)
        assert [c.name for c in read(episode.instruction) if c.kind != "many"] == wanted, episode.instruction
    assert checked > 300


@given(st.text() | st.from_regex(r"(lorem|ipsum|dolor)( (sit|amet|elit)){0,5}", fullmatch=True))
def test_any_text_gives_clauses_with_words(text):
    clauses = read(text)
    assert all(c.name.strip() and c.state.strip() and c.prompt.strip() for c in clauses)
    if text.startswith(("lorem", "ipsum", "dolor")):
        assert labels(text) == [text]


@pytest.mark.parametrize("instruction", sentences("paraphrased"))
def test_every_paraphrase_reads_as_the_same_clauses(instruction):
    found = paraphrases(instruction)
    assert found[0] == instruction
    assert 2 <= len(set(found)) == len(found) <= 8
    states = [c.state for c in read(instruction)]
    assert [[c.state for c in read(text)] for text in found] == [states] * len(found)


def test_verbs_and_prepositions_vary_but_nothing_is_put_into_a_side():
    found = paraphrases("put the block in the bowl", limit=20)
    assert {"place the block into the bowl", "please set the block inside the bowl"} <= set(found)
    assert paraphrases("put the cup on the left side of the tray", limit=20)[1:]
    assert not any("onto" in text or "top of" in text for text in paraphrases("put the cup on the left", 20))


@pytest.mark.parametrize("instruction", [*sentences("said in no other way"), ""])
def test_what_is_not_understood_or_loses_a_word_is_said_in_no_other_way(instruction):
    assert paraphrases(instruction) == (instruction,)


@pytest.mark.parametrize(("instruction", "name", "told"), sentences("told"))
def test_a_thing_that_the_instruction_names_and_no_step_mentions_is_told(instruction, name, told):
    step = Step(name=name, instruction=name, prompt="do it")
    missing = unmentioned(instruction, [step])
    assert (" ".join(missing) or "nothing") == told
    assert unmentioned(instruction, [step], [DoneStep(instruction=thing) for thing in missing]) == ()
