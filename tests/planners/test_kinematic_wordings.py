"""Wordings of strangers: what no rule reads whole stays word for word, and what one reads is not garbled.

Beside each of the first is a name that was once written for it, or none where it was never read.
"""

import pytest
from support.arms import A, Arm, B, C

from goalreel.planners.kinematic.clauses import read
from goalreel.planners.kinematic.words import is_noun

ONCE = Arm().take(A).put(B).home()
TWICE = Arm().take(A).put(B).take(C).put(A).home()

UNREAD = {
    # other languages
    "pon la taza en la caja": None,
    "place la taza en la mesa": None,
    "move o copo to the box": "move the o copo to the box",
    "Pick la tasse and place it in the box": None,
    "положи чашку в коробку": None,
    "コップを箱に入れて": None,
    # lists and numbered steps
    "1. pick up the cup 2. put it in the box": None,
    "Step 1: pick up the cup. Step 2: put it in the box.": None,
    "- pick up the cup\n- put it in the box": None,
    # quoted text and marks
    'put the "red cup" in the box': None,
    "pick up the cup that says 'take me'": None,
    "put the {object} in the {container}": None,
    "put the cup in the box v2": "put the cup in the box v2",
    "put the 🍎 in the bowl": None,
    "put the cup in the box 🙂": None,
    # conditions and negations
    "if the cup is red, put it in the box": None,
    "put the cup in the box until it is full": None,
    "do not pick up the cup": None,
    "don't put the cup in the box": None,
    "put neither cup in the box": "put the neither cup in the box",
    # two sentences, hesitation, typing errors
    "Pick up the cup. It is red.": None,
    "put the cup in the box! Quickly!": None,
    "put the cup, um, the mug in the box": None,
    "put the cup in the box... no, the bowl": None,
    "put teh cup in teh box": "put the teh cup in the teh box",
    "put the cup cup in the box": "put the cup cup in the box",
    # prompts and questions
    "Task: put the cup in the box": None,
    "In: What action should the robot take to pick up the cup?\nOut:": None,
    "You are a robot. Pick up the cup.": None,
    "where is the cup?": None,
    # how often, how, how far
    "put the cup in the box twice": "put the cup in the box twice",
    "grasp the cup gently": "pick up the cup gently",
    "put the cup 5 cm to the left of the plate": "pick up the cup 5 cm",
    "move the cup 10cm left": "pick up the cup 10cm left",
    "pick up the cup with the left hand": "pick up the cup",
    # nothing that a hand takes
    "take care of the cup": "take the care of the cup",
    "take a picture of the cup": "pick up a picture of the cup",
    "take turns": "take the turns (1 of 2)",
    "place an order": "put an order",
    "move the arm to the cup": "pick up the arm",
    "put everything in the box": "put the everything in the box",
    "stack the cup on itself": "stack the cup on the itself",
    "put half of the cups in the box": "put the half of the cups in the box (1 of 2)",
    "get the cup ready": "take the cup ready",
    "pick up the red": "pick up the red",
    "put the cup in the box failed": "put the cup in the box failed",
    # words behind a noun, and units
    "pick up the cup left": "pick up the cup left",
    "place the cup upright": "put the cup upright",
    "open the drawer halfway": "reach for the drawer halfway",
    "turn the knob clockwise": "reach for the knob clockwise",
    "pick up the cup upside down": "pick up the cup upside",
    "pick up the cup filled with water": "pick up the cup filled",
    "pick up the cup standing on the plate": "pick up the cup standing",
    "put the cup in 5 seconds": "put the cup in 5 seconds",
    "put red block blue bowl": "put the red block blue bowl",
    "put all blocks except cubes in the box": "pick up one of all blocks except cubes",
    "put the the cup in the box": "put the the cup in the box",
    # other languages without an article
    "move gelas ke kiri": "move the gelas ke kiri",
    "place cube sur plateau": "put the cube sur plateau",
    # identifiers
    "pick-place-v2": "pick up the -place-v2",
    "put-cup-in-box": "put the -cup- in the -box",
    # what the hand takes is not the object
    "pick up the food with the fork": "pick up the food",
    "move the cup with the stick": "pick up the cup",
    "open the box with the red lid": "grasp the red lid",
    "put both the soup and the sauce in the basket": "put both the soup in the basket",
    # nothing that is put, or nowhere
    "raise the volume": "pick up the volume",
    "move left": "move the left",
    "move the cup up": "move the cup",
    "set the table": "put the table",
    "load the dishwasher": "put the dishwasher",
    "grasp the handle": "lift the handle",
    "move the lever to the left": "pick up the lever",
    "put a cup on each plate": "put a cup on each plate",
    "put a pair of socks in the drawer": "put a pair of socks in the drawer (1 of 2)",
    "reach into the box twice and take the cup": "take the cup",
    # what becomes of a thing is no place
    "fold the towel into a square": "fold the towel in a square",
    "sort the socks into pairs": "sort the socks in the pairs (1 of 2)",
    "take the cup out of sight": "take the cup out of the sight",
    # where or how a thing is to be, behind its noun
    "put the cup somewhere in the box": "put the cup somewhere in the box",
    "put the book flat on the table": "put the book flat on the table",
    "put the towel folded on the shelf": "put the towel folded on the shelf",
    # one of several, and what it is counted from
    "pick up the second cup from the left": "pick up the second cup",
    "pick up the cup closest to the plate": "pick up the cup closest",
    "pick up the closest cup to the plate": "pick up the closest cup",
    # numbers of recordings
    "put the cup in the box 00042": "put the cup in the box 00042",
    "put the cup in the box ep12": "put the cup in the box ep12",
    # "it" may be either thing, or neither
    "put the cup in the box and close it": "close the cup",
    "take the milk out of the fridge and close it": "close the milk",
    "put the cup on the plate and push it to the left": "push the cup to the left",
    "pick up the cup, open the drawer and put it in the drawer": "put the drawer in the drawer",
    "pull the handle to open the drawer and close it": "close the handle",
    "cut the apple with the knife and put it in the bowl": "put the knife in the bowl",
    "take the lid off the pot and put the spoon in it": "put the spoon in the lid",
    "pick up the cup and put them in the box": "put the cup in the box",
    # "and" may join two places
    "put the cup between the plate and the fork on the table": "put the fork on the table",
    "put the cup next to the knife and fork on the table": "put the fork on the table",
}


