"""What happens while models work: a slow one, a dead one, cancel, changes, kills, two servers."""

import asyncio
import gc
import json
import re
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import httpx
import pytest
from starlette.exceptions import HTTPException
from support.serving_models import PlannerChat, until
from support.studio import LATER, edit, events, finished, made, scripted, state, studio, submit
from support.studio_page import killable_studio

from goalreel.errors import DatasetError, InputError
from goalreel.serving.loading import LoadingModel
from goalreel.serving.service import Service
from goalreel.serving.settings import ServeSettings
from goalreel.studio.boards import StudioBoards
from goalreel.studio.events import WorkEnded


def waits(client: httpx.Client, board: str, role: str) -> dict:
    """The state once it waits for a model."""

    def look() -> dict | None:
        now = state(client, board)
        return now if now["waiting"] and now["waiting"]["role"] == role else None

    return until(look)


def test_it_says_what_it_waits_for_and_cancel_keeps_what_is_there(tmp_path):
    models = scripted()
    models.critic.gate.clear()
    with studio(tmp_path, models) as client:
        board = submit(client)
        now = waits(client, board, "critic")
        assert (now["status"], now["waiting"]["attempt"], now["waiting"]["alive"]) == ("running", 0, True)
        step = now["steps"][0]
        assert (step["activity"], step["open"], step["attempts"][0]["outcome"]) == ("judging", True, "drawn")
        cancelled = client.post(f"/v1/storyboards/{board}/cancel").json()
        assert (cancelled["status"], cancelled["waiting"]) == ("cancelled", None)
        assert len(cancelled["steps"][0]["attempts"]) == 1
        models.critic.gate.set()
        client.post(f"/v1/storyboards/{board}/resume")
        now = finished(client, board)
        assert [step["status"] for step in now["steps"]] == ["accepted"] * 2
        assert len(models.planner.batches) == 1
        assert sum(map(len, models.editor.batches)) == 4, "the picture that was there is not drawn again"


def test_a_change_while_a_step_is_drawn_is_heeded_at_once(tmp_path):
    models = scripted()
    models.critic.gate.clear()
    with studio(tmp_path, models) as client:
        board = submit(client)
        now = waits(client, board, "critic")
        first, second = (step["id"] for step in now["steps"])
        edit(client, now, "change", step=second, instruction="something else")
        assert state(client, board)["waiting"]["step"] == first, "another step's words change nothing here"
        edit(client, state(client, board), "delete", step=first)
        until(lambda: (state(client, board)["waiting"] or {}).get("step") == second)
        models.critic.gate.set()
        now = finished(client, board)
        assert [(s["id"], s["instruction"], s["status"]) for s in now["steps"]] == [
            (second, "something else", "accepted")
        ]


def test_a_dead_model_is_a_failure_in_words_and_is_asked_again(tmp_path):
    models = scripted()
    with studio(tmp_path, models) as client:
        now = finished(client, submit(client, "no backend"), "failed")
        assert now["failure"]["message"].startswith("the card fell off the bus")
        assert now["degraded"].startswith("no plan: the card fell off the bus")
        told = events(client, now["id"])
        assert [data["stage"] for _, name, data in told if name == "failure"] == ["plan"]
        client.post(f"/v1/storyboards/{now['id']}/resume")
        assert finished(client, now["id"], "failed")["number"] > now["number"]
        assert len(models.planner.batches) == 2


@pytest.mark.process
def test_a_server_that_is_killed_in_the_middle_loses_nothing(tmp_path):
    server = killable_studio(tmp_path)
    server.start("2")
    try:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            board = submit(client)
            until(lambda: len(waits(client, board, "critic")["steps"][0]["attempts"]) == 2)
            pictures = [a["picture"] for a in state(client, board)["steps"][0]["attempts"]]
    finally:
        server.kill()
    log = tmp_path / board / "log.jsonl"
    with log.open("ab") as file:
        file.write(b'{"number": 99, "at": "2026')  # what a kill left of a line
    with studio(tmp_path, models := scripted()) as client:
        now = state(client, board)
        assert (now["status"], now["waiting"]) == ("interrupted", None)
        assert [a["picture"] for a in now["steps"][0]["attempts"]] == pictures
        client.post(f"/v1/storyboards/{board}/resume")
        now = finished(client, board)
        assert [step["status"] for step in now["steps"]] == ["accepted"] * 2
        assert [a["picture"] for a in now["steps"][0]["attempts"]] == pictures
        assert (models.planner.batches, sum(map(len, models.editor.batches))) == ([], 2)
    assert [json.loads(line)["number"] for line in log.read_text().splitlines()] == list(
        range(1, now["number"] + 1)
    )


