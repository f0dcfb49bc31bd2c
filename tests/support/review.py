"""The review page over HTTP, as a test's page."""

from pathlib import Path

from fastapi.testclient import TestClient

from goalreel.annotator.review.app import create_review
from goalreel.annotator.review.session import ReviewSession
from goalreel.annotator.web.auth import Access

LOOKED = {"looked": {"seconds": 20.0, "frames": [[0, 10_000]], "pictures": {str(i): 2.0 for i in range(9)}}}
"""What the page tells of an episode that somebody looked at."""


def review_page(out: Path, source: Path | None = None) -> TestClient:
    """Open the page of an annotated dataset."""
    app = create_review(ReviewSession.open(out, source=source, reviewer="root"), Access(), None)
    return TestClient(app, base_url="http://127.0.0.1:8090")


def change(page: TestClient, index: int, **event: object) -> dict:
    """Change an episode as it stands, and give it as it is then; a verdict is of somebody who saw all."""
    if event["kind"] == "verdict":
        event = LOOKED | event
    revision = page.get(f"/api/episodes/{index}").json()["revision"]
    body = {"revision": revision, "by": "ann", "event": event}
    answer = page.post(f"/api/episodes/{index}/events", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()
