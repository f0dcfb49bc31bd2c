"""Storyboards by the models of a preset: chosen by name, kept, dropped for others, refused in one line."""

import gc
import weakref
from dataclasses import replace

import httpx
from support.serving_models import until
from support.studio import SCENE, finished, made, preset, scripted, state, studio, submit

from goalreel.models import presets
from goalreel.serving.loading import build_models
from goalreel.serving.settings import Models
from goalreel.studio.models import studio_presets
from goalreel.types import ROLES


class Builds:
    """Builds scripted models under the name of a preset, and knows what it has built."""

    def __init__(self, name: str, **changes: object) -> None:
        self.name, self.changes, self.built = name, changes, []

    def __call__(self) -> Models:
        names = {f"{role}_name": f"{self.name}-{role}" for role in ROLES}
        models = replace(scripted(), **names, **self.changes)
        self.built.append(models)
        return models


def refused(client: httpx.Client, name: str, status: int) -> str:
    body = {"instruction": "#one", "image": SCENE, "preset": name}
    answer = client.post("/v1/storyboards", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()["error"]["message"]


def test_a_storyboard_keeps_the_models_of_its_preset_and_one_that_is_gone_is_one_line(tmp_path):
    small = Builds("small")
    offered = [
        preset("small", small),
        preset("large", problem="it needs a GPU of 55.1 GB, and there is none here"),
    ]
    with studio(tmp_path, started := scripted(), presets=offered) as client:
        assert [
            (p["name"], p["available"], p["reason"]) for p in client.get("/v1/studio").json()["presets"]
        ] == [
            ("small", True, None),
            ("large", False, "it needs a GPU of 55.1 GB, and there is none here"),
        ]
        shown = len(small.built)
        assert refused(client, "large", 422) == "it needs a GPU of 55.1 GB, and there is none here"
        assert refused(client, "../small.yaml", 422).startswith(
            "no preset '../small.yaml' here: there are small"
        )
        assert len(list(tmp_path.glob("*/log.jsonl"))) == 0
        now = made(client, preset="small", max_attempts=None)
        assert (now["preset"], now["max_attempts"], now["models"]["editor"]) == ("small", 1, "small-editor")
        client.post(f"/v1/storyboards/{now['id']}/resume")
        assert finished(client, now["id"])["models"]["planner"] == "small-planner"
        assert len(small.built) == shown + 1, "they stay"
        assert started.planner.batches == []
        assert made(client)["preset"] is None
        assert len(started.planner.batches) == 1
    with studio(tmp_path, started := scripted(), presets=offered) as client:
        client.post(f"/v1/storyboards/{now['id']}/resume")
        assert finished(client, now["id"])["models"]["planner"] == "small-planner"
        assert len(small.built) == shown + 2
    with studio(tmp_path) as client:
        gone = client.post(f"/v1/storyboards/{now['id']}/resume")
        assert gone.status_code == 422
        assert gone.json()["error"]["message"].startswith("no preset 'small' here: this server has one set")
        assert len(state(client, now["id"])["steps"]) == 2, "it can be seen all the same"


def test_one_set_of_this_process_is_held_beside_the_starts_and_servers_cost_nothing(tmp_path):
    first, second = Builds("first"), Builds("second")
    servers = Builds("servers", remote=frozenset(ROLES))
    offered = [preset(build.name, build) for build in (first, second, servers)]
    with studio(tmp_path, presets=offered) as client:
        made(client, preset="first")
        critic = first.built[0].critic
        critic.gate.clear()
        board = submit(client, preset="first")
        until(lambda: (state(client, board)["waiting"] or {}).get("role") == "critic")
        assert refused(client, "second", 429).startswith(
            "preset second: the models of preset first are at work"
        )
        made(client, preset="servers")
        critic.gate.set()
        finished(client, board)
        held = weakref.ref(first.built.pop().editor)
        del critic
        made(client, preset="second")
        gc.collect()
        assert held() is None, "models that were dropped are not held"
        made(client, preset="servers")
        assert (len(second.built), len(servers.built)) == (2, 1), "the first of second was refused"


def test_presets_that_cannot_be_used_here_say_why_and_the_starts_is_not_loaded_twice(monkeypatch):
    monkeypatch.setattr("goalreel.studio.models.gpu_gb", lambda: None)
    nobody, load = (
        dict.fromkeys(ROLES, "server:http://127.0.0.1:9"),
        presets.load,
    )  # 8000 may be another test's
    monkeypatch.setattr(presets, "load", lambda name: load(name, **(nobody if name == "server" else {})))
    started = presets.load("nano")
    models = build_models(started.planner, started.critic, started.editor, loading=True)
    offered = {preset.name: preset for preset in studio_presets(started, models)}
    assert list(offered) == presets.names()
    assert offered["nano"].problem() is None
    assert offered["nano"].build()[0] is models
    assert "leaves open which models to ask" in offered["api"].problem()
    assert "only reads recordings" in offered["hindsight"].problem()
    assert "not on this machine: `goalreel doctor --models klein` fetches" in offered["klein"].problem()
    assert "127.0.0.1:9" in offered["server"].problem()
    assert set(offered["server"].models.values()) == {"server:http://127.0.0.1:8000"}
    assert offered["klein"].models["planner"] == "InterleaveThinker-Planner-8B"
    beside = {p.name: p for p in studio_presets(presets.load("server"), scripted())}
    assert beside["nano"].problem() is None, "small models run on a CPU"
