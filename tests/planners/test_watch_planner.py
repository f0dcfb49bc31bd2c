"""The watching planner on real small recordings and a scripted chat: what it shows, reads, and refuses."""

import json
import re
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.chat_server import ChatServer, said
from support.cli import goalreel
from support.scripted import ScriptedChat, words
from support.watcher import segments

from goalreel.annotator.annotate import open_dataset
from goalreel.chat.conversation import NoReply
from goalreel.chat.dialects.own import ObservedDialect
from goalreel.datasets.records import FOLDER, Records
from goalreel.errors import BackendError
from goalreel.image import Image
from goalreel.models.load import build_critic
from goalreel.planners.kinematic.description import Proposal
from goalreel.planners.kinematic.layout import Layout
from goalreel.planners.watch import planner
from goalreel.planners.watch.planner import WatchPlanner, watch_cost
from goalreel.planners.watch.reply import moments, parse_watch_reply, snap
from goalreel.types import Candidate, Failure, Plan, Segment, Task

FRONT, WRIST = "observation.images.front", "observation.images.wrist"
ORDER = "put the red block in the blue bowl"


def reply(*said: tuple, **more: object) -> str:
    """(start, end, name) a segment."""
    rest = {"outcome": "done", "agrees": True, **more}
    spans = [{"start": a, "end": b, "name": name, "state": f"{name} is done", **rest} for a, b, name in said]
    return f"<answer>{json.dumps({'segments': spans})}</answer>"


@pytest.fixture(scope="module")
def episodes(video_dataset):
    source = open_dataset(video_dataset)
    return {episode.id: episode for episode in map(source.episode, source.indices)}


def tasks(episodes) -> list[Task]:
    return [Task(id=e.id, instruction=e.instruction) for e in episodes.values()]


def told(plan: Plan | Failure) -> list[tuple[int, int, str]]:
    assert isinstance(plan, Plan), plan
    return [(g.start, g.end, s.name) for g, s in zip(plan.segments, plan.steps, strict=True)]


def test_what_the_model_is_shown(episodes):
    chat = ScriptedChat(lambda asked: [segments(words(c)) for c in asked])
    plans = WatchPlanner(episodes, chat, [FRONT, WRIST]).plan(tasks(episodes))
    assert len(chat.calls) == 1, "one call an episode, all in one batch"
    first = words(chat.calls[0][0])
    assert f"Instruction: {ORDER}" in first
    assert "Frames 0 to 11, 10 a second." in first
    assert "in this order: front, wrist" in first
    assert "- frame 5 (0.5 s): the gripper has closed" in first
    assert re.findall(r"\[\d+x\d+\]", first) == ["[480x448]"], "seven frames in two rows, each once a camera"
    assert told(plans[0]) == [
        (0, 5, "reach and grasp"),
        (5, 6, "carry and let go"),
        (6, 8, "carry and let go"),
        (8, 12, "move away"),
    ]
    assert "The sensors propose no boundary." in words(chat.calls[0][1])
    assert told(plans[1]) == [(0, 9, "move away")]
    assert plans[1].steps[0].instruction == "move away is done"


def test_frames_worth_a_look():
    known = (Proposal(12, "still"), Proposal(40, "closed"))
    assert moments(65, 10, known) == (0, 12, 20, 30, 39, 40, 50, 60, 64)
    assert moments(1, 10, ()) == (0,)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("nothing", 'no JSON object with "segments"'),
        (reply(), "segments: List should have at least 1 item"),
        (reply((0, 4, "a"), (6, 12, "b")), "segments.0: it ends at frame 4, but what follows starts at 6"),
        (reply((1, 12, "a")), "segments.0: it starts at frame 1, not at 0"),
        (reply((0, 10, "a")), "segments.0: it ends at frame 10, but what follows starts at 12"),
        (reply((0, 0, "a"), (0, 12, "b")), "segments.0: it holds no frame"),
        (reply((0, 12, " ")), "segments.0.name"),
        (reply((0, 10**4000, "a")), "segments.0.end: Input should be less than"),
        (reply((0, 12, "a"), outcome="perhaps"), "segments.0.outcome"),
        (reply((0, 12, "a"), agrees=False), 'segments.0: "seen" says what was seen'),
        (reply((0, 12, ORDER.title()), agrees=False, seen="a cup"), "segments.0: the name repeats"),
        (reply((0, 12, "a"), agrees=True, seen="a cup"), 'segments.0: "seen" says what was seen'),
        (reply((0, 12, "a")).replace('"agrees"', '"agree"'), "segments.0.agrees: Field required"),
    ],
)
def test_what_cannot_be_used(said, problem):
    read = parse_watch_reply(said, Segment(start=0, end=12), ORDER)
    assert problem in read.message


