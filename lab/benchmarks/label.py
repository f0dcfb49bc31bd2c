"""Time of a person who labels three episodes a task and looks at what is in doubt, by a script.

    python lab/benchmarks/label.py --episodes 300 --json

Episodes of the simulated tabletop, half of each of two tasks whose words no rule reads, are annotated by
rules and served by `goalreel review`. The script cuts and names the three episodes of each task that the page
asks for, carries their steps over, corrects what is in doubt by the simulator's truth, accepts all that is
sure, and runs `goalreel build`. Every change goes through the page's HTTP API.

Keys of --json: `episodes`, `steps`; `changes` and `keys` (a name takes its letters once, then two);
`looking_s`, modelled: an episode that is labelled is played once, one in doubt is looked at for 5 s, a key
takes 0.5 s, an act on a task 3 s; `labelled`, `in_doubt` and `corrected` episodes; `wrong_cuts`, true or made
ones with no counterpart within 0.5 s, `wrong_names` and `unlabelled` episodes that stay; `carry_s`.
"""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from common import argument_parser, parse, report
from parts.pages import page_server

from goalreel.annotator.annotate import annotate
from goalreel.annotator.options import Options
from goalreel.annotator.show import read_storyboards
from goalreel.tabletop import record as tabletop
from goalreel.tabletop.grammar import TabletopEpisode, sample_episode

TASKS = {"inside": "räum den Klotz in die Schale", "on": "stell den Klotz auf den anderen"}
NAMES = {"inside": ("nimm den Klotz", "leg ihn hinein"), "on": ("nimm den Klotz", "setz ihn darauf")}
BACK: str = "fahr zurück"
LIFT, RETREAT = tabletop.PHASES.index("lift"), tabletop.PHASES.index("retreat")
LOOK_S, KEY_S, ACT_S, TOLERANCE_S = 5.0, 0.5, 3.0, 0.5


@dataclass
class Person:
    """Knowledge of a person who works on the page at `url`, and what it took them."""

    url: str
    cuts: list[list[int]]
    """By episode: where its steps begin, and its length."""
    names: list[tuple[str, ...]]
    spent: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    typed: set[str] = field(default_factory=set)

    def call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Ask the page's server."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def change(self, episode: int, keys: int = 1, **event: object) -> Any:
        """Change an episode as it stands."""
        self.spent["changes"] += 1
        self.spent["keys"] += keys
        revision = self.call(f"/api/episodes/{episode}")["revision"]
        body = {"revision": revision, "by": "script", "event": event}
        return self.call(f"/api/episodes/{episode}/events", body)

    def act(self, name: str, instruction: str) -> None:
        """Act on all episodes of a task."""
        self.spent["changes"] += 1
        self.spent["keys"] += 1
        self.spent["looking_s"] += ACT_S
        self.call("/api/acts", {"act": name, "instruction": instruction, "by": "script"})

    def label(self, episode: int) -> None:
        """Cut and name an episode anew, and accept it."""
        edges = self.cuts[episode]
        for step in self.call(f"/api/episodes/{episode}")["steps"]:
            self.change(episode, kind="delete", step=step["id"])
        made = self.change(episode, kind="insert", start=0, end=edges[-1], name="new step")
        for edge in edges[1:-1]:
            made = self.change(episode, kind="split", step=made["steps"][-1]["id"], frame=edge)
        for step, name in zip(made["steps"], self.names[episode], strict=True):
            keys = 2 if name in self.typed else len(name) + 1
            self.typed.add(name)
            self.change(episode, keys, kind="rename", step=step["id"], name=name)
        self.accept(episode, edges[-1] / tabletop.CONTROL_HZ)

    def accept(self, episode: int, seconds: float) -> None:
        """Accept an episode that was looked at for so long, and whose frames were all on the screen."""
        self.spent["looking_s"] += seconds
        looked = {"seconds": seconds, "frames": [(0, self.cuts[episode][-1] - 1)]}
        self.change(episode, kind="verdict", verdict="accept", looked=looked)

    def look(self, episode: int) -> None:
        """Look at an episode in doubt; accept it, or correct it first."""
        self.spent["in_doubt"] += 1
        steps = self.call(f"/api/episodes/{episode}")["steps"]
        named = tuple(s["name"] for s in steps) == self.names[episode]
        if named and not errors(self.cuts[episode], [(s["start"], s["end"]) for s in steps]):
            self.accept(episode, LOOK_S)
        else:
            self.spent["looking_s"] += LOOK_S
            self.spent["corrected"] += 1
            self.label(episode)


