"""The review page over HTTP: what it shows, what it changes, whom it refuses."""

import csv
import json
import shutil
import socket

import numpy as np
import pytest
from fastapi.testclient import TestClient
from support.cli import fails, goalreel
from support.recordings import storyboard
from support.review import change, review_page
from support.serving_models import running

from goalreel.annotator.review.session import ReviewSession
from goalreel.annotator.web.auth import MAX_BODY, Access
from goalreel.datasets.records import FOLDER, LOCAL, Records
from goalreel.datasets.source import Source
from goalreel.errors import DatasetError, InputError
from goalreel.http import access
from goalreel.image import Image
from goalreel.types import Failure

FRONT, WRIST = "observation.images.front", "observation.images.wrist"
EPISODES = {
    0: {},
    1: {"statuses": ("accepted", "rejected", "accepted")},
    2: {"drawn": (1,), "tail": 3, "instruction": "stack the cups"},
}


@pytest.fixture(scope="module")
def made(video_dataset, annotated, tmp_path_factory):
    """The dataset annotated: three sure steps; one rejected; one drawn, and frames of no step after it."""
    return annotated(video_dataset, tmp_path_factory.mktemp("review") / "out", EPISODES)


@pytest.fixture
def out(made, tmp_path):
    """A copy of its own for each test."""
    return shutil.copytree(made, tmp_path / "out")


@pytest.fixture
def page(out) -> TestClient:
    return review_page(out)


def post(page: TestClient, index: int, event: dict, *, revision: int | None = None, by: str = "ann"):
    """Make a change to the newest revision, or to another one."""
    now = page.get(f"/api/episodes/{index}").json()["revision"] if revision is None else revision
    return page.post(f"/api/episodes/{index}/events", json={"revision": now, "by": by, "event": event})


def spans(episode: dict) -> list[tuple[int, int]]:
    return [(step["start"], step["end"]) for step in episode["steps"]]


def listed(page: TestClient, **query: object) -> list[int]:
    return [row["episode"] for row in page.get("/api/episodes", params=query).json()["rows"]]


def test_the_dataset_is_described_and_the_list_ordered_searched_filtered_and_paged(page):
    assert page.get("/api/dataset").json() == {
        "name": "out",
        "cameras": [FRONT, WRIST],
        "episodes": 3,
        "reviewer": "root",
        "examination": None,
    }
    assert listed(page) == [1, 0, 2]
    assert listed(page, order="index") == [0, 1, 2]
    assert listed(page, order="index", offset=1, limit=1) == [1]
    assert listed(page, q="STACK cups") == [2]
    assert listed(page, q="rejected") == [1]
    assert listed(page, q="block bowl", order="index") == [0, 1, 2]
    assert listed(page, q="nothing like it") == []
    change(page, 0, kind="verdict", verdict="accept")
    change(page, 1, kind="verdict", verdict="unsure")
    found = {status: listed(page, status=status) for status in ("unreviewed", "accept", "reject", "doubt")}
    assert found == {"unreviewed": [2], "accept": [0], "reject": [], "doubt": [1]}, (
        "who is unsure leaves it so"
    )
    assert listed(page, q="ann", order="index") == [0, 1]
    answer = page.get("/api/episodes", params={"limit": 1}).json()
    assert (answer["total"], answer["reviewed"], answer["in_doubt"]) == (3, 2, 1)
    assert answer["rows"][0] == {
        "episode": 1,
        "instruction": "put the block in the bowl",
        "seconds": 0.9,
        "steps": 3,
        "word": "rejected",
        "verdict": "unsure",
        "by": "ann",
        "unseen": False,
        "words": "words by unknown, checked by unknown; by unknown, not checked",
        "doubt": 0.6,
        "reasons": ["step 2 rejected by the Critic"],
    }
    assert page.get("/api/episodes", params={"order": "other"}).status_code == 422


def test_an_episode_is_shown_with_all_there_is_to_judge_it_by(page):
    episode = page.get("/api/episodes/2").json()
    assert (episode["length"], episode["revision"], episode["history"]) == (15, 0, [])
    assert spans(episode) == [(0, 4), (4, 8), (8, 12)]
    assert [camera["key"] for camera in episode["cameras"]] == [FRONT, WRIST]
    assert episode["cameras"][0]["from_s"] == pytest.approx(2.1)  # behind the 21 frames of the others
    assert set(episode["curves"]) == {"gripper", "speed"}
    assert all(0 <= value <= 1 for points in episode["curves"].values() for _, value in points)
    step = episode["steps"][1]
    assert (step["name"], step["chosen"], step["edited"]) == ("grasp the block", 0, [])
    attempt = step["attempts"][0]
    assert (attempt["outcome"], attempt["prompt"]) == ("accepted", "p")
    picture = page.get(attempt["picture"])
    assert picture.headers["content-type"] == "image/png"
    assert Image.decode(picture.content).size == (48, 48)
    assert page.get(episode["steps"][0]["attempts"][0]["picture"]).headers["content-type"] == "image/jpeg"


