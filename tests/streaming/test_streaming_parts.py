"""The parts of the streaming room, each alone."""

import asyncio
import math
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from support.recordings import make_dataset
from support.streaming_world import World, picture
from support.subtasks import add_subtasks

from goalreel.image import Image
from goalreel.models.model_set import ModelSet
from goalreel.streaming import camera
from goalreel.streaming.board import Frame, ModelNames, StepPanel
from goalreel.streaming.camera import FrameSlot, LiveCamera
from goalreel.streaming.cue import ExamplesCue
from goalreel.streaming.follower import Closeness, Tracker, changed_share
from goalreel.streaming.model_caller import ModelCaller, ModelQueue
from goalreel.streaming.request import TaskEnded
from goalreel.streaming.settings import EngineSettings
from goalreel.types import Attempt, Candidate, Failure, Step, StoryboardStep, Verdict


def grey(value: int) -> Image:
    return Image(np.full((2, 2, 3), value, np.uint8))


def test_the_slot_holds_the_newest_frame_and_decodes_it_once():
    clock, decoded = [10.0], []

    def decode(raw: int) -> Image:
        decoded.append(raw)
        return grey(raw)

    slot = FrameSlot(decode, lambda: clock[0])
    assert slot.newest() is None
    assert slot.counts().age is None
    for value in (1, 2, 3):
        slot.put(value, stamp=value, frame_id="camera")
    clock[0] = 10.5
    frame = slot.newest()
    assert (frame.image, frame.stamp, frame.frame_id, frame.received) == (grey(3), 3, "camera", 10.0)
    assert slot.newest() is frame
    assert decoded == [3]
    counts = slot.counts()
    assert (counts.received, counts.read, counts.dropped, counts.age) == (3, 1, 2, 0.5)


def test_the_slot_counts_what_is_wrong_with_a_camera():
    def decode(raw: int) -> Image:
        if raw < 0:
            raise ValueError("16UC1 is depth")
        return grey(raw)

    slot = FrameSlot(decode)
    slot.put(-1, stamp=9, frame_id="")
    for _ in range(2):
        with pytest.raises(ValueError, match="16UC1"):
            slot.newest()
    slot.put(5, stamp=4, frame_id="")
    counts = slot.counts()
    assert (counts.unreadable, counts.problem) == (1, "16UC1 is depth")
    assert slot.newest().image == grey(5)
    assert slot.counts().problem == ""


def test_frames_of_two_sources_in_turn_show_nobody_the_scene_until_one_has_stopped():
    slot = FrameSlot(grey)
    day = 86400 * 10**9
    for second in range(30):
        slot.put(second, stamp=second * 10**9 + day * (second % 2), frame_id="")
    with pytest.raises(ValueError, match="two sources send them in turn, by their stamps: stop one"):
        slot.newest()
    for second in range(30, 0, -1):
        slot.put(second, stamp=second * 10**9, frame_id="")  # a clock may run backwards
    assert slot.newest().image == grey(1)


@pytest.mark.parametrize(
    ("value", "stamp", "is_new"), [(1, 9, False), (2, 9, True), (1, 10, True), (2, 0, True)]
)
def test_a_message_that_is_sent_again_is_no_new_frame(value, stamp, is_new):
    slot = FrameSlot(grey)
    assert slot.put(1, stamp=9, frame_id="")
    assert slot.put(value, stamp=stamp, frame_id="") == is_new, "a clock that stands still is no still camera"
    assert slot.counts().repeated == (not is_new)


def test_a_frame_that_two_threads_read_at_once_is_counted_once():
    both = threading.Barrier(2)
    slot = FrameSlot(lambda raw: (both.wait(60), grey(raw))[1])
    slot.put(1, stamp=1, frame_id="")
    other = threading.Thread(target=slot.newest)
    other.start()
    slot.newest()
    other.join()
    assert slot.counts().read == 1


def test_writing_never_waits_for_a_slow_reader():
    started, go = threading.Event(), threading.Event()

    def decode(raw: int) -> Image:
        started.set()
        assert go.wait(60)
        return grey(raw)

    slot = FrameSlot(decode)
    slot.put(1, 1, "")
    reader = threading.Thread(target=slot.newest)
    reader.start()
    assert started.wait(60)
    for value in range(2, 100):
        slot.put(value, value, "")  # would hang here
    assert slot.counts().received == 99
    go.set()
    reader.join()
    assert slot.newest().image == grey(99)


