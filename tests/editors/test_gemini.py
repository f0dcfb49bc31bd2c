"""Gemini's image API against a loopback server that speaks its JSON: what is sent, read and refused."""

import base64

import pytest
from support.image_server import Server, picture

from goalreel.editors.remote import GeminiImages
from goalreel.errors import InputError
from goalreel.http.endpoint import gemini_endpoint
from goalreel.image import Image
from goalreel.models.load import build_editor
from goalreel.types import Edit, Failure

OURS, GOOGLES = "GOALREEL_API_KEY", ("GEMINI_API_KEY", "GOOGLE_API_KEY")
KEY = "AIza-very-secret"
GOOGLE = "https://generativelanguage.googleapis.com/v1beta"


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name in ("GOOGLE_API_KEY", "GOALREEL_API_KEY", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)


@pytest.fixture
def server(monkeypatch):
    server = Server()
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    with server:
        yield server


def edit(image: Image | None = None, **more: object) -> Edit:
    return Edit(task_id="t", step=0, attempt=0, image=image, prompt="put it down", seed=2**32 - 1, **more)


def drawn(image: Image, mime: str = "image/png", **part: object) -> dict:
    return {"inlineData": {"mimeType": mime, "data": base64.b64encode(image.png()).decode()}, **part}


def said(*parts: dict, reason: str = "STOP", **more: object) -> dict:
    """A reply as Google's API gives it."""
    candidate = {"content": {"parts": list(parts), "role": "model"}, "finishReason": reason, "index": 0}
    return {"candidates": [candidate | more], "modelVersion": "gemini-2.5-flash-image", "responseId": "x"}


def sent_pictures(fields: dict) -> list[Image]:
    parts = fields["contents"][0]["parts"]
    return [Image.decode(base64.b64decode(part["inlineData"]["data"])) for part in parts[:-1]]


def echo(path: str, fields: dict):
    image = (sent_pictures(fields) or [picture(64, 64)])[-1]
    return 200, said({"text": "Here it is:"}, drawn(image)), {}


def failure(server: Server, body: dict, status: int = 200) -> Failure:
    server.reply = lambda path, fields: (status, body, {})
    (answer,) = build_editor("gemini:gemini-2.5-flash-image?retries=0").edit([edit(picture(8, 8))])
    assert isinstance(answer, Failure)
    assert KEY not in answer.model_dump_json()
    assert "\n" not in answer.message
    return answer


def test_a_picture_is_edited_and_keeps_its_shape(server):
    server.reply = echo
    source = picture(60, 48)
    (answer,) = build_editor("gemini:gemini-2.5-flash-image").edit([edit(source)])
    assert answer == source
    ((path, fields, headers),) = server.requests
    assert path == "/v1beta/models/gemini-2.5-flash-image:generateContent"
    assert headers["x-goog-api-key"] == KEY
    assert headers["Authorization"] is None
    (content,) = fields["contents"]
    assert content["role"] == "user"
    assert content["parts"][-1] == {"text": "put it down"}
    assert content["parts"][0]["inlineData"]["mimeType"] == "image/png"
    assert fields["generationConfig"] == {
        "responseModalities": ["TEXT", "IMAGE"],
        "imageConfig": {"aspectRatio": "5:4"},
        "seed": 2**31 - 1,
    }


@pytest.mark.parametrize(
    ("source", "aspect", "sent"),
    [((64, 36), "16:9", (64, 36)), ((36, 64), "9:16", (36, 64)), ((100, 30), "21:9", (100, 43))],
)
def test_an_aspect_ratio_is_asked_for_and_its_canvas_undone(server, source, aspect, sent):
    server.reply = echo
    (answer,) = build_editor("gemini:gemini-2.5-flash-image").edit([edit(picture(*source))])
    assert answer == picture(*source)
    ((_, fields, _),) = server.requests
    assert fields["generationConfig"]["imageConfig"] == {"aspectRatio": aspect}
    assert sent_pictures(fields)[0].size == sent


def test_pictures_go_before_the_one_to_edit_or_none_at_all(server):
    server.reply = echo
    source, others = picture(64, 64), (picture(9, 8), picture(7, 8))
    assert build_editor("gemini:m").edit([edit(source, references=others)]) == [source]
    assert build_editor("gemini:m").edit([edit()]) == [picture(64, 64)]
    (_, asked, _), (_, drawn_from_text, _) = server.requests
    assert sent_pictures(asked) == [*others, source]
    assert "imageConfig" not in drawn_from_text["generationConfig"]


