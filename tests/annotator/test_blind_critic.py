"""A Critic that answers yes to everything: every surface is walked, and none calls anything verified."""

import csv
import json
import re

import pytest
from support.chat_server import ChatServer, said
from support.cli import goalreel
from support.provenance import named
from support.review import change, review_page
from support.rrd import values
from support.serving_models import CriticChat, PlannerChat, TintEditor, verdict_of
from support.steady import Steady
from support.studio import made, saved, studio
from support.wait import until

from goalreel import ModelSet, annotate
from goalreel.critics.examination import BLIND_AT, Answers
from goalreel.serving.settings import Models
from goalreel.types import Segment

YES = json.dumps({"previous_step_success": True, "refine_prompt": None})


class BlindChat(CriticChat):
    """Says yes without a look."""

    def replies(self, conversations, *, schema=None):
        return [verdict_of(True)] * len(conversations)


def seen(page: str) -> str:
    """What a reader sees of a page."""
    return re.sub(r"<(style|script|template)\b.*?</\1>", "", page, flags=re.DOTALL)


def spotless(surfaces: dict[str, str]) -> None:
    found = {name: re.findall(".{60}verified.{20}", text, re.I | re.S) for name, text in surfaces.items()}
    assert {name: hits for name, hits in found.items() if hits} == {}
    assert all("accepted" in text for text in surfaces.values()), surfaces.keys()


@pytest.mark.long
def test_no_surface_of_an_annotated_dataset_says_verified(video_dataset, tmp_path):
    out, table = tmp_path / "out", tmp_path / "steps.csv"
    answer = '{"holds": "yes", "reason": "it can be seen"}'
    with ChatServer(lambda request: said(answer if "holds" in request.text else YES)) as server:
        critic = ("--critic", f"openai:m@{server.url}")
        first = ("annotate", video_dataset, "--out", out, "--replace-rows", *critic)
        surfaces = {"json": goalreel(*first, "--json").splitlines()[-1]}
        surfaces["command line"] = goalreel("annotate", video_dataset, "--out", tmp_path / "b", *critic)
    goalreel("show", out, "--out", tmp_path / "report")
    goalreel("export", out, "--out", table)
    goalreel("show", out, "--rerun", tmp_path / "rerun")
    surfaces["report"] = seen((tmp_path / "report" / "index.html").read_text())
    surfaces["table"] = table.read_text()
    accepted = [row for row in csv.DictReader(surfaces["table"].splitlines()) if row["word"] == "accepted"]
    assert {(row["untrue_low"], row["untrue_high"]) for row in accepted} == {("0", "1")}
    page = review_page(out)
    surfaces["review list"] = page.get("/api/episodes").text
    surfaces["review"] = page.get("/api/episodes/0").text
    for recording in (tmp_path / "rerun").glob("*.rrd"):
        surfaces[recording.name] = str(values(recording, "subgoal/words", "TextDocument:text", "frame"))
    spotless(surfaces)
    spotless({"card": (out / "README.md").read_text() + " accepted"})


def test_no_surface_of_a_predicted_storyboard_says_verified(tmp_path):
    models = Models(planner=PlannerChat(), critic=BlindChat(), editor=TintEditor())
    with studio(tmp_path / "boards", models) as client:
        board = made(client)
        url, folder = f"/v1/storyboards/{board['id']}", saved(client, board["id"], tmp_path)
        surfaces = {
            "served storyboard": client.get(url).text,
            "studio": json.dumps(board),
            "history": client.get("/v1/storyboards").text,
            "saved page": seen((folder / "index.html").read_text()),
            "saved record": (folder / "storyboard.json").read_text(),
        }
        until(lambda: client.get(url).json()["examination"]["blind"])
    assert "examination" in {path.name for path in (tmp_path / "boards").iterdir()}
    spotless(surfaces)


class Refuser(Steady):
    """Draws noise for a plan that was read off the recording; its critic says no to everything."""

    def plan(self, tasks):
        return [
            plan.model_copy(update={"segments": (Segment(start=0, end=6),)}) for plan in super().plan(tasks)
        ]


def test_a_critic_that_refuses_real_frames_of_what_was_done_is_named(sharded_dataset, tmp_path):
    models = Refuser(accepts=0)
    names = named("steady", "steady", "steady", max_attempts=4)
    summary = annotate(
        sharded_dataset, tmp_path / "out", ModelSet(models, models, models, names), batch_size=1
    )
    assert summary.examination.on_true == Answers(no=BLIND_AT)
    assert "said no to each of 3 things that are true" in summary.examination.line


def test_pictures_that_people_accepted_become_questions(sharded_dataset, tmp_path):
    models, out = Steady(accepts=0), tmp_path / "out"
    model_set = ModelSet(models, models, models, named("steady", "steady", "steady", max_attempts=1))
    annotate(sharded_dataset, out, model_set, episodes=[0])
    change(review_page(out), 0, kind="verdict", verdict="accept")
    assert annotate(sharded_dataset, out, model_set).examination.on_true == Answers(no=1)


def test_a_person_who_looked_verifies(tmp_path):
    models = Models(planner=PlannerChat(), critic=BlindChat(), editor=TintEditor())
    with studio(tmp_path / "boards", models) as client:
        board = made(client)
        for step in board["steps"]:
            edit = {"kind": "judge", "step": step["id"], "attempt": 0, "accept": True, "seconds": 2.0}
            body = {"after": board["number"], "by": "Ada", "edit": edit}
            board = client.post(f"/v1/storyboards/{board['id']}/edits", json=body).json()
        assert {step["word"] for step in board["steps"]} == {"verified"}
        again = made(client)["id"]
        url = f"/v1/storyboards/{again}"
        until(lambda: "true" in client.get(url).json()["examination"]["kinds"])
        page = saved(client, board["id"], tmp_path) / "index.html"
        assert "verified" in seen(page.read_text())