def test_what_is_forgiven():
    first = "'start': '0', 'end': 4, 'name': 'a.', 'state': 'b.', 'agrees': 'yes', 'outcome': 'done'"
    last = (
        "'start': 5, 'end': 11, 'name': 'c', 'state': 'd', 'seen': 'none', 'agrees': 1, 'outcome': 'failed',"
    )
    said = f"{{'segments': [{{{first}}}, {{{last}}}]}}"
    plan = parse_watch_reply(said, Segment(start=0, end=12), ORDER)
    assert told(plan) == [(0, 5, "a."), (5, 12, "c")], "an end may be the segment's last frame"
    assert [step.outcome for step in plan.steps] == ["done", "failed"]
    assert plan.steps[0].prompt == "A, so that: b. Keep everything else unchanged."
    assert [step.auxiliary_text for step in plan.steps] == [None, None]


def test_a_contradiction_is_noted():
    said = reply((0, 12, "pick up the red bowl"), agrees=False, seen="a red bowl, no block")
    plan = parse_watch_reply(said, Segment(start=0, end=12), ORDER)
    assert plan.steps[0].auxiliary_text == "not as instructed: a red bowl, no block"


@pytest.mark.parametrize(
    ("cuts", "expected"),
    [
        ([23], [20]),
        ([26], [26]),
        ([18], [20]),
        ([16], [16]),
        ([19, 22], [20, 22]),
        ([18, 20], [16, 20]),
        ([40, 44], [40, 44]),
        ([1], [1]),
    ],
)
def test_a_boundary_near_a_contact_is_that_contact(cuts, expected):
    known = (Proposal(16, "slow"), Proposal(20, "closed"), Proposal(60, "opened"))
    span = Segment(start=0, end=90)
    edges = [0, *cuts, 90]
    plan = parse_watch_reply(reply(*((a, b, "x") for a, b in pairwise(edges))), span, ORDER)
    moved = snap(plan, span, known, reach=5)
    assert [s.start for s in moved.segments][1:] == expected
    assert moved.segments[-1].end == 90


def test_garbage_to_the_end_is_a_failure_with_the_reply(episodes):
    chat = ScriptedChat(
        lambda asked: [segments(words(asked[0])), "{ sorry", NoReply("HTTP 500")],
        lambda asked: ["{ again", segments(words(asked[1]))],
    )
    plans = WatchPlanner(episodes, chat, [FRONT], replies=2).plan(tasks(episodes))
    assert told(plans[0])[-1][2] == told(plans[2])[-1][2] == "move away"
    assert plans[1].reply == "{ again"
    assert "no usable answer in 2 replies" in plans[1].message
    assert '"start": 0, "end": 9' in words(chat.calls[1][0])
    assert chat.schemas[0] is None
    assert chat.schemas[1]["properties"]["segments"]["maxItems"] == 40


def test_a_long_episode_is_watched_in_windows(episodes, monkeypatch):
    monkeypatch.setattr(planner, "MOMENTS", 5)
    only = {"episode_000000": episodes["episode_000000"]}
    # Frames worth a look: 0, 4, 5, 6, 7, 8, 11 (of which 0 to 7 are shown at first, to the contact at 6).
    chat = ScriptedChat([reply((0, 4, "reach"), (4, 6, "grasp"))], [reply((5, 12, "carry"))])
    (plan,) = WatchPlanner(only, chat, [FRONT]).plan(tasks(only))
    assert told(plan) == [(0, 5, "reach"), (5, 12, "carry")], "the cut went to the contact"
    assert len(chat.calls) == 2
    later = words(chat.calls[1][0])
    assert "Before frame 5 the robot did:\n- reach" in later
    assert "still goes on" not in later


def test_what_goes_on_behind_a_window_is_one_segment(episodes, monkeypatch):
    monkeypatch.setattr(planner, "MOMENTS", 4)
    only = {"episode_000000": episodes["episode_000000"]}

    def one(asked):
        start, end = map(int, re.findall(r"starts at (\d+), the last ends at (\d+)", words(asked[0]))[-1])
        return [reply((start, end, "Fold" if start else "fold"))]

    chat = ScriptedChat(one, one, one, one)
    (plan,) = WatchPlanner(only, chat, [FRONT]).plan(tasks(only))
    assert told(plan) == [(0, 12, "Fold")]
    assert "still goes on" in words(chat.calls[1][0])
    cost = watch_cost(only["episode_000000"], [FRONT])
    assert (cost.calls, cost.pictures) == (len(chat.calls), len(chat.calls))


