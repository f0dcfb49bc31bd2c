"""The review page over HTTP, and in a browser."""

from pathlib import Path

import httpx
from fastapi.testclient import TestClient

from goalreel.annotator.review.app import create_review
from goalreel.annotator.review.session import ReviewSession
from goalreel.annotator.web.auth import Access
from goalreel.datasets.corrections.events import LOOK_S
from support.browser import BrowserPage, KillableServer

LOOKED = {"looked": {"seconds": 20.0, "frames": [[0, 10_000]], "pictures": {str(i): 2.0 for i in range(9)}}}
"""What the page tells of an episode that somebody looked at."""


def review_page(out: Path, source: Path | None = None, access: Access | None = None) -> TestClient:
    """Open the page of an annotated dataset."""
    app = create_review(ReviewSession(out, source=source, reviewer="root"), access or Access())
    return TestClient(app, base_url="http://127.0.0.1:8090", follow_redirects=False)


class ReviewServer(KillableServer):
    """`goalreel review`, which may be killed; it is started."""

    def __init__(self, out: Path) -> None:
        run = "from goalreel.cli.main import app; app()"
        super().__init__(run, "review", str(out), "--port", "PORT", "--by", "ann", look="/api/dataset")
        self.start()

    def episode(self, index: int) -> dict:
        return httpx.get(f"{self.url}/api/episodes/{index}", timeout=60).json()


class ReviewPage(BrowserPage):
    """An episode, or the list, as a person uses it."""

    def settled(self) -> None:
        self.eventually(lambda: self.text("#saving"), "Saved")

    def frame(self) -> int:
        return int(self.attribute(".playhead", "aria-valuenow") or -1)

    def go(self, frame: int) -> None:
        """To a frame, by the keys."""
        while (away := frame - self.frame()) != 0:
            self.press(("." if away > 0 else ",") * abs(away))

    def looked(self) -> tuple[float, list[float]]:
        """How many seconds the page has counted the episode on show, and each goal image of it."""
        code = (
            "const [name, done] = arguments; import('/static/looked.js').then(({ kept }) => {"
            " const [, seen] = [...kept].find(([key]) => key.endsWith(' ' + name));"
            " done([seen.seconds, [...seen.pictures.values()]]); });"
        )
        return self.driver.execute_async_script(code, self.text("h1").removeprefix("Episode "))

    def looks(self) -> None:
        """Look at the episode for as long as a verdict on it needs."""
        self.eventually(lambda: self.looked()[0] >= LOOK_S)

    def focused(self) -> str:
        """The name of the field that has the focus."""
        return self.script("return document.activeElement.name ?? ''")


def change(page: TestClient, index: int, **event: object) -> dict:
    """Change an episode as it stands, and give it as it is then; a verdict is of somebody who saw all."""
    if event["kind"] == "verdict":
        event = LOOKED | event
    revision = page.get(f"/api/episodes/{index}").json()["revision"]
    body = {"revision": revision, "by": "ann", "event": event}
    answer = page.post(f"/api/episodes/{index}/events", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()
