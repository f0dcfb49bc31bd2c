"""Whether the node's SUCCEEDED means done: tabletop tasks, with and without its last question.

    OMP_NUM_THREADS=1 python benchmarks/task_success.py --json                  # 50 tasks, the shipped models
    python benchmarks/task_success.py --preset MINE.yaml --tasks 10

The engine runs in this process as in the node. The example policy makes the table look like each goal image
in turn, and the simulator says at the end which of the instruction's sub-goals are true. `before` counts a
task as called done when each of its steps was taken for done, which is what the node once went by; `after`
when the critic has confirmed it as a whole too (`confirm`). With --known the models know the scenes and err
never.

Keys of --json: `tasks`, `done` (true at the end), `called_before` and `called_after` (called done),
`false_before` and `false_after` (called done, and not true), `refused` (true, called done before, and not
confirmed), `replans`, `ends` (error code -> tasks).
"""

import hashlib
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from common import argument_parser, parse, report
from parts import handover
from rich.console import Console
from rich.progress import track

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
from goalreel.tabletop.sim.env import Tabletop
from goalreel.tabletop.sim.grammar import TabletopEpisode, sample_episode
from goalreel.tabletop.sim.reach import Reacher
from goalreel.tabletop.sim.splits import seeds
from goalreel.types import ROLES
from goalreel_lab.bench.closed import go_home

SIZE = 128
CALLED = (ErrorCode.NONE, ErrorCode.UNVERIFIED)
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


type Models = Callable[[int], tuple[ModelSet, str]]
"""From a seed to the models and the instruction that they get."""


def shipped_models(model_set: ModelSet) -> Models:
    """Give every scene the same models."""
    return lambda seed: (model_set, sample_episode(seed).instruction)


def known_models(seed: int) -> tuple[ModelSet, str]:
    """Make models that know the scene; the critic believes that every step is done."""
    scene = handover.film_scene(seed)
    models = handover.SceneModels([scene], handover.Latency(0.0, 0.0, 0.0, 0.0))
    return ModelSet(models, models, models), scene.tagged_instruction(None, "critic")


def play(seed: int, models: Models, settings: EngineSettings) -> TaskRecord:
    """Give the instruction of a scene to an engine, and its goals to the policy."""
    over = threading.Event()
    model_set, instruction = models(seed)
    episode = sample_episode(seed)
    table = Table(episode)

    def build(_: Preset) -> ModelSet:
        return model_set

    engine = Engine(settings, table.newest, table, time.time_ns, build)
    engine.start()
    try:
        ticket = engine.submit(TaskRequest(instruction))
        ticket.outcome.add_done_callback(lambda _: over.set())
        table.follow(over)
        outcome: TaskOutcome = ticket.outcome.result()
        predicates = tuple(table.env.holds(goal) for goal in episode.goals)
    finally:
        engine.stop()
        table.env.close()
    probability = outcome.verdict.probability if outcome.verdict is not None else None
    return TaskRecord(seed, outcome.error.name, outcome.message, outcome.replans, predicates, probability)


def summary(records: Sequence[TaskRecord]) -> dict[str, object]:
    """Compute the keys that the module's docstring lists."""
    called = [r for r in records if ErrorCode[r.error] in CALLED]
    confirmed = [r for r in called if ErrorCode[r.error] is ErrorCode.NONE]
    return {
        "tasks": len(records),
        "done": sum(all(r.held) for r in records),
        "called_before": len(called),
        "false_before": sum(not all(r.held) for r in called),
        "called_after": len(confirmed),
        "false_after": sum(not all(r.held) for r in confirmed),
        "refused": sum(all(r.held) for r in called) - sum(all(r.held) for r in confirmed),
        "replans": sum(r.replans for r in records),
        "ends": dict(Counter(r.error for r in records)),
    }


def saved_records(folder: Path, chosen: Sequence[int], models: Models, preset: str) -> list[TaskRecord]:
    """Play the tasks that `folder` has no record of, and read all records."""
    settings = EngineSettings.of(preset, **QUICK)
    records = []
    for seed in track(chosen, "tasks", console=Console(stderr=True), disable=not sys.stderr.isatty()):
        file = folder / f"{seed}.json"
        if not file.exists():
            write_bytes(file, json.dumps(asdict(play(seed, models, settings))).encode())
        records.append(TaskRecord(**json.loads(file.read_text(encoding="utf-8"))))
    return records


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argument_parser(__doc__)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--split", choices=("validation", "test"), default="test")
    parser.add_argument("--first", type=int, default=0, help="first seed, counted from the split's start")
    parser.add_argument("--preset", default="nano", help="models")
    parser.add_argument("--known", action="store_true", help="models that know the scenes, not a preset's")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/success"),
        help="records, a folder a model_set; run again to go on",
    )
    options = parse(parser, argv, tasks=1, split="validation", first=2, known=True)
    chosen = seeds(options.split, options.tasks, options.first)
    if options.known:
        with tempfile.TemporaryDirectory() as folder:
            records = saved_records(Path(folder), chosen, known_models, "server")
    else:
        model_set = load(presets.load(options.preset))
        names = " ".join(map(model_set.provenance.key, ROLES))
        folder = options.out / hashlib.blake2b(names.encode(), digest_size=6).hexdigest()
        records = saved_records(folder, chosen, shipped_models(model_set), options.preset)
    report(summary(records), options.json)


if __name__ == "__main__":
    main()
