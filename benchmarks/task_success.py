"""Does the node's SUCCEEDED mean that the task is done? Tabletop tasks, with and without its last question.

    OMP_NUM_THREADS=1 python benchmarks/task_success.py --json                  # 50 tasks, the shipped models
    python benchmarks/task_success.py --preset MINE.yaml --tasks 10

The engine as the node runs it, in this process. The example policy makes the table look like each goal image
in turn, and the simulator says at the end which of the instruction's sub-goals are true. `before` counts a
task as called done when each of its steps was taken for done, which is what the node went by; `after` when
the critic has confirmed it as a whole too (`confirm`).

Keys of --json: `tasks`, `done` (true at the end), `called_before` and `called_after` (called done),
`false_before` and `false_after` (called done, and not true), `refused` (true, called done before, and not
confirmed), `replans`, `ends` (error code -> tasks).
"""

import hashlib
import json
import os
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

os.environ.setdefault("MUJOCO_GL", "egl")

import numpy as np
import typer
from rich.console import Console
from rich.progress import track

from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.models.presets import Preset
from goalreel.models.registry import ROLES
from goalreel.models.trio import Trio
from goalreel.streaming.board import Board, ErrorCode, Frame, Goal
from goalreel.streaming.engine import Engine
from goalreel.streaming.request import TaskOutcome, TaskRequest
from goalreel.streaming.settings import EngineSettings
from goalreel.tabletop.sim.env import Tabletop
from goalreel.tabletop.sim.expert import OPEN
from goalreel.tabletop.sim.grammar import TabletopEpisode, sample_episode
from goalreel.tabletop.sim.reach import Reacher, at_home, homeward
from goalreel.tabletop.sim.splits import seeds

SIZE = 128
HOLD = np.array([0, 0, 0, 0, OPEN], np.float32)
SETTLE, HOMING = 5, 20
"""Actions that the arm has to come to rest, and home."""
CALLED = (ErrorCode.NONE, ErrorCode.UNVERIFIED)
QUICK = {
    "confirm": "with",
    "track_rate": 10.0,
    "critic_period": 0.5,
    "stall_timeout": 10.0,
    "task_timeout": 300.0,
}
"""The simulator does in a second what takes an arm ten."""


@dataclass(frozen=True)
class Played:
    """How a task ended, and what was true then."""

    seed: int
    error: str
    message: str
    replans: int
    held: tuple[bool, ...]
    probability: float | None = None


class Table:
    """The table of an episode, and what the engine sees and says of it."""

    def __init__(self, episode: TabletopEpisode) -> None:
        self.env, self.reacher = Tabletop(episode.scene), Reacher(episode.scene)
        self._picture = self.look()
        self._goal: Goal | None = None
        self._changed = threading.Condition()

    def look(self) -> Image:
        self._picture = Image(self.env.render(self.env.scene.camera, SIZE).copy())
        return self._picture

    def newest(self) -> Frame:
        return Frame(self._picture, received=time.monotonic())

    # -- what the engine tells, on its own thread

    def board(self, board: Board) -> None:
        """Of no use to a policy."""

    def goal(self, goal: Goal) -> None:
        with self._changed:
            self._goal = goal
            self._changed.notify_all()

    # -- the policy

    def obey(self, over: threading.Event) -> None:
        """Make the table look like whatever goal image is active."""
        reached: Image | None = None
        while not over.is_set():
            with self._changed:
                panel = self._goal.panel if self._goal is not None and self._goal.active else None
                wanted = panel.goal_image if panel is not None else None
                if wanted is None or wanted is reached:
                    self._changed.wait(0.1)
                    continue
            reached = wanted if not self._move(wanted) else None

    def _move(self, wanted: Image) -> bool:
        """Move one block towards it; whether there was one to move."""
        try:
            motion = self.reacher.motion(self.look(), wanted)
        except ValueError:
            return False
        for number, action in enumerate(motion.actions if motion is not None else ()):
            self.env.step(action)
            if number % 5 == 0:
                self.look()
        self._go_home()
        return motion is not None

    def _go_home(self) -> None:
        for _ in range(SETTLE):
            self.env.step(HOLD)
        for _ in range(HOMING):
            state = self.env.observation().astype(np.float64)
            if at_home(state):
                break
            self.env.step(homeward(state))
        self.look()


def play(seed: int, trio: Trio, settings: EngineSettings) -> Played:
    """Give the instruction of a scene to an engine, and its goals to the policy."""
    episode, over = sample_episode(seed), threading.Event()
    table = Table(episode)

    def build(_: Preset) -> Trio:
        return trio

    engine = Engine(settings, table.newest, table, time.time_ns, build)
    engine.start()
    try:
        ticket = engine.submit(TaskRequest(episode.instruction))
        ticket.outcome.add_done_callback(lambda _: over.set())
        table.obey(over)
        outcome: TaskOutcome = ticket.outcome.result()
        held = tuple(table.env.holds(goal) for goal in episode.goals)
    finally:
        engine.stop()
        table.env.close()
    sure = outcome.verdict.probability if outcome.verdict is not None else None
    return Played(seed, outcome.error.name, outcome.message, outcome.replans, held, sure)


def measures(played: list[Played]) -> dict[str, object]:
    called = [p for p in played if ErrorCode[p.error] in CALLED]
    confirmed = [p for p in called if ErrorCode[p.error] is ErrorCode.NONE]
    return {
        "tasks": len(played),
        "done": sum(all(p.held) for p in played),
        "called_before": len(called),
        "false_before": sum(not all(p.held) for p in called),
        "called_after": len(confirmed),
        "false_after": sum(not all(p.held) for p in confirmed),
        "refused": sum(all(p.held) for p in called) - sum(all(p.held) for p in confirmed),
        "replans": sum(p.replans for p in played),
        "ends": dict(Counter(p.error for p in played)),
    }


def main(
    tasks: Annotated[int, typer.Option(min=1, help="Scenes.")] = 50,
    split: Annotated[Literal["validation", "test"], typer.Option(help="Whose.")] = "test",
    preset: Annotated[str, typer.Option(help="Models.")] = "nano",
    out: Annotated[
        Path, typer.Option(help="What was played, a folder per models; run again to go on.")
    ] = Path("out/success"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line.")] = False,
) -> None:
    """Play the tasks and count."""
    settings = EngineSettings.of(preset, **QUICK)
    trio = load(presets.load(preset))
    models = " ".join(map(trio.called.key, ROLES))
    folder = out / hashlib.blake2b(models.encode(), digest_size=6).hexdigest()
    played: list[Played] = []
    for seed in track(seeds(split, tasks), "tasks", console=Console(stderr=True), disable=as_json):
        kept = folder / f"{seed}.json"
        if not kept.exists():
            write_bytes(kept, json.dumps(asdict(play(seed, trio, settings))).encode())
        played.append(Played(**json.loads(kept.read_text(encoding="utf-8"))))
    told = measures(played)
    print(json.dumps(told) if as_json else "\n".join(f"{k}: {v}" for k, v in told.items()))


if __name__ == "__main__":
    typer.run(main)