def errors(edges: Sequence[int], spans: Sequence[tuple[int, int]]) -> int:
    """Count cuts without a counterpart within the tolerance, true ones and made ones."""
    made = sorted({edge for span in spans for edge in span} - {0, edges[-1]})
    near = TOLERANCE_S * tabletop.CONTROL_HZ
    pairs = ((edges[1:-1], made), (made, edges[1:-1]))
    return sum(all(abs(a - b) > near for b in others) for some, others in pairs for a in some)


def choose(episodes: int) -> list[TabletopEpisode]:
    """Choose episodes of one step, of both tasks in turn."""
    half = (episodes + 1) // 2
    drawn = {e.seed: e for e in map(sample_episode, range(60 * half + 300)) if len(e.goals) == 1}
    chosen: list[TabletopEpisode] = []
    for kind, text in TASKS.items():
        fitting = (e for e in drawn.values() if e.goals[0].kind == kind)
        chosen += [replace(e, instruction=text) for e in islice(fitting, half)]
    return chosen[:episodes]


def record(
    root: Path, chosen: Sequence[TabletopEpisode], size: int = 64
) -> tuple[list[list[int]], list[tuple[str, ...]]]:
    """Record the episodes; returns their true edges and their names."""
    by_seed = {e.seed: e for e in chosen}
    tabletop.quiet()
    with patch.object(tabletop, "sample_episode", by_seed.__getitem__):
        tabletop.record(root, list(by_seed), cameras=("front",), size=size)
    phases: list[list[int]] = [[] for _ in by_seed]
    for path in sorted(root.glob("data/*/*.parquet")):
        table = pq.read_table(path, columns=["episode_index", "phase"])
        for episode, phase in zip(*(table[name].to_pylist() for name in table.column_names), strict=True):
            phases[episode].append(phase if isinstance(phase, int) else phase[0])
    cuts = [[0, its.index(LIFT), its.index(RETREAT), len(its)] for its in phases]
    return cuts, [(*NAMES[e.goals[0].kind], BACK) for e in by_seed.values()]


def measure(folder: Path, episodes: int) -> dict[str, object]:
    """Go from an unlabelled dataset to a built one."""
    root, out = folder / "in", folder / "out"
    cuts, names = record(root, choose(episodes))
    annotate(root, out, options=Options(replace_rows=True))
    with page_server("review", out, "/api/dataset") as url:
        person, carry_s = Person(url, cuts, names), 0.0
        for task in person.call("/api/tasks"):
            for episode in task["next"]:
                person.label(episode)
            person.spent["labelled"] += len(task["next"])
            began = time.perf_counter()
            person.act("carry", task["instruction"])
            carry_s += time.perf_counter() - began
        page = "/api/episodes?status=unreviewed&order=doubt&limit=200"
        while doubtful := [row for row in person.call(page)["rows"] if row["reasons"]]:
            for row in doubtful:
                person.look(row["episode"])
        for task in person.call("/api/tasks"):
            if task["sure"]:
                person.act("accept", task["instruction"])
    subprocess.run([sys.executable, "-m", "goalreel", "build", out], check=True, stdout=subprocess.DEVNULL)
    wrong, steps = Counter[str](), 0
    for episode, board in read_storyboards(out):
        spans = [(s.segment.start, s.segment.end) for s in board.steps if s.segment]
        steps += len(spans)
        wrong["wrong_cuts"] += errors(cuts[episode], spans)
        wrong["wrong_names"] += sum(s.step.name not in names[episode] for s in board.steps)
        wrong["unlabelled"] += not spans
    return {
        "episodes": episodes,
        "steps": steps,
        **{key: int(person.spent[key]) for key in ("changes", "keys", "labelled", "in_doubt", "corrected")},
        "looking_s": person.spent["looking_s"] + KEY_S * person.spent["keys"],
        **wrong,
        "carry_s": carry_s,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--episodes", type=int, default=300)
    arguments = parse(parser, argv, episodes=8)
    with tempfile.TemporaryDirectory() as folder:
        report(measure(Path(folder), arguments.episodes), arguments.json)


if __name__ == "__main__":
    main()