def test_drafts_among_the_thoughts_are_no_answer_and_either_spelling_is_read(server):
    draft, last = drawn(picture(8, 8), thought=True), drawn(Image(picture(8, 8).pixels // 2))
    other = {"inline_data": {"mime_type": "image/png", "data": last["inlineData"]["data"]}}
    for part in (last, other):
        server.reply = lambda path, fields, part=part: (200, said(draft, part, {"text": "done"}), {})
        (answer,) = build_editor("gemini:m").edit([edit(picture(8, 8))])
        assert answer.pixels.max() == 127


REFUSED, PICTURED = "the model refused to draw it: ", drawn(picture(8, 8))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (said(reason="IMAGE_SAFETY", finishMessage="It\ncannot."), f"{REFUSED}IMAGE_SAFETY: It cannot."),
        (said({"text": "What thing?"}, reason="NO_IMAGE"), f"{REFUSED}NO_IMAGE: What thing?"),
        ({"candidates": [{"finishReason": "IMAGE_RECITATION", "index": 0}]}, f"{REFUSED}IMAGE_RECITATION"),
        (said(PICTURED, reason="IMAGE_SAFETY"), f"{REFUSED}IMAGE_SAFETY"),
        ({"promptFeedback": {"blockReason": "PROHIBITED"}}, "the prompt was refused: PROHIBITED"),
        (said({"text": "I can't edit\npeople."}), "the model drew nothing and said: I can't edit people."),
    ],
)
def test_a_refusal_is_in_the_models_own_words(server, body, says):
    answer = failure(server, body)
    assert answer.message == says
    assert answer.refused


UNUSABLE = "the server's reply is unusable: "


def error(code: int, message: str, **more: object) -> dict:
    return {"error": {"code": code, "message": message, **more}}


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (
            200,
            said(PICTURED, reason="MAX_TOKENS"),
            f"{UNUSABLE}its picture did not end by itself (MAX_TOKENS)",
        ),
        (200, said(PICTURED) | error(0, "half of it is lost"), f"{UNUSABLE}half of it is lost"),
        (200, said({"text": "I beg"}, reason="MAX_TOKENS"), f"{UNUSABLE}no picture in it (MAX_TOKENS)"),
        (200, {"candidates": [{"content": None}]}, f"{UNUSABLE}no picture in it"),
        (
            400,
            error(400, "No key.", details=[{"reason": "API_KEY_INVALID"}]),
            "HTTP 400 from ADDRESS: No key.",
        ),
        (429, error(429, "You exceeded your quota."), "HTTP 429 from ADDRESS: You exceeded your quota."),
        (404, error(404, "models/m is not found"), "HTTP 404 from ADDRESS: models/m is not found"),
    ],
)
def test_what_is_no_refusal_says_what_went_wrong(server, status, body, says):
    answer = failure(server, body, status)
    assert answer.message == says.replace("ADDRESS", f"{server.url}/v1beta")
    assert not answer.refused


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("imageConfig", "Invalid JSON payload received. Unknown name \"imageConfig\" at 'generation_config'"),
        ("imageConfig", "Aspect ratio is not enabled for models/m"),
        ("seed", "seed is not supported by this model"),
    ],
)
def test_what_a_model_does_not_know_is_not_sent_again(server, field, words):
    def reply(path, fields):
        if field in fields["generationConfig"]:
            return 400, {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}, {}
        return echo(path, fields)

    server.reply = reply
    editor = build_editor("gemini:m")
    for _ in range(2):
        assert editor.edit([edit(picture(64, 48))]) == [picture(64, 48)]
    assert [field in fields["generationConfig"] for _, fields, _ in server.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("address", "base", "url", "variables"),
    [
        (None, None, GOOGLE, GOOGLES),
        (None, "https://gate/way/", "https://gate/way/v1beta", (OURS, *GOOGLES)),
        ("http://there:80/v1", None, "http://there:80/v1", (OURS,)),
        ("http://there", "https://gate", "http://there/v1beta", (OURS,)),
        ("https://gate/v1alpha", "https://gate", "https://gate/v1alpha", (OURS, *GOOGLES)),
        (GOOGLE, "https://gate", GOOGLE, GOOGLES),
    ],
)
def test_a_key_goes_to_google_or_the_users_own_address_alone(address, base, url, variables, monkeypatch):
    if base:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", base)
    endpoint = gemini_endpoint(address)
    assert (endpoint.address, endpoint.variables) == (url, variables)


def test_no_key_for_google_is_one_line(monkeypatch):
    monkeypatch.delenv("GEMINI_API_KEY")
    with pytest.raises(InputError, match=r"^Google needs a key: set GEMINI_API_KEY, or give"):
        build_editor("gemini:m")
    monkeypatch.setenv("GOOGLE_API_KEY", "other")
    assert gemini_endpoint(None).headers == {"x-goog-api-key": "other"}


def test_more_fields_are_added_to_a_request_and_the_model_may_be_named_as_google_lists_it():
    extra = {"safetySettings": [{"category": "c"}], "generationConfig": {"temperature": 0.5}}
    request = GeminiImages("models/m", extra=extra).request(edit(), ())
    assert request[0] == "/models/m:generateContent"
    body = request[1]["json"]
    assert body["safetySettings"] == [{"category": "c"}]
    assert (body["generationConfig"]["temperature"], "seed" in body["generationConfig"]) == (0.5, True)