def test_a_frame_is_the_exact_one_and_is_fetched_once(page, video_dataset):
    recorded = Source.open(video_dataset).episode(2)
    for number in (0, 7, 14):
        answer = page.get(f"/frames/2/{WRIST}/{number}.jpg", params={"width": 640})
        shown = Image.decode(answer.content).pixels.astype(int)
        real = recorded.frames(WRIST, [number])[0].pixels.astype(int)
        assert np.abs(shown - real).mean() < 4
    again = page.get(answer.url, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert Image.decode(page.get(f"/frames/2/{WRIST}/0.jpg?width=24").content).size == (24, 24)


def test_a_video_comes_in_ranges_and_recordings_kept_as_pictures_have_none(
    page, video_dataset, image_dataset, annotated, tmp_path
):
    url = page.get("/api/episodes/1").json()["cameras"][0]["video"]
    part = page.get(url, headers={"Range": "bytes=0-99"})
    assert (part.status_code, len(part.content)) == (206, 100)
    assert part.headers["content-type"] == "video/mp4"
    whole = next((video_dataset / "videos" / FRONT).rglob("*.mp4")).read_bytes()
    assert page.get(url).content == whole
    page = review_page(annotated(image_dataset, tmp_path / "pictures", {0: {}}))
    camera = page.get("/api/episodes/0").json()["cameras"][0]
    assert (camera["video"], camera["from_s"]) == (None, 0)
    assert page.get(f"/frames/0/{FRONT}/3.jpg").status_code == 200
    assert page.get(f"/video/0/{FRONT}").status_code == 404


def test_a_link_out_of_the_dataset_is_served_only_if_it_leads_to_a_video(page, out, tmp_path):
    url = page.get("/api/episodes/1").json()["cameras"][0]["video"]
    whole, video = page.get(url).content, next((out / "videos" / FRONT).rglob("*.mp4"))
    elsewhere = video.rename(tmp_path / "elsewhere.mp4")
    video.symlink_to(elsewhere)
    assert page.get(url).content == whole
    elsewhere.write_text("the words of a private file")
    assert page.get(url).status_code == 404
    link = out / FOLDER / f"images/ab/ab{'0' * 62}.png"
    link.parent.mkdir(parents=True)
    link.symlink_to(out / FOLDER / "settings.json")
    assert page.get(f"/pictures/ab/{link.name}").status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/episodes/7", 404),
        ("/api/episodes/-1", 422),
        (f"/frames/0/{FRONT}/12.jpg", 404),
        (f"/frames/0/{FRONT}/0.jpg?width=99999", 422),
        ("/frames/0/observation.state/0.jpg", 404),
        ("/frames/0/observation.images.subgoal/0.jpg", 404),
        ("/video/0/..%2f..%2fmeta", 404),
        ("/video/9/observation.images.front", 404),
        (f"/pictures/ab/{'0' * 64}.png", 404),
        ("/pictures/..%2f../settings.png", 404),
        ("/pictures/%2e%2e/%2e%2e/settings.json", 404),
        ("/static/..%2f..%2fapp.py", 404),
        ("/docs", 404),
        ("/openapi.json", 404),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(page, path, status):
    answer = page.get(path)
    assert answer.status_code == status
    if answer.headers["content-type"] == "application/json":
        assert "\n" not in answer.json()["detail"]


def test_every_kind_of_change_shows_in_the_answer_and_another_process_takes_it_back(page, out):
    """The steps themselves are checked in tests/datasets/test_corrections.py."""
    assert spans(change(page, 2, kind="move", step="0", edge="end", frame=6)) == [(0, 6), (6, 8), (8, 12)]
    change(page, 2, kind="rename", step="1", name=" take\nit\t", instruction="it is\r\n held")
    change(page, 2, kind="outcome", step="1", outcome="failed")
    cause = {"detail": "failure", "restorable": True, "text": "it \n slipped"}
    step = change(page, 2, kind="describe", step="1", **cause)["steps"][1]
    words = ("take it", "it is held", "Take it. Keep everything else unchanged.")
    assert (step["name"], step["instruction"], step["prompt"]) == words
    assert (step["outcome"], step["edited"]) == ("failed", ["outcome", "time", "words"])
    told = {"text": "it slipped", "by": "person", "checked": "person", "restorable": True}
    assert step["details"]["failure"] == told
    change(page, 2, kind="issue", step="0", issue="extra", on=True)
    episode = change(page, 2, kind="issue", step=None, issue="extra", on=True)
    assert (episode["steps"][0]["issues"], episode["issues"]) == (["extra"], ["extra"])
    step = change(page, 2, kind="frame", step="1", camera=WRIST, frame=5)["steps"][1]
    attempt = step["attempts"][step["chosen"]]
    assert (attempt["outcome"], "goal" in step["edited"]) == ("person", True)
    assert attempt["picture"].startswith(f"/frames/2/{WRIST}/5.jpg")
    assert change(page, 2, kind="choose", step="1", attempt=0)["steps"][1]["chosen"] == 0
    assert change(page, 2, kind="blank", step="1")["steps"][1]["chosen"] is None
    episode = change(page, 2, kind="insert", start=12, end=15, name="go\nhome")
    assert episode["steps"][-1]["name"] == "go home"
    assert episode["history"][3]["words"] == "“take it” has the failure “it slipped”"
    assert "take it" in page.get("/api/episodes/0").json()["names"]
    later = review_page(out)
    for _ in range(10):
        episode = change(later, 2, kind="undo")
    assert spans(episode) == [(0, 4), (4, 8), (8, 12)]
    turns = later.get("/api/episodes/0", params={"by": "ann"}).json()
    told = {"episode": 2, "number": 2, "words": "“reach the block” ends at frame 6"}
    assert turns["undo"] is None
    assert turns["redo"].items() >= told.items()
    assert all(line["undone"] for line in episode["history"])
    assert spans(change(later, 2, kind="redo")) == [(0, 6), (6, 8), (8, 12)]


def test_undo_follows_a_persons_last_change_wherever_it_was(page, out):
    def turn(kind: str, by: str) -> dict | None:
        return page.get("/api/episodes/1", params={"by": by}).json()[kind]

    change(page, 2, kind="move", step="0", edge="end", frame=6)
    change(page, 0, kind="verdict", verdict="accept")
    post(page, 0, {"kind": "rename", "step": "1", "name": "of bob"}, by="bob")
    undo = turn("undo", "ann")
    assert (undo["episode"], undo["words"]) == (0, "the verdict “accept”")
    assert turn("undo", "bob")["words"] == "words set to “of bob”"
    assert turn("undo", "eve") is None
    for _ in range(2):  # the second time its answer was lost
        answer = post(page, 0, {"kind": "undo", "of": undo["number"]}, revision=0)
        assert (answer.status_code, answer.json()["steps"][1]["name"]) == (200, "of bob")
    assert (turn("undo", "ann")["episode"], turn("redo", "ann")["episode"]) == (2, 0)
    answer = post(page, 0, {"kind": "undo", "of": 3})
    assert (answer.status_code, answer.json()["detail"]) == (422, "there is nothing to undo")
    post(page, 0, {"kind": "redo", "of": undo["number"]})
    assert turn("redo", "ann") is None
    change(page, 1, kind="blank", step="0")
    assert turn("undo", "ann")["episode"] == 1


def test_a_step_is_accepted_and_the_page_says_what_the_export_has(page, out, tmp_path):
    def words() -> list[list[str]]:
        """Those of each episode, on the page and in the export."""
        goalreel("export", out, "--out", tmp_path / "steps.csv")
        with (tmp_path / "steps.csv").open() as file:
            exported = [(int(r["episode"]), r["word"]) for r in csv.DictReader(file)]
        shown = [[s["word"] for s in page.get(f"/api/episodes/{e}").json()["steps"]] for e in range(3)]
        assert [(e, word) for e, row in enumerate(shown) for word in row] == exported
        return shown

    answer = post(page, 0, {"kind": "accept", "step": "1", "looked": {"seconds": 3.0}})
    assert (answer.status_code, "look at it" in answer.json()["detail"]) == (422, True)
    seen = {"seconds": 3.0, "frames": [[0, 20]], "pictures": {"0": 1.0, "1": 1.0}}
    now = change(page, 0, kind="accept", step="1", looked=seen)
    assert [s["accepted"] for s in now["steps"]] == [False, True, False]
    assert [s["attempts"][-1]["outcome"] for s in now["steps"]] == ["accepted", "person_accepted", "accepted"]
    assert (now["verdict"], now["history"][-1]["words"]) == (None, "“grasp the block” accepted")
    change(page, 1, kind="move", step="0", edge="end", frame=3)
    change(page, 1, kind="verdict", verdict="accept")
    assert words()[:2] == [["accepted", "verified", "accepted"], ["verified"] * 3]
    for kind, word in (("undo", "accepted"), ("redo", "verified")):
        change(page, 0, kind=kind)
        assert words()[0][1] == word
    change(page, 0, kind="rename", step="1", name="grasp it")
    change(page, 1, kind="verdict", verdict="reject")
    assert words()[:2] == [["accepted", "observed", "accepted"], ["rejected"] * 3]


def test_a_verdict_leads_to_the_next_one_that_nobody_reviewed(page):
    first = page.get("/api/episodes/1").json()
    assert (first["previous"], first["next"]) == (None, 0)
    episode = change(page, 0, kind="verdict", verdict="accept")
    assert [episode[key] for key in ("verdict", "by", "previous", "next")] == ["accept", "ann", 1, 2]
    assert page.get("/api/episodes/1").json()["next"] == 2
    assert page.get("/api/episodes/2", params={"order": "index"}).json()["next"] == 1
    assert page.get("/api/episodes/2", params={"q": "stack"}).json()["next"] is None
    # What is changed afterwards is not what was accepted.
    episode = change(page, 0, kind="delete", step="0")
    assert (episode["verdict"], episode["by"]) == (None, None)


def test_a_person_has_checked_what_was_on_the_screen(page, out):
    def checked(index: int) -> list[str]:
        steps = page.get(f"/api/episodes/{index}").json()["steps"]
        return [step["claims"]["looks"]["checked"] for step in steps]

    before = checked(1)
    verdict = {"kind": "verdict", "verdict": "accept"}
    for hurried in ({}, {"looked": {"seconds": 0.4, "frames": [[0, 12]]}}):
        episode = post(page, 1, verdict | hurried).json()
        assert (episode["verdict"], episode["unseen"], checked(1)) == ("accept", True, before)
        assert episode["history"][-1]["words"] == "the verdict “accept”, without looking"
    assert listed(page, status="unseen") == [1]
    assert page.get("/api/episodes").json()["reviewed"] == 0
    assert "that they looked at: run goalreel review" in fails("eval", "review", out)
    # Its frames 0 to 2 and the second goal image; the third step's picture is on the screen too shortly.
    looked = {"seconds": 3.0, "frames": [[0, 2]], "pictures": {"1": 0.8, "2": 0.1}}
    episode = post(page, 1, verdict | {"looked": looked}).json()
    assert (episode["unseen"], episode["not_shown"]) == (False, ["2"])
    assert checked(1) == ["person", "person", before[2]]
    told = json.loads(goalreel("eval", "review", out, "--json").splitlines()[-1])
    assert (told["episodes"], told["pictures"], told["agreement"]) == (1, 2, 0.5)
    for wrong in ({"seconds": -1}, {"seconds": "nan"}, {"frames": [[0, 1]] * 201}, {"pictures": {"a b": 1}}):
        assert post(page, 1, verdict | {"looked": wrong}).status_code == 422


def test_who_comes_second_is_shown_what_was_first(page, out):
    mine = page.get("/api/episodes/0").json()["revision"]
    change(review_page(out), 0, kind="merge", step="0")
    answer = post(page, 0, {"kind": "blank", "step": "0"}, revision=mine, by="bob")
    assert (answer.status_code, answer.json()["by"]) == (409, "ann")
    assert "ann came first" in answer.json()["detail"]
    theirs = answer.json()["state"]
    assert len(theirs["steps"]) == 2
    assert post(page, 0, {"kind": "blank", "step": "0"}, revision=theirs["revision"]).status_code == 200


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"kind": "move", "step": "9", "edge": "end", "frame": 3}, "there is no step 9"),
        ({"kind": "move", "step": "../x", "edge": "end", "frame": 3}, "match pattern"),
        ({"kind": "rename", "step": "0", "name": "n" * 2001}, "at most 2000"),
        ({"kind": "rename", "step": "0", "name": " "}, "match pattern"),
        ({"kind": "rename", "step": "0", "name": "take\0it"}, "the control character U+0000: remove it"),
        ({"kind": "rename", "step": "0", "name": "n", "prompt": "\x1b[2J"}, "control character U+001B"),
        ({"kind": "rename", "step": "0", "name": "\x1c"}, "white space"),
        ({"kind": "render", "step": "0", "attempts": []}, "kind"),
        ({"kind": "redo"}, "nothing"),
        ({"kind": "frame", "step": "1", "camera": "observation.state", "frame": 5}, "there is no camera"),
    ],
)
def test_a_change_that_does_not_fit_is_refused_in_one_line(page, event, why):
    answer = post(page, 0, event)
    assert answer.status_code == 422
    assert why in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]
    assert page.get("/api/episodes/0").json()["revision"] == 0


