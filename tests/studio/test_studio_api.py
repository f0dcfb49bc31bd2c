"""Storyboards on disk over real HTTP: made, watched, changed, taken back, exported, found again."""

import base64
import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.serving_models import PlannerChat, TintEditor, describe, picture, verdict_of
from support.studio import LATER, edit, events, finished, made, saved, scripted, state, studio, submit

from goalreel.critics.chat import ChatCritic
from goalreel.drivers import run
from goalreel.image import Image
from goalreel.loop import TASK
from goalreel.planners.chat import ChatPlanner
from goalreel.storyboard_io import load_storyboard
from goalreel.types import Storyboard, Task


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("boards")


@pytest.fixture(scope="module")
def client(folder):
    with studio(folder) as client:
        yield client


def test_a_storyboard_equals_the_offline_drivers_and_is_told_event_by_event(client):
    board = submit(client, seed=7)
    told = events(client, board)
    assert [name for _, name, _ in told if name not in ("waiting", "drawing", "judging")] == [
        *("submitted", "begun", "planned"),
        *["edited", "judged", "edited", "judged", "step"] * 2,
        *("end", "finished"),
    ]
    numbers = [number for number, _, _ in told if number is not None]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [n for n, _, _ in events(client, board, after=5)] == numbers[5:]
    fetched = client.get(f"/v1/storyboards/{board}").json()
    record = Storyboard.model_validate(fetched["storyboard"])
    planner, critic = ChatPlanner(PlannerChat()), ChatCritic(scripted().critic)
    task = Task(id="task", instruction="#one and #two", image=picture(), seed=7)
    offline = next(run([task], planner, TintEditor(), critic, max_attempts=2))
    unnamed = [step.model_copy(update={"claims": None}) for step in record.steps]
    assert unnamed == [step.model_copy(update={"claims": None}) for step in offline.steps]
    assert record.task == offline.task
    step = fetched["steps"][0]
    assert (step["status"], step["chosen"], step["stale"], step["open"]) == ("accepted", 1, [], False)
    assert [a["outcome"] for a in step["attempts"]] == ["rejected", "accepted"]
    assert step["claim_lines"] == [
        "Words: by planner, not checked",
        "Goal image: by editor, checked by critic",
    ]
    answer = client.get(step["attempts"][1]["picture"])
    assert answer.headers["content-type"] == "image/png"
    assert Image.decode(answer.content) == record.steps[0].goal_image


def test_words_that_change_make_a_picture_stale_until_a_person_or_the_critic_accepts_it(client):
    now = made(client)
    first = now["steps"][0]["id"]
    now = edit(client, now, "change", step=first, instruction=" the  drawer\nis open ")
    step = now["steps"][0]
    assert (step["instruction"], step["edited"]) == ("the drawer is open", ["words"])
    assert step["status"] == "rejected"
    assert step["stale"] == ["The words were changed after this picture was made."]
    assert step["claims"]["what"] == {"by": "person", "checked": "person", "doubts": []}
    assert step["claims"]["looks"]["checked"] == "nobody"
    assert now["steps"][1]["status"] == "accepted"
    hurried = edit(client, now, "judge", status=422, step=first, attempt=1, accept=True, seconds=0.4)
    assert "look at it, then accept it" in hurried["error"]["message"]
    accepted = edit(client, now, "judge", step=first, attempt=1, accept=True)["steps"][0]
    assert (accepted["status"], accepted["stale"]) == ("accepted", [])
    assert accepted["claims"]["looks"]["checked"] == "person"
    now = edit(client, state(client, now["id"]), "undo")
    assert now["steps"][0]["status"] == "rejected"
    client.post(f"/v1/storyboards/{now['id']}/resume")
    now = finished(client, now["id"])
    drawn = now["steps"][0]
    assert (drawn["status"], drawn["stale"], len(drawn["attempts"])) == ("accepted", [], 4)
    assert [len(step["attempts"]) for step in now["steps"]] == [4, 4], "it was the second one's source"
    now = edit(client, now, "choose", step=first, attempt=2)
    assert [step["status"] for step in now["steps"]] == ["rejected"] * 2
    assert now["steps"][1]["stale"] == ["The picture that this one was drawn from is another one now."]
    assert [line["words"] for line in now["history"]] == [
        "changed the instruction",
        "accepted picture 2",
        "chose picture 3",
    ]


