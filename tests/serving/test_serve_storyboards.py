"""Storyboards over real HTTP: submit, watch, fetch, cancel, forget, and shutting down around them."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest
from support.places import TESTS
from support.serving_models import (
    CriticChat,
    EchoChat,
    PlannerChat,
    TintEditor,
    content,
    picture,
    plan_of,
    say,
    talking,
    until,
)

from goalreel.claims import attributed, makers
from goalreel.critics.chat import ChatCritic
from goalreel.drivers import run
from goalreel.models.presets import LoopOptions
from goalreel.planners.chat import ChatPlanner
from goalreel.serving.images import to_base64
from goalreel.serving.settings import Models
from goalreel.types import DoneStep, Storyboard, Task

ONE = to_base64(picture())
WORK = {"instruction": "#one and #two", "max_attempts": 2}


def done(image: str) -> dict:
    return {"instruction": "it was begun", "image": image}


@pytest.fixture
def models() -> Models:
    return Models(planner=PlannerChat(), critic=CriticChat(), editor=TintEditor())


@pytest.fixture
def client(models):
    with talking(models, max_running=4) as client:
        yield client


@pytest.fixture(scope="module")
def standing():
    """A server for what it is to refuse."""
    models = Models(planner=PlannerChat(), critic=CriticChat(), editor=TintEditor())
    with talking(models) as client:
        yield client


def submit(client: httpx.Client, **more: object) -> str:
    answer = client.post("/v1/storyboards", json={**WORK, **more})
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/v1/storyboards/{answer.json()['id']}"
    return answer.json()["id"]


def watch(client: httpx.Client, job: str, **headers: str) -> list[tuple[int, str, dict]]:
    with client.stream("GET", f"/v1/storyboards/{job}/events", headers=headers) as response:
        return events_of(response)


def events_of(response: httpx.Response) -> list[tuple[int, str, dict]]:
    assert response.headers["content-type"].startswith("text/event-stream")
    blocks = "".join(response.iter_text()).strip().split("\n\n")
    lines = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]
    return [(int(e["id"]), e["event"], json.loads(e["data"])) for e in lines]


def fetch(client: httpx.Client, job: str, status: str = "done") -> Storyboard:
    answer = client.get(f"/v1/storyboards/{job}").json()
    assert (answer["id"], answer["status"]) == (job, status)
    return Storyboard.model_validate(answer["storyboard"])


def expected(**more: object) -> Storyboard:
    """What the offline driver makes of the same task with the same models, by the names that are served."""
    task = Task(id="task", instruction=WORK["instruction"], **more)
    planner, critic = ChatPlanner(PlannerChat()), ChatCritic(CriticChat())
    return named(next(run([task], planner, TintEditor(), critic, max_attempts=2, confirms=bool)))


def named(board: Storyboard) -> Storyboard:
    return attributed(board, makers({"planner": "planner", "editor": "editor", "critic": "critic"}.get))


def test_a_storyboard_equals_the_offline_drivers(client):
    image = base64.b64encode(picture().png()).decode()
    job = submit(client, image=image, seed=7)
    events = watch(client, job)
    assert [e[0] for e in events] == list(range(1, len(events) + 1))
    assert events[0][1:] == ("planned", {"steps": ["s0", "s1"]})
    assert [e[1] for e in events[1:]] == ["edited", "judged", "edited", "judged"] * 2 + [*("end", "finished")]
    assert [e[2]["success"] for e in events if e[1] == "judged"] == [False, True] * 2
    assert events[-1][2] == {"status": "done"}
    assert watch(client, job, **{"Last-Event-ID": "8"}) == events[8:]
    board = fetch(client, job)
    state = client.get(f"/v1/storyboards/{job}").json()
    assert (state["complete"], state["degraded"], state["end_checked"]) == (True, "", "model critic")
    assert board == expected(image=picture(), seed=7)
    claims = board.steps[0].claims
    assert claims.what.line == "by model planner, checked by nobody"
    assert claims.looks.line == "by model editor, checked by model critic"
    assert board.complete


def test_storyboards_side_by_side_share_batches_with_each_other_and_with_chats(client, models):
    models.planner.gate.clear()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(say, client, "first...")
        models.planner.entered.acquire()
        jobs = [submit(client, seed=i) for i in range(4)]
        until(lambda: client.get("/health").json()["models"]["planner"]["waiting"] == 4)
        refused = client.post("/v1/storyboards", json=WORK)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        models.planner.gate.set()
        assert content(first.result()) == "first..."
    for i, job in enumerate(jobs):
        assert watch(client, job)[-1][2] == {"status": "done"}
        assert fetch(client, job) == expected(seed=i)
    assert max(map(len, models.planner.batches)) == 4
    assert 'goalreel_storyboards{status="done"} 4.0' in client.get("/metrics").text


def test_a_cancelled_storyboard_leaves_the_queue_and_is_forgotten(client, models):
    models.planner.gate.clear()
    first = submit(client)
    models.planner.entered.acquire()
    second = submit(client)
    until(lambda: client.get("/health").json()["models"]["planner"]["waiting"] == 1)
    # The watcher is connected before anything is cancelled: afterwards there is nothing to watch.
    with client.stream("GET", f"/v1/storyboards/{second}/events") as response:
        assert client.delete(f"/v1/storyboards/{second}").status_code == 204
        assert client.delete(f"/v1/storyboards/{second}").status_code == 404
        assert events_of(response)[-1][1:] == ("finished", {"status": "cancelled"})
    until(lambda: client.get("/health").json()["models"]["planner"]["waiting"] == 0)
    assert client.get(f"/v1/storyboards/{first}").json()["status"] == "running"
    assert client.delete(f"/v1/storyboards/{first}").status_code == 204
    models.planner.gate.set()
    for job in (first, second):
        assert client.get(f"/v1/storyboards/{job}").status_code == 404
    third = submit(client)
    watch(client, third)
    assert fetch(client, third) == expected()
    assert len(models.planner.batches) == 2, "what was cancelled while it waited was never asked"


def test_what_goes_wrong_is_a_failure_in_the_storyboard(client):
    events = watch(client, job := submit(client, instruction="#no..."))
    assert events[0][1] == "failure"
    assert fetch(client, job, "failed").failure.stage == "plan"
    events = watch(client, job := submit(client, instruction="no backend"))
    assert events[0][2]["message"].startswith("the card fell off the bus")
    assert fetch(client, job, "failed").failure is not None
    events = watch(client, job := submit(client, instruction="say no reply"))
    assert events[-1][2] == {"status": "failed"}
    state = client.get(f"/v1/storyboards/{job}").json()
    assert "too long" in state["degraded"]
    assert (state["complete"], state["end_checked"]) == (False, "nobody")


class Wordy(EchoChat):
    """Plans two steps, and one once it is told that they are too many."""

    heeds = True

    def complete(self, conversations, *, schema=None):
        told = super().complete(conversations, schema=schema)
        return [plan_of("#" if self.heeds and "at most 1" in str(text) else "##") for text in told]


def test_of_a_plan_longer_than_the_server_makes_the_planner_is_told(models):
    wordy = Wordy()
    models = replace(models, planner=wordy)
    with talking(models, loop=LoopOptions(max_attempts=3, max_steps=1)) as client:
        watch(client, job := submit(client))
        assert len(fetch(client, job).steps) == 1
        assert len(wordy.batches) == 2
        wordy.heeds = False
        watch(client, job := submit(client))
        assert "it has 2 steps: give at most 1" in fetch(client, job, "failed").failure.message


def test_pictures_in_the_instruction_and_steps_behind_us(standing):
    a, b, c, now = (picture(i) for i in range(4))
    asked = {
        "instruction": "#from <image> to <image>",
        "images": [to_base64(a), f"data:image/png;base64,{to_base64(b)}"],
        "done": [{"instruction": "it was begun", "image": to_base64(c)}, {"instruction": "and goes on"}],
    }
    behind = (DoneStep(instruction="it was begun", image=c), DoneStep(instruction="and goes on"))
    for more, scene in (({}, c), ({"image": to_base64(now)}, now)):
        watch(standing, job := submit(standing, **asked, **more))
        board = fetch(standing, job)
        assert (board.task.images, board.task.done, board.task.image) == ((a, b), behind, scene)
        assert board.complete


def test_all_pictures_of_a_submission_are_weighed_together(models):
    one = to_base64(picture())  # 200 pixels
    with talking(models, max_pixels=650) as client:
        work = {**WORK, "instruction": "#<image>", "image": one, "images": [one]}
        assert client.post("/v1/storyboards", json=work).status_code == 202
        for more in (
            {"instruction": "<image><image><image>", "images": [one] * 3},
            {"done": [done(one)] * 2},
        ):
            answer = client.post("/v1/storyboards", json={**work, **more})
            assert (answer.status_code, "800 pixels" in answer.text) == (413, True), answer.text


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        (
            {"instruction": "<image> and <image>", "images": [ONE]},
            400,
            "pictures: 1, <image> marks in the instruction: 2",
        ),
        (
            {"instruction": "tidy up", "images": [ONE]},
            400,
            "pictures: 1, <image> marks in the instruction: 0",
        ),
        ({"instruction": "<image>"}, 400, "pictures: 0, <image> marks in the instruction: 1"),
        ({"images": ["not base64"]}, 400, "base64"),
        ({"images": ["http://there/x.png"]}, 400, "fetches nothing"),
        ({"done": [{"instruction": "x", "image": "not base64"}]}, 400, "base64"),
        ({"done": [{"image": ONE}]}, 400, "done.0.instruction"),
        ({"done": [{"instruction": "x", "prompt": "y"}]}, 400, "done.0.prompt"),
        ({"images": [ONE] * 33}, 400, "images"),
        ({"done": [{"instruction": "x"}] * 101}, 400, "done"),
        ({"instruction": " "}, 400, "instruction"),
        ({"max_attempts": 0}, 400, "max_attempts"),
        ({"max_attempts": 11}, 400, "max_attempts"),
        ({"seed": -1}, 400, "seed"),
        ({"speed": 1}, 400, "speed"),
    ],
)
def test_a_submission_that_does_not_fit_is_refused(standing, change, status, said):
    answer = standing.post("/v1/storyboards", json={**WORK, **change})
    assert answer.status_code == status, answer.text
    assert said in answer.json()["error"]["message"]


def test_a_second_editor_is_asked_for_what_the_first_could_not_draw(models):
    class Picky(PlannerChat):
        def complete(self, conversations, *, schema=None):
            return [verdict_of(any(e.editor for e in second)) for _ in conversations]

    second: list[Edit] = []

    class Second(TintEditor):
        def edit(self, edits):
            second.extend(edits)
            return super().edit(edits)

    editor = FallbackEditor(TintEditor(), Second())
    models = replace(models, critic=Picky(), editor=editor, editor_name="klein else other")
    loop = LoopOptions(max_attempts=1, references="all")
    with talking(models, loop=loop) as client:
        watch(client, job := submit(client, image=base64.b64encode(picture().png()).decode(), max_attempts=1))
        first, then = fetch(client, job).steps
    assert [a.by for a in first.attempts] == ["model klein", "model other"]
    assert first.claims.looks.by == "model other"
    assert [a.by for a in then.attempts] == ["model klein"]


def test_finished_storyboards_are_kept_in_bounds(models):
    one = len(expected().model_dump_json())
    for bounds in ({"max_stored": 2}, {"max_stored_bytes": int(2.5 * one)}):
        with talking(models, **bounds) as client:
            jobs = []
            for _ in range(3):
                if len(jobs) == 2:
                    fetch(client, jobs[0])  # the other is now the least recently used
                jobs.append(submit(client))
                watch(client, jobs[-1])
            until(lambda jobs=jobs: client.get(f"/v1/storyboards/{jobs[1]}").status_code == 404)
            fetch(client, jobs[0])
            fetch(client, jobs[2])


def test_all_three_models_are_needed():
    with talking(Models(planner=EchoChat())) as client:
        answer = client.post("/v1/storyboards", json=WORK)
        assert answer.status_code == 404
        assert "no critic" in answer.text


SERVER = """
import sys, threading, time
from functools import partialmethod
from support.serving_models import CriticChat, PlannerChat, TintEditor
from goalreel.serving.app import create_app
from goalreel.serving import app as serving
from goalreel.serving.queues import Batcher
from goalreel.serving.settings import Models, ServeSettings

