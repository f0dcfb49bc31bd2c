"""Whether the node's SUCCEEDED means done: tabletop tasks carried out with the shipped nano models.

    OMP_NUM_THREADS=1 python lab/benchmarks/task_success.py test 0 100 out/success

The engine runs in this process as in the node. The example policy makes the table look like each goal image
in turn, and the simulator says at the end which of the instruction's sub-goals are true. The arguments are
the split, the first task, the number of tasks and the folder of the records; the same command goes on.

Keys of the last line: `tasks`, `done` (true at the end), `confirmed` and `refused` (right ones that the
Critic confirms, and does not), `false` (confirmed, and not true), `ends` (error code -> tasks).
"""

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "egl")

from goalreel.files import write_bytes
from goalreel.image import Image
from goalreel.models import presets
from goalreel.models.load import load
from goalreel.models.model_set import ModelSet
from goalreel.models.presets import Preset
from goalreel.streaming.board import Board, ErrorCode, Frame, Goal
from goalreel.streaming.engine import Engine
from goalreel.streaming.request import TaskOutcome, TaskRequest
from goalreel.streaming.settings import EngineSettings
from goalreel.tabletop.env import Tabletop
from goalreel.tabletop.grammar import TabletopEpisode, sample_episode
from goalreel.tabletop.reach import Reacher
from goalreel.tabletop.splits import seeds
from goalreel_lab.bench.closed import go_home

SIZE = 128
CALLED = (ErrorCode.NONE, ErrorCode.UNCONFIRMED)
QUICK = {
    "confirm": True,
    "critic_period": 0.5,
    "model_timeout": 600.0,
}
"""The simulator does in a second what takes an arm ten. A busy machine reaches none of the limits."""


@dataclass(frozen=True)
class TaskRecord:
    """How a task ended, and which sub-goals were true then."""

    seed: int
    error: str
    message: str
    replans: int
    held: tuple[bool, ...]
    probability: float | None = None


class Table:
    """The table of an episode, as the engine's camera and as its listener."""

    def __init__(self, episode: TabletopEpisode) -> None:
        self.env, self.reacher = Tabletop(episode.scene), Reacher(episode.scene)
        self._picture = self.render()
        self._goal: Goal | None = None
        self._changed = threading.Condition()

    def render(self) -> Image:
        """Take a new picture."""
        self._picture = Image(self.env.render(self.env.scene.camera, SIZE).copy())
        return self._picture

    def newest(self) -> Frame:
        """Give the last picture that was taken."""
        return Frame(self._picture, received=time.monotonic())

    # -- called by the engine, on its own thread

    def on_board(self, board: Board) -> None:
        """Ignore the board: a policy has no use for it."""

    def on_goal(self, goal: Goal) -> None:
        """Take a new sub-goal."""
        with self._changed:
            self._goal = goal
            self._changed.notify_all()

    # -- the policy

    def follow(self, over: threading.Event) -> None:
        """Make the table look like whatever goal image is active, until the task is over."""
        reached: Image | None = None
        while not over.is_set():
            with self._changed:
                panel = self._goal.panel if self._goal is not None and self._goal.active else None
                target = panel.goal_image if panel is not None else None
                if target is None or target is reached:
                    self._changed.wait(0.1)
                    continue
            reached = target if not self._move(target) else None

    def _move(self, target: Image) -> bool:
        """Move one block towards its place in a picture; tell whether there was one to move."""
        try:
            motion = self.reacher.motion(self.render(), target)
        except ValueError:
            return False
        for number, action in enumerate(motion.actions if motion is not None else ()):
            self.env.step(action)
            if number % 5 == 0:
                self.render()
        go_home(self.env)
        self.render()
        return motion is not None


def play(seed: int, models: ModelSet, settings: EngineSettings) -> TaskRecord:
    """Give the instruction of a scene to an engine, and its goals to the policy."""
    over = threading.Event()
    episode = sample_episode(seed)
    table = Table(episode)

    def build(_: Preset) -> ModelSet:
        return models

    engine = Engine(settings, table.newest, table, time.time_ns, build)
    engine.start()
    try:
        ticket = engine.submit(TaskRequest(episode.instruction))
        ticket.outcome.add_done_callback(lambda _: over.set())
        table.follow(over)
        outcome: TaskOutcome = ticket.outcome.result()
        predicates = tuple(table.env.holds(goal) for goal in episode.goals)
    finally:
        engine.stop()
        table.env.close()
    probability = None if outcome.verdict is None else float(outcome.verdict.success)
    return TaskRecord(seed, outcome.error.name, outcome.message, outcome.replans, predicates, probability)


def summary(records: Sequence[TaskRecord]) -> dict[str, object]:
    """Compute the keys that the module's docstring lists."""
    done = [r for r in records if all(r.held)]
    ended = Counter(r.error for r in done)
    return {
        "tasks": len(records),
        "done": len(done),
        "confirmed": ended["NONE"],
        "refused": ended["UNCONFIRMED"],
        "false": sum(r.error == "NONE" for r in records) - ended["NONE"],
        "ends": dict(Counter(r.error for r in records)),
    }


def main() -> None:
    """Carry out the tasks without a record, and print the summary."""
    split, first, count, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    out.mkdir(parents=True, exist_ok=True)
    models, settings = load(presets.load("nano")), EngineSettings.of("nano", **QUICK)
    records = []
    for seed in seeds(split, count, first):
        file = out / f"{seed}.json"
        if not file.exists():
            write_bytes(file, json.dumps(asdict(play(seed, models, settings))).encode())
        records.append(TaskRecord(**json.loads(file.read_text(encoding="utf-8"))))
    print(json.dumps(summary(records)))


if __name__ == "__main__":
    main()
