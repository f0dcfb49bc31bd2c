"""`goalreel eval wgo` and `roboreward` on miniatures: real videos, real servers as models."""

import json

import pytest
from support import video_benchmarks as bench
from support.chat_server import ChatServer, said
from support.cli import fails, results

from goalreel.types import Failure, Verdict
from goalreel_lab.videos.report import VideoRecording
from goalreel_lab.videos.roboreward import (
    JudgedRollout,
    RewardRollout,
    judged_rollout,
    read_roboreward,
    roboreward_values,
)
from goalreel_lab.videos.wgo import NO_INSTRUCTION, read_wgo


def wgo(url, data, out):
    names = {role: f"openai:{role}@{url}" for role in ("planner", "labeller", "judge")}
    models = ("--planner", f"watch:{names['planner']}", "--judge", names["judge"])
    words = (*models, "--labeller", names["labeller"], "--data", data, "--out", out)
    return results("eval", "wgo", *words)


def test_wgo_from_data_to_scores_and_a_second_run_asks_nobody(tmp_path):
    data, out = bench.wgo_data(tmp_path / "data"), tmp_path / "out"
    with ChatServer(bench.wgo_models) as server:
        found = wgo(server.url, data, out)
    # Both halves of homer_1 are found, the whole of droid_1 is not; one of the two labels is right.
    assert (found["segment_precision"], found["segment_recall"]) == (2 / 4, 2 / 3)
    assert found["segment_f1"] == pytest.approx(4 / 7)
    assert found["end_to_end_f1"] == pytest.approx(2 / 7)
    assert found["even_segment_f1"] == 1
    assert found["label_accuracy"] == pytest.approx(1 / 3)
    assert (found["episodes"], found["segments"], found["failures"]) == (2, 3, 0)
    assert (found["unlabelled"], found["unjudged"]) == (0, 1)
    assert found["published"]["Macrodata (Gemini 3.5 Flash)"]["segment_f1"] == 0.306
    assert any("the benchmark 100 and 743" in note for note in found["notes"])
    assert any("they count as wrong" in note for note in found["notes"])
    assert {r.json["model"] for r in server.requests} == {"planner", "labeller", "judge"}
    assert wgo(server.url, data, out) == found  # and the server is gone


def test_wgo_counts_an_episode_without_a_plan_and_says_so(tmp_path):
    data = bench.wgo_data(tmp_path / "data")
    with ChatServer(lambda _: said("...")) as server:
        words = ("--planner", f"watch:openai:planner@{server.url}", "--data", data, "--out", tmp_path / "out")
        found = results("eval", "wgo", *words, "--limit", 1)
        silent = wgo(server.url, data, tmp_path / "silent")
    assert (silent["label_accuracy"], silent["unlabelled"], silent["unjudged"]) == (0, 3, 0)
    assert "3 segments have no label that can be read: they count as wrong." in silent["notes"]
    assert (found["failures"], found["segment_recall"], found["segment_precision"]) == (1, 0, None)
    assert "1 episodes have no plan: none of their segments is found." in found["notes"]
    assert "label_accuracy" not in found
    labeller = ("--labeller", "openai:a@http://127.0.0.1:1/v1")
    assert "--labeller needs a --judge" in fails("eval", "wgo", *words, *labeller)


def test_wgo_is_read_as_published_and_refused_as_anything_else(tmp_path):
    episodes = read_wgo(bench.wgo_data(tmp_path / "data"), tmp_path / "videos")
    assert [len(e.segments) for e in episodes] == [2, 1]
    assert episodes[1].recording.instruction == NO_INSTRUCTION
    recording = episodes[0].recording
    assert (len(recording.timestamps), recording.fps) == (bench.FRAMES, pytest.approx(bench.FPS))
    assert recording.length_s == pytest.approx(bench.FRAMES / bench.FPS)
    dark, bright = recording.frames("video", (0, bench.FRAMES - 1))
    assert dark.pixels.mean() < 20 < 100 < bright.pixels.mean()
    broken = {
        "none": (lambda folder: tmp_path / "nowhere", "no annotations.parquet"),
        "id": (lambda folder: bench.wgo_data(folder, id="../x"), "is none of WGO-Bench"),
        "video": (lambda folder: bench.wgo_data(folder, video=b"no video"), "its video is no MP4 file"),
        "segments": (lambda folder: bench.wgo_data(folder, segments=[]), "it has no segments"),
    }
    for name, (make, why) in broken.items():
        words = ("--data", make(tmp_path / name), "--out", tmp_path / f"{name}-out")
        said_why = fails("eval", "wgo", *words, "--planner", "watch:openai:planner@http://127.0.0.1:1/v1")
        assert why in said_why
    words = ("eval", "wgo", "--data", tmp_path / "data", "--out", tmp_path / "out")
    assert "give --planner, such as --planner watch:openai:" in fails(*words)
    for planner in ("kinematic", "rows", "openai:MODEL2@http://127.0.0.1:1/v1"):
        assert "looks at no video: name a model that watches" in fails(*words, "--planner", planner)