def test_the_frame_that_moves_along_is_nobodys_choice(page):
    def outcomes(episode: dict) -> list[list[str]]:
        return [[attempt["outcome"] for attempt in step["attempts"]] for step in episode["steps"]]

    before = outcomes(page.get("/api/episodes/0").json())
    split = change(page, 0, kind="split", step="0", frame=2)
    assert outcomes(split) == [["observed"], *before]
    assert split["steps"][0]["edited"] == ["time"]
    for frame in (1, 3):
        step = change(page, 0, kind="move", step="0", edge="end", frame=frame)["steps"][0]
    assert [attempt["number"] for attempt in step["attempts"]] == [step["chosen"]]
    assert step["attempts"][0]["picture"].startswith(f"/frames/0/{FRONT}/2.jpg")


def test_an_answer_does_not_grow_with_the_log_and_a_damaged_log_is_named(page, out, monkeypatch):
    monkeypatch.setattr("goalreel.annotator.review.session.HISTORY", 2)
    for n in range(9):
        change(page, 0, kind="rename", step="0", name=f"name {n}")
    episode = change(page, 0, kind="undo")
    assert episode["changes"] == 9
    told = [(line["words"], line["undone"]) for line in episode["history"]]
    assert told == [("words set to “name 7”", False), ("words set to “name 8”", True)]
    log = next((out / FOLDER / "corrections").rglob("*.jsonl"))
    whole = log.read_bytes()
    older = whole.replace(b'"kind":"rename"', b'"kind":"rendered"', 1)
    for text, says in ((b"what\n" + whole, "is damaged"), (older, "line 2 is of another version")):
        log.write_bytes(text)
        damaged = page.get("/api/episodes/0")
        assert (damaged.status_code, says in damaged.json()["detail"]) == (500, True)