def test_a_step_has_one_wording_and_the_critic_is_asked_about_what_is_shown(tmp_path):
    models = scripted()
    with studio(tmp_path, models) as client:
        now = made(client)
        first, second = (step["id"] for step in now["steps"])
        edit(client, now, "change", step=first, name="put the cup in the drawer")
        edit(client, state(client, now["id"]), "change", step=second, prompt="mine")
        edit(client, state(client, now["id"]), "change", step=second, instruction="the cup is red")
        now = state(client, now["id"])
        words = [[step[name] for name in ("name", "instruction", "prompt")] for step in now["steps"]]
        assert words == [
            [
                *("put the cup in the drawer", "the cup is in the drawer"),
                "Put the cup in the drawer. Keep everything else unchanged.",
            ],
            ["the cup is red", "the cup is red", "mine"],
        ]
        assert all(step["stale"] for step in now["steps"])
        assert (now["complete"], now["end_checked"]) == (False, "nobody")
        before = len(models.critic.batches)
        client.post(f"/v1/storyboards/{now['id']}/resume")
        now = finished(client, now["id"])
        asked = " ".join(said for batch in models.critic.batches[before:] for said in batch)
    assert "Wanted state: the cup is in the drawer" in asked
    assert "the cup is in the drawer; the cup is red. In all: #one and #two" in asked
    assert (now["complete"], now["end_checked"], now["end_doubt"]) == (True, "model critic", "")


def test_an_end_that_the_critic_refuses_or_cannot_judge_is_not_complete(tmp_path):
    models = scripted()
    models.critic.replies = lambda talks, schema=None: [
        verdict_of(False) if TASK in describe(c[-1].parts[-1]) else verdict_of(True) for c in talks
    ]
    with studio(tmp_path, models) as client:
        now = made(client)
        assert [step["status"] for step in now["steps"]] == ["accepted"] * 2
        assert (now["complete"], now["end_checked"]) == (False, "model critic")
        assert now["end_doubt"].startswith("the end was refused")
    with studio(tmp_path, replace(scripted(), critic_name="another")) as client:
        client.post(f"/v1/storyboards/{now['id']}/resume")
        assert finished(client, now["id"])["end_checked"] == "model critic", "it was asked, and no other"
    with studio(tmp_path / "short", replace(scripted(), critic_steps=lambda: 1)) as client:
        now = made(client)
    assert (now["complete"], now["end_checked"], now["end_doubt"]) == (True, "nobody", "")


def test_the_task_is_edited_and_its_end_judged_again(client):
    now = made(client)
    judged = now["end_checked"]
    edit(client, now, "instruct", instruction="#two then #one")
    now = finished(client, now["id"])
    assert (now["instruction"], len(now["steps"]), now["end_checked"]) == ("#two then #one", 2, judged)
    assert now["history"][0]["words"] == "set the task to “#two then #one”"
    assert edit(client, now, "instruct", 422, instruction="like <image>")["error"]["message"].endswith(
        "before"
    )
    assert edit(client, now, "undo")["instruction"] == "#one and #two"


def test_a_persons_word_stands_over_the_critics_for_the_picture_before_that_they_saw(client):
    now = made(client)
    first, second = now["steps"]
    now = edit(client, now, "judge", step=second["id"], attempt=1, accept=False)
    step = now["steps"][1]
    assert (step["status"], step["reasons"]) == ("rejected", ["A person refused it."])
    assert step["attempts"][1]["outcome"] == "person_refused"
    assert step["attempts"][1]["verdict"]["success"], "the Critic's own word stays"
    assert now["complete"] is False
    now = edit(client, now, "judge", step=second["id"], attempt=0, accept=True)
    now = edit(client, now, "choose", step=first["id"], attempt=0)
    step = now["steps"][1]
    assert (step["status"], step["attempts"][0]["outcome"]) == ("rejected", "rejected")
    assert step["stale"] == ["The picture that this one was drawn from is another one now."]
    assert step["claims"]["looks"]["checked"] == "nobody"
    assert edit(client, now, "undo")["steps"][1]["status"] == "accepted"


