"""The scripted critic in a process of its own, to be killed: `python -m support.critic_process PORT`.

Each line on its standard input shuts or opens its gate for whole tasks; it says who came there.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from signal import SIGKILL

from goalreel.serving.app import create_app
from goalreel.serving.settings import Models, ServeSettings
from support.ros import Other
from support.ros_bench import Critic, Gate
from support.serving_models import running
from support.wait import until


class CriticProcess:
    """Stands for a `Critic` and for its gate for whole tasks; it is started at one address each time."""

    def __init__(self) -> None:
        self.whole, self._port, self._process = self, "0", None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def calls(self) -> int:
        return self._process.lines.count("asked")

    def start(self) -> None:
        """Have it run, if it does not."""
        if self._process is None or self._process.process.poll() is not None:
            self._process = it = Other("-m", "support.critic_process", self._port)
            until(lambda: it.process.poll() is not None or any(w.isdigit() for w in it.lines), 300)
            self._port = next(w for w in it.lines if w.isdigit())

    def kill(self) -> None:
        self._process.stop(SIGKILL)

    @contextmanager
    def shut(self) -> Iterator[None]:
        self._have("shut")
        try:
            yield
        finally:
            with suppress(BrokenPipeError):  # it was killed
                self._have("open")

    def _have(self, state: str) -> None:
        count = self._process.lines.count(state)
        self._process.say(state)
        until(lambda: self._process.lines.count(state) > count)


class Told(Gate):
    def __call__(self) -> None:
        print("asked", flush=True)  # noqa: T201
        super().__call__()


if __name__ == "__main__":
    critic = Critic()
    critic.whole = Told()
    app = create_app(Models(critic=critic), ServeSettings(batch_wait_ms=1))
    with running(app, port=int(sys.argv[1])) as (url, _):
        print(url.rpartition(":")[2], flush=True)  # noqa: T201
        for line in sys.stdin:
            (critic.whole.open.clear if line == "shut\n" else critic.whole.open.set)()
            print(line.strip(), flush=True)  # noqa: T201