def judged(subset, reward, certainty, task=bench.TASK):
    rollout = RewardRollout(VideoRecording("1", "x.mp4", task), subset, reward)
    return JudgedRollout(rollout, certainty, bool(certainty and certainty > 0.5))


def test_roboreward_from_data_to_scores_and_a_second_run_asks_nobody(tmp_path):
    rewards = {"bridge/a.mp4": 5, "bridge/b.mp4": 2, "robo_arena/c.mp4": 3}
    data, out = bench.roboreward_data(tmp_path / "data", rewards), tmp_path / "out"

    answer = said('{"holds": "yes", "reason": "it is in the pot"}')
    with ChatServer(lambda _: answer) as server:
        words = ("--critic", f"openai:critic@{server.url}", "--data", data, "--out", out)
        found = results("eval", "roboreward", *words)
        assert len(server.requests) == len(rewards)
        assert results("eval", "roboreward", *words) == found
        assert len(server.requests) == len(rewards)
    assert (found["mae"], found["mae_oxe"], found["mae_roboarena"]) == ((1.5 + 2) / 2, 1.5, 2)
    assert (found["mae_rollouts"], found["preference"], found["success"]) == (5 / 3, 0.5, 0.5)
    assert (found["rollouts"], found["subsets"], found["unanswered"]) == (3, 2, 0)
    assert found["published"]["RoboReward-8B"]["mae"] == 0.665
    assert any("only says yes or no" in note for note in found["notes"])
    assert any("the benchmark 2831 of 23" in note for note in found["notes"])


def test_a_missing_answer_has_the_largest_error_and_prefers_nothing():
    none = judged_rollout(judged("a", 4, 1.0).rollout, Failure(stage="judge", message="gone"))
    assert (none.error, judged("a", 1, None).error, judged("a", 3, None).error) == (3, 4, 2)
    values = roboreward_values([none, judged("a", 1, 0.0), judged("b", 5, 1.0), judged("b", 1, 0.2)])
    assert values["mae"].value == pytest.approx(((3 + 0) / 2 + (0 + 1) / 2) / 2)
    assert values["preference"].value == 0.5
    assert values["mae_roboarena"].value is None


def test_a_verdict_is_read_by_its_probability_then_its_score_then_yes_or_no():
    rollout = judged("a", 3, 0.0).rollout
    verdicts = {
        0.25: Verdict(success=True, probability=0.25, semantics=9),
        0.9: Verdict(success=True, semantics=9),
        1.0: Verdict(success=True),
    }
    assert [judged_rollout(rollout, v).certainty for v in verdicts.values()] == list(verdicts)


def test_roboreward_is_read_as_published_and_refused_as_anything_else(tmp_path):
    data = bench.roboreward_data(tmp_path / "data", {f"bridge/{i}.mp4": i for i in (1, 2, 3, 4)})
    assert [r.reward for r in read_roboreward(data, limit=2)] == [1, 3]
    assert {r.subset for r in read_roboreward(data / "test")} == {"bridge"}
    rows = data / "test" / "metadata.jsonl"
    first = json.loads(rows.read_text().splitlines()[0])
    broken = {
        "no file_name": {"file_name": None},
        "is 6, and not": {"reward": 6},
        "no video ../a.mp4": {"file_name": "../a.mp4"},
    }
    for why, change in broken.items():
        rows.write_text(json.dumps(first | change))
        assert why in fails("eval", "roboreward", "--data", data, "--out", tmp_path / "out")
    said_why = fails("eval", "roboreward", "--data", tmp_path, "--out", tmp_path / "o")
    assert "no test/metadata.jsonl" in said_why