def test_a_server_that_ends_in_the_middle_says_that_work_was_interrupted(tmp_path):
    models = scripted()
    models.critic.gate.clear()
    with ThreadPoolExecutor(1) as pool, studio(tmp_path, models) as client:
        waits(client, board := submit(client), "critic")
        log = tmp_path / board / "log.jsonl"

        def release():  # the model ends when nobody waits for it any more
            until(lambda: b"interrupted" in log.read_bytes())
            models.critic.gate.set()

        released = pool.submit(release)
    released.result()
    with studio(tmp_path) as client:
        assert state(client, board)["status"] == "interrupted"


def test_a_second_server_on_a_folder_is_refused_and_a_damaged_log_is_left_alone(tmp_path):
    with studio(tmp_path) as client:
        board = made(client)["id"]
        service = Service(scripted(), ServeSettings())
        with pytest.raises(DatasetError, match="another goalreel server serves this folder"):
            StudioBoards(service, tmp_path)
        service.close()
    log = tmp_path / board / "log.jsonl"
    good = log.read_bytes()
    no_zone = re.sub(rb'("at":"[^"]*)Z"', rb'\1"', good, count=1)
    unknown = good.replace(b'"on_rejected"', b'"other":1,"on_rejected"')
    other_kind = good.replace(b'"planned"', b'"plant"')
    for line, damaged in ((1, no_zone), (1, unknown), (3, other_kind)):
        log.write_bytes(damaged)
        with studio(tmp_path) as client:
            [said] = client.get("/v1/storyboards").json()["damaged"]
            is_newer = damaged is other_kind
            assert said.startswith(f"{log}: line {line} is {'of another version' if is_newer else 'damaged'}")
    with studio(tmp_path) as client:
        assert client.get(f"/v1/storyboards/{board}").status_code == 404
        assert client.get("/v1/storyboards").json()["storyboards"] == []
        assert made(client)["status"] == "done"
    assert log.read_bytes() == damaged
    log.write_bytes(
        good.replace(b'"on_rejected"', b'"preset":null,"on_rejected"')
    )  # as servers once wrote it
    with studio(tmp_path) as client:
        assert state(client, board)["status"] == "done"


def test_idle_streams_lock_nobody_out(tmp_path, monkeypatch):
    monkeypatch.setattr("goalreel.http.server.max_connections", lambda: 8)
    with studio(tmp_path) as client, ExitStack() as opened:
        url = f"/v1/storyboards/{made(client)['id']}/events"
        streams = [
            opened.enter_context(client.stream("GET", url, params={"follow": True})) for _ in range(12)
        ]
        assert [stream.status_code for stream in streams] == [200] * 12
        assert client.get("/health").status_code == 200
        assert sum(1 for _ in streams[0].iter_lines()) > 0, "the oldest has ended"


def test_a_browser_logs_in_once_by_the_token(tmp_path):
    with studio(tmp_path, token="secret") as client:
        assert client.get("/v1/storyboards").status_code == 401
        answer = client.get("/v1/storyboards?token=secret&q=x", follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/v1/storyboards?q=x")
        assert client.get("/v1/storyboards").status_code == 200
        assert "default-src 'none'" in client.get("/v1/storyboards").headers["content-security-policy"]
        foreign = client.post("/v1/storyboards", json={}, headers={"Origin": "http://elsewhere"})
        assert foreign.status_code == 403
    with studio(tmp_path, token="secret") as client:
        assert client.get("/v1/storyboards", headers={"Authorization": "Bearer secret"}).status_code == 200


def test_the_page_is_there_before_the_models_and_what_cannot_be_loaded_says_so(tmp_path):
    loads, gate = [], threading.Event()

    def build():
        loads.append(1)
        assert gate.wait(60)
        if len(loads) == 1:
            raise InputError("no such folder\nwith details")
        return PlannerChat()

    models = replace(scripted(), planner=LoadingModel("the planner", build))
    with studio(tmp_path, models) as client:
        board = submit(client)
        assert waits(client, board, "planner")["waiting"]["loading"] is True
        gate.set()
        now = finished(client, board, "failed")
        assert now["failure"]["message"] == "the planner cannot be loaded: no such folder"
        client.post(f"/v1/storyboards/{board}/resume")
        assert finished(client, board)["complete"]
        assert loads == [1, 1]


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path, monkeypatch):
    models = scripted()
    models.planner.gate.clear()
    with studio(tmp_path, models) as client:
        board = submit(client)
        waits(client, board, "planner")

        def full(path, data, size):
            raise DatasetError(f"{path}: the disk is full")

        monkeypatch.setattr("goalreel.boards.log.append_lines", full)
        models.planner.gate.set()
        now = finished(client, board, "interrupted")
        assert now["degraded"].endswith("the disk is full")
        refused = edit(client, now, "continue", 500, image=LATER, done=0)
        assert refused["error"]["message"].endswith("the disk is full")
        assert state(client, board)["history"] == []
        monkeypatch.undo()
        client.post(f"/v1/storyboards/{board}/resume")
        assert finished(client, board)["complete"]