def test_steps_are_added_moved_and_removed_and_each_change_can_be_taken_back(client):
    now = made(client)
    first, second = (step["id"] for step in now["steps"])
    now = edit(client, now, "add", name="close the drawer", before=second)
    added = now["steps"][1]
    assert (added["name"], added["status"], added["open"], added["prompt"]) == (
        *("close the drawer", "skipped", True),
        "Close the drawer. Keep everything else unchanged.",
    )
    now = edit(client, now, "move", step=added["id"])
    assert [step["id"] for step in now["steps"]] == [first, second, added["id"]]
    now = edit(client, now, "delete", step=first)
    assert now["steps"][0]["stale"], "its source is the scene now"
    for expected in ([first, second, added["id"]], [first, added["id"], second], [first, second]):
        now = edit(client, now, "undo")
        assert [step["id"] for step in now["steps"]] == expected
    assert (now["undo"], now["redo"]["words"]) == (None, "added “close the drawer”")
    assert edit(client, now, "undo", 422)["error"]["message"] == "there is nothing to undo"
    now = edit(client, now, "redo")
    assert [step["id"] for step in now["steps"]] == [first, added["id"], second]
    client.post(f"/v1/storyboards/{now['id']}/resume")
    now = finished(client, now["id"])
    assert [step["status"] for step in now["steps"]] == ["accepted"] * 3


def test_a_step_is_drawn_again_by_another_prompt_and_all_that_follow(client):
    now = made(client)
    first = now["steps"][0]
    before = [step["attempts"][1]["picture"] for step in now["steps"]]
    edit(client, now, "draw", step=first["id"], prompt="do it carefully")
    now = finished(client, now["id"])
    again = now["steps"][0]
    assert (again["prompt"], again["edited"], again["chosen"]) == ("do it carefully", ["prompt"], 2)
    assert [len(step["attempts"]) for step in now["steps"]] == [3, 4]
    assert [step["stale"] for step in now["steps"]] == [[], []]
    assert again["attempts"][2]["seed"] != again["attempts"][0]["seed"]
    now = edit(client, now, "undo")
    assert [step["attempts"][step["chosen"]]["picture"] for step in now["steps"]] == before
    assert now["steps"][0]["prompt"] == first["prompt"]


def test_it_goes_on_from_a_later_real_picture(client, folder):
    now = made(client)
    edit(client, now, "continue", image=LATER, done=1)
    now = finished(client, now["id"])
    assert [done["instruction"] for done in now["done"]] == ["i0"]
    assert Image.decode(client.get(now["image"]).content) == picture(5)
    assert [step["status"] for step in now["steps"]] == ["accepted"] * 2
    refused = edit(client, now, "continue", 422, image=LATER, done=3)
    assert refused["error"]["message"] == "3 steps done, but the plan has 2"
    now = edit(client, now, "undo")
    assert (now["done"], len(now["steps"])) == ([], 2)


def test_two_people_change_one_storyboard(client):
    now = made(client)
    change = {"kind": "change", "step": now["steps"][0]["id"], "name": "mine"}
    body = {"after": now["number"], "by": "Ada", "edit": change}
    url = f"/v1/storyboards/{now['id']}/edits"
    first = client.post(url, json=body).json()
    assert client.post(url, json=body).json()["number"] == first["number"], "sent twice, made once"
    refused = client.post(url, json=body | {"by": "Bob", "edit": change | {"name": "his"}})
    assert refused.status_code == 409
    assert refused.json()["error"]["message"].startswith("a change by Ada came first")
    assert refused.json()["state"]["steps"][0]["name"] == "mine"
    mended = edit(client, refused.json()["state"], "change", step=change["step"], name="his")
    assert mended["steps"][0]["name"] == "his"
    ahead = client.post(url, json=body | {"after": mended["number"] + 1})
    assert (ahead.status_code, ahead.json()["by"]) == (409, "nobody"), ahead.text


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"kind": "change", "step": "e3s9", "name": "x"}, 422, "there is no step e3s9"),
        ({"kind": "change", "step": "../x", "name": "x"}, 400, "edit.change.step"),
        ({"kind": "change", "step": "e3s0"}, 422, "no words"),
        ({"kind": "change", "step": "e3s0", "name": " "}, 400, "edit.change.name"),
        ({"kind": "change", "step": "e3s0", "name": "bell\x07"}, 400, "control character"),
        ({"kind": "choose", "step": "e3s0", "attempt": 7}, 422, "no attempt 7"),
        ({"kind": "draw", "step": "e3s0", "prompt": " "}, 400, "edit.draw.prompt"),
        ({"kind": "continue", "image": "http://there/x.png", "done": 0}, 400, "fetches nothing"),
        ({"kind": "continue", "image": "eA==", "done": 0}, 400, "not a readable"),
        ({"kind": "explode"}, 400, "edit"),
        ({"kind": "undo"}, 422, "nothing to undo"),
        ({"kind": "redo"}, 422, "nothing to redo"),
    ],
)
def test_changes_that_do_not_fit_are_refused_and_change_nothing(client, standing, change, status, said):
    body = {"after": standing["number"], "by": "Ada", "edit": change}
    answer = client.post(f"/v1/storyboards/{standing['id']}/edits", json=body)
    assert (answer.status_code, said in answer.json()["error"]["message"]) == (status, True), answer.text
    now = state(client, standing["id"])  # the Critic may still be examined meanwhile
    assert now | {"examination": None} == standing | {"examination": None}


