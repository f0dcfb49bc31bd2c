"""The end of a server: what is under way is finished, in time, and nothing new is taken."""

import contextlib
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from support.serving_models import content, say, until
from support.studio import state, submit

SERVER = """
import sys, threading, time
from pathlib import Path
from functools import partialmethod
from support.studio import scripted
from goalreel.studio.app import create_board_app
from goalreel.serving import app as serving
from goalreel.serving.queues import Batcher
from goalreel.serving.settings import ServeSettings

serving.CLOSE_SECONDS = 1
Batcher.close = partialmethod(Batcher.close, timeout=1)  # both wait 5 s for a model that hangs
models = scripted()
planner = models.planner
planner.gate.clear()
settings = ServeSettings(port=0, batch_size=1, drain_seconds=int(sys.argv[1]))
server = serving.DrainingServer(create_board_app(models, settings, Path(sys.argv[2])))

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
def process(request, tmp_path):
    command = [sys.executable, "-c", SERVER, str(request.param), str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            port = process.stdout.readline().strip()
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                yield process, client
        finally:
            process.kill()


@pytest.mark.process
@pytest.mark.parametrize("process", [600], indirect=True)
def test_sigterm_finishes_what_is_under_way_and_takes_nothing_new(process, tmp_path):
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
        assert client.post("/v1/storyboards", json={"instruction": "x"}).status_code == 503
        assert state(client, job)["status"] == "running"
        server.stdin.write("go\n")
        server.stdin.flush()
        assert content(asked.result()) == "first..."
    assert server.wait(60) == 0
    assert '"done"' in (tmp_path / job / "log.jsonl").read_text().splitlines()[-1]


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