def test_work_without_a_picture_on_the_disk_ends_as_failed_and_says_why(tmp_path):
    with studio(tmp_path) as client:
        now = made(client)
        scene = tmp_path / now["id"] / "pictures" / now["image"].rsplit("/", 1)[1]
        scene.rename(tmp_path / "kept.png")
        edit(client, now, "draw", step=now["steps"][0]["id"])
        said = "this storyboard has no such picture"
        assert finished(client, now["id"], "failed")["degraded"] == said
        assert events(client, now["id"])[-1][1:] == ("finished", {"status": "failed", "message": said})
    with studio(tmp_path) as client:
        assert state(client, now["id"])["degraded"] == said, "a restart forgets no trouble"
        (tmp_path / "kept.png").rename(scene)
        client.post(f"/v1/storyboards/{now['id']}/resume")
        assert finished(client, now["id"])["degraded"] == ""


def test_a_watcher_hears_that_a_storyboard_is_forgotten_and_those_opened_last_stay_in_memory(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("goalreel.studio.boards.RECENT", 2)

    async def open_again() -> None:
        boards = StudioBoards(Service(scripted(), ServeSettings()), tmp_path)
        often, other = weakref.ref(boards.find(ids[0])), weakref.ref(boards.find(ids[1]))
        for board in (ids[0], ids[2]):
            boards.find(board)
        gc.collect()
        assert (often() is not None, other() is not None) == (True, False)
        await boards.close()

    with studio(tmp_path) as client:
        ids = [made(client, instruction="#one")["id"] for _ in range(4)]
        url, seen = f"/v1/storyboards/{ids[3]}/events", state(client, ids[3])["number"]
        with client.stream("GET", url, params={"after": seen, "follow": True}) as response:
            client.delete(f"/v1/storyboards/{ids[3]}")
            told = [line for line in response.iter_lines() if line.startswith("event")]
        assert told == ["event: forgotten"]
    asyncio.run(open_again())


def test_nothing_is_written_to_a_storyboard_that_was_forgotten(tmp_path):
    async def forget_twice() -> None:
        boards = StudioBoards(Service(scripted(), ServeSettings()), tmp_path)
        [board] = [boards.find(path.name) for path in tmp_path.iterdir() if (path / "log.jsonl").is_file()]
        boards.begin(board, reopen=True)
        await asyncio.gather(boards.forget(board), boards.forget(board))
        with pytest.raises(InputError, match="forgotten"):
            board.append(WorkEnded(status="done"))
        with pytest.raises(HTTPException, match="forgotten"):
            boards.begin(board)
        assert boards.history() == []
        await boards.close()

    with studio(tmp_path) as client:
        made(client)
    asyncio.run(forget_twice())
    assert {path.name for path in tmp_path.iterdir()} <= {".lock", "examination"}


def test_models_are_loaded_one_at_a_time():
    second_began = threading.Event()

    def build_second() -> str:
        second_began.set()
        return "second"

    second = LoadingModel("the critic", build_second)
    other = threading.Thread(target=second.load)

    def build_first() -> str:
        other.start()
        assert not second_began.wait(0.2), "both were being loaded at once"
        return "first"

    assert LoadingModel("the planner", build_first).load() == "first"
    other.join()
    assert second.is_loaded
