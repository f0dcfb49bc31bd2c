"""A real studio server with scripted models, in a thread or in a process that can be killed."""

import contextlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
from fastapi import FastAPI

from goalreel.annotator.web.auth import Access
from goalreel.serving.images import to_base64
from goalreel.serving.settings import Models, ServeSettings
from goalreel.studio.app import create_board_app
from support.serving_models import CriticChat, PlannerChat, TintEditor, picture, running
from support.wait import until

SCENE = f"data:image/png;base64,{to_base64(picture())}"
LATER = f"data:image/png;base64,{to_base64(picture(5))}"


def scripted() -> Models:
    """A plan of a step a `#`; the critic accepts each step's second picture."""
    return Models(planner=PlannerChat(), critic=CriticChat(), editor=TintEditor())


def app(folder: Path, models: Models | None = None, **settings: object) -> FastAPI:
    """A studio on `folder`, with its page."""
    made = ServeSettings(**settings)
    access = Access(made.host, made.token, "studio")
    return create_board_app(models or scripted(), made, folder, page_access=access)


@contextlib.contextmanager
def studio(folder: Path, models: Models | None = None, **settings: object) -> Iterator[httpx.Client]:
    """A client of a studio on `folder`."""
    with (
        running(app(folder, models, **settings)) as (url, _),
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client


def submit(client: httpx.Client, instruction: str = "#one and #two", **more: object) -> str:
    body = {"instruction": instruction, "image": SCENE, "max_attempts": 2, **more}
    answer = client.post("/v1/storyboards", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()["id"]


def state(client: httpx.Client, board: str) -> dict:
    answer = client.get(f"/v1/storyboards/{board}", params={"record": False})
    assert answer.status_code == 200, answer.text
    return answer.json()


def finished(client: httpx.Client, board: str, status: str = "done") -> dict:
    """The state when no model is at work any more."""
    until(lambda: state(client, board)["status"] != "running")
    now = state(client, board)
    assert now["status"] == status, now
    return now


def made(client: httpx.Client, **more: object) -> dict:
    """The state of a finished storyboard."""
    return finished(client, submit(client, **more))


def edit(
    client: httpx.Client, now: dict, kind: str, status: int = 200, by: str = "Ada", **fields: object
) -> dict:
    """Make a change to a state that was seen, and return the answer; a picture is judged after a look."""
    if kind == "judge":
        fields = {"seconds": 3.0} | fields
    body = {"after": now["number"], "by": by, "edit": {"kind": kind, **fields}}
    answer = client.post(f"/v1/storyboards/{now['id']}/edits", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def saved(client: httpx.Client, board: str, folder: Path) -> Path:
    """What a storyboard is saved as, unpacked."""
    answer = client.get(f"/v1/storyboards/{board}/export/storyboard.zip")
    assert answer.status_code == 200, answer.text
    zipfile.ZipFile(io.BytesIO(answer.content)).extractall(folder)
    return folder / "storyboard"


def events(client: httpx.Client, board: str, **params: object) -> list[tuple[int | None, str, dict]]:
    """All events until the stream ends: (number, name, data)."""
    with client.stream("GET", f"/v1/storyboards/{board}/events", params=params) as response:
        blocks = "".join(response.iter_text()).strip().split("\n\n")
    parsed = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks if block]
    return [(int(e["id"]) if "id" in e else None, e["event"], json.loads(e["data"])) for e in parsed]
