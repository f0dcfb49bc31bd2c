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

from goalreel.datasets.records import FOLDER, LOCAL, Records
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


def test_what_a_run_leaves_of_failures_stays_here(video_dataset, tmp_path):
    def refuse(request: Request) -> Reply:
        if request.json["model"] == "critic" and next(left, None) is None:
            return error(400, "no verdict")
        return answer(request)

    left = iter(range(3))
    out = tmp_path / "out"
    with ChatServer(refuse) as chat, serving(Models(editor=TintEditor())) as url:
        named = [f"--{role}=openai:{role}@{chat.url}" for role in ("planner", "critic")]
        result = invoke(
            *command(video_dataset, out, [*named, "--editor", f"server:{url}"], "--batch-size", 1)
        )
    assert result.exit_code == 1
    assert (out / LOCAL / "lock").is_file()
    assert list((out / LOCAL / "answers").iterdir())
    travels = pushed(out)
    assert not [p for p in travels if ".cache" in p or "lock" in p or "answers" in p or "build" in p]
    assert not [path for path, data in travels.items() if b"127.0.0.1" in data]