def test_closeness_goes_from_start_to_goal_and_stands_a_change_of_light_size_and_noise():
    measure = Closeness(picture(0), picture(3))
    assert measure.measure(picture(0)) == 0
    assert measure.measure(picture(3)) == 1
    assert measure.measure(picture(3, extra=1)) < 1
    assert measure.measure(picture(5, extra=1)) < 0
    assert math.isnan(Closeness(picture(0), picture(0)).measure(picture(2)))
    rng = np.random.default_rng(0)
    brighter = np.clip(picture(3).pixels.astype(int) + 12 + rng.integers(-6, 7, (48, 96, 3)), 0, 255)
    assert measure.measure(Image(brighter.astype(np.uint8))) > 0.95
    large = Image(picture(3).pixels.repeat(8, 0).repeat(8, 1))
    assert measure.measure(large) > 0.9
    assert changed_share(picture(3), large) < 0.01


def test_a_camera_is_lost_from_its_newest_frame_on_not_from_when_that_is_noticed(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(camera, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    settings = EngineSettings(image_timeout=10.0, max_image_age=1.0)
    lost = LiveCamera(lambda: Frame(grey(3), received=0.0), settings, clock=lambda: clock[0])
    assert lost.poll()[0] is not None
    for clock[0] in np.arange(1, 20) / 2:
        text = lost.poll()[1]
    assert text == "the camera stopped: its newest frame is 9.5 s old"
    clock[0] = 10.0
    with pytest.raises(TaskEnded, match=r"newest frame is 10\.0 s old"):
        lost.poll()
    clock[0] = 10.1
    lost.restart_timeout()  # as after a pause
    assert lost.poll()[0] is None
    clock[0] = 50.0  # as after SIGSTOP: there could be no frame meanwhile
    assert lost.poll()[0] is None


def test_a_camera_slower_than_max_image_age_stays_stale_and_the_end_says_what_to_set(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(camera, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    slot = FrameSlot(grey, lambda: clock[0])
    settings = EngineSettings(stall_timeout=5.0, max_image_age=1.0)
    live = LiveCamera(slot.newest, settings, clock=lambda: clock[0])
    reasons = []

    def film(period: float, frames: int) -> None:
        for _ in range(frames):
            slot.put(3, 0, "")
            for _ in range(round(period / 0.1)):
                live.poll(steady=True)
                reasons.append(live.goal_reason)
                clock[0] += 0.1

    film(0.8, 5)
    assert set(reasons) == {"active"}, "slow, and fast enough"
    film(1.2, 3)
    assert reasons == sorted(reasons), "stale from its first old frame on"
    film(0.1, 4)
    assert reasons[-4:] == ["stale"] * 3 + ["active"]
    with pytest.raises(TaskEnded, match=r"frames come up to 1\.2 s apart, .* 1 s: set it to 2\.4 or more"):
        film(1.2, 9)
    slot.put(3, 0, "")
    assert live.poll()[0] is not None, "for a single look, one fresh frame is enough"


NAN = math.nan
LOOKS = {
    "when it looks right, and not too often": (
        {"gate": 0.5, "critic_period": 2.0},
        [(0.0, 0.2, "wait"), (0.1, 0.6, "ask"), (1.0, 0.9, "wait"), (2.2, 0.9, "ask")],
    ),
    "when labelled episodes say so, and seldom against them": (
        {"gate": 0.5, "critic_period": 1.0},
        [
            *((0.0, 0.2, "wait", False), (0.5, 0.6, "wait", False), (0.6, 0.1, "ask", True)),
            *((1.0, 0.1, "wait", True), (1.6, 0.2, "ask", True), (2.0, 0.6, "wait", False)),
            *((2.9, 0.7, "wait", False), (3.5, 0.8, "wait", False), (12.0, NAN, "ask", False)),
            (13.0, NAN, "ask", None),
        ],
    ),
    "without a picture by the clock": (
        {"critic_period": 1.0},
        [(0.0, NAN, "ask"), (0.5, NAN, "wait"), (1.0, NAN, "ask"), (1.5, NAN, "wait"), (2.0, NAN, "ask")],
    ),
    "once about a view that came to rest, and again once it moved on": (
        {"gate": 0.5, "critic_period": 2.0},
        [
            *((now, value, "wait") for now, value in ((0.0, 0.0), (3.0, 0.0), (3.5, -2.0), (4.0, 0.28))),
            *((4.9, 0.3, "wait"), (5.0, 0.3, "ask"), (9.0, 0.31, "wait")),
            *((10.0, 0.4, "wait"), (11.0, 0.4, "ask"), (20.0, 0.4, "wait"), (21.0, 0.4, "restart")),
            *((21.0, 0.4, "wait"), (22.0, 0.4, "ask"), (30.0, 0.4, "wait")),
        ],
    ),
    "before a stall is called": (
        {"stall_timeout": 10.0, "critic_period": 1.0, "gate": 0.9},
        [(0.0, 0.03, "wait"), (9.9, 0.04, "wait"), (10.0, 0.04, "ask"), (10.1, 0.04, "stalled")],
    ),
    "not while there is progress": (
        {"stall_timeout": 2.0, "gate": 1.0},
        [(0.9 * look, 0.08 * look, "wait") for look in range(12)],
    ),
}


@pytest.mark.parametrize(("settings", "looks"), LOOKS.values(), ids=LOOKS)
def test_when_the_critic_is_asked(settings, looks):
    t = Tracker(EngineSettings(**settings), now=0.0)
    for now, closeness, decision, *cue in looks:
        if decision == "restart":  # as after a pause, or a critic that could not answer
            t.restart(now)
        else:
            assert t.decide(now, closeness, *cue) == decision, now


def test_a_call_that_has_not_begun_when_it_is_cancelled_never_does():
    began, over = [], threading.Event()

    async def main() -> None:
        worker = ModelQueue("test")
        first = asyncio.create_task(worker.call(lambda: (began.append(1), over.wait(60))))
        second = asyncio.create_task(worker.call(lambda: began.append(2)))
        while not began:
            await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.wait([second])
        over.set()
        await first
        await worker.call(lambda: began.append(3))

    asyncio.run(main())
    assert began == [1, 3]


@pytest.mark.parametrize("limit", [None, 0.05], ids=["slow", "hangs"])
def test_what_is_queued_is_called_after_a_slow_call_and_beside_one_that_hangs(limit):
    """Whoever asked for that call has gone; its limit and the next one's count from their beginnings."""
    over, began, called = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        began.set()
        over.wait(60)

    async def main() -> None:
        worker = ModelQueue("test")
        asking = asyncio.create_task(worker.call(first, timeout=limit))
        while not began.is_set():
            await asyncio.sleep(0.01)
        asking.cancel()
        queued = asyncio.create_task(worker.call(called.set, timeout=0.05))
        if limit is None:
            await asyncio.sleep(0.5)
            assert not queued.done(), "its time has not begun"
            over.set()
        while not called.is_set():
            await asyncio.sleep(0.01)
        await asyncio.wait([queued])

    asyncio.run(asyncio.wait_for(main(), 60))
    over.set()


@pytest.mark.parametrize("remote", [frozenset({"judge"}), frozenset()], ids=["server", "local"])
def test_a_look_at_the_robot_holds_up_what_is_rendered_only_where_one_model_does_both(remote):
    critic, observer = World(), World()
    observer.hold["judge"] = threading.Event()
    caller = ModelCaller(ModelSet(critic, critic, critic, remote=remote, live_critic=observer))
    asked = Candidate(
        task_id="t", step=0, source=None, image=picture(1), instruction="at 1", prompt="move to 1"
    )

    async def main() -> None:
        look = asyncio.create_task(caller.judge_live(asked))
        while not observer.calls:
            await asyncio.sleep(0.01)
        verdict = asyncio.create_task(caller.ask(asked))
        if remote:
            assert isinstance(await verdict, Verdict)
        await asyncio.sleep(0)
        assert (bool(critic.calls), look.done()) == (bool(remote), False)
        observer.hold["judge"].set()
        assert isinstance(await look, Verdict)
        assert isinstance(await verdict, Verdict)

    asyncio.run(main())


def test_a_frame_that_only_picture_checks_accepted_is_an_unjudged_goal_to_a_robot():
    """Whatever the editor took it from: it is what is to come, and nobody compared it with the words."""
    step = Step(name="grasp", instruction="it is held", prompt="grasp it")
    frame = Image(picture(1).pixels, frame="front#3")
    verdict = Verdict(success=True, pictures_only=True)
    attempt = Attempt(prompt="grasp it", seed=0, image=frame, verdict=verdict)
    result = StoryboardStep(step=step, attempts=(attempt,), status="observed", chosen=0)
    panel = StepPanel(0, StoryboardStep(step=step), 3).finish(result, 1, frame.size)
    assert panel.image_status == "unjudged"
    looks = panel.claims(ModelNames(editor="mine")).looks
    assert looks is not None
    assert looks.line == "by model mine, checked by picture checks"


def test_a_panel_holds_its_chosen_picture_and_what_failed_last():
    step = Step(name="grasp", instruction="it is held", prompt="grasp it")
    no, gone = Verdict(success=False), Failure(stage="edit", message="server gone")
    rejected = tuple(Attempt(prompt="x", seed=i, image=picture(i), verdict=no) for i in range(3))
    failed = Attempt(prompt="x", seed=3, failure=gone)
    result = StoryboardStep(step=step, attempts=(*rejected, failed), status="rejected", chosen=1)
    panel = StepPanel(0, StoryboardStep(step=step), 4).finish(result, 1, picture(1).size)
    assert (panel.attempts, panel.image_status, panel.record.failure) == (4, "rejected", gone)
    assert panel.record.attempts == (rejected[1], failed)
    assert panel.goal_image == picture(1)


TASK = "put the red block in the blue bowl"


def state(seed: int) -> np.ndarray:
    """Reach for 3 s, close, carry for 3 s, open, and leave for 2 s, at 10 Hz."""
    t = np.arange(80 + seed) / 10
    x = np.interp(t, [0, 2.5, 3, 6, 8], [0, 1, 1, -1, 0])
    closed = np.interp(t, [2.9, 3.1, 5.9, 6.1], [0, 1, 1, 0])
    return np.stack([x, closed], axis=1) + np.random.default_rng(seed).normal(0, 0.01, (len(t), 2))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    root = tmp_path_factory.mktemp("cue") / "labelled"
    names = ("x.pos", "gripper.pos")
    make_dataset(root, states=[state(i) for i in range(3)], names=names, dtype="image", task=TASK)
    add_subtasks(root, dict.fromkeys(range(3), (30, 60)), ["grasp it", "put it in", "leave"])
    return root


@pytest.fixture
def clock():
    return [0.0]


def test_the_numbers_of_a_robot_say_which_step_is_done(labelled, clock):
    cue = ExamplesCue(labelled, lambda: clock[0])
    assert cue.describe(0) == "no cue: there is no task"
    cue.begin(TASK, 3)
    assert cue.describe(0) == "no cue: the robot sends no x, gripper"
    said = []
    for x, gripper in state(7)[:50]:
        cue.push({"x": x, "another": 5.0})  # a driver each, as some robots have
        cue.push({"gripper": gripper})
        said.append(cue.is_left(0))
        clock[0] += 0.1
    assert said.index(True) == pytest.approx(30, abs=5)
    assert said == sorted(said)
    assert (cue.is_left(1), cue.describe(1)) == (False, "step 2 is under way")
    clock[0] += 2
    assert cue.describe(1).startswith("no cue: the robot sends no")


def test_where_there_is_no_cue_the_reason_is_said(labelled, clock):
    cue = ExamplesCue(labelled, lambda: clock[0])
    cue.begin(TASK, 2)
    assert cue.describe(0) == "no cue: the plan has 2 steps and the labelled episodes 3"
    cue.begin("open the door", 3)
    assert cue.describe(0) == "no cue: no labelled episode has such an instruction"
    cue.begin("put the green block in the blue bowl", 3)
    for _ in range(30):
        cue.push({"x": -9.0, "gripper": 5.0})
        clock[0] += 0.1
    assert cue.describe(0) == "no cue: the robot moves unlike them"
    cue.enter(1)
    cue.push({"x": 1.0, "gripper": 1.0})
    assert cue.is_left(0)
