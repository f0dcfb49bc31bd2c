"""Remote editors against a real HTTP server on the loopback: what they send, retry, refuse and never tell."""

import base64
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from support.image_server import Reply, Server, picture
from support.serving_models import TintEditor, serving, tinted
from support.wait import until

from goalreel.editors.remote import RemoteEditor, remote_editor
from goalreel.errors import InputError
from goalreel.image import Image
from goalreel.models.load import build_editor
from goalreel.serving.settings import Models
from goalreel.types import Edit, Failure

HASTE = {"retries": 2, "timeout_s": 5}
KEY = "sk-very-secret"


pytestmark = pytest.mark.usefixtures("retry_pauses")


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("GOALREEL_API_KEY", KEY)
    server = Server()
    with server:
        yield server


def edit(seed: int = 7, image: Image | None = None, prompt: str = "put it down") -> Edit:
    return Edit(task_id="t", step=0, attempt=0, image=image, prompt=prompt, seed=seed)


def encoded(image: Image) -> str:
    return base64.b64encode(image.png()).decode()


def echo(path: str, fields: dict) -> Reply:
    """What was sent, as OpenAI's API would send it back; from text, a square."""
    image = Image.decode(fields["image"]) if "image" in fields else picture(1024, 1024)
    return 200, {"data": [{"b64_json": encoded(image)}]}, {}


PICTURE = encoded(picture(64, 64))
TRUNCATED = base64.b64encode(picture(64, 64).jpeg(90)[:-200]).decode()
BLACK = encoded(Image(np.zeros((64, 64, 3), np.uint8)))


def close(a: Image, b: Image) -> bool:
    return a.size == b.size and np.abs(a.pixels.astype(int) - b.pixels).max() <= 4


def message(editor: RemoteEditor, **fields: object) -> str:
    (answer,) = editor.edit([edit(**fields)])
    assert isinstance(answer, Failure)
    assert KEY not in answer.model_dump_json()
    assert "\n" not in answer.message
    return answer.message


def openai(server: Server) -> RemoteEditor:
    return remote_editor("openai", f"painter@{server.url}/v1", **HASTE)


def test_openai_edits_a_picture_and_keeps_its_shape_and_draws_from_text(server):
    """A server of fixed sizes gets the nearest of them and gives it back; nothing is stretched."""
    source = picture(64, 48)

    def reply(path, fields):
        if path.endswith("generations"):
            return echo(path, fields)
        sent = Image.decode(fields["image"])
        assert sent.size == (72, 48)
        drawn = Image(np.kron(sent.pixels, np.ones((2, 2, 1), np.uint8)))
        return 200, {"data": [{"b64_json": encoded(drawn)}]}, {}

    server.reply = reply
    (answer,) = openai(server).edit([edit(image=source)])
    assert answer.size == (128, 96)
    assert close(answer.resized((64, 48)), source)
    assert [answer.size for answer in openai(server).edit([edit()])] == [(1024, 1024)]
    (path, fields, headers), (drawn_path, drawn_fields, _) = server.requests
    assert (path, drawn_path) == ("/v1/images/edits", "/v1/images/generations")
    assert fields.pop("image").startswith(b"\x89PNG")
    asked = {"model": "painter", "prompt": "put it down", "response_format": "b64_json"}
    wanted = asked | {"n": "1", "size": "1536x1024"}
    assert fields == {name: value.encode() for name, value in wanted.items()}
    assert drawn_fields == asked | {"n": 1, "size": "1024x1024"}
    assert headers["Authorization"] == f"Bearer {KEY}"


def test_openai_is_sent_several_pictures_the_one_to_edit_first(server):
    source, others = picture(64, 48), (picture(30, 20), picture(20, 30))

    def reply(path, fields):
        drawn = Image.decode(fields["image[]"][0])
        return 200, {"data": [{"b64_json": encoded(drawn)}]}, {}

    server.reply = reply
    request = edit(image=source).model_copy(update={"references": others})
    assert openai(server).edit([request]) == [source]
    ((_, fields, _),) = server.requests
    sent = [Image.decode(data) for data in fields["image[]"]]
    assert sent[0].size == (72, 48)
    assert sent[1:] == list(others)
    assert "image" not in fields