def test_a_run_that_is_not_written_yet_is_reviewed(video_dataset, board, tmp_path):
    source, out = Source.open(video_dataset), tmp_path / "out"
    with Records.open(out, {"test": 1}, source.fingerprint()) as records:
        records.remember(video_dataset)
        records.commit(1, board(9))
    page = review_page(out)
    assert listed(page) == [1]
    assert page.get(f"/frames/1/{FRONT}/0.jpg").status_code == 200
    shutil.rmtree(out / LOCAL)
    with pytest.raises(DatasetError, match="not written yet"):
        ReviewSession(out)
    with pytest.raises(DatasetError, match="no annotated episode"):
        ReviewSession(video_dataset)


BODY = {"revision": 0, "by": "ann", "event": {"kind": "undo"}}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rebound.example"}, 403),
        ({"Host": "127.0.0.1.example:8090"}, 403),
        ({"Host": "localhost:8090"}, 422),
        ({"Host": "[::1]:8090"}, 422),
        ({"Origin": "http://127.0.0.1:8090"}, 422),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Cookie": b"goalreel_review=\xff"}, 422),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Length": str(MAX_BODY + 1)}, 413),
        ({"Content-Length": "9" * 30}, 413),
    ],
)
def test_a_change_comes_from_the_page_alone(page, headers, status):
    assert page.post("/api/episodes/0/events", json=BODY, headers=headers).status_code == status