@pytest.mark.parametrize("instruction", UNREAD)
def test_a_wording_that_no_rule_reads_whole_stays_word_for_word(instruction):
    """But for its white space: a name is one line."""
    for arm in (ONCE, TWICE):
        for granularity in ("event", "subtask"):
            steps = arm.plan(instruction, granularity).steps
            assert all("no rule reads the whole instruction" in step.doubts for step in steps)
            names = {step.name for step in steps} - {"close the hand"}
            assert names == {" ".join(instruction.split())}


@pytest.mark.parametrize(
    ("instruction", "names"),
    [
        ("pick up the USB-C cable", ["pick up the USB-C cable"]),
        ("put the LEGO brick in the box", ["put the LEGO brick in the box"]),
        ("Pick Up The Cup", ["pick up the Cup"]),
        ("PUT THE CUP IN THE BOX", ["put the CUP in the BOX"]),
        ("put Anna's cup in the box", ["put Anna's cup in the box"]),
        ("put block 2 in bin A", ["put block 2 in bin A"]),
        ("remove lid from jar", ["take the lid off the jar"]),
        ("remove the cup from the jar", ["take the cup out of the jar"]),
        ("take the cup from the shelf and put it on the table", ["put the cup on the table"]),
        ("put the cup down", ["put down the cup"]),
        ("pick up the plug-in adapter", ["pick up the plug-in adapter"]),
        ("put obj1 in loc2", ["put obj1 in loc2"]),
        ("put the thermos in the box", ["put the thermos in the box"]),
        ("put another cup in the box", ["put another cup in the box"]),
        ("put the A block in the box", ["put the A block in the box"]),
        ("drop the ball", ["drop the ball"]),
        ("put a bag of chips in the box", ["put a bag of chips in the box"]),
        ("put the cup on the 2nd shelf", ["put the cup on the 2nd shelf"]),
        ("put the cup on the left side of the table", ["put the cup on the left side of the table"]),
        ("put the cup on the left side of the plate", ["move the cup to the left of the plate"]),
        ("pick up the second cup from the table", ["pick up the second cup"]),
        ("put the folded towel in the seed bed", ["put the folded towel in the seed bed"]),
        ("put our cup in their box", ["put our cup in their box"]),
        ("Can you put the cup in the box, please?", ["put the cup in the box"]),
        ("throw the can in the bin", ["put the can in the bin"]),
        ("retrieve the cup from the cabinet", ["take the cup out of the cabinet"]),
        ("unplug the charger from the socket", ["unplug the charger from the socket"]),
        ("grasp the plug and pull it out of the socket", ["pull the plug out of the socket"]),
    ],
)
def test_a_wording_that_a_rule_reads_keeps_its_names(instruction, names):
    clauses = read(instruction)
    assert all(clause.understood for clause in clauses)
    assert [clause.name for clause in clauses] == names
    assert ONCE.plan(instruction).steps[0].doubts == ()


@pytest.mark.parametrize(
    ("instruction", "name", "means"),
    [
        ("push the door shut", "push the door shut", "push"),
        ("pull open the drawer", "pull the drawer open", "pull"),
        ("pull the door open by the handle", "pull the door open by the handle", "pull"),
        ("pull the handle to open the drawer", "pull the handle to open the drawer", "pull"),
        ("turn the lock to open it", "turn the lock", "turn"),
        ("pull the handle of the drawer to close it", "pull the handle of the drawer", "pull"),
        ("push the plate sideways into the goal", "push the plate sideways in the goal", "push"),
        ("pull the plate back out of the rack", "pull the plate back out of the rack", "pull"),
        ("slide the window to the left", "slide the window to the left", "push"),
        ("sweep the cube into the hole", "sweep the cube in the hole", "push"),
        ("knock over the can", "knock over the can", "push"),
        ("lock the door", "lock the door", "turn"),
        ("turn the lock of the door", "turn the lock of the door", "turn"),
        ("push the red button in", "push the red button in", "press"),
        ("push down the lever", "push the lever down", "press"),
        ("flip the light switch", "flip the light switch", "press"),
        ("reach over the wall and press the button", "press the button", "press"),
        ("push the thermos with the stick", "push the thermos with the stick", "tool"),
        ("hammer the nail", "hammer the nail", "tool"),
    ],
)
def test_what_a_hand_does_without_a_grasp_is_read(instruction, name, means):
    (clause,) = read(instruction)
    assert (clause.name, clause.means, clause.understood) == (name, means, True)


def test_a_number_in_digits_asks_for_as_many_grasps():
    assert TWICE.plan("put the 2 cups in the box").steps[0].doubts == ()
    assert any("do not tell" in doubt for doubt in TWICE.plan("put 3 cups in the box").steps[0].doubts)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("the orange", True),
        ("a red", False),
        ("jelly", True),
        ("the cutting board", True),
        ("box A", True),
        ("a b box", False),
        ("3 cups", True),
        ("cup 3 lid", False),
        ("everything", False),
    ],
)
def test_a_plain_noun(text, plain):
    assert is_noun(text) is plain