def test_an_editor_of_one_picture_refuses_several_unasked(server):
    request = edit(image=picture(8, 8)).model_copy(update={"references": (picture(8, 8),)})
    (answer,) = build_editor(f"interleavethinker:{server.url}").edit([request])
    assert answer.refused
    assert answer.message == f"{server.url} takes one picture an edit"
    assert not server.requests


def test_several_pictures_reach_the_editor_of_a_goalreel_server(monkeypatch):
    tint, others = TintEditor(), (picture(9, 8), picture(7, 8))
    request = edit(image=picture(64, 48)).model_copy(update={"references": others})
    with serving(Models(editor=tint, references=True)) as url:
        (answer,) = remote_editor("server", url, **HASTE).edit([request])
    assert answer == tinted(request.image, request.prompt, 7)
    ((seen,),) = tint.batches
    assert (seen.image, seen.references) == (request.image, others)
    with serving(Models(editor=tint)) as url:
        (answer,) = remote_editor("server", url, **HASTE).edit([request])
    assert "the editor here takes one image at a time" in answer.message
    assert answer.refused


def test_more_fields_go_with_each_request(server):
    server.reply = echo
    name = f'openai:painter@{server.url}/v1?extra={{"quality":"low","steps":4,"hd":true}}'
    assert all(isinstance(a, Image) for a in build_editor(name).edit([edit(image=picture(64, 64)), edit()]))
    sent = {path: fields for path, fields, _ in server.requests}
    edited, drawn = (sent[f"/v1/images/{kind}"] for kind in ("edits", "generations"))
    assert (edited["quality"], edited["steps"], edited["hd"]) == (b"low", b"4", b"true")
    assert (drawn["quality"], drawn["steps"], drawn["hd"]) == ("low", 4, True)


def test_base64_as_various_servers_write_it(server):
    data = picture(8, 8).png()
    url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
    texts = [base64.encodebytes(data), base64.urlsafe_b64encode(data), base64.b64encode(data).rstrip(b"=")]
    for item in [*({"b64_json": text.decode()} for text in texts), {"b64_json": url}, {"url": url}]:
        server.reply = lambda path, fields, item=item: (200, {"data": [item]}, {})
        assert openai(server).edit([edit(image=picture(8, 8))]) == [picture(8, 8)]
        (failure,) = openai(server).edit([edit()])
        assert "its picture of 8 x 8 pixels is none for 1024 x 1024" in failure.message