def test_who_sends_a_body_too_slowly_is_told(page, monkeypatch):
    monkeypatch.setattr(access, "BODY_S", 0.1)
    head = b"POST /api/episodes/0/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with running(page.app) as (url, _), socket.socket() as slow:
        slow.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        slow.sendall(head + b"Content-Length: 9\r\n\r\n{")
        assert slow.recv(2**16).startswith(b"HTTP/1.1 408 ")


def test_an_endless_body_is_cut_off_and_every_answer_says_what_a_browser_may_do_with_it(page):
    assert page.delete("/api/episodes/0").status_code == 405
    revision = page.get("/api/episodes/0").json()["revision"]
    change = {"revision": revision, "by": "ann", "event": {"kind": "verdict", "verdict": "accept"}}
    headers = {"Content-Type": "application/json"}
    for size, status in ((2 * MAX_BODY, 413), (1024, 200)):
        body = iter([b" " * size, json.dumps(change).encode()])
        assert page.post("/api/episodes/0/events", content=body, headers=headers).status_code == status
    for path in ("/", "/api/dataset", "/static/main.js", "/common/report.css", "/nothing"):
        headers = page.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in page.get("/").text


def test_a_token_logs_a_browser_in_once(out):
    for wrong, said in ((("0.0.0.0",), "needs a token: set GOALREEL_TOKEN"), (("::1", "a b"), "no space")):
        with pytest.raises(InputError, match=said):
            Access(*wrong)
    page = review_page(out, access=Access("0.0.0.0", "secret"))
    elsewhere = {"Host": "lab.example:8090"}
    assert page.get("/", headers=elsewhere).status_code == 401
    assert page.get("/?token=guess", headers=elsewhere).status_code == 401
    assert page.get("/api/dataset", headers={"Authorization": "Bearer guess"}).status_code == 401
    for scheme in ("Bearer", "bearer"):
        assert page.get("/api/dataset", headers={"Authorization": f"{scheme} secret"}).status_code == 200
    for cookie in (b"guess", b"\xff", b"\xc3\xa9", b'"\\377"', b'"'):
        headers = {"Cookie": b"goalreel_review=" + cookie}
        assert page.get("/", headers=headers).status_code == 401
    assert page.get("/?token=%FF", headers=elsewhere).status_code == 401
    assert page.get("/", headers={"Authorization": b"Bearer \xff"}).status_code == 401
    welcome = page.get("/?token=secret&x=1", headers=elsewhere)
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/?x=1")
    cookie = welcome.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "secret" not in cookie
    assert page.get("http://127.0.0.1:8090//evil.example?token=secret").headers["location"] == "/evil.example"
    kept = {"Cookie": cookie.partition(";")[0]}
    for foreign in ('x={"a":1}', "theme=dark mode", "x=[1,2]"):
        beside = {"Cookie": f"{foreign}; {kept['Cookie']}"}
        assert page.get("/api/dataset", headers=elsewhere | beside).status_code == 200
    assert page.get("/api/dataset", headers=elsewhere | kept).status_code == 200
    own = elsewhere | kept | {"Origin": "http://lab.example:8090"}
    assert page.post("/api/episodes/0/events", json=BODY, headers=own).status_code == 422
    other = elsewhere | kept | {"Origin": "http://evil.example"}
    assert page.post("/api/episodes/0/events", json=BODY, headers=other).status_code == 403