def test_a_back_end_that_dies_costs_only_what_is_open(episodes, monkeypatch):
    monkeypatch.setattr(planner, "MOMENTS", 6)
    chat = ScriptedChat(lambda asked: [segments(words(c)) for c in asked], BackendError("cannot reach it"))
    plans = WatchPlanner(episodes, chat, [FRONT]).plan(tasks(episodes))
    assert [isinstance(plan, Plan) for plan in plans] == [False, True, False]
    assert plans[0] == Failure(stage="plan", message="cannot reach it")
    with pytest.raises(BackendError):
        WatchPlanner(episodes, ScriptedChat(BackendError("dead")), [FRONT]).plan(tasks(episodes))


def test_what_cannot_be_watched_is_one_line(episodes):
    chat = ScriptedChat()
    task = tasks(episodes)[0]
    (gone,) = WatchPlanner({}, chat, [FRONT]).plan([task])
    assert gone.message == "no recording 'episode_000000'"
    (dark,) = WatchPlanner(episodes, chat, ["top"]).plan([task])
    assert "episode_000000" in dark.message
    assert "no camera 'top'" in dark.message
    (odd,) = WatchPlanner(episodes, chat, [FRONT], Layout(gripper=(9,))).plan([task])
    assert odd.message.startswith("episode_000000: ")
    assert not chat.calls
    with pytest.raises(ValueError, match="needs cameras"):
        WatchPlanner(episodes, chat, [])


def test_the_cost_is_known_before(episodes):
    episode = episodes["episode_000000"]
    chat = ScriptedChat(lambda asked: [segments(words(c)) for c in asked])
    WatchPlanner(episodes, chat, [FRONT]).plan(tasks(episodes)[:1])
    cost = watch_cost(episode, [FRONT])
    assert (cost.calls, cost.pictures) == (1, 1)
    sent = len(re.sub(r"\[\d+x\d+\]", "", words(chat.calls[0][0]))) / 4
    assert abs(cost.text_tokens - sent) < 0.02 * sent
    assert cost + cost == planner.WatchCost(2, 2, 2 * cost.text_tokens)


def answer(holds: object, reason: str = "the arm is in front of it") -> str:
    return f"<think>look</think><answer>{json.dumps({'holds': holds, 'reason': reason})}</answer>"


def candidate() -> Candidate:
    picture = Image(np.zeros((6, 8, 3), np.uint8))
    return Candidate(task_id="t", step=0, source=picture, image=picture, instruction="it is shut", prompt="p")


@pytest.mark.parametrize(
    ("holds", "success", "words"),
    [("yes", True, "the arm"), ("No.", False, "The state does"), ("cannot_tell", False, "Cannot see: the")],
)
def test_three_answers(holds, success, words):
    with ChatServer(lambda request: said(answer(holds))) as server:
        (verdict,) = build_critic(f"openai:m@{server.url}", dialect=ObservedDialect()).judge([candidate()])
    assert (verdict.success, verdict.refined_prompt) == (success, None)
    assert verdict.reasoning.startswith(words)
    asked = json.dumps(server.requests[0].json)
    assert asked.count("image_url") >= 2
    assert "it is shut" in asked
    assert "editor" not in asked


def test_anything_else_is_asked_again_and_never_accepted():
    thought = {"content": answer("yes").partition("</think>")[2], "reasoning": "So the answer is no."}
    for reply in (said(answer("perhaps")), said(None, message=thought)):
        with ChatServer(lambda _, reply=reply: reply) as server:
            (no,) = build_critic(f"openai:m@{server.url}", dialect=ObservedDialect()).judge([candidate()])
        assert (type(no), len(server.requests)) == (Failure, 3)


def test_hindsight_tries_the_next_frame_and_ends_rejected_with_the_reason(video_dataset, tmp_path):
    """Chosen by itself, since the editor takes frames of the recording."""
    out = tmp_path / "out"
    with ChatServer(lambda request: said(answer("cannot tell"))) as server:
        critic = ["--critic", f"openai:m@{server.url}", "--max-attempts", "2"]
        done = goalreel("annotate", video_dataset, "--out", out, "--episodes", "0", *critic, "--json")
    summary = json.loads(done.splitlines()[-1])
    steps = Records(out / FOLDER, source="").outline(0).steps
    assert summary["steps"] == {"rejected": len(steps)}
    assert summary["incomplete"] == 1
    first, second = steps[-1].attempts  # of the first the hand shows its claim in one frame alone
    assert first.image.frame != second.image.frame
    assert second.verdict.reasoning == "Cannot see: the arm is in front of it"
    (data,) = (out / "data").glob("*/*.parquet")
    assert all(pq.read_table(data)["subgoal_is_pad"].to_pylist()[:12])
