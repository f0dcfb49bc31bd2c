"""A forgotten instruction, a wrong file or an unknown model is one line, before anything is loaded."""

import builtins
import contextlib
import errno
import hashlib
import json
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from huggingface_hub.utils import DEFAULT_IGNORE_PATTERNS, filter_repo_objects
from support.chat_server import ChatServer, Reply, Request, error, said
from support.cli import fails, goalreel, invoke
from support.serving_models import TintEditor, picture, plan_of, serving
from support.steady import contents

from goalreel.cli.errors import BUG, one_line_errors
from goalreel.datasets.records import FOLDER, Records
from goalreel.errors import BackendError, DatasetError, InputError
from goalreel.serving.settings import Models

HEAVY = ("torch", "transformers", "diffusers", "lerobot", "mujoco", "rosbags", "httpx2", "fastapi", "rclpy")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """The working directory, with `scene.png`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scene.png").write_bytes(picture().png())


@pytest.fixture
def nothing_loads(monkeypatch):
    """Importing what loads models or data fails."""

    def guarded(name, *arguments, **keywords):
        assert name.partition(".")[0] not in HEAVY, f"{name} is imported"
        return original(name, *arguments, **keywords)

    original = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", guarded)


FORGOTTEN = "scene.png is a file, and there is no instruction: say what the robot should do"
NO_DATASET = "scene.png: is a file, and a LeRobot dataset is a folder"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("plan scene.png --out p", FORGOTTEN),
        ("plan absent.png --out p", "absent.png is a file, and there is no instruction"),
        ("rollout scene.png", FORGOTTEN),
        ("doctor --models nano --instruction scene.png", FORGOTTEN),
        (
            "rollout -- --policy.path=p",
            "there is no instruction: say what the robot should do, before the --",
        ),
        ("annotate scene.png --out o", NO_DATASET),
        ("bag2lerobot scene.png --out o", "scene.png: no bag there"),
        ("show scene.png", NO_DATASET),
        ("export scene.png --out o.csv", NO_DATASET),
        ("eval review scene.png", NO_DATASET),
        (
            "eval policy --policy scene.png",
            "--policy scene.png: is a file, and a LeRobot checkpoint is a folder",
        ),
        ("corpus from-storyboards scene.png --out o", "scene.png: holds no storyboard"),
    ],
)
@pytest.mark.usefixtures("nothing_loads")
def test_an_argument_of_another_kind(words, line):
    assert line in fails(*words.split())


@pytest.mark.parametrize(
    "words",
    [
        "serve --planner hf:nano-planner --critic hf:nano-critic --editor crayon",
        "plan scene.png tidy --out p --editor crayon",
        "rollout tidy --editor crayon -- --policy.path=p",
        "annotate scene.png --out o --editor crayon",
        "node --editor crayon",
        "eval policy --policy p --editor crayon",
        "eval tabletop --editor crayon",
        "corpus make --kind verdicts --episodes 1 --out o --editor crayon",
    ],
)
@pytest.mark.usefixtures("nothing_loads")
def test_an_unknown_model(words):
    assert "no editor called 'crayon': use " in fails(*words.split())


@pytest.mark.parametrize(
    "words",
    [
        "serve --port 0 --planner hf:nano-planner --editor diffusers:absent",
        "plan scene.png tidy --out p --editor diffusers:absent",
        "plan scene.png tidy --out p --critic hf:some/where/absent",
    ],
)
def test_a_checkpoint_that_is_not_there(words, monkeypatch):
    """Nothing is loaded, though the planner that comes with goalreel is there."""
    monkeypatch.setattr("goalreel.chat.hf.HfChat.load", None)
    assert "absent; a repository is written OWNER/NAME" in fails(*words.split())


PIPE = "pipe: cannot be read (is no file, but a folder, a pipe or a device)"
IN_FOLDER = ".json: is a pipe or a device, and no file: remove it"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("plan nothing --config pipe", PIPE),
        ("annotate data --out out --config pipe", PIPE),
        ("plan --prompts pipe --out out", PIPE),
        ("annotate . --out out --steps pipe", PIPE),
        ("plan scene.png tidy --out out --planner hf:pipes", IN_FOLDER),
        ("plan scene.png tidy --out out --editor diffusers:pipes", IN_FOLDER),
        ("plan scene.png tidy --out out --critic hf:nano-critic?processor=pipes", IN_FOLDER),
        ("plan --prompts large.jsonl --out out", "large.jsonl: cannot be read (is larger than "),
        ("corpus import large.jsonl --out out", "is larger than 2097152 KiB"),
    ],
)
def test_what_is_no_file_or_has_no_end_is_not_read(words, line):
    os.mkfifo("pipe")
    Path("pipes").mkdir()
    for name in ("config.json", "model_index.json"):
        os.mkfifo(f"pipes/{name}")
    with Path("large.jsonl").open("wb") as large:
        large.truncate(2**40)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(300)  # which ends a command that waits for the pipe
    try:
        assert line in fails(*words.split())
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def config(tmp_path):
    def write(text: str):
        path = tmp_path / "options.yaml"
        path.write_text(text)
        return path

    return write


def test_a_file_gives_options_and_the_command_line_goes_first(config, video_dataset, tmp_path):
    out = tmp_path / "out"
    file = config(f"out: {out}\nepisodes: 0\nmax_attempts: 2\non-rejected: stop\nlanguage: false\nseed: 4\n")
    goalreel("annotate", video_dataset, "--config", file, "--seed", 7)
    settings = json.loads((out / "meta/goalreel/settings.json").read_text())["settings"]
    wanted = {"max_attempts": 2, "on_rejected": "stop", "language": False, "seed": 7}
    assert {name: settings[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_atempts: 2\n", "max_atempts: goalreel annotate has no such option"),
        ("dataset: x\n", "dataset: goalreel annotate has no such option"),
        ("config: x\n", "config: goalreel annotate has no such option"),
        ("max-attempts: many\n", "max-attempts: Input should be a valid integer"),
        ("critic-threshold: 1.5\n", "critic-threshold: Input should be less than or equal to 1"),
        ("granularity: coarse\n", "granularity: 'coarse' is not one of"),
        ("language: perhaps\n", "language: true or false, not 'perhaps'"),
        ("preset: true\n", "preset: True is no value of this option"),
        ("preset: [a, b]\n", "preset: ['a', 'b'] is no value of this option"),
        ("preset:\n", "preset: None is no value of this option"),
        ("- preset\n", "write one `option: value` a line"),
        ("preset: !!python/object/apply:os.system ['touch hacked']\n", "line 1: no YAML"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_that_names_the_key(config, text, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = config(text)
    stderr = fails("annotate", tmp_path, "--out", tmp_path / "out", "--config", file)
    assert f"{file}: {says}" in stderr
    assert not (tmp_path / "hacked").exists()


def test_plan_and_serve_take_one_too_and_a_list_where_an_option_may_be_repeated(config, tmp_path):
    for command in ("plan x --out o", "serve"):
        result = invoke(*command.split(), "--config", config("keep: first\n"))
        assert "keep: 'first' is not one of 'best', 'last'" in result.stderr
    file = config("image-topic: [/left, front=/right]\nstate_topic: /joints\n")
    out = ("--out", tmp_path / "out")
    assert "is no ROS 2 bag, so topics" in fails("annotate", tmp_path, *out, "--config", file)
    assert "cannot be read" in fails("plan", "x", *out, "--config", tmp_path / "none.yaml")


def shown(error: BaseException, capsys) -> tuple[int, list[str]]:
    with pytest.raises(typer.Exit) as caught, one_line_errors("stopped"):
        raise error
    return caught.value.exit_code, capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        *((kind("mend it\nlike so"), 1, "mend it") for kind in (InputError, DatasetError, BackendError)),
        (OSError(" \n"), 1, "OSError"),
        (ModuleNotFoundError(name="torch"), 1, "torch is not installed: pip install 'goalreel[gpu]'"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_what_a_person_can_mend_is_one_line(error, status, line, capsys):
    assert shown(error, capsys) == (status, [f"goalreel: {line}"])


def test_a_full_disk_of_no_known_file_is_not_taken_for_that_of_what_is_printed(capsys):
    full = OSError(errno.ENOSPC, "No space left on device")
    assert shown(full, capsys) == (1, ["goalreel: No space left on device"])
    with Path("/dev/full").open("w") as stdout, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stdout)
        stdout.write("result")
        with pytest.raises(OSError, match="No space left"), one_line_errors():
            stdout.flush()
        with contextlib.suppress(OSError):
            stdout.close()


def test_what_would_hang_for_want_of_addresses_is_not_begun(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr("resource.getrlimit", lambda which: (700_000 * 1024, 700_000 * 1024))
    assert fails("check", "nothing") == "goalreel: `ulimit -v` is 700000 kB: raise it to 1200000 or more"


@pytest.mark.parametrize("error", [ValueError("shapes (3,2) (4,5)"), ModuleNotFoundError("no x", name="x")])
def test_a_bug_shows_its_trace_and_where_it_goes(error, capsys):
    status, lines = shown(error, capsys)
    assert status == 1
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2] == f"{type(error).__name__}: {error}"
    assert lines[-1] == f"goalreel: {BUG}"


def test_verbose_logs_the_trace_of_a_line(capsys, caplog):
    with caplog.at_level(logging.INFO):
        shown(InputError("mend it"), capsys)
    assert "Traceback" in caplog.text


def test_a_command_may_end_itself():
    with pytest.raises(typer.Exit) as caught, one_line_errors():
        raise typer.Exit(3)
    assert caught.value.exit_code == 3


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
