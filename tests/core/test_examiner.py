"""Critics are examined: what is printed of them holds, and blind ones verify nothing."""

import gc
import json
import logging

import numpy as np
import pytest

from goalreel.critics.controls import Story
from goalreel.critics.examination import Answers, Examination, read_examination
from goalreel.critics.examiner import Examiner, examine, quota
from goalreel.drivers import Limits, run
from goalreel.image import Image
from goalreel.middleware import AskAdapter, ask_models
from goalreel.types import Candidate, Failure, Plan, Step, Task, Verdict

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (30, 40, 200), "black": (10, 10, 10)}
PLACES = {"bowl": (70, 12), "plate": (70, 40), "box": (12, 66), "tray": (70, 70)}
RUNS = 200


def scene(moved: int, size: int = 96) -> Image:
    """A table on which the first `moved` blocks are at their places."""
    pixels = np.random.default_rng(0).integers(150, 160, (size, size, 3), np.uint8)
    for number, (colour, (x, y)) in enumerate(zip(COLOURS.values(), PLACES.values(), strict=True)):
        x, y = (x, y) if number < moved else (12, 6 + 14 * number)
        pixels[y : y + 10, x : x + 10] = colour
    return Image(pixels)


STEPS = tuple(
    Step(
        name=f"{c} to the {p}",
        instruction=f"the {c} block is in the {p}",
        prompt=f"put the {c} block in the {p}",
    )
    for c, p in zip(COLOURS, PLACES, strict=True)
)


class World:
    """Plans the four steps and draws each rightly; its critic says yes to what `says` of (is_true)."""

    def __init__(self, says):
        self.says, self.calls, self.controls = says, 0, 0

    def plan(self, tasks):
        return [Plan(steps=STEPS) for _ in tasks]

    def edit(self, edits):
        return [scene(edit.step + 1) for edit in edits]

    def judge(self, candidates):
        self.calls += len(candidates)
        verdicts = []
        for c in candidates:
            texts = [step.instruction for step in STEPS]
            number = texts.index(c.instruction) if c.instruction in texts else -1
            true = number >= 0 and c.image == scene(number + 1) and c.source == scene(number)
            verdicts.append(Verdict(success=self.says(true)))
        return verdicts


def work(world, examiner=lambda ask: ask, storyboards=5):
    models = [AskAdapter(examiner(ask_models(world, world, world)))] * 3
    tasks = [Task(id=f"t{i}", instruction="tidy up", image=scene(0)) for i in range(storyboards)]
    return list(run(tasks, *models, max_attempts=1, limits=Limits(1, 1)))


def candidates():
    texts = [{"instruction": step.instruction, "prompt": step.prompt} for step in STEPS]
    pictures = [{"source": scene(i), "image": scene(i + 1)} for i in range(len(STEPS))]
    return [Candidate(task_id="t", step=i, **pictures[i], **texts[i]) for i in range(len(STEPS))]


def test_an_honest_critic_is_asked_certain_questions_of_many_kinds_and_passes():
    world = World(lambda true: true)
    examiner = Examiner("model x")
    found = examine(world, "model x", candidates())
    assert found.on_false.yes == 0
    assert found.on_true.no == 0
    kinds = {kind for kind, answers in found.kinds.items() if answers.asked}
    assert kinds >= {"blank", "unchanged", "earlier_goal", "later_words", "other_change", "damaged", "true"}
    work(world, examiner, storyboards=30)
    assert examiner.examination.passed, examiner.examination.line
    assert "?" not in Examination(critic="model hf:nano?max_new_tokens=512").line, "its options"
    assert examiner.examination.judged == examiner.examination.accepted == 120


@pytest.mark.parametrize(
    ("said", "elsewhere", "kinds"),
    [
        ("the cup is in the bowl", "the egg is in the pan", ["other_thing"]),
        ("the cup is out of the bowl", "the egg is out of the pan", []),
        ("the cup is behind the bowl", "the egg is behind the pan", ["opposite_words"]),
        ("the cup is on the plate", "the egg is on the table", []),
        ("the cup is left on the plate", "the egg is eaten", []),
        ("the cup is to the left of the plate", "the egg is eaten", ["opposite_words"]),
    ],
)
def test_no_words_are_asked_about_that_may_be_true_besides(said, elsewhere, kinds):
    steps = [Step(name=text, instruction=text, prompt=text) for text in (said, elsewhere)]
    story = Story(candidates()[0].model_copy(update={"instruction": said, "prompt": said}), {}, steps)
    assert [kind for kind in ("opposite_words", "other_thing") if any(story.controls(kind))] == kinds


def test_controls_cost_their_calls_and_change_no_storyboard():
    plain, examined = World(lambda true: true), World(lambda true: true)
    examiner = Examiner("model x")
    boards, others = work(plain, storyboards=25), work(examined, examiner, 25)
    assert [b.model_dump_json() for b in others] == [b.model_dump_json() for b in boards]
    assert examined.calls - plain.calls == examiner.examination.asked == quota(100) == 20
    assert quota(400) + quota(400) // 10 + 1 <= 0.08 * 400, "with those whose answer is yes"


def test_an_examination_goes_on_after_a_kill_and_is_not_counted_twice(tmp_path):
    world = World(lambda true: true)
    examiner = Examiner("model x", tmp_path)
    work(world, examiner)
    with (tmp_path / "run.jsonl").open("a") as file:
        file.write('\n{"critic": "model x", "of": "cut o')
    before = examiner.examination
    again = Examiner("model x", tmp_path)
    assert again.examination == read_examination(tmp_path) == before
    calls = world.calls
    work(world, again)
    assert again.examination == before
    assert world.calls == calls + before.judged