def test_interleavethinkers_server(server):
    """Its replies are always 1024 x 1024."""

    def reply(path, fields):
        sent = Image.decode(base64.b64decode(fields["image"])) if fields["image"] else picture(64, 64)
        drawn = Image(np.kron(sent.pixels, np.ones((1024 // sent.size[0],) * 2 + (1,), np.uint8)))
        return 200, {"success": True, "edited_image": encoded(drawn), "error": None}, {}

    server.reply = reply
    editor = remote_editor("interleavethinker", server.url, **HASTE)
    source = picture(48, 64)
    drawn, edited = editor.edit([edit(), edit(image=source)])
    assert drawn.size == (1024, 1024)
    assert edited.size == (768, 1024)
    assert close(edited.resized((48, 64)), source)
    assert {path for path, _, _ in server.requests} == {"/edit"}
    fields = next(f for _, f, _ in server.requests if f["image"] is None)
    assert fields == {"image": None, "prompt": "put it down", "seed": 7}
    server.reply = lambda path, fields: (500, {"detail": "Image editing failed: no GPU"}, {})
    assert message(editor) == f"HTTP 500 from {server.url}: Image editing failed: no GPU"
    server.reply = lambda path, fields: (200, {"success": False, "error": "Task timeout"}, {})
    assert message(editor) == "the server's reply is unusable: Task timeout"
    server.reply = lambda path, fields: (200, {"success": "false", "edited_image": PICTURE}, {})
    assert message(editor) == "the server's reply is unusable: it does not say that it succeeded"


@pytest.mark.parametrize("kind", ["server", "interleavethinker"])
def test_goalreels_own_server(kind, monkeypatch):
    """`goalreel serve` speaks both; its editor inverts, and writes prompt length and seed into a corner."""
    monkeypatch.setenv("GOALREEL_TOKEN", "let-me-in")
    monkeypatch.setenv("GOALREEL_API_KEY", "let-me-in")
    source = picture(64, 64)
    edits = [edit(seed=300, image=source), edit(), edit(image=source, prompt="refuse")]
    with serving(Models(editor=TintEditor()), token="let-me-in") as url:
        edited, drawn, lost = remote_editor(kind, url, **HASTE).edit(edits)
    assert edited == tinted(source, edits[0].prompt, 300)
    assert drawn == tinted(None, edits[1].prompt, 7)
    assert "HTTP 424" in lost.message
    assert "the editor gave no image: not that" in lost.message


@pytest.mark.parametrize(
    ("status", "body", "said", "tries", "refused"),
    [
        (400, {"error": {"message": f"bad\nkey {KEY}"}}, "bad key ***", 1, True),
        (413, {}, "no message", 1, True),
        (422, {}, "no message", 1, True),
        (401, {"detail": "no"}, "no: set GOALREEL_API_KEY", 1, False),
        (404, {}, "no message", 1, False),
        (424, {}, "no message", 1, False),
        (500, {}, "no message", 3, False),
        (501, b"no edits here", "no edits here", 1, False),
        (503, b"down", "down", 3, False),
    ],
)
def test_it_gives_up_after_its_tries_and_at_once_on_a_refusal(server, status, body, said, tries, refused):
    server.reply = lambda path, fields: (status, body, {})
    (answer,) = openai(server).edit([edit()])
    assert answer.message == f"HTTP {status} from {server.url}/v1: {said}"
    assert (len(server.requests), answer.refused) == (tries, refused)


@pytest.mark.parametrize("field", ["response_format", "size", "n"])
@pytest.mark.parametrize("status", [400, 403, 422])
def test_a_field_that_the_server_refuses_is_not_sent_again(server, field, status):
    def reply(path, fields):
        unknown = {"error": {"message": f"Unknown parameter: '{field}'.", "param": field}}
        return (status, unknown, {}) if field in fields else echo(path, fields)

    server.reply = reply
    editor = openai(server)
    for _ in range(2):
        (drawn,) = editor.edit([edit(image=picture(64, 48))])
        assert isinstance(drawn, Image)
    assert [field in fields for _, fields, _ in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("source", "size", "sent"), [((48, 64), "1024x1536", (48, 72)), ((60, 64), "1024x1024", (64, 64))]
)
def test_a_size_is_asked_for_and_its_canvas_undone(server, source, size, sent):
    server.reply = echo
    image = picture(*source)
    assert openai(server).edit([edit(image=image)]) == [image]
    ((_, fields, _),) = server.requests
    assert fields["size"].decode() == size
    assert Image.decode(fields["image"]).size == sent


def test_a_server_that_chooses_or_refuses_the_size_stretches_nothing(server):
    """Of another shape, an answer's middle is taken; where the size is refused, a square goes out."""
    server.reply = lambda path, fields: (200, {"data": [{"b64_json": encoded(picture(150, 100))}]}, {})
    (answer,) = openai(server).edit([edit(image=picture(64, 64))])
    assert answer.size == (100, 100)

    def reply(path, fields):
        if "size" in fields:
            return 400, {"error": {"message": "size must be one of 256x256, 512x512, 1024x1024"}}, {}
        assert Image.decode(fields["image"]).size == (64, 64)
        return echo(path, fields)

    server.reply = reply
    assert openai(server).edit([edit(image=picture(64, 48))]) == [picture(64, 48)]


@pytest.mark.parametrize("address", ["http://169.254.169.254/x", "file:///etc/passwd", "//127.0.0.1/x"])
def test_no_picture_is_fetched_from_an_address(server, address):
    server.reply = lambda path, fields: (200, {"data": [{"url": address}]}, {})
    assert message(openai(server)) == "the server's reply is unusable: no b64_json in it"
    assert len(server.requests) == 1


def test_a_picture_follows_a_redirect_on_its_own_server_only(server):
    with Server() as other:
        target = {"Location": f"{server.url}/v1/moved"}
        server.reply = lambda path, fields: echo(path, fields) if path == "/v1/moved" else (307, b"", target)
        (drawn,) = openai(server).edit([edit()])
        assert isinstance(drawn, Image)
        target["Location"] = f"{other.url}/v1/moved"
        said = f"points to {other.url.removeprefix('http://')}: give that address"
        assert said in message(openai(server), image=picture(8, 8))
        assert not other.requests


def test_how_many_at_once_is_an_option_of_its_name(server):
    together = threading.Barrier(10)

    def reply(path, fields):
        together.wait(60)
        return 404, {}, {}

    server.reply = reply
    build_editor(f"server:{server.url}?concurrency=10").edit([edit()] * 10)
    assert server.busiest == 10


def test_one_bad_item_fails_alone_and_answers_stay_in_order_several_at_once(server):
    def reply(path, fields):
        prompt = fields["prompt"].decode()
        time.sleep(0.15 if prompt == "0" else 0.1)
        return (400, {"error": {"message": "no"}}, {}) if prompt == "3" else echo(path, fields)

    server.reply = reply
    sources = [picture(64, 20 + i) for i in range(12)]
    answers = openai(server).edit([edit(image=s, prompt=str(i)) for i, s in enumerate(sources)])
    assert [None if isinstance(a, Failure) else a.size for a in answers] == [
        None if i == 3 else s.size for i, s in enumerate(sources)
    ]
    assert 2 <= server.busiest <= 8


HANGING = """
import sys
from goalreel import Image, Plan, Step, Task, run
from goalreel.models.load import build_editor
from goalreel.critics.difference import DifferenceCritic

class OneStep:
    def plan(self, tasks):
        return [Plan(steps=(Step(name="s", instruction="i", prompt="p"),)) for _ in tasks]

editor = build_editor(sys.argv[1])
task = Task(id="t", instruction="go", image=Image.decode(open(sys.argv[2], "rb").read()))
list(run([task], OneStep(), editor, DifferenceCritic(), max_attempts=1, remote=["edit"]))
"""


@pytest.mark.process
def test_ctrl_c_does_not_wait_for_a_server_that_hangs(tmp_path):
    (tmp_path / "frame.png").write_bytes(picture(64, 64).png())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(120)
        name = f"server:http://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-c", HANGING, name, str(tmp_path / "frame.png")]
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        try:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=120)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == -signal.SIGINT
    assert b"KeyboardInterrupt" in said


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"[" * 100_000, "not JSON"),
        ({"data": []}, "no b64_json"),
        ({"error": {"message": "Provider returned error"}}, "Provider returned error"),
        ({"error": {"message": "half of it is lost"}, "data": [{"b64_json": "x"}]}, "half of it is lost"),
        ({"data": "x"}, "no b64_json"),
        ({"data": [{"b64_json": "!!!"}]}, "unusable"),
        ({"data": [{"b64_json": "é"}]}, "unusable"),
        ({"data": [{"b64_json": "aGVsbG8="}]}, "not a readable image"),
        ({"data": [{"b64_json": "cW9pZgAAAB4AAAAYAwH+RAr+BA=="}]}, "not a readable image"),
        ({"data": [{"b64_json": TRUNCATED}]}, "truncated"),
        ({"data": [{"b64_json": BLACK}]}, "one colour alone"),
        ({"data": [{"b64_json": PICTURE, "error": {"message": "blocked"}}]}, "blocked"),
        (b'{"data": [], "data": [{"b64_json": "x"}]}', "the key 'data' twice"),
    ],
)
def test_an_unusable_reply_is_a_failure(server, body, reason):
    server.reply = lambda path, fields: (200, body, {})
    assert reason in message(openai(server))


def test_a_late_reply_is_a_failure_and_not_asked_for_again(server):
    server.reply = lambda path, fields: time.sleep(0.6) or echo(path, fields)
    editor = remote_editor("openai", f"painter@{server.url}", timeout_s=0.2)
    assert "no answer from" in message(editor)
    until(lambda: server.requests)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("openai:@http://host", "openai:MODEL@URL"),
        ("openai:gpt-image-1", "needs a key: set OPENAI_API_KEY"),
        ("server:host:80", "is not an address: write http://HOST:PORT"),
        ("interleavethinker:ftp://host", "is not an address"),
        ("server:http://me:pass@host", "an address must hold no key"),
        ("paint:http://host", "no remote editor of kind 'paint'"),
    ],
)
def test_a_bad_name_is_one_clear_line(name, said, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InputError, match=said):
        remote_editor(*name.split(":", 1))
