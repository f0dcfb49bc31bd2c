"""Schemathesis reads the server's own OpenAPI description and sends what it allows, and what it does not."""

import base64
from collections import Counter

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from support.serving_models import CriticChat, PlannerChat, TintEditor, picture, serving

from goalreel.serving.settings import Models

PICTURE = "data:image/png;base64," + base64.b64encode(picture().png()).decode()
OPERATIONS = {
    "GET /health",
    "GET /v1/models",
    "GET /v1/models/{model}",
    "POST /edit",
    "POST /v1/chat/completions",
    "POST /v1/images/edits",
    "POST /v1/images/generations",
}


@pytest.fixture(scope="module")
def url():
    models = Models(planner=PlannerChat(), critic=CriticChat(), editor=TintEditor())
    with serving(models) as url:
        yield url


@pytest.fixture(scope="module")
def operations(url):
    """From the server's description, with what it cannot know filled in, so that the fuzz gets past it."""
    described = httpx.get(f"{url}/openapi.json", timeout=60).json()
    for body, field, values in (
        ("ChatBody", "model", ["planner", "critic", "nobody"]),
        ("ImageUrl", "url", [PICTURE, "data:image/png;base64,AAAA", "https://example.com/a.png"]),
        ("InterleaveThinkerEdit", "image", [None, PICTURE, PICTURE.partition(",")[2], "AAAA"]),
    ):
        described["components"]["schemas"][body]["properties"][field] = {"enum": values}
    uploads = described["components"]["schemas"]["EditForm"]["properties"]
    uploads["image"] = uploads["mask"] = {"type": "string", "format": "binary"}
    names = {"enum": ["planner", "nobody", "no/body"]}
    described["paths"]["/v1/models/{model}"]["get"]["parameters"][0]["schema"] = names
    import schemathesis  # for seconds, in each worker that collects

    schema = schemathesis.openapi.from_dict(described)
    return {o.ok().label: o.ok() for o in schema.get_all_operations()}


def with_picture(case):
    """An upload that is a picture, where one is asked for."""
    if case.media_type == "multipart/form-data":
        case.body = {"prompt": case.body["prompt"], "image": picture().png()}
    return case


def test_every_route_is_described(operations):
    assert set(operations) == OPERATIONS


@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_no_request_breaks_the_server(operations, url, label):
    from schemathesis.checks import not_a_server_error
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
    codes = Counter()
    good = operations[label].as_strategy(generation_mode=GenerationMode.POSITIVE)
    bad = operations[label].as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @given(case=st.one_of(good, good.map(with_picture), bad))
    @settings(
        phases=[Phase.generate],
        max_examples=settings.default.max_examples // (2 if "edits" in label else 3),  # they are slow to draw
        suppress_health_check=list(HealthCheck),
    )
    def attack(case):
        response = case.call(base_url=url)
        codes[response.status_code] += 1
        case.validate_response(response, checks=checks)

    attack()
    assert max(codes) < 500
    assert min(codes) < 300, f"nothing got through: {codes}"
    assert httpx.get(f"{url}/health", timeout=60).status_code == 200