@pytest.fixture(scope="module")
def standing(client):
    return made(client)


def test_a_folder_that_can_only_be_read_is_looked_at(tmp_path, monkeypatch, caplog):
    with studio(tmp_path) as client:
        board, killed = made(client), made(client)
    log = tmp_path / killed["id"] / "log.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))  # its server ended meanwhile
    opened = os.open

    def open_to_read(path: str, flags: int, *rest: object, **options: object) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY) and Path(path).is_relative_to(tmp_path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", open_to_read)
    with studio(tmp_path) as client:
        for before in (board, killed):
            assert state(client, before["id"])["steps"] == before["steps"]
        change = {"kind": "change", "step": board["steps"][0]["id"], "name": "mine"}
        body = {"after": board["number"], "by": "Ada", "edit": change}
        answer = client.post(f"/v1/storyboards/{board['id']}/edits", json=body)
        assert answer.json()["error"]["message"].endswith("Read-only file system"), answer.text
    assert "you can look at it, but nothing can be saved" in caplog.text


def test_paths_lead_nowhere_else(client, standing, folder):
    (folder / "secret.png").write_bytes(b"secret")
    link = folder / standing["id"] / "pictures" / f"{'ab' * 32}.png"
    link.symlink_to(folder / "secret.png")
    assert client.get(f"/v1/storyboards/{standing['id']}/pictures/{link.name}").status_code == 404
    link.unlink()
    for path in ("pictures/..%2F..%2Fsecret.png", "pictures/0.png", "export/x.zip", "pictures/log.jsonl"):
        assert client.get(f"/v1/storyboards/{standing['id']}/{path}").status_code in (400, 404)
    for board in ("..", "..%2F..", "nobody", f"{standing['id']}%2Fpictures"):
        assert client.get(f"/v1/storyboards/{board}").status_code in (400, 404)
    assert client.get("/static/..%2Fapp.py").status_code == 404


def test_it_is_saved_as_plan_writes_it(client, standing, tmp_path):
    board = standing["id"]
    record = Storyboard.model_validate(client.get(f"/v1/storyboards/{board}").json()["storyboard"])
    folder = saved(client, board, tmp_path)
    assert load_storyboard(folder) == record
    page = (folder / "index.html").read_text()
    assert "#one and #two" in page
    assert "control question" in page, "the Critic's examination so far"
    assert (folder / "one-and-two.gif").read_bytes()[:6] == b"GIF89a"


def test_the_history_lists_the_newest_first_and_a_deleted_one_is_gone(tmp_path):
    with studio(tmp_path) as client:
        old, new = sorted(made(client, instruction=f"#{word}")["id"] for word in ("alpha", "beta"))
        answer = client.get("/v1/storyboards", params={"limit": 1}).json()
        assert (answer["total"], [row["id"] for row in answer["storyboards"]]) == (2, [new])
        answer = client.get("/v1/storyboards", params={"before": new}).json()
        assert [row["id"] for row in answer["storyboards"]] == [old]
        assert client.delete(f"/v1/storyboards/{old}").status_code == 204
        assert client.get(f"/v1/storyboards/{old}").status_code == 404
        made(client, instruction="open the jar: #gamma")
        answer = client.get("/v1/storyboards", params={"in_doubt": True}).json()
        assert [row["word"] for row in answer["storyboards"]] == ["in doubt"], "no step mentions the jar"


def test_examples_can_be_planned_at_once(client):
    scenes = client.get("/v1/examples").json()["scenes"]
    assert len(scenes) == 4
    for scene in scenes:
        data = base64.b64decode(scene["picture"].partition(",")[2])
        assert Image.decode(data).size == (128, 128)
    about = client.get("/v1/studio").json()
    assert about["models"] == {"planner": "planner", "editor": "editor", "critic": "critic"}
    assert "nano" in about["presets"]
    assert not {"api", "hindsight"} & set(about["presets"]), "they name no models, or read recordings"
