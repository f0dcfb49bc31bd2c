"""Steps carried over from labelled episodes: of a made arm, and of real robots where they are at hand."""

import itertools
import json
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from support.places import SHARED

from goalreel.annotator.annotate import open_dataset
from goalreel.annotator.examples import as_example
from goalreel.claims import PERSON
from goalreel.datasets.source import Source
from goalreel.planners.examples.carry import Example, Measurement, boundaries, choose, digest_of, numbers_of
from goalreel.planners.examples.hand_cues import cues_of
from goalreel.planners.examples.live import LiveSteps
from goalreel.planners.examples.planner import ExamplesPlanner
from goalreel.planners.examples.slots import find_slots, replaced, unsaid
from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.kinematic.robot import infer_robot
from goalreel.planners.watch.planner import likest
from goalreel.types import Failure, Plan, Segment, Step, Task

PUT = "put the pear in the bowl"


@dataclass(frozen=True)
class Arm:
    """A recording of an arm that reaches, closes its gripper, carries and opens it."""

    id: str
    instruction: str = PUT
    fps: float = 20.0
    times: tuple[float, float, float] = (2.0, 4.0, 6.0)
    """Seconds of the grasp, the release and the end."""
    reach: float = 1.0
    share: float = 1.0
    """Of the episode that was recorded, from its start, or if negative from its end."""
    state_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()
    seed: int = 0
    attempt: tuple[float, float] | None = None
    """Seconds at which the gripper closes and opens in vain, before the grasp."""
    pause: float = 0.0
    """Seconds for which it stands still halfway."""
    hand: float = 1.0
    """How far the gripper closes."""
    then: float = 0.0
    """Its reach the second time, if it does all of it again."""
    missing: tuple[float, float] = (0.0, 0.0)
    """Shares of the episode between which nothing was recorded."""

    @property
    def timestamps(self) -> NDArray[np.float32]:
        return (np.arange(len(self.state)) / self.fps).astype(np.float32)

    @property
    def state(self) -> NDArray[np.float32]:
        length = round(self.times[2] * self.fps)
        waiting = np.full(round(self.pause * self.fps), length // 2)
        order = [*range(length // 2), *waiting, *range(length // 2, length)]
        del order[slice(*(round(share * len(order)) for share in self.missing))]
        edge = round(self.share * len(order))
        order = order[:edge] if edge > 0 else order[edge:]
        moves = self._moves(np.arange(length) / self.fps)[order]
        return np.vstack([moves, replace(self, reach=self.then, then=0.0).state]) if self.then else moves

    def _moves(self, t: NDArray[np.float64]) -> NDArray[np.float32]:
        grasp, release, end = self.times
        x = np.interp(t, [0, 0.8 * grasp, grasp, release, end], [0, self.reach, self.reach, -1, 0])
        z = np.interp(t, [0, grasp, (grasp + release) / 2, release, end], [1, 0, 1, 0.2, 1])
        closed = np.interp(t, [grasp - 0.1, grasp + 0.1, release - 0.1, release + 0.1], [0, 1, 1, 0])
        if self.attempt:
            a, b = self.attempt
            closed += np.interp(t, [a - 0.1, a + 0.1, b - 0.1, b + 0.1], [0, 1, 1, 0])
        closed *= self.hand
        noise = np.random.default_rng(self.seed).normal(0, 0.01, (len(t), 3))
        return (np.stack([x, z, closed], axis=1) + noise).astype(np.float32)

    @property
    def action(self) -> NDArray[np.float32]:
        return np.roll(self.state, -1, axis=0)

    def marks(self) -> list[int]:
        grasp, release, end = self.times
        return [round(second * self.fps) for second in (grasp, end + grasp if self.then else release)]


def label(arm: Arm, *, outcome: Literal["done", "failed"] = "done") -> Example:
    edges = [0, *arm.marks(), len(arm.timestamps)]
    names = (f"grasp the {arm.instruction.split()[2]}", arm.instruction, "leave")
    numbers = (values.astype(np.float64) for values in (arm.timestamps, arm.state, arm.action))
    steps = (
        Step(name=n, instruction=f"{n} is done", prompt=f"{n.capitalize()}.", outcome=outcome) for n in names
    )
    spans = (Segment(start=a, end=b) for a, b in itertools.pairwise(edges))
    of = (arm.id, numbers_of(arm), arm.instruction, arm.fps)
    return Example(*of, *numbers, steps=tuple(steps), segments=tuple(spans), by=PERSON)


ARMS = [
    Arm(f"episode {i}", seed=i, times=times)
    for i, times in enumerate([(2.0, 4.0, 6.0), (2.6, 4.2, 6.4), (1.7, 4.1, 5.6), (2.2, 5.0, 6.9)])
]


def answer_of(planner: ExamplesPlanner, arm: Arm) -> Plan | Failure:
    (answer,) = planner.plan([Task(id=arm.id, instruction=arm.instruction)])
    return answer


def plan_of(planner: ExamplesPlanner, arm: Arm) -> Plan:
    answer = answer_of(planner, arm)
    assert isinstance(answer, Plan), answer
    return answer


def cuts_of(plan: Plan) -> list[int]:
    return [segment.start for segment in plan.segments[1:]]


def planner_of(*examples: Example, of: list[Arm], closed: str = "") -> ExamplesPlanner:
    cues = cues_of(Layout.parse(f"gripper=2,closed={closed}")) if closed else None
    return ExamplesPlanner({arm.id: arm for arm in of}, examples, cues=cues)


def measured_of(planner: ExamplesPlanner, instruction: str = PUT) -> Measurement:
    measured = planner.measurement(instruction)
    assert measured is not None
    return measured


def test_boundaries_and_words_are_those_of_the_examples() -> None:
    plan = plan_of(planner_of(*map(label, ARMS[:3]), of=ARMS), ARMS[3])
    assert [step.name for step in plan.steps] == ["grasp the pear", PUT, "leave"]
    assert cuts_of(plan) == pytest.approx(ARMS[3].marks(), abs=4)
    assert plan.segments[0].goal == (plan.segments[1].start + 2, plan.segments[1].start + 16)
    assert not any(step.doubts for step in plan.steps)


@pytest.mark.parametrize("attempt", [(1.0, 1.7), (1.5, 2.2), (2.0, 2.6)])
def test_an_attempt_in_vain_is_seen_where_the_hand_is_known(attempt: tuple[float, float]) -> None:
    tried = replace(ARMS[3], times=(3.4, 5.4, 7.4), attempt=attempt, id="tried")
    plan = plan_of(planner_of(*map(label, ARMS[:3]), of=[tried], closed="high"), tried)
    assert [step.outcome for step in plan.steps] == ["failed", "failed", "done", "done", "done"]
    assert cuts_of(plan) == pytest.approx([20 * a for a in attempt] + tried.marks(), abs=5)


@pytest.mark.parametrize("fps", [5.0, 10.0, 30.0, 50.0])
def test_another_rate_makes_no_difference(fps: float) -> None:
    slow = replace(ARMS[3], fps=fps, id="other")
    plan = plan_of(planner_of(*map(label, ARMS[:3]), of=[slow]), slow)
    assert cuts_of(plan) == pytest.approx(slow.marks(), abs=0.25 * fps)


def test_another_order_is_in_doubt() -> None:
    """Its two things are near each other, so that the motion is alike."""
    examples = [label(replace(arm, then=0.5)) for arm in ARMS[:3]]
    for reach, then in ((1.0, 0.5), (0.5, 1.0)):
        arm = replace(ARMS[3], reach=reach, then=then)
        steps = plan_of(planner_of(*examples, of=[arm]), arm).steps
        assert any(step.doubts for step in steps) == (reach < then)


def test_the_number_is_measured_on_the_examples_themselves() -> None:
    measured = measured_of(planner_of(*map(label, ARMS[:3]), of=ARMS))
    assert (measured.found, measured.boundaries, measured.enough) == (6, 6, True)
    assert str(measured).startswith(f'"{PUT}": among your 3 labelled episodes 6 of 6 boundaries were found')
    spans = ((0, 9), (9, 11), (11, 112))
    wrong = replace(label(ARMS[2]), segments=tuple(Segment(start=a, end=b) for a, b in spans))
    measured = measured_of(planner_of(label(ARMS[0]), label(ARMS[1]), wrong, of=ARMS))
    assert not measured.enough


def test_one_example_is_measured_by_nothing_and_all_is_in_doubt() -> None:
    planner = planner_of(label(ARMS[0]), of=ARMS)
    plan = plan_of(planner, ARMS[1])
    assert all("nothing is measured" in "; ".join(s.doubts) for s in plan.steps)
    measured = measured_of(planner)
    assert measured.boundaries == 0
    assert "nothing is measured yet" in str(measured)


def test_what_is_cut_off_or_another_motion_is_refused() -> None:
    """So is one that does more, at places that the examples know, or whose hand does not close; one that only
    waits, or is slow, is carried over, and one that is odd at its boundaries is in doubt there."""
    weak = [replace(arm, hand=0.05) for arm in ARMS]
    same = [replace(ARMS[3], seed=seed) for seed in range(3)]
    slow = replace(ARMS[3], times=(4.4, 10.0, 13.8), id="slow")
    wide = replace(ARMS[3], hand=1.6)
    for examples, reason, arm in [
        (ARMS[:3], "it ends where", replace(ARMS[3], share=0.6)),
        (ARMS[:3], "its first step lacks", replace(ARMS[3], share=-0.7)),
        (ARMS[:3], "a part of it is missing", replace(ARMS[3], missing=(0.45, 0.6))),
        (ARMS[:3], "at a boundary", replace(ARMS[3], hand=0.0)),
        (weak[:3], "at a boundary", replace(ARMS[3], hand=0.0)),
        (ARMS[:3], "it begins where", replace(ARMS[3], share=-0.85)),
        (ARMS[:3], None, wide),
        (ARMS[:3], "unlike the labelled", replace(ARMS[3], times=(0.5, 1.0, 9.0), reach=-2.0)),
        (ARMS[:3], "it is unlike", replace(ARMS[3], then=1.0)),
        (ARMS[:3], None, replace(ARMS[3], pause=4.0)),
        (weak[:3], None, weak[3]),
        (same, None, slow),
    ]:
        answer = answer_of(planner_of(*map(label, examples), of=[arm]), arm)
        assert isinstance(answer, Failure) == bool(reason), answer
        assert reason is None or reason in str(answer)
        if isinstance(answer, Plan) and arm in (slow, wide):
            assert cuts_of(answer) == pytest.approx(arm.marks(), abs=0.2 * arm.fps)
            assert arm is slow or all("it is unlike this" in "; ".join(s.doubts) for s in answer.steps)


def left_at(live: LiveSteps, arm: Arm) -> list[float]:
    """The second at which each step was left, of those that were."""
    times = np.full(3, np.inf)
    for second, numbers in zip(arm.timestamps, arm.state, strict=True):
        live.push(100 + second, numbers)
        left = [bool(live.is_left(step)) for step in range(3)]
        times = np.minimum(times, np.where(left, second, np.inf))
    return [float(t) for t in times if np.isfinite(t)]


@pytest.mark.parametrize("fps", [7.0, 20.0, 100.0])
def test_a_running_robot_is_followed_at_any_rate(fps: float) -> None:
    live = LiveSteps([*map(label, ARMS[:3])], action=False)
    arm = replace(ARMS[3], fps=fps, id="running")
    assert left_at(live, arm) == pytest.approx([*arm.times[:2], arm.times[2]], abs=0.5)
    assert live.is_left(0), "it is not entered again by itself"
    live.restart(1)
    assert live.is_left(0) is None, "nothing was seen since"
    live.push(200, arm.state[arm.marks()[0]])
    assert (live.is_left(0), live.is_left(1)) == (True, False)


def test_a_robot_that_does_something_else_is_told_nothing() -> None:
    live = LiveSteps([*map(label, ARMS[:3])], action=False)
    assert left_at(live, replace(ARMS[3], reach=-2.0, times=(0.5, 1.0, 9.0), id="other")) == []
    assert live.is_unlike
    live.restart()
    early = replace(ARMS[3], share=0.3, id="cut")
    assert left_at(live, early) == []
    assert live.is_left(0) is False


def real_examples(source: Source) -> dict[int, Example]:
    labels = json.loads((source.root / "labels.json").read_text())
    steps = [Step(name=n, instruction=n, prompt=n) for n in ("grasp", "put", "leave")]
    examples: dict[int, Example] = {}
    for key, label in labels.items():
        if not key.isdigit():
            continue
        episode = source.episode(int(key))
        edges = [0, *label["boundaries"], len(episode)]
        spans = (Segment(start=a, end=b) for a, b in itertools.pairwise(edges))
        pieces = list(zip(steps, spans, strict=False))
        examples[int(key)] = as_example(episode, "put", pieces, PERSON, source.root.name, apart=False)
    return examples


@pytest.mark.skipif(not SHARED.is_dir(), reason="real episodes are not at hand")
@pytest.mark.parametrize(("name", "action", "fewest"), [("cr5_banana", True, 40), ("gr1_sim", False, 9)])
def test_real_robots_are_followed_within_half_a_second(name: str, action: bool, fewest: int) -> None:
    examples = list(real_examples(Source.open(SHARED / name)).values())
    found = 0
    for at, one in enumerate(examples):
        others = [e for i, e in enumerate(examples) if i != at][:3]
        live = LiveSteps(others, action=action)
        numbers = np.hstack([one.state, one.action]) if action else one.state
        left: dict[int, float] = {}
        for second, row in zip(one.timestamps, numbers, strict=True):
            live.push(second, row)
            left |= {n: second for n in range(2) if n not in left and live.is_left(n)}
        found += sum(abs(left.get(n, np.inf) - one.segments[n].end / one.fps) <= 0.5 for n in range(2))
    assert found >= fewest


def test_words_travel_with_their_slots() -> None:
    meat = replace(ARMS[3], instruction="put the meat in the bowl", id="meat")
    plan = plan_of(planner_of(*map(label, ARMS[:3]), of=[meat]), meat)
    assert [step.name for step in plan.steps] == ["grasp the meat", "put the meat in the bowl", "leave"]
    assert plan.steps[0].prompt == "Grasp the meat."
    assert all("of two like it" in step.doubts[0] for step in plan.steps)
    verb = replace(meat, instruction="take the pear in the bowl", id="verb")
    plan = plan_of(planner_of(*map(label, ARMS[:3]), of=[verb]), verb)
    assert all("begins with another word" in step.doubts[0] for step in plan.steps)


def test_examples_that_differ_in_a_thing_serve_each_other() -> None:
    """One of each, as in a dataset with many objects: they are measured, and the words are their own."""
    things = ("pear", "meat", "corn", "milk")
    arms = [replace(a, instruction=f"put the {t} in the bowl") for a, t in zip(ARMS, things, strict=True)]
    planner = planner_of(*map(label, arms[:3]), of=arms)
    plan = plan_of(planner, arms[3])
    assert [step.name for step in plan.steps] == ["grasp the milk", "put the milk in the bowl", "leave"]
    assert not any(step.doubts for step in plan.steps)
    measured = measured_of(planner)
    assert (measured.found, measured.boundaries, measured.alike) == (6, 6, 2)
    assert '"put the pear in the bowl" and 2 like it: among your 3' in str(measured)


@pytest.mark.parametrize(
    ("old", "new", "slots"),
    [
        ("put the pear on the plate", "Put the pear on the plate.", {}),
        ("put the pear on the plate", "put the meat on the plate", {"pear": "meat"}),
        ("put an apple in the box", "put the pear in the box", {"an apple": "the pear"}),
        ("put the pear in the bowl", "put the pear on the plate", {"in the bowl": "on the plate"}),
        ("put the cup on the plate", "put the red cup on the plate", {"the cup": "the red cup"}),
        ("put the cup on the plate", "do not put the cup on the plate", None),
        ("put the cup by the cup", "put the mug by the cup", None),
        ("put the cup in the cup", "put the mug in the box", None),
        ("move it 5 cm", "move it -5 cm", {"5": "-5"}),
        ("केला उठाओ", "केली उठाओ", {"केला": "केली"}),
        ("put the pear on the plate", "open the drawer", None),
        (
            "put the red cup on the blue cup",
            "put the blue cup on the red cup",
            {"red": "blue", "blue": "red"},
        ),
        ("lege die Birne auf den Teller", "lege den Apfel auf den Teller", {"die birne": "den apfel"}),
    ],
)
def test_slots_are_what_differs(old: str, new: str, slots: dict[str, str] | None) -> None:
    assert find_slots(old, new) == slots


@pytest.mark.parametrize(
    ("name", "said", "is_unsaid"),
    [
        ("reach the bowl", "reach the bowl", True),
        ("drop it in the bowl", "drop it on the plate", False),
        ("put the red cup by the blue cup", "put the blue cup by the red cup", False),
        ("drop it", "drop it", False),
    ],
)
def test_words_that_cannot_travel_are_in_doubt(name: str, said: str, is_unsaid: bool) -> None:
    """Things may change places."""
    slots = {"red": "blue", "blue": "red"} if "red" in name else {"in the bowl": "on the plate"}
    labelled = [Step(name=text, instruction=text, prompt=text) for text in (name, "leave")]
    steps = [replaced(step, slots) for step in labelled]
    assert steps[0].name == said
    assert unsaid(labelled, steps, slots) == is_unsaid


def test_edges_that_are_nearly_one_are_one() -> None:
    """The first example begins two frames late, the second ends two early, the third has a gap."""
    examples = [label(arm) for arm in ARMS[:3]]
    for at, (step, start, end) in enumerate([(0, 2, 0), (2, 0, -2), (1, 2, 0)]):
        segments = list(examples[at].segments)
        old = segments[step]
        segments[step] = Segment(start=old.start + start, end=old.end + end)
        examples[at] = replace(examples[at], segments=tuple(segments))
    planner = planner_of(*examples, of=ARMS)
    measured = measured_of(planner)
    assert (measured.found, measured.boundaries) == (6, 6)
    plan = plan_of(planner, ARMS[3])
    assert (plan.segments[0].start, plan.segments[-1].end) == (0, len(ARMS[3].timestamps))
    spans = (Segment(start=0, end=2), Segment(start=2, end=50))
    short = replace(examples[0], segments=spans, steps=examples[0].steps[:2])
    assert boundaries(short)[0] == 2, "a short step stays"


def test_a_failure_does_not_travel_and_an_example_keeps_its_labels() -> None:
    failed = label(ARMS[0], outcome="failed")
    planner = planner_of(failed, label(ARMS[1]), label(ARMS[2]), of=ARMS)
    assert all(step.outcome == "done" for step in plan_of(planner, ARMS[3]).steps)
    assert plan_of(planner, ARMS[0]) == failed.plan


def test_the_episode_to_label_first_is_the_one_most_like_the_others() -> None:
    odd = replace(ARMS[0], times=(0.5, 1.0, 9.0), reach=-2.0)
    assert choose([odd, *ARMS], 1)[0] != 0
    assert 0 in choose([odd, *ARMS], 2)


@pytest.mark.skipif(not SHARED.is_dir(), reason="real episodes are not at hand")
def test_any_three_of_five_humanoid_episodes_label_the_other_two() -> None:
    """Five objects in the GR1's hand, one episode of each: alignment, and the rules' cues of the hand."""
    source = Source.open(SHARED / "gr1_sim")
    episodes = {index: source.episode(index) for index in source.indices}
    texts = {index: episode.instruction for index, episode in episodes.items()}
    examples = {i: replace(e, instruction=texts[i]) for i, e in real_examples(source).items()}
    cues = cues_of(infer_robot([*episodes.values()]).layout)
    for labelled in itertools.combinations(examples, 3):
        recordings = {e.id: e for e in episodes.values()}
        planner = ExamplesPlanner(recordings, [examples[index] for index in labelled], cues=cues)
        for index in examples.keys() - labelled:
            (plan,) = planner.plan([Task(id=episodes[index].id, instruction=texts[index])])
            assert isinstance(plan, Plan)
            assert cuts_of(plan) == pytest.approx(boundaries(examples[index]), abs=0.5 * source.fps)


ORDER = "Put the red block in the bowl."


@pytest.fixture(scope="module")
def recording(video_dataset):
    return open_dataset(video_dataset).episode(0)


def example(episode: int, instruction: str, numbers: str = "others", name: str = "grasp") -> Example:
    step = Step(name=name, instruction=name, prompt=name, outcome="failed")
    nothing, times = np.zeros((20, 0)), np.arange(20) / 10
    cuts = (Segment(start=0, end=15),)
    named = (f"episode {episode}", numbers, instruction, 10.0)
    return Example(*named, times, nothing, nothing, steps=(step,), segments=cuts, by="person")


def test_the_three_likest(recording):
    texts = {9: "wipe the table", 7: "put the red cup in the bowl", 5: "open a drawer"}
    texts |= {4: texts[7], 3: "PUT the red block in the bowl!"}
    known = [*(example(*one) for one in texts.items()), example(1, ORDER, numbers_of(recording))]

    def ids(text: str, *of: Example) -> str:
        return "".join(one.id[-1] for one in likest(of or known, text, recording))

    assert ids(ORDER) == "374", "ties in their order"
    assert (ids(ORDER, known[0]), ids("?")) == ("9", "975"), "rather than none, where no word is alike"
    assert ids(ORDER, known[5]) == "", "never the episode itself"


def test_a_recording_is_known_by_its_numbers(recording, video_dataset):
    assert numbers_of(open_dataset(video_dataset).episode(0)) == numbers_of(recording)
    assert numbers_of(replace(recording, index=3)) == numbers_of(recording), "in another place"
    assert numbers_of(replace(recording, state=recording.state + 1)) != numbers_of(recording)
    nothing = np.zeros((len(recording), 0), np.float32)
    timed = replace(recording, state=nothing, action=nothing)
    assert numbers_of(timed) != numbers_of(replace(timed, index=3)), "times alone tell too little"
    one, other = example(1, ORDER), example(1, ORDER, name="grip")
    assert digest_of([]) is None
    assert digest_of([one]) == digest_of([replace(one)])
    assert len({digest_of([one]), digest_of([other]), digest_of([one, other])}) == 3