def test_a_blind_critic_is_named_at_once(caplog):
    with caplog.at_level(logging.WARNING):
        examiner = Examiner("model x")
        work(World(lambda true: True), examiner, storyboards=2)
    assert "blind" in caplog.text
    assert caplog.text.count("the critic is blind") == 1
    assert not examiner.examination.passed
    assert examiner.examination.untrue == (0.0, 1.0)
    assert "false (1 blank, 1 unchanged" in examiner.examination.line, "kinds are told apart"
    sign = candidates()[0].model_copy(update={"instruction": "the sign says so. In all: 3"})
    before = examiner.examination.judged
    examiner.note(sign, Verdict(success=True))
    assert examiner.examination.judged == before + 1, "no question about a whole task"


def test_a_critic_whose_server_drops_the_pictures_does_not_pass(tmp_path):
    class Unseen(World):
        def judge(self, candidates):
            return [v.model_copy(update={"unseen": True}) for v in super().judge(candidates)]

    work(Unseen(lambda true: true), Examiner("m", tmp_path), storyboards=12)
    found = read_examination(tmp_path)
    assert (found.unseen, found.passed) == (True, False)
    assert "was not given the pictures" in found.line


def test_critics_of_pictures_alone_are_asked_nothing():
    world, examiner = World(lambda true: true), Examiner("picture checks")
    world.judge = lambda cs: [Verdict(success=True, pictures_only=True) for _ in cs]
    work(world, examiner)
    assert examiner.examination.asked == examiner.examination.judged == 0


def test_a_control_that_cannot_be_answered_costs_nothing_and_is_no_yes():
    class Odd(World):
        def judge(self, candidates):
            if any(c.image not in map(scene, range(5)) for c in candidates):
                raise RuntimeError("odd picture")
            return super().judge(candidates)

    examiner = Examiner("model x")
    assert all(board.complete for board in work(Odd(lambda true: true), examiner, 5))
    assert examiner.examination.on_false.none > 0
    assert examiner.examination.on_false.yes == 0


def test_answers_that_are_too_few_or_failed_are_none():
    examiner = Examiner("model x", control_count=lambda judged: judged)
    for candidate in candidates():
        examiner.note(candidate, Verdict(success=True))
    controls = examiner.due()
    assert len(controls) > 1
    for answers in ([Verdict(success=True)], [Failure(stage="judge", message="busy")] * len(controls)):
        examiner.record(controls, answers)
        assert examiner.examination.on_false.none == len(controls)


def test_pictures_of_finished_tasks_are_not_kept():
    def count():
        gc.collect()
        return sum(type(thing) is Image for thing in gc.get_objects())

    before, examiner = count(), Examiner("model x")
    work(World(lambda true: true), examiner, storyboards=100)
    assert count() - before < 256


@pytest.mark.parametrize(("on_true", "on_false"), [(1, 1), (0, 0), (0.5, 0.5), (0.9, 0.1), (0.7, 0.3)])
@pytest.mark.parametrize("true_share", [0.5, 0.9])
def test_the_interval_holds_the_truth_in_95_percent_of_runs(on_true, on_false, true_share):
    rng, held, steps = np.random.default_rng(7), 0, 100
    for _ in range(RUNS):
        true = rng.random(steps) < true_share
        yes = rng.random(steps) < np.where(true, on_true, on_false)
        wrong = rng.random(quota(steps)) < on_false
        kinds = {
            kind: Answers(yes=int(part.sum()), no=int((~part).sum()))
            for kind, part in zip(
                ("unchanged", "later_words", "damaged"), np.array_split(wrong, 3), strict=True
            )
        }
        found = Examination(critic="x", kinds=kinds, judged=steps, accepted=int(yes.sum()))
        low, high = found.untrue
        held += not yes.any() or low <= float((~true)[yes].mean()) <= high
        if on_true == on_false:
            assert not found.passed
    assert held >= 0.95 * RUNS


def test_the_interval_is_narrow_where_few_pictures_are_rejected():
    """The counts of nano on the validation split, where the simulator calls 11 of 357 untrue."""
    kinds = {"unchanged": Answers(no=15), "damaged": Answers(no=12), "opposite_words": Answers(no=4)}
    low, high = Examination(critic="x", kinds=kinds, judged=429, accepted=357).untrue
    assert low <= 11 / 357 <= high <= low + 0.06
    more = {kind: Answers(yes=10 * a.yes, no=10 * a.no) for kind, a in kinds.items()}
    many = Examination(critic="x", kinds=more, judged=4290, accepted=3570)
    assert high - 0.02 < many.untrue[1], "more easy questions tell no more of an editor's errors"
    unasked = Examination(critic="x", judged=500, accepted=500)
    assert (unasked.untrue, unasked.passed) == ((0.0, 1.0), False)


def test_a_log_with_rubbish_keeps_its_good_lines_and_the_critic_that_was_asked_last(tmp_path):
    lines = [{"critic": c, "of": str(i), "kind": "damaged", "answer": "no"} for i, c in enumerate("aba")]
    rubbish = ['"text"', "[1]", "7", '{"critic": []}', "[" * 99_999, "\x00\ufffd", '{"critic": "a", "of": "c']
    rubbish.append(json.dumps(lines[0] | {"of": ["x"], "kind": []}))
    (tmp_path / "run.jsonl").write_text("\n".join([*rubbish[:4], *map(json.dumps, lines), *rubbish[4:]]))
    assert read_examination(tmp_path).kinds == {"damaged": Answers(no=2)}
    again = Examiner("a", tmp_path)  # its first line must not be lost to the one that a kill cut off
    work(World(lambda true: true), again, storyboards=1)
    assert read_examination(tmp_path) == again.examination