def test_boards_of_other_kinds_are_shown(video_dataset, annotated, tmp_path):
    """One that failed, and one in words alone."""
    out = annotated(video_dataset, tmp_path / "out", {0: {}})
    records = Records(out / FOLDER, source="")
    board = storyboard(9)
    words = board.steps[0].step.model_copy(update={"prompt": None, "auxiliary_text": "look"})
    text = board.steps[0].model_copy(update={"step": words, "status": "text", "attempts": (), "chosen": None})
    records.commit(1, board.model_copy(update={"steps": (text, *board.steps[1:])}))
    failure = Failure(stage="plan", message="no words")
    records.commit(2, board.model_copy(update={"steps": (), "failure": failure}))
    page = review_page(out)
    assert page.get("/api/episodes/1").json()["steps"][0]["attempts"] == []
    assert page.get("/api/episodes/2").json()["failure"] == "plan: no words"
    episode = change(page, 2, kind="insert", start=0, end=15, name="all of it")
    assert (episode["failure"], spans(episode)) == (None, [(0, 15)])


def test_the_command_says_in_one_line_what_is_wrong(video_dataset, made, monkeypatch):
    monkeypatch.delenv("GOALREEL_TOKEN", raising=False)
    assert "needs a token: set GOALREEL_TOKEN" in fails("review", made, "--host", "0.0.0.0", "--port", 0)
    monkeypatch.setenv("GOALREEL_TOKEN", "secret")
    assert "no annotated episode" in fails("review", video_dataset, "--port", 0)
    assert "--by: it holds the control character U+001B" in fails("review", made, "--by", "a\x1bb")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = f"port {port} of 127.0.0.1 is taken: end what listens there, or choose another with --port"
        assert said in fails("review", made, "--port", port)
    assert "192.0.2.1 is not an address of this machine" in fails("review", made, "--host", "192.0.2.1")