serving.CLOSE_SECONDS = 1
Batcher.close = partialmethod(Batcher.close, timeout=1)  # both wait 5 s for a model that hangs
planner = PlannerChat()
planner.gate.clear()
models = Models(planner=planner, critic=CriticChat(), editor=TintEditor())
settings = ServeSettings(port=0, batch_size=1, drain_seconds=int(sys.argv[1]))
server = serving.DrainingServer(create_app(models, settings))

def talk():
    while not server.started:
        time.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    planner.entered.acquire()
    print("busy", flush=True)
    for _ in sys.stdin:
        planner.gate.set()

threading.Thread(target=talk, daemon=True).start()
server.run()
"""


@pytest.fixture
def process(request):
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", SERVER, str(request.param)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            port = process.stdout.readline().strip()
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                yield process, client
        finally:
            process.kill()


@pytest.mark.process
@pytest.mark.parametrize("process", [600], indirect=True)
def test_sigterm_finishes_what_is_under_way_and_takes_nothing_new(process):
    server, client = process
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(say, client, "first...")
        assert server.stdout.readline() == "busy\n"
        job = submit(client)
        until(lambda: client.get("/health").json()["models"]["planner"]["waiting"] == 1)
        server.send_signal(signal.SIGTERM)
        until(lambda: client.get("/health").status_code == 503)
        assert client.get("/health").json()["status"] == "Draining"
        refused = say(client, "too late")
        assert refused.status_code == 503
        assert "retry-after" in refused.headers
        assert client.post("/v1/storyboards", json=WORK).status_code == 503
        assert client.get(f"/v1/storyboards/{job}").json()["status"] == "running"
        server.stdin.write("go\n")
        server.stdin.flush()
        assert content(asked.result()) == "first..."
        assert watch(client, job)[-1][2] == {"status": "done"}
        assert fetch(client, job) == expected()
    assert server.wait(60) == 0


@pytest.mark.process
@pytest.mark.parametrize("process", [0], indirect=True)
def test_a_drain_ends_in_time_though_a_model_hangs(process):
    server, client = process
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(say, client, "first")
        assert server.stdout.readline() == "busy\n"
        submit(client)
        until(lambda: client.get("/health").json()["models"]["planner"]["waiting"] == 1)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) is not None
        with contextlib.suppress(httpx.TransportError):
            assert asked.result().status_code >= 500
