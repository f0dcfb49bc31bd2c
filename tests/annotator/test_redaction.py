"""Where a model answers is no part of a run: it may move, and no address travels with the dataset."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from huggingface_hub.utils import DEFAULT_IGNORE_PATTERNS, filter_repo_objects
from support.chat_server import ChatServer, Reply, Request, error, said
from support.cli import fails, goalreel, invoke
from support.serving_models import TintEditor, plan_of, serving
from support.steady import contents

from goalreel.datasets.records import FOLDER, Records
from goalreel.serving.settings import Models


def answer(request: Request) -> Reply:
    """A plan of two steps; verdicts that accept, but half of the pictures the server will not look at."""
    if request.json["model"] != "critic":
        return said(plan_of("##"))
    if hashlib.sha256(json.dumps(request.json["messages"]).encode()).digest()[0] % 2:
        return error(400, "cannot look at this picture")
    return said('<answer>{"previous_step_success": true, "refine_prompt": ""}</answer>')


@contextmanager
def models(concurrency: int, critic: str = "critic") -> Iterator[list[object]]:
    """The options that name three models behind new addresses."""
    with ChatServer(answer) as chat, serving(Models(editor=TintEditor())) as url:
        how = f"{chat.url}?concurrency={concurrency}"
        chats = ["--planner", f"openai:planner@{how}", "--critic", f"openai:{critic}@{how}"]
        yield [*chats, "--editor", f"server:{url}?concurrency={concurrency}", "--max-attempts", 12]


def command(root: Path, out: Path, named: list[object], *more: object) -> list[object]:
    return ["annotate", root, "--out", out, "--preset", "server", *named, *more]


def pushed(root: Path) -> dict[str, bytes]:
    """What huggingface_hub would upload of a folder."""
    found = contents(root)
    return {path: found[path] for path in filter_repo_objects(found, ignore_patterns=DEFAULT_IGNORE_PATTERNS)}


@pytest.fixture(scope="module")
def once(video_dataset, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("once") / "out"
    with models(4) as named:
        goalreel(*command(video_dataset, out, named))
    return out


def test_a_run_goes_on_at_another_address(once, video_dataset, tmp_path):
    out = tmp_path / "out"
    with models(1) as named:
        goalreel(*command(video_dataset, out, named, "--episodes", "1"))
    with models(2, critic="another") as named:
        message = fails(*command(video_dataset, out, named))
        assert "critic was 'openai:critic' and is now 'openai:another'" in message
    with models(2) as named:
        summary = json.loads(goalreel(*command(video_dataset, out, named, "--json")).splitlines()[-1])
    assert (summary["annotated"], summary["resumed"]) == (2, 1)
    assert contents(out) == contents(once)


def test_no_address_travels(once, tmp_path):
    records = Records(once / FOLDER, source="")
    boards = [records.outline(episode) for episode in records.done()]
    lost = [a.failure.message for b in boards for s in b.steps for a in s.attempts if a.failure]
    assert any("HTTP 400 from the server: cannot look at this picture" in message for message in lost)
    assert not [path for path, data in pushed(once).items() if b"127.0.0.1" in data]
    goalreel("show", once, "--out", tmp_path / "report")
    assert "openai:critic" in (tmp_path / "report/index.html").read_text()
    assert not [path for path, data in contents(tmp_path / "report").items() if b"127.0.0.1" in data]


def test_no_key_stays_wherever_it_was_given(video_dataset, tmp_path, monkeypatch, caplog):
    """In the environment, addresses, a preset, a file of options; quoted by servers that refuse."""
    keys = {place: f"hunter2{place:02d}" for place in range(10)}
    for name, place in (("GOALREEL_API_KEY", 0), ("OPENAI_API_KEY", 1), ("GOALREEL_TOKEN", 2)):
        monkeypatch.setenv(name, keys[place])
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{keys[3]}@127.0.0.1:1")
    (home := tmp_path / "home").mkdir()
    (home / ".netrc").write_text(f"machine 127.0.0.1 login me password {keys[4]}\n")
    monkeypatch.setenv("HOME", str(home))

    def quote(request: Request) -> Reply:
        if request.json["model"] != "critic" or answer(request).status == 200:
            return answer(request)
        sent = request.json["api_key"], request.headers["authorization"]
        return error(400, f"refused: {request.path} {sent}")

    def check(*words: object) -> None:
        texts.append((result := invoke("--verbose", *words)).output + str(result.exception))

    texts: list[str] = []
    out, extra = tmp_path / "out", json.dumps({"api_key": keys[5]})
    with ChatServer(quote) as chat, serving(Models(editor=TintEditor()), token=keys[2]) as url:
        place = chat.url.removesuffix("/v1")
        (preset := home / "own.yaml").write_text(
            f"planner: openai:planner@{place}/{keys[6]}/v1\neditor: server:{url}\n"
            "critic: difference\nmax_attempts: 12\n"
        )
        (options := home / "options.yaml").write_text(
            f"critic: 'openai:critic@{place}/{keys[7]}/v1?extra={extra}'\n"
        )
        run = ("annotate", video_dataset, "--out", out, "--preset", preset, "--config", options)
        check(*run)
        assert Records(out / FOLDER, source="").done()
        for wrong in (f"me:{keys[8]}@127.0.0.1/v1", f"127.0.0.1/v1?key={keys[9]}"):
            check(*run[:3], tmp_path / "no", "--planner", f"openai:m@http://{wrong}", "--preset", "server")
        check("doctor", "--preset", preset)
    check("show", out, "--out", tmp_path / "report")
    check("export", out, "--out", tmp_path / "steps.csv")
    check("corpus", "from-storyboards", out, "--out", tmp_path / "corpus")
    written = {path: data for path, data in contents(tmp_path).items() if not path.startswith("home/")}
    written |= {"terminal": "\n".join(texts).encode(), "log": caplog.text.encode()}
    found = [
        (path, place) for path, data in written.items() for place in keys if keys[place].encode() in data
    ]
    assert found == []
    assert b"refused: /***/v1/chat/completions" in b"".join(written.values())
