"""The studio's page in a browser: what a person does there, and what it says."""

from pathlib import Path

from support.browser import BrowserPage, KillableServer
from support.places import TESTS

WIDTHS = {"wide": (1440, 900), "middle": (1024, 768), "narrow": (390, 844)}
SERVER = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import socket
from pathlib import Path
from goalreel.serving.app import serve_app
from support.studio import app, scripted
models, calls, held = scripted(), [], sys.argv[3:]
judge = models.critic.replies
def replies(conversations, *, schema=None):
    calls.append(1)
    if [str(len(calls))] == held:
        models.critic.gate.clear()
    return judge(conversations, schema=schema)
models.critic.replies = replies
listening = socket.create_server(("127.0.0.1", int(sys.argv[2])))
serve_app(app(Path(sys.argv[1]), models, drain_seconds=0), listening)
"""


def killable_studio(folder: Path) -> KillableServer:
    """A studio that may be killed; its Critic answers nothing from the call on that `start` is given."""
    return KillableServer(SERVER, str(folder), "PORT", look="/v1/studio")


class StudioPage(BrowserPage):
    """What a person does on the page, and what it says."""

    def __init__(self, driver, url: str, size: str = "wide") -> None:
        super().__init__(driver)
        self.url = url
        self.resize(*WIDTHS[size])

    def start(self) -> None:
        self.load(f"{self.url}/")
        self.eventually(lambda: len(self.all(".card")) > 0)

    def open(self, board: str) -> None:
        self.load(f"{self.url}/#/storyboard/{board}")
        self.eventually(lambda: len(self.all(".board-page")), 1)

    @property
    def board(self) -> str:
        """The id of the storyboard on show."""
        self.eventually(lambda: "#/storyboard/" in self.driver.current_url)
        return self.driver.current_url.rpartition("/")[2]

    def texts(self, css: str) -> list[str]:
        return self.script(
            "return [...document.querySelectorAll(arguments[0])].map((n) => n.innerText.trim())", css
        )

    def focused(self) -> str:
        """The name, command or id of what has the focus."""
        return self.script(
            "const n = document.activeElement; return n.name || n.dataset.act || n.dataset.step || n.id"
        )

    def statuses(self) -> list[str]:
        """What the steps are worth, as the row of steps says it."""
        return [text.split(maxsplit=1)[-1] for text in self.texts(".reel .frame .badge")]

    def settled(self, *statuses: str) -> None:
        """Nobody works, and the steps are worth this."""
        self.eventually(lambda: (len(self.all("#work .pulse")), self.statuses()), (0, list(statuses)))
